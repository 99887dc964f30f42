"""Caches: bandwidth and latency against the working set, from the first level to beyond the last.

Where the curve rises is where a cache ends. sysfs may say otherwise: a hypervisor makes its caches
up, and a core may use only part of a shared one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, Route, node
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.latency import Latency
from numamicro.probes.probe import WINDOW_SECONDS, Cost, cache_floor
from numamicro.units import KIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes

SMALLEST = 16 * KIB


def working_sets(route: Route, machine: Machine, wishes: Wishes, per_octave: float) -> list[int]:
    """Give sizes from within the first level to clear of the last, four times finer if thorough."""
    largest = wishes.memory or cache_floor(route, machine)
    fineness = per_octave * (4 if wishes.level is THOROUGH else 1)
    count = math.ceil(math.log2(largest / SMALLEST) * fineness) + 1
    sizes = (SMALLEST * 2 ** (index / fineness) for index in range(count))
    return [int(size) // (4 * KIB) * 4 * KIB for size in sizes]


def _local_routes(machine: Machine, wishes: Wishes) -> Iterator[Route]:
    """Give the first node with CPUs and memory, or every one if thorough: caches are alike."""
    targets = {each.id for each in machine.targets}
    for each in machine.initiators:
        if each.id in targets and wishes.wants_node(each.id):
            yield Route(node(each.id), node(each.id))
            if wishes.level is not THOROUGH:
                return


class CacheBandwidth(Bandwidth):
    """Bytes a second that one CPU reads from working sets of each size."""

    name: ClassVar[str] = "cache-bandwidth"
    late: ClassVar[bool] = True
    swept: ClassVar[tuple[str, ...]] = ()
    size_parameter: ClassVar[str] = "working_set"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give reads by one thread of every working set."""
        if not wishes.wants(self.name, "read") or _too_quick(wishes):
            return
        for route in _local_routes(machine, wishes):
            # Latency finds the edges; bandwidth needs one point or two in each level.
            for size in working_sets(route, machine, wishes, 0.5):
                yield Case.of(
                    self.name,
                    "read",
                    route,
                    working_set=size,
                    pages="auto",
                    threads=1,
                    variant="4-stream",
                )

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Nothing is too small for a cache."""
        return None

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate: set-up is small, a sample is one window."""
        return Cost(0.2, 2 * WINDOW_SECONDS)


class CacheLatency(Latency):
    """Seconds a dependent load takes in working sets of each size."""

    name: ClassVar[str] = "cache-latency"
    late: ClassVar[bool] = True
    size_parameter: ClassVar[str] = "working_set"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give a chase through every working set, in the pages that come of themselves."""
        if not wishes.wants(self.name, "load") or _too_quick(wishes):
            return
        for route in _local_routes(machine, wishes):
            for size in working_sets(route, machine, wishes, 1):
                yield Case.of(self.name, "load", route, working_set=size, pages="auto", threads=1)

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Nothing is too small for a cache."""
        return None

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate: set-up is small, a sample is one window."""
        return Cost(0.2, 2 * WINDOW_SECONDS)


def _too_quick(wishes: Wishes) -> bool:
    return wishes.level is QUICK and not wishes.only
