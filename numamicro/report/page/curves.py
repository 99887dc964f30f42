"""Curves: a chart by a library for the eye, and the table of its figures for everyone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from numamicro.matrix import best_of
from numamicro.report.curves import curve_rows, curves_of, edges_text
from numamicro.report.figures import scale_of
from numamicro.report.page.heat import framed
from numamicro.report.page.markup import Markup, joined, tag
from numamicro.report.table import tables, title
from numamicro.units import is_rate, scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numamicro.case import AnyPlace, Param
    from numamicro.matrix import CostMatrix, Measurement
    from numamicro.report.curves import Curves, Line
    from numamicro.report.figures import Footnotes
    from numamicro.report.table import Table
    from numamicro.units import Scale

Points: TypeAlias = "list[tuple[float, float]]"
Lines: TypeAlias = "dict[str, Points]"
Chart: TypeAlias = "dict[str, Any]"
"""What the library draws: traces and a layout, as JSON."""

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""Hues that stay apart for eyes that see fewer of them (after Okabe and Ito), on white and black."""

_SYMBOLS = ("circle", "square", "diamond", "cross", "triangle-up", "x", "star")
_MOST_LINES = 7
"""Lines that are shown at first; the legend brings the others."""
_MOST_TICKS = 6
_WIDE = 20.0
"""Values whose largest is so many times the smallest go on a logarithmic axis."""


class Charts:
    """The charts of a page, numbered as they come."""

    def __init__(self) -> None:
        self.specs: list[Chart] = []

    def add(self, chart: Chart, words: str) -> Markup:
        """Give the place of a chart."""
        self.specs.append(chart)
        name = f"chart{len(self.specs) - 1}"
        return tag("div", id=name, class_="chart", role="img", aria_label=words)


def curve_figures(matrix: CostMatrix, footnotes: Footnotes, charts: Charts) -> Markup:
    """Give every curve of a file: sweeps of threads, then of sizes, delays and so on."""
    figures = [_threads_figure(table, matrix, charts) for table in tables(matrix)]
    figures += [_figure(curves, footnotes, charts) for curves in curves_of(matrix)]
    found = [figure for figure in figures if figure]
    return joined(*found) if found else tag("p", "The file has no curve.")


# ---- threads -------------------------------------------------------------------------------------


def _threads_figure(table: Table, matrix: CostMatrix, charts: Charts) -> Markup | None:
    """Give what teams of each size reach, for the routes on which more than two were tried."""
    if not table.names_threads:
        return None
    lines = {
        f"{row} to {column}": points
        for row in table.rows
        for column in table.columns
        if len(points := _by_threads(table, row, column)) > 2
    }
    if not lines:
        return None
    words = f"{title(table, matrix.header.machine)}, by threads"
    chart = _chart(lines, "threads", table.scale.label)
    counts = sorted({count for points in lines.values() for count, _ in points})
    rows = [[f"{count:g}", *(_at(points, count) for points in lines.values())] for count in counts]
    grid = plain_table(["threads", *(f"{line} {table.scale.label}" for line in lines)], rows)
    return tag("figure", tag("figcaption", words), charts.add(chart, words), _folded(grid))


def _by_threads(table: Table, row: AnyPlace, column: AnyPlace) -> Points:
    """Give the best figure of each number of threads, as it is shown."""
    groups: dict[int, list[Measurement]] = {}
    for cell in table.at(row, column):
        count = cell.case.get("threads")
        if isinstance(count, int):
            groups.setdefault(count, []).append(cell)
    centers = [(count, _center(groups[count], table.scale)) for count in sorted(groups)]
    return [(count, center) for count, center in centers if center is not None]


def _at(points: Points, count: float) -> str:
    return next((f"{value:.1f}" for where, value in points if where == count), "")


def _center(cells: Sequence[Measurement], shown: Scale) -> float | None:
    """Give the best figure of some cells in a scale."""
    best = best_of(cells)
    summary = best.summary() if best else None
    return summary.center / shown.divisor if summary else None


# ---- other sweeps --------------------------------------------------------------------------------


