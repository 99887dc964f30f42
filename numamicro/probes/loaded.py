"""Loaded latency: what a load takes while the other cores stream, from idle to saturation."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case
from numamicro.matrix import Sample, State
from numamicro.probes.bandwidth import kernel_for
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
)
from numamicro.units import GIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

STEPS = 2**16
DELAYS = (0, 100, 1_000, 10_000)
"""Turns of an empty loop between two blocks of a streaming core: from all it can to nearly idle."""


class Loaded(Probe):
    """Seconds a load takes, and bytes a second that the other threads read meanwhile."""

    name: ClassVar[str] = "loaded"
    unit: ClassVar[str] = "s"
    units: ClassVar[Mapping[str, str]] = {"latency": "s", "streamed": "B/s"}
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give a curve over delays: local and one route a locality class, or all if thorough."""
        if not wishes.wants(self.name, "load") or (wishes.level is QUICK and not wishes.only):
            return
        seen = set()
        for route in node_routes(machine, wishes):
            kind = machine.locality(route.source, route.target)
            threads = machine.cores(route.source)
            if threads < 2 or (kind in seen and wishes.level is not THOROUGH):
                continue
            seen.add(kind)
            size = buffer_bytes(route, machine, wishes, GIB // 2)
            for delay in DELAYS:
                yield Case.of(
                    self.name, "load", route, bytes=size, delay=delay, pages="auto", threads=threads
                )

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when two buffers cannot be had beyond the caches."""
        return unfit(case, machine)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate with 500 ns a load under load."""
        return Cost(0.2, STEPS * 500e-9, 2 * touch_seconds(case, machine, case.number("bytes")))

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Link one buffer and fill another; one thread chases, the others stream until it ends."""
        from numamicro import _cpu

        size = case.number("bytes")
        chased = lab.arena(case.route.target, size, str(case["pages"]))
        streamed = lab.arena(case.route.target, size, str(case["pages"]))
        team = lab.team(case.number("threads"))
        kernel = kernel_for("read", "1-stream")
        lab.note(isa=kernel.isa, kernel=kernel.name)
        _cpu.fill(team, streamed, size, lab.seed)
        _cpu.link(team, chased, size, LINE_BYTES, lab.seed)
        step = 0

        def sample() -> Mapping[str, Sample]:
            nonlocal step
            elapsed, ended, moved, wrong, strays = _cpu.loaded(
                team,
                chased,
                size,
                LINE_BYTES,
                lab.seed,
                step,
                STEPS,
                streamed,
                size,
                kernel.name,
                case.number("delay"),
            )
            step += STEPS
            expected = _cpu.position(size, LINE_BYTES, lab.seed, step)
            if ended != expected:
                text = f"the chase ended at byte {ended}, and its cycle leads to {expected}"
                raise CaseFailed(State.WRONG, "chase", text)
            if wrong:
                text = f"{wrong} streaming threads read other data than were written"
                raise CaseFailed(State.WRONG, "checksum", text)
            lab.strays += strays
            seconds = elapsed / 1e9
            return {"latency": Sample(seconds, STEPS), "streamed": Sample(seconds, max(moved, 1))}

        yield sample
