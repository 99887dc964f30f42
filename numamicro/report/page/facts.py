"""What a reader of the figures must know: findings, the setting, and how it was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.doctor import diagnose_matrix, unknown
from numamicro.report.findings import findings_heading
from numamicro.report.page.heat import framed
from numamicro.report.page.markup import Markup, joined, tag
from numamicro.report.table import legend, notes_of
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.finding import Finding
    from numamicro.matrix import CostMatrix
    from numamicro.report.figures import Footnotes


def findings_section(matrix: CostMatrix) -> Markup:
    """Give the doctor's findings, gravest first, and what no rule could look at."""
    found = diagnose_matrix(matrix)
    missing = unknown(matrix.header.setting)
    return joined(
        tag("p", findings_heading(found)),
        tag("ul", *map(_finding, found), class_="findings") if found else None,
        tag("p", f"Not told here, so that nothing is said of it: {', '.join(missing)}")
        if missing
        else None,
    )


def _finding(finding: Finding) -> Markup:
    return tag(
        "li",
        tag("strong", finding.severity, class_=finding.severity),
        f" {finding.what}: {finding.effect}. ",
        tag("span", f"Remedy: {finding.remedy}. ") if finding.remedy else None,
        tag("span", f"Seen: {finding.evidence}", class_="notes"),
    )


def notes_section(matrix: CostMatrix, footnotes: Footnotes) -> Markup:
    """Give what the marks mean, the proof of placement, and why figures are missing."""
    return joined(
        *(tag("p", line) for line in legend(matrix).splitlines() if line),
        tag("ul", *(tag("li", text) for text in notes_of(matrix))),
        tag("ul", *(tag("li", line) for line in footnotes.lines()), class_="footnotes"),
    )


def setting_section(matrix: CostMatrix) -> Markup:
    """Give how the machine was set, key by key, and what was asked of the run."""
    header = matrix.header
    plan = {f"plan.{name}": value for name, value in header.plan.items()}
    about = {
        "created": header.created,
        "tool": header.tool,
        "origin": header.origin,
        "machine": header.machine_id,
        "boot": header.boot_id,
    }
    return framed(
        tag(
            "table",
            tag("thead", tag("tr", tag("th", "key", scope="col"), tag("th", "value", scope="col"))),
            tag("tbody", *_rows(about), *_rows(header.setting), *_rows(plan)),
            class_="setting",
        )
    )


def _rows(values: Mapping[str, object]) -> list[Markup]:
    return [
        tag("tr", tag("th", key, scope="row"), _value(key, value)) for key, value in values.items()
    ]


def _value(key: str, value: object) -> Markup:
    if value is None:
        return tag("td", "unknown", class_="none")
    if key in ("memory.peak", "vm.swap_used") and isinstance(value, int):
        return tag("td", bytes_text(value) + ("/s" if key == "memory.peak" else ""))
    if isinstance(value, list):
        return tag("td", ", ".join(map(str, value)) or "all")
    return tag("td", str(value))