def _figure(curves: Curves, footnotes: Footnotes, charts: Charts) -> Markup:
    rows = curve_rows(curves, footnotes)
    if not any(cell.summary() for cell in curves.cells):
        reasons = dict.fromkeys(text for row in rows for text in row[1:] if text)
        words = tag("p", ", ".join(reasons))
        return tag("figure", tag("figcaption", curves.title), words)
    grid = plain_table([curves.words, *(line.title for line in curves.lines())], rows)
    drawn = [charts.add(chart, f"{curves.title}, {unit}") for unit, chart in _charts_of(curves)]
    edges = edges_text(curves)
    return tag(
        "figure",
        tag("figcaption", curves.title),
        *drawn,
        tag("p", edges) if edges else None,
        _folded(grid) if drawn else grid,
    )


def _charts_of(curves: Curves) -> Iterator[tuple[str, Chart]]:
    """Give a chart for each unit; a time and a rate that were taken at once are one chart, the time
    over the rate. Where the values are names there is nothing to draw a line through."""
    if lines := _against_each_other(curves):
        rate, time = scale("B/s").label, scale("s").label
        yield f"{time} over {rate}", _chart(lines, f"read at the same time, {rate}", time)
        return
    values = [value for value in curves.values if not isinstance(value, str)]
    for unit in dict.fromkeys(cell.unit for cell in curves.cells):
        shown = scale_of([cell for cell in curves.cells if cell.unit == unit])
        lines = {
            line.name: points
            for line in curves.lines()
            if line.cells[0].unit == unit and len(points := _points(line, values, shown)) > 1
        }
        if lines:
            chart = _chart(lines, curves.words, shown.label)
            chart["layout"]["xaxis"] |= _ticks(curves)
            yield shown.label, chart


def _points(line: Line, values: Sequence[float], shown: Scale) -> Points:
    centers = [(float(value), _center(line.at(value), shown)) for value in values]
    return [(value, center) for value, center in centers if center is not None]


def _ticks(curves: Curves) -> Chart:
    """Give some of a parameter's values as people write them: 64 KiB, not 66k."""
    values = [value for value in curves.values if not isinstance(value, str)]
    shown = values[:: -(-len(values) // _MOST_TICKS)]
    return {"tickvals": shown, "ticktext": [curves.value_text(value) for value in shown]}


def _against_each_other(curves: Curves) -> Lines:
    """Give the points (rate, time) of each route whose probe takes both at once."""
    taken: dict[str, dict[Param, dict[bool, list[Measurement]]]] = {}
    for cell in curves.cells:
        if cell.case.get("value") is not None:
            values = taken.setdefault(str(cell.case.route), {})
            kinds = values.setdefault(cell.case[curves.name], {})
            kinds.setdefault(is_rate(cell.unit), []).append(cell)
    lines = {}
    for route, values in taken.items():
        points = [
            (rate, time)
            for kinds in values.values()
            if (rate := _center(kinds.get(True, []), scale("B/s")))
            and (time := _center(kinds.get(False, []), scale("s")))
        ]
        if len(points) > 1:
            lines[route] = sorted(points)
    return lines


# ---- chart and table -----------------------------------------------------------------------------


def _chart(lines: Lines, across: str, upward: str) -> Chart:
    points = [point for line in lines.values() for point in line]
    return {
        "data": [_trace(name, line, index) for index, (name, line) in enumerate(lines.items())],
        "layout": {
            "xaxis": {"title": {"text": across}, **_axis([x for x, _ in points])},
            "yaxis": {"title": {"text": upward}, **_axis([y for _, y in points])},
        },
    }


def _trace(name: str, points: Points, index: int) -> Chart:
    color = COLORS[index % len(COLORS)]
    return {
        "name": name,
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "mode": "lines+markers",
        "line": {"color": color},
        "marker": {"symbol": _SYMBOLS[(index + index // len(COLORS)) % len(_SYMBOLS)], "size": 8},
        "visible": True if index < _MOST_LINES else "legendonly",
    }


def _axis(values: Sequence[float]) -> dict[str, str]:
    """Give a logarithmic axis where values are far apart, else one from zero."""
    least, most = min(values), max(values)
    if least > 0 and most / least > _WIDE:
        return {"type": "log"}
    return {"type": "linear", "rangemode": "tozero"}


def plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Give a table whose first column names its rows."""
    return framed(
        tag(
            "table",
            tag("thead", tag("tr", *(tag("th", text, scope="col") for text in head))),
            tag(
                "tbody",
                *(
                    tag("tr", tag("th", row[0], scope="row"), *(tag("td", t) for t in row[1:]))
                    for row in rows
                ),
            ),
        )
    )


def _folded(grid: Markup) -> Markup:
    return tag("details", tag("summary", "The figures of this chart"), grid)
