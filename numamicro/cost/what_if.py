"""What would happen if: a matrix with some of its figures scaled, and labelled as nobody's measurement."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from numamicro.case import Place, PlaceSet, parse_place
from numamicro.cost.cells import meaning_of
from numamicro.cost.terms import HYPOTHETICAL
from numamicro.errors import NumamicroError
from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.matrix import CostMatrix, Measurement

# What a user calls a cost, and the meanings of cells that it scales.
_COSTS = {
    "read": ("read", "together", "dot-stream", "dot-matrix", "gpu-read"),
    "copy": ("copy",),
    "barrier": ("barrier",),
    "dot": ("dot", "dot-stream", "dot-matrix"),
    "gemm": ("gemm", "gpu-gemm"),
    "attention": ("attention",),
    "step": ("step",),
    "h2d": ("h2d",),
    "d2h": ("d2h",),
    "p2p": ("peer",),
    "allreduce": ("all-reduce",),
    "storage": ("storage",),
}
_FORM = re.compile(r"(?:([a-z0-9>:+]+)\.)?([a-z0-9]+)\*(\d+(?:\.\d+)?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Change:
    """One cost that is so many times as fast.

    Parameters
    ----------
    cost : str
        Of those named in the table above.
    source, target : Place or PlaceSet, optional
        Only cells of this memory, or of this route; None: all.
    factor : float
        2 is twice the rate, or half the time.
    """

    cost: str
    factor: float
    source: Place | PlaceSet | None = None
    target: Place | PlaceSet | None = None

    def applies_to(self, cell: Measurement) -> bool:
        """Tell whether a cell is meant."""
        route = cell.case.route
        if meaning_of(cell.case) not in _COSTS[self.cost]:
            return False
        if self.source is not None:
            return (route.source, route.target) == (self.source, self.target)
        # The memory of an access by CPUs is its target; a copy has a memory at either end.
        ends = (route.target,) if self.cost == "read" else (route.source, route.target)
        return self.target is None or self.target in ends


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Changes to the figures, and whether GPUs can reach each other (None: as they do)."""

    changes: tuple[Change, ...] = ()
    peer: bool | None = None


def parse_what_if(texts: Sequence[str]) -> WhatIf:
    """Read ``h2d*2``, ``node1.read*1.5``, ``node0>node1.read*2`` and ``p2p=on``.

    Raises
    ------
    NumamicroError
        A text is none of these.
    """
    changes = []
    peer = None
    for text in texts:
        if text in ("p2p=on", "p2p=off"):
            peer = text == "p2p=on"
        else:
            changes.append(_change(text))
    return WhatIf(tuple(changes), peer)


def _change(text: str) -> Change:
    match = _FORM.fullmatch(text.replace(" ", ""))
    if match is None or match[2] not in _COSTS or not 0 < float(match[3]) < 1e6:
        raise NumamicroError(
            f"--what-if {text!r:.60}: write for example h2d*2, node1.read*1.5, node0>node1.read*2 or "
            f"p2p=on, with one of {', '.join(_COSTS)}"
        )
    where, cost, factor = match[1], match[2], float(match[3])
    if where and ">" in where:
        source, _, target = where.partition(">")
        return Change(cost, factor, parse_place(source), parse_place(target))
    return Change(cost, factor, None, parse_place(where) if where else None)


def scaled(matrix: CostMatrix, what_if: WhatIf) -> CostMatrix:
    """Give the matrix with the changes made; each changed cell says that it is hypothetical.

    Raises
    ------
    NumamicroError
        A change meets no cell of the matrix.
    """
    cells = list(matrix.measurements)
    for change in what_if.changes:
        hits = [index for index, cell in enumerate(cells) if change.applies_to(cell)]
        if not hits:
            where = f" of {change.target}" if change.target else ""
            raise NumamicroError(
                f"--what-if: the file has no cell of {change.cost}{where} to scale"
            )
        for index in hits:
            cells[index] = _faster(cells[index], change.factor)
    return replace(matrix, measurements=tuple(cells))


def _faster(cell: Measurement, factor: float) -> Measurement:
    """Give a cell each of whose samples took 1 / factor of its time; right for rates and times."""
    assert is_rate(cell.unit) or cell.unit == "s"
    runs = tuple(
        replace(run, samples=tuple(s._replace(seconds=s.seconds / factor) for s in run.samples))
        for run in cell.runs
    )
    return replace(cell, runs=runs, origin=HYPOTHETICAL)
