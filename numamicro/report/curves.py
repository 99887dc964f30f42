"""Tables whose rows are the values of one parameter: size sweeps, delays, team sizes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.matrix import (
    CHOSEN,
    CURVES,
    MATRIX_VALUES,
    CostMatrix,
    Measurement,
    best_of,
    in_matrix,
)
from numamicro.report.blocks import paragraph, titled
from numamicro.report.figures import Footnotes, figure, no_figure, scale_of
from numamicro.report.titles import USUAL, subject
from numamicro.stats import edges
from numamicro.units import bytes_text, is_rate

if TYPE_CHECKING:
    from numamicro.case import Param, Route
    from numamicro.units import Scale


_SIZES = ("working_set", "message", "transfer")


@dataclass(frozen=True, slots=True)
class Line:
    """The cells of one curve over the values of `parameter`, and the scale they are shown in."""

    name: str
    parameter: str
    cells: tuple[Measurement, ...]
    scale: Scale

    @property
    def title(self) -> str:
        """The name and the unit."""
        return f"{self.name} {self.scale.label}"

    def at(self, value: Param) -> list[Measurement]:
        """Give the cells at one value of the parameter."""
        return [cell for cell in self.cells if cell.case[self.parameter] == value]


@dataclass(frozen=True, slots=True)
class Curves:
    """Cells of one probe and operation over the values of the parameter `name`."""

    probe: str
    operation: str
    name: str
    cells: tuple[Measurement, ...]

    @property
    def title(self) -> str:
        """What the curves are of."""
        return f"{subject(self.probe, self.operation)} against {self.words}"

    @property
    def words(self) -> str:
        """The parameter as people write it."""
        return self.name.replace("_", " ")

    @property
    def values(self) -> list[Param]:
        """The values of the parameter, in order."""
        found = {cell.case[self.name] for cell in self.cells}
        return sorted(found, key=lambda value: (str(type(value)), value))

    def lines(self) -> list[Line]:
        """Give each curve, named by its route and by what else tells it from its neighbours."""
        found: dict[str, list[Measurement]] = defaultdict(list)
        for cell in self.cells:
            found[_line_name(cell, self.name)].append(cell)
        return [
            Line(name, self.name, tuple(cells), scale_of(cells)) for name, cells in found.items()
        ]

    def value_text(self, value: Param) -> str:
        """Give a value of the parameter as people write it."""
        if self.name in _SIZES and isinstance(value, int):
            return bytes_text(value)
        return str(value)


def curves_of(matrix: CostMatrix) -> list[Curves]:
    """Give what was swept for its curve: one for each probe, operation and parameter."""
    groups: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    swept = {_line(cell) for cell in matrix.measurements if not in_matrix(cell.case)}
    for cell in matrix.measurements:
        for name in (*CURVES, *MATRIX_VALUES):
            if cell.case.get(name) is not None and _line(cell) in swept:
                groups[cell.case.probe, cell.case.operation, name].append(cell)
    return [Curves(*key, tuple(cells)) for key, cells in groups.items()]


def _line(cell: Measurement) -> tuple[str, str, Route]:
    return cell.case.probe, cell.case.operation, cell.case.route


def render_curves(matrix: CostMatrix, style: str, footnotes: Footnotes) -> list[str]:
    """Give a table for each probe, operation and parameter that was swept for its curve."""
    return [
        titled(curves.title, _table(curves, style, footnotes), style)
        + (f"\n{paragraph(text, style)}" if (text := edges_text(curves)) else "")
        for curves in curves_of(matrix)
    ]


def _table(curves: Curves, style: str, footnotes: Footnotes) -> str:
    from tabulate import tabulate

    rows = curve_rows(curves, footnotes)
    headers = [curves.words, *(line.title for line in curves.lines())]
    return tabulate(
        rows,
        headers=headers,
        tablefmt=style,
        disable_numparse=True,
        colalign=["right"] * len(headers),
    )


def curve_rows(curves: Curves, footnotes: Footnotes) -> list[list[str]]:
    """Give a row for each value of the parameter: the value, and the figure of each curve there."""
    lines = curves.lines()
    return [
        [
            curves.value_text(value),
            *(_text(line.at(value), line.scale, footnotes) for line in lines),
        ]
        for value in curves.values
    ]


def edges_text(curves: Curves) -> str:
    """Say where a latency curve over working sets rises, which is where caches end."""
    points = sorted(
        (cell.case.number(curves.name), summary.center)
        for cell in curves.cells
        if curves.name == "working_set" and not is_rate(cell.unit) and (summary := cell.summary())
    )
    found = [bytes_text(size) for size in edges(points)]
    return f"The curve rises after {', '.join(found)}." if found else ""


def _line_name(cell: Measurement, name: str) -> str:
    others = cell.case.without(*CHOSEN, "bytes", "pages", name).params
    words = [_words(*other) for other in others if other not in USUAL]
    return " ".join([str(cell.case.route), *words])


def _words(name: str, value: Param) -> str:
    """Say what tells a curve from its neighbours: a word by itself, a number with what it counts."""
    if not isinstance(value, int):
        return str(value)
    return f"{bytes_text(value)} {name}" if name in _SIZES else f"{value} {name}"


def _text(cells: list[Measurement], shown: Scale, footnotes: Footnotes) -> str:
    if not cells:
        return ""
    best = best_of(cells)
    return (figure(best, shown) if best else None) or no_figure(cells, footnotes)
