"""Tables whose rows are the values of one parameter: size sweeps, delays, team sizes."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from numamicro.matrix import CHOSEN, CURVES, CostMatrix, Measurement, best_of
from numamicro.report.figures import Footnotes, figure, no_figure
from numamicro.stats import edges
from numamicro.units import bytes_text, is_rate, scale

if TYPE_CHECKING:
    from numamicro.case import Param


def render_curves(matrix: CostMatrix, style: str, footnotes: Footnotes) -> list[str]:
    """Give a table for each probe, operation and parameter that was swept for its curve."""
    groups: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for cell in matrix.measurements:
        for name in CURVES:
            if cell.case.get(name) is not None:
                groups[cell.case.probe, cell.case.operation, name].append(cell)
    return [
        f"{operation.capitalize()} {probe} against {_words(name)}"
        f"{_gap(style)}{_table(cells, name, style, footnotes)}{_edges(cells, name)}"
        for (probe, operation, name), cells in groups.items()
    ]


def _gap(style: str) -> str:
    return "\n" if style == "plain" else "\n\n"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _table(cells: list[Measurement], name: str, style: str, footnotes: Footnotes) -> str:
    from tabulate import tabulate

    columns: dict[str, dict[Param, list[Measurement]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        columns[_column(cell, name)][cell.case[name]].append(cell)
    values = sorted(
        {cell.case[name] for cell in cells}, key=lambda value: (str(type(value)), value)
    )
    rows = [
        [_value(name, value), *(_text(columns[column][value], footnotes) for column in columns)]
        for value in values
    ]
    return tabulate(
        rows,
        headers=[_words(name), *columns],
        tablefmt=style,
        disable_numparse=True,
        colalign=["right"] * (len(columns) + 1),
    )


def _edges(cells: list[Measurement], name: str) -> str:
    """Say where a latency curve over working sets rises, which is where caches end."""
    points = sorted(
        (cell.case.number(name), summary.center)
        for cell in cells
        if name == "working_set" and not is_rate(cell.unit) and (summary := cell.summary())
    )
    found = [bytes_text(size) for size in edges(points)]
    return f"\nThe curve rises after {', '.join(found)}." if found else ""


def _column(cell: Measurement, name: str) -> str:
    """Name a curve by its route and by what else tells it from its neighbours."""
    others = cell.case.without(*CHOSEN, "bytes", "pages", name).params
    words = [str(cell.case.route), *(str(value) for _, value in others), scale(cell.unit).label]
    return " ".join(words)


def _value(name: str, value: Param) -> str:
    return bytes_text(value) if name == "working_set" and isinstance(value, int) else str(value)


def _text(cells: list[Measurement], footnotes: Footnotes) -> str:
    if not cells:
        return ""
    best = best_of(cells)
    return (figure(best) if best else None) or no_figure(cells, footnotes)
