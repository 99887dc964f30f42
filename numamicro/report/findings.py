"""Findings as text: a screen of them, and one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.finding import Finding

_MOST_LINES = 3
_COUNTED = {
    Severity.SPOILS: ("spoils figures", "spoil figures"),
    Severity.LIMITS: ("limits what is measured", "limit what is measured"),
    Severity.REMARK: ("is a remark", "are remarks"),
}


def finding_lines(findings: Sequence[Finding], more: str) -> list[str]:
    """Give the gravest findings in a line each, and how many more there are.

    Parameters
    ----------
    findings : sequence of Finding
        Gravest first.
    more : str
        The command that shows the rest.
    """
    lines = [f"{each.severity}: {each.text}" for each in findings[:_MOST_LINES]]
    rest = len(findings) - len(lines)
    return [*lines, f"… and {rest} more: {more}"] if rest else lines


def render_findings(
    findings: Sequence[Finding], unknown: Sequence[str], style: str = "plain"
) -> str:
    """Give a screen of findings, and what no rule could look at.

    Parameters
    ----------
    unknown : sequence of str
        The keys of the setting that could not be read.
    style : str
        plain, or one of tabulate's.
    """
    blocks = [findings_heading(findings)]
    if findings:
        blocks.append(_blocks(findings) if style == "plain" else _table(findings, style))
    if unknown:
        blocks.append(f"Not told here, so that nothing is said of it: {', '.join(unknown)}")
    return "\n\n".join(blocks) + "\n"


def findings_heading(findings: Sequence[Finding]) -> str:
    """Say how many findings of each severity there are."""
    if not findings:
        return "Nothing found that spoils or limits figures here"
    counts = [(sum(f.severity is kind for f in findings), kind) for kind in Severity]
    parts = ", ".join(f"{n} {_COUNTED[kind][n > 1]}" for n, kind in counts if n)
    return f"{len(findings)} finding{'s' * (len(findings) > 1)}: {parts}"


def _blocks(findings: Sequence[Finding]) -> str:
    return "\n".join(_block(each) for each in findings)


def _block(finding: Finding) -> str:
    lines = [
        f"{finding.severity}: {finding.what}",
        f"    seen    {finding.evidence}",
        f"    effect  {finding.effect}",
        f"    remedy  {finding.remedy}" if finding.remedy else "",
    ]
    return "\n".join(line for line in lines if line)


def _table(findings: Sequence[Finding], style: str) -> str:
    from tabulate import tabulate

    rows = [[f.severity.value, f.what, f.evidence, f.effect, f.remedy] for f in findings]
    headers = ["", "finding", "seen", "effect", "remedy"]
    return tabulate(rows, headers=headers, tablefmt=style, disable_numparse=True)
