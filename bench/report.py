"""A run of the bench as JSON, with every turn, and as a page to read. Pure functions."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from bench.contests import NAMES
from bench.pairs import Claim, Ratio
from numamicro.stats import median, quantile
from numamicro.units import bytes_text, scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.contests import Outcome
    from bench.pairs import Turn
    from numamicro.case import Param


VERDICTS = ("missed", "undecided", "met")
"""Of judged claims, the worst first."""


@dataclass(frozen=True, slots=True)
class Session:
    """What is true of the whole run.

    Parameters
    ----------
    created : str
        Date and time, UTC.
    notes : sequence of str
        What whoever ran it wants a reader to know.
    """

    tool: str
    command: str
    created: str
    seed: int
    machine: Mapping[str, Param | None]
    notes: Sequence[str] = ()


def to_json(session: Session, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Give every turn and every ratio as plain values; base units."""
    return asdict(session) | {"contests": [_contest_json(outcome) for outcome in outcomes]}


def _contest_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.contest.name,
        "title": outcome.contest.title,
        "unit": outcome.contest.unit,
        "contenders": {who.name: who.about for who in outcome.contest.contenders},
        "waived": dict(outcome.waived),
        "error": outcome.error,
        "claims": [_claim_json(outcome, claim) for claim in outcome.claims],
        "turns": [_turn_json(turn) for turn in outcome.turns],
    }


def _claim_json(outcome: Outcome, claim: Claim) -> dict[str, Any]:
    ratio = outcome.ratio(claim)
    return asdict(claim) | {"ratio": asdict(ratio), "verdict": claim.verdict(ratio)}


def _turn_json(turn: Turn) -> dict[str, Any]:
    return {
        "round": turn.round,
        "contender": turn.contender,
        "value": turn.reading.value,
        "foreign": round(turn.foreign, 4),
        "stolen": round(turn.stolen, 4),
        "facts": dict(turn.reading.facts),
    }


def to_markdown(session: Session, outcomes: Sequence[Outcome]) -> str:
    """Give the page: what ran, on what, the figures and the ratios."""
    parts = [
        f"# numamicro against its peers, {session.created[:10]}",
        f"{session.tool}, {session.created}, seed {session.seed}.",
        _machine(session.machine),
        f"`{session.command}`",
        _table([_line(_contest_json(outcome)) for outcome in outcomes]),
        *(part for outcome in outcomes for part in _outcome(outcome)),
        *(["## Notes", *(f"- {note}" for note in session.notes)] if session.notes else []),
    ]
    return "\n\n".join(parts) + "\n"


def spliced(text: str, name: str, block: str) -> str:
    """Put `block` in place of what stands between the marks of that name, if any."""
    marks = re.escape(f"<!-- {name} -->"), re.escape("<!-- end -->")
    pattern = rf"({marks[0]}\n).*?(\n{marks[1]})"
    return re.sub(pattern, lambda found: f"{found[1]}{block}{found[2]}", text, flags=re.DOTALL)


def newest(documents: Mapping[str, Mapping[str, Any]]) -> str:
    """Give one line for each contest that any of the documents has, from the newest that has it.

    Parameters
    ----------
    documents : mapping of str to mapping
        As `to_json` gives them, by the name of their page.
    """
    found: dict[str, list[str]] = {}
    for name, document in sorted(documents.items(), key=lambda item: str(item[1]["created"])):
        for contest in document["contests"]:
            found[contest["name"]] = [*_line(contest), f"[{name}](bench/results/{name}.md)"]
    return _table([found[name] for name in NAMES if name in found], "page")


def _table(lines: Sequence[Sequence[str]], *more: str) -> str:
    return tabulate(
        lines,
        headers=["contest", "numamicro", "closest peer", "ratio", "interval", "must be", "", *more],
        tablefmt="github",
        disable_numparse=True,
        colalign=("left", "right", "left", "right", "right", *["left"] * (2 + len(more))),
    )


