"""What a token costs: placements ranked, each with its terms stacked, and the tree of the best."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.cost.advise import Ranked
from numamicro.cost.launch import launch_line
from numamicro.cost.verdict import domains, sentence
from numamicro.report.cost import (
    SHOWN,
    TERM_HEAD,
    cost_heading,
    placement_text,
    remarks,
    seconds_text,
    term_rows,
)
from numamicro.report.figures import Footnotes
from numamicro.report.page.curves import COLORS, plain_table
from numamicro.report.page.heat import framed
from numamicro.report.page.markup import Markup, joined, tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numamicro.cost.advise import Advice
    from numamicro.cost.predict import Predictor
    from numamicro.cost.terms import Term

_NUMBERED = re.compile(r"(node|gpu)\d+")
_ROUNDING = 1e-9
_ANY = {"node": "a node", "gpu": "a GPU"}


def token_section(advice: Advice, predictor: Predictor) -> Markup:
    """Give the section of an advice, and of what predicted it."""
    best, machine = advice.best, predictor.rates.machine
    launch = launch_line(best.placement, best.engine.name, machine, len(best.model.layers))
    return joined(
        tag("p", *_lines(cost_heading(best))),
        tag("p", sentence(best, len(machine.targets)), class_="verdict"),
        _ranking(advice, predictor),
        tag("p", f"{len(advice.ranked)} placements were tried. The best is launched with"),
        tag("pre", launch, class_="launch"),
        _tree(best.decode),
        *(tag("p", *_lines(text), class_="notes") for text in remarks(best)),
    )


def _lines(text: str) -> Iterable[str]:
    for index, line in enumerate(text.splitlines()):
        if index:
            yield tag("br")
        yield line


# ---- ranking -------------------------------------------------------------------------------------


def _ranking(advice: Advice, predictor: Predictor) -> Markup:
    tried = [(str(rank), item) for rank, item in enumerate(advice.ranked[:SHOWN], 1)]
    others = (("naive", advice.naive), ("worst", advice.worst))
    tried += [(name, Ranked(cost.placement, cost.decode.seconds)) for name, cost in others if cost]
    stacks = [_kinds(predictor.decode(item.placement)) for _, item in tried]
    colors = {
        kind: COLORS[index % len(COLORS)]
        for index, kind in enumerate(dict.fromkeys(kind for stack in stacks for kind in stack))
    }
    # A worst placement that is far off would leave nothing to see of the others.
    longest = max(item.seconds for name, item in tried if name != "worst")
    head = [
        "rank",
        "placement",
        "what a token's time is made of",
        "token",
        "tokens/s",
        "of the best",
    ]
    body = [
        _ranked_row(name, item, _stack(stack, longest, colors), advice)
        for (name, item), stack in zip(tried, stacks, strict=True)
    ]
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", text, scope="col") for text in head))),
        tag("tbody", *body),
        class_="ranking",
    )
    keys = [tag("span", kind, style=f"--key:{color}") for kind, color in colors.items()]
    return joined(
        framed(table, "Placements by the time of a token, the best first"),
        tag("p", joined(*keys, between=" "), class_="keys"),
    )


def _ranked_row(name: str, item: Ranked, stack: Markup, advice: Advice) -> Markup:
    best = advice.best
    rate = best.load.batch * item.placement.replicas / item.seconds
    return tag(
        "tr",
        tag("th", name, scope="row"),
        tag("td", placement_text(item.placement), class_="words"),
        tag("td", stack, class_="stack"),
        tag("td", seconds_text(item.seconds), data_value=repr(item.seconds)),
        tag("td", f"{rate:.4g}"),
        tag("td", f"{item.seconds / best.decode.seconds:.2f} x"),
    )


def _kinds(term: Term) -> dict[str, float]:
    """Give the seconds of each kind of thing that would have to be faster: all nodes are one kind."""
    kinds: dict[str, float] = {}
    for domain, seconds in domains(term).items():
        kind = _NUMBERED.sub(lambda match: _ANY[match[1]], domain)
        kinds[kind] = kinds.get(kind, 0.0) + seconds
    return kinds


def _stack(kinds: dict[str, float], longest: float, colors: dict[str, str]) -> Markup:
    """Give bars side by side, as long as their time is of the longest; one beyond it is cut off."""
    whole = sum(kinds.values())
    parts = [
        tag("span", style=f"width:{100 * seconds / max(longest, whole):.2f}%;--key:{colors[kind]}")
        for kind, seconds in kinds.items()
    ]
    cut = whole > longest * (1 + _ROUNDING)
    words = ", ".join(f"{kind} {seconds_text(seconds)}" for kind, seconds in kinds.items())
    kind = "bar cut" if cut else "bar"
    return tag("div", *parts, class_=kind, role="img", aria_label=words, title=words)


# ---- terms ---------------------------------------------------------------------------------------


def _tree(term: Term) -> Markup:
    notes = Footnotes()
    rows: Sequence[list[str]] = list(term_rows(term, 0, notes))
    return tag(
        "details",
        tag("summary", "Term by term, for the best placement"),
        plain_table(TERM_HEAD, rows),
        tag("p", *_lines("\n".join(notes.lines())), class_="notes"),
    )
