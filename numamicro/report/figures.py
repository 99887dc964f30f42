"""One figure as text, and the footnotes of those that are missing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from numamicro.case import gpus_of
from numamicro.matrix import FAILED_STATES, State
from numamicro.units import scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numamicro.matrix import Measurement
    from numamicro.units import Scale

SPREAD_SHOWN = 0.05
"""A cell whose quartiles lie further apart than this, relative to its centre, says so."""


class Footnotes:
    """Numbers the reasons why cells have no figure, each reason once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        return f"[{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    def lines(self) -> list[str]:
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


def scale_of(cells: Iterable[Measurement]) -> Scale:
    """Give the one scale in which all figures of some cells are shown.

    Where there is none yet, that of what the cells would hold: a GPU is waited for in microseconds.
    """
    kept = list(cells)
    centres = [summary.center for cell in kept if (summary := cell.summary())]
    on_gpus = any(gpus_of(cell.case.route.source, cell.case.route.target) for cell in kept)
    return scale(kept[0].unit, min(centres, default=math.inf if on_gpus else 0.0))


def figure(cell: Measurement, shown: Scale) -> str | None:
    """Give the centre of a cell in a scale, with its spread where that is large."""
    summary = cell.summary()
    if summary is None:
        return None
    text = shown.text(summary.center)
    return f"{text} ±{summary.spread / 2:.0%}" if spreads(cell) else text


def bus_figure(cell: Measurement) -> str | None:
    """Give the rate on the memory bus where a model says that it is not that of the program."""
    summary = cell.summary()
    ratios = {run.outcome.get("bus_ratio") for run in cell.runs}
    ratio = ratios.pop() if len(ratios) == 1 else None
    if summary is None or not isinstance(ratio, int | float) or ratio == 1:
        return None
    return f"bus {scale(cell.unit).text(summary.center * ratio)}"


def no_figure(cells: Sequence[Measurement], footnotes: Footnotes) -> str:
    """Give how cells ended that brought no figure: ``void [1]``, or ``- [1]`` where waived."""
    # A failure says more than a cell that was never tried.
    cell = max(cells, key=lambda cell: cell.state in FAILED_STATES)
    mark = f" {footnotes.mark(cell.reason.text)}" if cell.reason else ""
    return f"{'-' if cell.state is State.WAIVED else cell.state}{mark}"


def spreads(cell: Measurement) -> bool:
    """Tell whether the samples of a cell lie far apart."""
    summary = cell.summary()
    return summary is not None and summary.spread > SPREAD_SHOWN
