"""What a token costs, as text and as plain JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numamicro.cost.advise import Ranked
from numamicro.cost.launch import launch_line
from numamicro.cost.verdict import sentence
from numamicro.report.figures import Footnotes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.cost.advise import Advice
    from numamicro.cost.placement import Placement
    from numamicro.cost.predict import TokenCost
    from numamicro.cost.terms import Term
    from numamicro.topology import Machine

SHOWN = 5
"""Placements of an advice that a table shows beside the naive and the worst."""


def seconds_text(seconds: float) -> str:
    """Give a time in the unit that keeps it readable."""
    for size, label in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.4g} {label}"
    return f"{seconds * 1e9:.3g} ns"


def placement_text(placement: Placement) -> str:
    """Give a placement in a few words."""
    words = []
    if placement.stages:
        groups = " then ".join("+".join(f"gpu{g}" for g in stage) for stage in placement.stages)
        words.append(groups)
        if not placement.peer and sum(map(len, placement.stages)) > 1:
            words.append("staged through the host")
    if placement.cpu_experts:
        words.append(f"experts of {len(placement.cpu_experts)} layers on the CPUs")
    if placement.cpu_layers and placement.stages:
        words.append(f"{placement.cpu_layers} layers on the CPUs")
    if placement.threads:
        words.append(" + ".join(f"node{index} {count}T" for index, count in placement.threads))
        memory = "+".join(f"node{index}" for index in placement.memory)
        words.append(f"{placement.policy} on {memory}")
    if placement.replicas > 1:
        words.append(f"{placement.replicas} replicas")
    return ", ".join(words)


# ---- predict -------------------------------------------------------------------------------------


def render_cost(cost: TokenCost, machine: Machine, style: str = "plain") -> str:
    """Give a prediction as text: what it is of, the terms of a token, and what binds."""
    notes = Footnotes()
    blocks = [
        cost_heading(cost),
        _summary(cost, style),
        _tree(cost.decode, style, notes),
        "\n".join(notes.lines()),
        sentence(cost, len(machine.targets)),
        *remarks(cost),
        f"launch: {launch_line(cost.placement, cost.engine.name, machine, len(cost.model.layers))}",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def cost_heading(cost: TokenCost) -> str:
    """Give three lines: the model, where it is, and what is asked of it."""
    model, load = cost.model, cost.load
    label = "HYPOTHETICAL · " if cost.is_hypothetical else ""
    return (
        f"{label}{model.name} · {model.parameters / 1e9:.4g} B parameters · "
        f"{model.total.bytes / 1e9:.4g} GB of weights\n{placement_text(cost.placement)}\n"
        f"{cost.engine.name} · batch {load.batch} · context {load.context} · prompt {load.prompt} · "
        f"cache {load.cache_format} · figures {', '.join(cost.origins)}"
    )


def _summary(cost: TokenCost, style: str) -> str:
    rows = [
        ["from token to token", *_timed(cost.decode)],
        ["prompt", *_timed(cost.prefill)],
        ["first token after", *_timed(cost.first_token)],
        ["load", *_timed(cost.loading)],
    ]
    rows[0].append(f"{cost.tokens_per_second:.4g} tokens/s")
    rows[1].append(f"{cost.prompt_rate:.4g} tokens/s" if cost.prompt_rate else "")
    return _table(rows, ["", "time", "interval", ""], style)


def _timed(term: Term | str) -> list[str]:
    if isinstance(term, str):
        return ["unknown", ""]
    return [seconds_text(term.seconds), f"{seconds_text(term.low)} to {seconds_text(term.high)}"]


def _tree(term: Term, style: str, notes: Footnotes) -> str:
    rows = list(term_rows(term, 0, notes))
    return _table(rows, list(TERM_HEAD), style)


TERM_HEAD = ("a token's time", "", "amount", "rate", "from")
"""What the columns of :func:`term_rows` are."""


def term_rows(term: Term, depth: int, notes: Footnotes) -> Iterator[list[str]]:
    """Give a row for a term and for each part of it, indented by depth."""
    how = {"sum": " = sum of", "max": " = longest of", "": ""}[term.how]
    yield [
        ". " * depth + term.name + how,
        seconds_text(term.seconds),
        _amount(term),
        _rate(term),
        notes.mark(term.figure.source) if term.figure else "",
    ]
    for part in term.parts:
        yield from term_rows(part, depth + 1, notes)


def _amount(term: Term) -> str:
    if term.amount is None:
        return ""
    if term.unit == "times":
        return f"{term.amount:.4g} times"
    scale, label = (1e9, "GB") if term.unit == "B" else (1e9, "G operations")
    if term.unit == "B" and term.amount < 1e6:
        scale, label = 1e3, "kB"
    return f"{term.amount / scale:.4g} {label}"


def _rate(term: Term) -> str:
    if term.figure is None:
        return ""
    if term.unit == "times":
        return seconds_text(term.figure.value)
    unit = "GB/s" if term.unit == "B" else "G operations/s"
    return f"{term.figure.value / 1e9:.4g} {unit}"


def remarks(cost: TokenCost) -> list[str]:
    """Give one block of what was left out, assumed or unknown; none where there is nothing."""
    lines = [f"note: {note}" for note in cost.model.notes]
    lines += [f"note: {text}" for text in cost.assumptions]
    for name, term in (("prompt", cost.prefill), ("load", cost.loading)):
        if isinstance(term, str):
            lines.append(f"note: {name} unknown: {term}")
    if unknown := [str(room.place) for room in cost.rooms if room.capacity is None]:
        places = ", ".join(unknown)
        lines.append(f"note: the file does not tell the memory of {places}: not checked")
    if "simulated" in cost.origins:
        lines.append("note: simulated figures: no machine was measured")
    return ["\n".join(lines)] if lines else []


def _table(rows: list[list[str]], headers: list[str], style: str) -> str:
    from tabulate import tabulate

    return tabulate(rows, headers=headers, tablefmt=style, disable_numparse=True)


# ---- advise --------------------------------------------------------------------------------------


def render_advice(advice: Advice, machine: Machine, style: str = "plain") -> str:
    """Give an advice as text: a ranked table, the launch line of the best, and what binds."""
    best = advice.best
    tried = [(str(rank), item) for rank, item in enumerate(advice.ranked[:SHOWN], 1)]
    others = (("naive", advice.naive), ("worst", advice.worst))
    tried += [(name, Ranked(cost.placement, cost.decode.seconds)) for name, cost in others if cost]
    rows = [_row(name, item, best) for name, item in tried]
    line = launch_line(best.placement, best.engine.name, machine, len(best.model.layers))
    blocks = [
        cost_heading(best),
        _table(rows, ["", "placement", "token", "tokens/s", "of the best"], style),
        f"{len(advice.ranked)} placements were tried.",
        sentence(best, len(machine.targets)),
        *remarks(best),
        f"launch: {line}",
    ]
    return "\n\n".join(blocks) + "\n"


def _row(name: str, item: Ranked, best: TokenCost) -> list[str]:
    rate = best.load.batch * item.placement.replicas / item.seconds
    times = item.seconds / best.decode.seconds
    placed = placement_text(item.placement)
    return [name, placed, seconds_text(item.seconds), f"{rate:.4g}", f"{times:.2f} x"]


# ---- JSON ----------------------------------------------------------------------------------------


def cost_to_json(cost: TokenCost, machine: Machine) -> dict[str, Any]:
    """Give a prediction as plain JSON values, in base units."""
    placement = cost.placement
    return {
        "model": cost.model.name,
        "parameters": cost.model.parameters,
        "weight_bytes": cost.model.total.bytes,
        "placement": {
            "text": placement_text(placement),
            "stages": [list(stage) for stage in placement.stages],
            "cpu_layers": placement.cpu_layers,
            "cpu_experts": list(placement.cpu_experts),
            "threads": {f"node{index}": count for index, count in placement.threads},
            "policy": placement.policy if placement.threads else None,
            "memory": [f"node{index}" for index in placement.memory],
            "peer": placement.peer,
            "replicas": placement.replicas,
        },
        "engine": cost.engine.name,
        "batch": cost.load.batch,
        "context": cost.load.context,
        "prompt": cost.load.prompt,
        "tokens_per_second": cost.tokens_per_second,
        "prompt_tokens_per_second": cost.prompt_rate,
        "token": _term_to_json(cost.decode),
        "prefill": _term_to_json(cost.prefill),
        "first_token": _term_to_json(cost.first_token),
        "load": _term_to_json(cost.loading),
        "rooms": [
            {
                "place": str(room.place),
                "weights": room.weights,
                "cache": room.cache,
                "capacity": room.capacity,
            }
            for room in cost.rooms
        ],
        "binds": sentence(cost, len(machine.targets)),
        "origins": list(cost.origins),
        "assumed": list(cost.assumptions),
        "hypothetical": cost.is_hypothetical,
        "launch": launch_line(placement, cost.engine.name, machine, len(cost.model.layers)),
    }


def _term_to_json(term: Term | str) -> dict[str, Any]:
    if isinstance(term, str):
        return {"seconds": None, "reason": term}
    document: dict[str, Any] = {
        "name": term.name,
        "seconds": term.seconds,
        "low": term.low,
        "high": term.high,
    }
    if term.how:
        return document | {"how": term.how, "parts": [_term_to_json(part) for part in term.parts]}
    figure = term.figure
    return document | {
        "amount": term.amount,
        "unit": term.unit,
        "domain": term.domain,
        "figure": figure and figure.value,
        "source": figure and figure.source,
        "origin": figure and figure.origin,
    }


def advice_to_json(advice: Advice, machine: Machine) -> dict[str, Any]:
    """Give an advice as plain JSON values, in base units."""
    return {
        "best": cost_to_json(advice.best, machine),
        "naive": cost_to_json(advice.naive, machine) if advice.naive else None,
        "worst": cost_to_json(advice.worst, machine),
        "ranked": [
            {"placement": placement_text(item.placement), "seconds": item.seconds}
            for item in advice.ranked
        ],
    }
