"""Matrices as real tables whose cells are shaded by what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.matrix import best_of
from numamicro.report.page.markup import Markup, joined, tag
from numamicro.report.shade import LEGEND, strength
from numamicro.report.table import cell_text, tables, title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.case import AnyPlace
    from numamicro.matrix import CostMatrix, Measurement
    from numamicro.report.figures import Footnotes
    from numamicro.report.table import Table
    from numamicro.topology import Machine
    from numamicro.units import Scale


def heat_tables(matrix: CostMatrix, footnotes: Footnotes) -> Markup:
    """Give every matrix of a file, below the one legend of them all."""
    found = [_heat_table(table, matrix.header.machine, footnotes) for table in tables(matrix)]
    if not found:
        return tag("p", "The file has no matrix.")
    return joined(_legend(), tag("div", *found, class_="matrices"))


def _legend() -> Markup:
    steps = [tag("span", text, class_=f"s{level}") for level, text in enumerate(LEGEND)]
    return tag(
        "p",
        "The stronger the shade, the more a cell costs, in times the best cell of its table: ",
        joined(*steps, between=" "),
        class_="legend",
    )


def _heat_table(table: Table, machine: Machine, footnotes: Footnotes) -> Markup:
    head = [tag("th", str(place), scope="col") for place in table.columns]
    body = [
        tag(
            "tr",
            tag("th", str(row), scope="row"),
            *(
                _cell(table, row, column, footnotes, is_first=not (down or across))
                for across, column in enumerate(table.columns)
            ),
        )
        for down, row in enumerate(table.rows)
    ]
    words = title(table, machine)
    grid = tag(
        "table",
        tag("thead", tag("tr", tag("td"), *head)),
        tag("tbody", *body),
        class_="heat",
        role="grid",
        aria_label=words,
    )
    return framed(grid, words)


def framed(table: Markup, words: str = "") -> Markup:
    """Give a table that may be wider than the page, below its title."""
    title = tag("figcaption", words) if words else None
    return tag("figure", title, tag("div", table, class_="scroll"), class_="table")


def _cell(
    table: Table, row: AnyPlace, column: AnyPlace, footnotes: Footnotes, *, is_first: bool
) -> Markup:
    cells = table.at(row, column)
    ratio = table.ratio(row, column)
    best = best_of(cells)
    summary = best.summary() if best else None
    return tag(
        "td",
        cell_text(table, row, column, footnotes),
        class_="none" if ratio is None else f"s{strength(ratio)}",
        # Arrow keys lead from cell to cell; the tabulator enters a table once.
        tabindex=0 if is_first else -1,
        data_value=repr(summary.center) if summary else None,
        data_more=". ".join([f"{row}, {column}", *_told(cells, table.scale, ratio)]),
    )


def _told(cells: list[Measurement], shown: Scale, ratio: float | None) -> Iterator[str]:
    """Give in sentences what a cell's figure is, or why there is none."""
    best = best_of(cells)
    summary = best.summary() if best else None
    if best is None or summary is None:
        yield from dict.fromkeys(_why(cell) for cell in cells)
        return
    yield f"{shown.text(summary.center)} {shown.label}"
    if summary.low is not None and summary.high is not None:
        yield f"95 % interval {shown.text(summary.low)} to {shown.text(summary.high)}"
    yield f"quartiles {shown.text(summary.q1)} to {shown.text(summary.q3)}"
    yield f"{_count(summary.n, 'sample')}, {_count(summary.processes, 'process', 'processes')}"
    if ratio is not None:
        yield f"{ratio:.2f} times the cost of the best"
    if words := [f"{name} {value}" for name, value in best.case.params if name != "bytes"]:
        yield ", ".join(words)
    if best.share is not None:
        yield f"{best.share:.1%} of the pages on target"


def _why(cell: Measurement) -> str:
    return f"{cell.state}: {cell.reason.text}" if cell.reason else str(cell.state)


def _count(number: int, one: str, several: str = "") -> str:
    return f"{number} {one if number == 1 else several or one + 's'}"
