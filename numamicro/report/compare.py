"""A comparison of two sides as text and as JSON: setting, expectation, roll-ups, cells, a token."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import exp, isfinite, log
from typing import TYPE_CHECKING, Any

from numamicro.comparison.differences import Kind
from numamicro.comparison.drift import in_turns
from numamicro.comparison.verdict import Design, Verdict
from numamicro.units import scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.comparison import Comparison
    from numamicro.comparison.boots import Side
    from numamicro.comparison.expect import Outcome
    from numamicro.comparison.verdict import Judged

_MOVED = (Verdict.WORSE, Verdict.BETTER, Verdict.UNCERTAIN)
_MOST_NAMES = 3
_MOST_CELLS = 20


def render_comparison(comparison: Comparison, style: str = "plain", *, every: bool = False) -> str:
    """Give a comparison as text, in the order in which it should be read.

    Parameters
    ----------
    style : str
        plain, or one of tabulate's.
    every : bool
        Whether cells that did not change are listed, too.
    """
    blocks = [_heading(comparison), _setting(comparison)]
    if comparison.why_not is not None:
        blocks.append(f"Not comparable: {comparison.why_not}")
    else:
        blocks += [_expected(comparison), *_figures(comparison, style, every=every)]
    blocks += ["\n".join(f"note: {text}" for text in notes_of(comparison)), conclusion(comparison)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def conclusion(comparison: Comparison) -> str:
    """Give the one line that a comparison comes to."""
    if comparison.why_not is not None:
        return "Verdict: not comparable"
    counts = Counter(each.verdict for each in comparison.figures if each.item.kind != "cell")
    cells = Counter(each.verdict for each in comparison.figures if each.item.kind == "cell")
    told = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    line = f"Verdict: of the roll-ups {', '.join(told) or 'none could be made'}"
    line += f"; of the cells {cells[Verdict.BETTER]} better, {cells[Verdict.WORSE]} worse"
    line += _within(comparison)
    unexpected = sum(each.kind is Kind.UNEXPECTED for each in comparison.differences)
    if unexpected:
        things = "thing" if unexpected == 1 else "things"
        line += f". {unexpected} {things} beside the change differ, and may be the cause"
    return line


# ---- blocks --------------------------------------------------------------------------------------


def _heading(comparison: Comparison) -> str:
    lines = [_side(side, comparison) for side in (comparison.base, comparison.new)]
    machine = comparison.base.first.machine
    what = f"{machine.cpu_model or 'unknown CPU'} · {comparison.base.first.origin}"
    if comparison.options.changed is not None:
        what += f" · changed: {comparison.options.changed}"
    return "\n".join([what, *lines])


def _side(side: Side, comparison: Comparison) -> str:
    unit = "run" if comparison.options.unit == "file" else "boot"
    names = [name.rpartition("/")[2] for boot in side.boots for name in boot.names]
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    labels = dict.fromkeys(boot.header.label for boot in side.boots if boot.header.label)
    label = f" '{' / '.join(labels)}'" if labels else ""
    return f"{side.name}{label}: {_counted(len(side.boots), unit)} ({shown})"


def _setting(comparison: Comparison) -> str:
    kinds: dict[Kind, list[str]] = defaultdict(list)
    for each in comparison.differences:
        kinds[each.kind].append(each.key if each.kind is Kind.UNKNOWN else str(each))
    lines = ["Setting: nothing that could be read differs"]
    if any(kind in kinds for kind in (Kind.UNEXPECTED, Kind.INTENDED, Kind.IMPLIED)):
        lines = ["Setting"]
    if Kind.UNEXPECTED in kinds:
        lines.append("  more than what was meant to be changed differs:")
    for kind in Kind:
        if kind in (Kind.UNKNOWN, Kind.VOLATILE):
            lines += [f"  {kind}: {'; '.join(kinds[kind])}"] if kinds[kind] else []
        else:
            lines += [f"  {kind}  {text}" for text in kinds[kind]]
    if comparison.unknown:
        lines.append(f"  unknown on both sides: {', '.join(comparison.unknown)}")
    return "\n".join(lines)


def _expected(comparison: Comparison) -> str:
    return "\n".join(_outcome(each, comparison) for each in comparison.outcomes)


_HELD = {True: "held", False: "did not hold", None: "cannot be told yet"}


def _outcome(outcome: Outcome, comparison: Comparison) -> str:
    expected = outcome.expected
    figures = "; ".join(
        f"{each.item.name.where} {_change(each)}, {verdict_text(each, comparison)}"
        for each in outcome.figures
    )
    return f"Expected {expected.name}={expected.direction}: {_HELD[outcome.held]} ({figures})"


def _figures(comparison: Comparison, style: str, *, every: bool) -> list[str]:
    by_kind: dict[str, list[Judged]] = defaultdict(list)
    strangers = []
    for each in comparison.figures:
        if each.verdict is Verdict.NOT_COMPARABLE:
            strangers.append(each)
        else:
            by_kind[each.item.kind].append(each)
    cells = by_kind["cell"]
    shown = cells if every else _gravest(cells)
    return [
        _table("Roll-ups: the mean of each class of routes", by_kind["rollup"], comparison, style),
        _table("Cells", shown, comparison, style),
        _rest([each for each in cells if each not in shown], comparison),
        _strange(strangers),
        _table("A token, as predicted from each file", by_kind["token"], comparison, style),
    ]


def _gravest(cells: Sequence[Judged]) -> list[Judged]:
    """Give the cells that changed, the largest change first; few cells are shown whatever they are."""
    if len(cells) <= _MOST_CELLS:
        return list(cells)
    moved = [each for each in cells if each.verdict in _MOVED]
    return sorted(moved, key=lambda each: -abs(log(each.ratio)))


def _table(title: str, figures: Sequence[Judged], comparison: Comparison, style: str) -> str:
    from tabulate import tabulate

    if not figures:
        return ""
    rows = [judged_row(each, comparison) for each in figures]
    grid = tabulate(
        rows,
        headers=HEAD,
        tablefmt=style,
        disable_numparse=True,
        colalign=["left", "right", "right", "right", "right", "right", "right", "left"],
    )
    gap = "\n" if style == "plain" else "\n\n"
    return f"{title}{gap}{grid}"


HEAD = ("", "base", "new", "change", "95 % interval", "n", "p", "verdict")
"""What the columns of :func:`judged_row` are."""


def judged_row(each: Judged, comparison: Comparison) -> list[str]:
    """Give a figure of both sides, its change and the verdict."""
    item = each.item
    name = str(item.name) + (f" [{item.held}]" if item.held else "")
    name += f" (new: {item.other})" if item.other else ""
    return [
        name,
        _value(item.base, item.unit),
        _value(item.new, item.unit),
        _change(each),
        _interval(each),
        f"{each.n[0]}+{each.n[1]}",
        "" if each.p is None else f"{each.p:.3f}",
        verdict_text(each, comparison),
    ]


def _value(figures: Sequence[float | None], unit: str) -> str:
    center = _center(figures)
    shown = scale(unit)
    if center is None:
        return ""
    if unit == "s" and center >= 1e-5:
        return f"{center * 1e3:.2f} ms"
    return f"{shown.text(center)} {shown.label}"


def _center(figures: Sequence[float | None]) -> float | None:
    known = [log(value) for value in figures if value]
    return exp(sum(known) / len(known)) if known else None


def _change(each: Judged) -> str:
    return _percent(each.change)


def _percent(share: float) -> str:
    return f"{100 * share:+.1f} %"


def _interval(each: Judged) -> str:
    if each.low is None or each.high is None:
        return ""
    return f"{_percent(each.low - 1)} .. {_percent(each.high - 1)}"


def verdict_text(each: Judged, comparison: Comparison) -> str:
    """Give a verdict with what it needs beside it: what could have been seen, or what is missing."""
    text = str(each.verdict)
    if each.verdict is Verdict.UNCHANGED and each.reach is not None:
        text += f" (could have seen >= {_size(each.reach)})"
    elif each.verdict is Verdict.INCONCLUSIVE:
        text += f" ({_needed(each, comparison)})"
    return text + _within(comparison)


def _size(share: float) -> str:
    return f"{100 * share:.1f} %" if isfinite(share) and share < 10 else "much more"


def _needed(each: Judged, comparison: Comparison) -> str:
    more = sum(each.more)
    unit = "run" if comparison.options.unit == "file" else "boot"
    if sum(each.n) + more >= 100:
        return "it scatters too much to be settled"
    return f"{_counted(more, f'more {unit}')} needed" if more else each.why


def _within(comparison: Comparison) -> str:
    return ", within one boot" if comparison.options.unit == "file" else ""


def _rest(cells: Sequence[Judged], comparison: Comparison) -> str:
    if not cells:
        return ""
    counts = Counter(each.verdict for each in cells)
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    reaches = sorted(each.reach for each in cells if each.reach is not None)
    seen = ""
    if reaches:
        half, most = reaches[len(reaches) // 2], reaches[-1]
        seen = f"; could have seen >= {_size(half)} in half of them, {_size(most)} in all"
    return f"Other cells: {told}{seen}{_within(comparison)} (--all lists them)"


def _strange(figures: Sequence[Judged]) -> str:
    """Give why figures cannot be compared, each reason once."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for each in figures:
        reasons[each.why].append(str(each.item.name))
    return "\n".join(
        f"Not comparable: {_counted(len(names), 'figure')} ({names[0]}"
        f"{', ...' if len(names) > 1 else ''}): {why}"
        for why, names in reasons.items()
    )


