"""Attention: what cores take of a cache of keys and values, the slope of a token over its depth."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case
from numamicro.matrix import Sample, State
from numamicro.probes.probe import CaseFailed, Cost, Probe, TakeSample, touch_seconds, windowed
from numamicro.probes.products import engine_pages, home_routes, is_too_quick, teams
from numamicro.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

LAYER_BYTES = 4 * MIB
LAYERS = 16
"""Of a thread: what it read of the first has left its caches when it comes back to it."""


class Attention(Probe):
    """Bytes a second of 16-bit keys and values, each counted for every query head that takes it."""

    name: ClassVar[str] = "attention"
    unit: ClassVar[str] = "B/s"
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give one thread on every core; one alone, too, if thorough."""
        if not wishes.wants(self.name, "decode") or is_too_quick(wishes):
            return
        for route in home_routes(machine, wishes):
            for threads in teams(route, machine, wishes, shared=True):
                size = LAYERS * LAYER_BYTES * threads
                for pages in engine_pages(wishes):
                    yield Case.of(
                        self.name,
                        "decode",
                        route,
                        bytes=size,
                        format="F16",
                        pages=pages,
                        threads=threads,
                    )

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate a first touch, and four query heads a cached head at 4 GB/s a thread."""
        size = case.number("bytes")
        a_pass = 4 * size / (4e9 * case.number("threads"))
        return Cost(a_pass, a_pass, touch_seconds(case, machine, size))

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Fill and check, then let every head look at all of it; the results' bits must repeat."""
        from numamicro import _cpu

        size = case.number("bytes")
        arena = lab.arena(case.route.target, size, str(case["pages"]))
        team = lab.team(case.number("threads"))
        lab.note(isa=_cpu.dot_kernels()[0][1])
        if wrong := _cpu.attend_fill(team, arena, size, lab.seed):
            text = f"{wrong} results of the attention are not those of plain arithmetic"
            raise CaseFailed(State.WRONG, "products", text)

        @cache
        def of_one_pass() -> int:
            return _cpu.attend(team, arena, size, 1)[2]

        def passes(count: int) -> Sample:
            elapsed, taken, total, strays = _cpu.attend(team, arena, size, count)
            if total != of_one_pass() * count % 2**64:
                text = f"{count} passes of the attention did not give the same results"
                raise CaseFailed(State.WRONG, "products", text)
            lab.strays += strays
            return Sample(elapsed / 1e9, taken, count)

        yield windowed(passes)