def _line(contest: Mapping[str, Any]) -> list[str]:
    """Give one line a contest, with the judged claim that holds least: of those missed, else of those
    undecided, else of those met, the one whose interval is nearest to its bound."""
    unit = scale(contest["unit"])
    ours = next(iter(contest["contenders"]))
    values = [turn["value"] for turn in contest["turns"] if turn["contender"] == ours]
    claims = [_claim(each) for each in contest["claims"]]
    judged = [pair for pair in claims if pair[0].is_judged]
    first = [contest["name"], f"{unit.text(median(values))} {unit.label}"]
    if not judged:
        return [*first, "none judged", "", "", "", ""]
    claim, ratio = min(
        judged, key=lambda pair: (VERDICTS.index(pair[0].verdict(pair[1])), _margin(*pair))
    )
    bounds = _bounds(claim.at_least, claim.at_most)
    shown = f"{ratio.center:.3f}", _interval(ratio), bounds, claim.verdict(ratio)
    return [*first, claim.peer, *shown]


def _claim(found: Mapping[str, Any]) -> tuple[Claim, Ratio]:
    parts = ("ours", "peer", "at_least", "at_most", "why")
    return Claim(**{part: found[part] for part in parts}), Ratio(**found["ratio"])


def _margin(claim: Claim, ratio: Ratio) -> float:
    """Give by what factor the interval stays within its nearest bound."""
    low = ratio.low if ratio.low is not None else ratio.center
    high = ratio.high if ratio.high is not None else ratio.center
    margins = [low / claim.at_least] if claim.at_least else []
    return min(margins + ([claim.at_most / high] if claim.at_most else []))


def _machine(machine: Mapping[str, Param | None]) -> str:
    sizes = ("memory", "last-level cache")
    words = (
        f"{key} {bytes_text(value) if key in sizes and isinstance(value, int) else value}"
        for key, value in machine.items()
        if value is not None
    )
    return f"Machine: {', '.join(words)}."


def _outcome(outcome: Outcome) -> Iterator[str]:
    unit = scale(outcome.contest.unit)
    yield f"## {outcome.contest.title}"
    yield _about(outcome)
    yield tabulate(
        list(_figures(outcome)),
        headers=["", f"median {unit.label}", "quartiles", "lowest", "highest"],
        tablefmt="github",
        disable_numparse=True,
        colalign=("left", "right", "right", "right", "right"),
    )
    yield tabulate(
        list(_ratios(outcome)),
        headers=["ratio", "median", _of(outcome), "pairs", "must be", "verdict"],
        tablefmt="github",
        disable_numparse=True,
        colalign=("left", "right", "right", "right", "left", "left"),
    )
    yield _load(outcome)


def _about(outcome: Outcome) -> str:
    return "\n".join(
        f"- {who.name}: {who.about}"
        + (f". Took no part: {outcome.waived[who.name]}" if who.name in outcome.waived else "")
        for who in outcome.contest.contenders
    )


def _figures(outcome: Outcome) -> Iterator[list[str]]:
    unit = scale(outcome.contest.unit)
    for who in outcome.contest.contenders:
        values = [turn.reading.value for turn in outcome.turns if turn.contender == who.name]
        if values:
            low, high = (unit.text(quantile(values, share)) for share in (0.25, 0.75))
            ends = unit.text(min(values)), unit.text(max(values))
            yield [who.name, unit.text(median(values)), f"{low} to {high}", *ends]


def _ratios(outcome: Outcome) -> Iterator[list[str]]:
    for claim in outcome.claims:
        ratio = outcome.ratio(claim)
        yield [
            f"{claim.ours} / {claim.peer}" + (f" ({claim.why})" if claim.why else ""),
            f"{ratio.center:.3f}",
            _interval(ratio),
            str(ratio.n),
            _bounds(claim.at_least, claim.at_most),
            claim.verdict(ratio),
        ]


def _of(outcome: Outcome) -> str:
    return f"{100 * (1 - outcome.error):g} % interval"


def _interval(ratio: Ratio) -> str:
    if ratio.low is None or ratio.high is None:
        return "needs more pairs"
    return f"{ratio.low:.3f} to {ratio.high:.3f}"


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"within {low:g} and {high:g}"
    if high is not None:
        return f"{high:.3g} or less"
    return f"{low:g} or more" if low is not None else ""


def _load(outcome: Outcome) -> str:
    foreign = [turn.foreign for turn in outcome.turns]
    stolen = [turn.stolen for turn in outcome.turns]
    return (
        f"Meanwhile other programs used {median(foreign):.1%} of the CPUs in the median turn and "
        f"{max(foreign):.1%} in the worst; the hypervisor kept {median(stolen):.1%} and "
        f"{max(stolen):.1%}."
    )
