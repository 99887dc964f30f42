"""A probe as somebody else would write it: one class, registered. It imports only public names."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from numamicro.case import Case, Place, Route
from numamicro.matrix import Sample
from numamicro.probes import Cost, Probe, register

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.probes import TakeSample
    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab


@register
class ClockCost(Probe):
    """Seconds that one reading of the clock takes, and how often a second one can read it."""

    name = "clock"
    unit = "s"

    def cases(self, machine: Machine, wishes: Wishes) -> list[Case]:
        return [
            Case.of("clock", "read", Route(Place("node", node.id), Place("node", node.id)))
            for node in machine.initiators
        ]

    def cost(self, case: Case, machine: Machine) -> Cost:
        return Cost(set_up=0.0, sample=0.01)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        lab.note(clock="perf_counter_ns")

        def sample() -> dict[str, Sample]:
            count = 1000
            start = time.perf_counter_ns()
            for _ in range(count):
                time.perf_counter_ns()
            once = Sample((time.perf_counter_ns() - start) / 1e9, count)
            return {"mean": once, "again": once}

        yield sample
