"""The result of a check as JSON, with everything, and as a short page to read. Pure functions."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from numamicro.matrix import FAILED_STATES, best_of
from numamicro.units import is_rate, scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.gpu.checks import Check
    from bench.gpu.figures import Figure
    from numamicro.case import Param
    from numamicro.matrix import Measurement

# What numamicro measures (probe, operation, parameters) beside what a peer calls the same.
BESIDE: tuple[tuple[str, str, dict[str, Param], str, str], ...] = (
    ("host-copy", "h2d", {"memory": "pinned"}, "PyTorch", "h2d"),
    ("host-copy", "d2h", {"memory": "pinned"}, "PyTorch", "d2h"),
    ("all-reduce", "peer", {"message": 16 << 10}, "CuPy", "NCCL all-reduce of 16 KiB, 2 GPUs"),
    ("all-reduce", "peer", {"message": 16 << 20}, "CuPy", "NCCL all-reduce of 16384 KiB, 2 GPUs"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that one run found.

    Parameters
    ----------
    origin : str
        measured, or simulated where a stand-in answered.
    seconds : float
        What the whole run took.
    cells : sequence of Measurement
        What numamicro measured on the GPUs.
    peers : mapping of peer to its figures
    """

    tool: str
    created: str
    origin: str
    seconds: float
    machine: Mapping[str, Param | None]
    gpus: Sequence[str]
    checks: Sequence[Check]
    cells: Sequence[Measurement]
    peers: Mapping[str, Sequence[Figure]]

    @property
    def failures(self) -> list[str]:
        """What did not hold, in a few words each."""
        checks = [f"{c.gpu}: {c.name}: {c.said}" for c in self.checks if not c.passed]
        cells = [
            f"{cell.case.key}: {cell.state}: {cell.reason.text if cell.reason else ''}"
            for cell in self.cells
            if cell.state in FAILED_STATES
        ]
        return checks + cells


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Give everything as plain values, in base units."""
    return {
        "tool": outcome.tool,
        "created": outcome.created,
        "origin": outcome.origin,
        "seconds": outcome.seconds,
        "machine": dict(outcome.machine),
        "gpus": list(outcome.gpus),
        "checks": [asdict(check) for check in outcome.checks],
        "cells": [_cell(cell) for cell in outcome.cells],
        "peers": {name: [asdict(figure) for figure in f] for name, f in outcome.peers.items()},
    }


def _cell(cell: Measurement) -> dict[str, Any]:
    summary = cell.summary()
    return {
        "case": cell.case.key,
        "state": str(cell.state),
        "reason": cell.reason.text if cell.reason else None,
        "value": summary.center if summary else None,
        "unit": cell.unit,
    }


def to_markdown(outcome: Outcome) -> str:
    """Give a short page: what failed, what the kernels did, what others say beside numamicro."""
    return "\n".join(_lines(outcome)) + "\n"


def _lines(outcome: Outcome) -> Iterator[str]:
    yield f"# GPU check, {outcome.origin}, {outcome.created[:10]}"
    yield ""
    named = ", ".join(f"{count} x {name}" for name, count in Counter(outcome.gpus).items())
    yield f"{named}. {outcome.tool}, {outcome.created}, {outcome.seconds:.0f} s."
    known = (f"{name} {fact}" for name, fact in outcome.machine.items() if fact is not None)
    yield f"Machine: {', '.join(known)}."
    yield ""
    held = sum(check.passed for check in outcome.checks)
    yield f"**{held} of {len(outcome.checks)} checks hold.**"
    yield from (f"- FAILED {failure}" for failure in outcome.failures)
    yield ""
    first = outcome.checks[0].gpu if outcome.checks else ""
    rows = [
        [check.name, "holds" if check.passed else "FAILED", _text(check.value, check.unit)]
        for check in outcome.checks
        if check.gpu == first
    ]
    yield tabulate(rows, headers=[f"on {first}", "", "figure"], tablefmt="github")
    yield ""
    yield tabulate(
        _beside(outcome), headers=["case", "numamicro", "beside", "", "ratio"], tablefmt="github"
    )
    yield ""
    counts = Counter(str(cell.state) for cell in outcome.cells)
    yield "Cells: " + ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))


def _beside(outcome: Outcome) -> Iterator[list[str]]:
    for probe, operation, params, peer, name in BESIDE:
        found = best_of(
            cell
            for cell in outcome.cells
            if (cell.case.probe, cell.case.operation) == (probe, operation)
            and all(cell.case.get(key) == value for key, value in params.items())
        )
        other = next((f for f in outcome.peers.get(peer, ()) if f.name == name), None)
        if found is None and other is None:
            continue
        own = _cell(found)["value"] if found else None
        theirs = other.value if other else None
        label = found.case.key if found else f"{probe}/{operation}"
        unit = found.unit if found else other.unit if other else ""
        ratio = f"{own / theirs:.2f}" if own and theirs else ""
        yield [label, _text(own, unit), f"{peer}: {name}", _text(theirs, unit), ratio]
    known = {name for *_, name in BESIDE}
    for peer, figures in outcome.peers.items():
        for figure in figures:
            if figure.name not in known:
                shown = _text(figure.value, figure.unit) or figure.said
                yield ["", "", f"{peer}: {figure.name}".rstrip(": "), shown, ""]


def _text(value: float | None, unit: str | None) -> str:
    if value is None or unit is None:
        return ""
    if unit == "FLOP/s":
        return f"{value / 1e12:.1f} TFLOP/s"
    if not is_rate(unit) and value > 1e-3:
        return f"{value * 1e3:.1f} ms"
    shown = scale(unit, value)
    return f"{shown.text(value)} {shown.label}"
