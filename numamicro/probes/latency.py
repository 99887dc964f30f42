"""Latency: how long one CPU waits for one line of memory that no prefetcher can guess."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case
from numamicro.matrix import Sample, State
from numamicro.probes.probe import (
    LINE_BYTES,
    CaseFailed,
    Cost,
    Probe,
    TakeSample,
    buffer_bytes,
    node_routes,
    touch_seconds,
    unfit,
    windowed,
)
from numamicro.topology import Note
from numamicro.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

USUAL_BYTES = GIB
STEPS = 2**16
"""Loads in one sample, or a multiple of them: 13 ms at 200 ns."""


class Latency(Probe):
    """Seconds a dependent load takes, chasing one random cycle through the whole buffer.

    Measured with 2 MiB and with 4 KiB pages: the difference is what the TLB costs.
    """

    name: ClassVar[str] = "latency"
    unit: ClassVar[str] = "s"
    size_parameter: ClassVar[str] = "bytes"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give a chase with huge and with small pages on every route."""
        if not wishes.wants(self.name, "load"):
            return
        for route in node_routes(machine, wishes):
            size = buffer_bytes(route, machine, wishes, USUAL_BYTES)
            for pages in ("huge", "small"):
                yield Case.of(self.name, "load", route, bytes=size, pages=pages, threads=1)

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the buffer or its huge pages cannot be had."""
        if case["pages"] == "huge" and machine.huge_page_bytes is None:
            return Note(
                "no-huge-pages",
                "this kernel gives no transparent huge pages (transparent_hugepage/enabled is "
                "never or absent)",
            )
        return unfit(case, machine)

    def essential(self, case: Case, machine: Machine) -> bool:
        """What the memory costs; what translation adds differs little from route to route."""
        return case["pages"] != "small" or machine.huge_page_bytes is None

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate with 250 ns a load, a virtual machine's or a remote node's."""
        size = case.number("bytes")
        # Linking writes every line once, in random order.
        link = size / LINE_BYTES * 20e-9 / min(machine.cores(case.route.source), 4)
        return Cost(link, STEPS * 250e-9, touch_seconds(case, machine, size))

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Link the lines into one cycle, then follow it; where a chase ends proves that it ran."""
        from numamicro import _cpu

        size = case.number(self.size_parameter)
        arena = lab.arena(case.route.target, size, str(case["pages"]))
        _cpu.link(lab.team(lab.cores), arena, size, LINE_BYTES, lab.seed)
        team = lab.team(1)
        step = 0

        def passes(count: int) -> Sample:
            nonlocal step
            steps = STEPS * count
            elapsed, ended, strays = _cpu.chase(
                team, arena, size, LINE_BYTES, lab.seed, step, steps
            )
            step += steps
            expected = _cpu.position(size, LINE_BYTES, lab.seed, step)
            if ended != expected:
                text = f"the chase ended at byte {ended}, and its cycle leads to {expected}"
                raise CaseFailed(State.WRONG, "chase", text)
            lab.strays += strays
            return Sample(elapsed / 1e9, steps, count)

        yield windowed(passes)