def notes_of(comparison: Comparison) -> list[str]:
    """Give what a reader must know of all verdicts."""
    notes = list(comparison.remarks)
    if comparison.why_not is None:
        notes += [_DESIGNS[comparison.design]] if comparison.design in _DESIGNS else []
    unit = "run" if comparison.options.unit == "file" else "boot"
    turns = "" if in_turns(comparison.base, comparison.new) else ": take the sides in turns"
    notes += [
        f"{drift.name} moved by {_percent(drift.change)} from the first {unit} to the last while the "
        f"setting stood{turns}"
        for drift in comparison.drifts
    ]
    return notes


_DESIGNS = {
    Design.SINGLE: "one against one is indicative only: five of the base and one of the new side "
    "make a first verdict",
    Design.FEW: "too few to test: four a side, or five of one and one of the other, make a verdict",
    Design.PREDICTED: "one side has fewer than four: the roll-ups that --expect names, or else those "
    "that a token depends on, are tested; cells take four a side",
}


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


# ---- JSON ----------------------------------------------------------------------------------------


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Give all of a comparison as plain values; ratios are new over base."""
    return {
        "comparable": comparison.why_not is None,
        "why_not": comparison.why_not,
        "unit": comparison.options.unit,
        "changed": comparison.options.changed,
        "design": comparison.design.value,
        "sides": {
            side.name: [list(boot.names) for boot in side.boots]
            for side in (comparison.base, comparison.new)
        },
        "setting": {
            "differences": [
                {
                    "key": each.key,
                    "kind": each.kind.value,
                    "base": list(each.base),
                    "new": list(each.new),
                }
                for each in comparison.differences
            ],
            "unknown": list(comparison.unknown),
        },
        "expected": [
            {"name": o.expected.name, "direction": o.expected.direction, "held": o.held}
            for o in comparison.outcomes
        ],
        "figures": [_to_json(each, comparison) for each in comparison.figures],
        "notes": notes_of(comparison),
        "verdict": conclusion(comparison),
    }


def _to_json(each: Judged, comparison: Comparison) -> dict[str, Any]:
    item = each.item
    return {
        "kind": item.kind,
        "name": str(item.name),
        "held_to": item.held or None,
        "new_name": item.other or None,
        "unit": item.unit,
        "base": _center(item.base),
        "new": _center(item.new),
        "ratio": _finite(each.ratio),
        "low": _finite(each.low),
        "high": _finite(each.high),
        "n": list(each.n),
        "p": each.p,
        "threshold": each.threshold,
        "could_have_seen": _finite(each.reach),
        "more": list(each.more),
        "verdict": each.verdict.value,
        "text": verdict_text(each, comparison)
        if each.verdict is not Verdict.NOT_COMPARABLE
        else each.why,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
