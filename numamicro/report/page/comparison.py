"""What changed between two settings: verdicts with their intervals, and what else differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.comparison.differences import Kind
from numamicro.comparison.verdict import Verdict
from numamicro.report.compare import HEAD, conclusion, judged_row, notes_of
from numamicro.report.page.heat import framed
from numamicro.report.page.markup import Markup, joined, tag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.comparison import Comparison
    from numamicro.comparison.verdict import Judged

_TITLES = {
    "token": "A token, as predicted from each file",
    "rollup": "Roll-ups: the mean of each class of routes",
    "cell": "Cells",
}


def comparison_section(comparison: Comparison) -> Markup:
    """Give the verdict, the setting where it differs, and a table for each kind of figure."""
    if comparison.why_not is not None:
        tables = [tag("p", f"Not comparable: {comparison.why_not}")]
    else:
        tables = [_table(kind, comparison) for kind in _TITLES]
    return joined(
        tag("p", conclusion(comparison), class_="verdict"),
        _setting(comparison),
        *tables,
        tag("ul", *(tag("li", text) for text in notes_of(comparison)), class_="notes"),
    )


def _setting(comparison: Comparison) -> Markup:
    told = [each for each in comparison.differences if each.kind is not Kind.UNKNOWN]
    if not told:
        return tag("p", "Of the setting nothing that could be read differs.")
    return tag("ul", *(tag("li", tag("strong", each.kind), f" {each}") for each in told))


def _table(kind: str, comparison: Comparison) -> Markup:
    figures = [
        each
        for each in comparison.figures
        if each.item.kind == kind and each.verdict is not Verdict.NOT_COMPARABLE
    ]
    if not figures:
        return Markup()
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", name or "figure", scope="col") for name in HEAD))),
        tag("tbody", *(_row(each, judged_row(each, comparison)) for each in figures)),
        class_="ranking",
    )
    return framed(table, _TITLES[kind])


def _row(each: Judged, texts: Sequence[str]) -> Markup:
    change = f"{each.ratio - 1:.6f}"
    first, *middle, verdict = texts
    cells = [
        tag("td", text, data_value=change if name == "change" else None)
        for name, text in zip(HEAD[1:-1], middle, strict=True)
    ]
    kind = "limits" if each.verdict is Verdict.WORSE else None
    return tag(
        "tr",
        tag("th", first, scope="row"),
        *cells,
        tag("td", tag("span", verdict, class_=kind), class_="words"),
    )
