"""Barrier: how long a team waits for itself. A CPU engine pays this several times a layer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import AnyPlace, Case, PlaceSet, Route, node
from numamicro.matrix import Sample
from numamicro.probes.bandwidth import thread_counts
from numamicro.probes.probe import Cost, Probe, TakeSample
from numamicro.wishes import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

REPETITIONS = 10_000
"""Barriers in one sample: some ms even when both threads share a core's caches."""


class Barrier(Probe):
    """Seconds from the last thread's arrival to the last one's leaving, with a spin barrier."""

    name: ClassVar[str] = "barrier"
    unit: ClassVar[str] = "s"
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give team sizes within the first node, and within all nodes together."""
        if not wishes.wants(self.name, "wait") or (wishes.level is QUICK and not wishes.only):
            return
        for place in _places(machine, wishes):
            for team in thread_counts(place, machine, wishes):
                if team > 1:
                    yield Case.of(self.name, "wait", Route(place, place), team=team)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate 2 us a barrier, which a team over two packages takes."""
        return Cost(0.1, REPETITIONS * 2e-6)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Let the team meet again and again."""
        from numamicro import _cpu

        team = lab.team(case.number("team"))

        def sample() -> Sample:
            elapsed, met, strays = _cpu.barrier(team, REPETITIONS)
            lab.strays += strays
            return Sample(elapsed / 1e9, met)

        yield sample


def _places(machine: Machine, wishes: Wishes) -> Iterator[AnyPlace]:
    nodes = [node(each.id) for each in machine.initiators if wishes.wants_node(each.id)]
    yield from nodes[:1]
    if len(nodes) > 1:
        yield PlaceSet(tuple(nodes))
