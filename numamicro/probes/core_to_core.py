"""Core to core: how long a cache line takes from one core's cache to another's and back."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, Place, Route, node
from numamicro.matrix import Sample, State
from numamicro.probes.probe import CaseFailed, Cost, Probe, TakeSample
from numamicro.units import MIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numamicro.case import AnyPlace
    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

ROUND_TRIPS = 20_000
LINE_STRIDE = 256
"""A fresh line for every sample, two lines apart: neighbours are fetched in pairs."""
ARENA_BYTES = 2 * MIB


class CoreToCore(Probe):
    """Seconds for a round trip: one core writes a line, another sees it and writes it back.

    Where the line's memory is matters, for its home keeps the directory: it is on the source's
    node, and with `--thorough` on every node.
    """

    name: ClassVar[str] = "core-to-core"
    unit: ClassVar[str] = "s"
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every pair of last-level caches, or of cores if thorough."""
        if not wishes.wants(self.name, "hand-over") or (wishes.level is QUICK and not wishes.only):
            return
        spots, cores = _spots(machine, wishes), _cores(machine)
        homes = {spot: _homes(spot, machine, wishes) for spot in spots}
        for source, target in combinations_with_replacement(spots, 2):
            if _pair_of(source, target, machine, cores) is not None:
                route = Route(source, target)
                for home in homes[source]:
                    yield Case.of(self.name, "hand-over", route, home=home)

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Every pair of cores can do it."""
        return None

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate 500 ns a round trip, as between packages."""
        return Cost(0.05, ROUND_TRIPS * 500e-9)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Pin one thread on each side and let them hand a line to and fro."""
        from numamicro import _cpu

        source, target = case.route.source, case.route.target
        pair = pair_of(source, target, lab.machine)
        if pair is None:
            raise CaseFailed(State.WAIVED, "one-core", f"{source} and {target} are one core")
        team = lab.team_on(pair)
        arena = lab.arena(node(case.number("home")), ARENA_BYTES, "auto")
        offset = 0

        def sample() -> Sample:
            nonlocal offset
            elapsed, done, strays = _cpu.ping(team, arena, offset, ROUND_TRIPS)
            offset = (offset + LINE_STRIDE) % ARENA_BYTES
            if done != ROUND_TRIPS:
                raise CaseFailed(
                    State.WRONG, "ping", f"{done} round trips were counted, not {ROUND_TRIPS}"
                )
            lab.strays += strays
            return Sample(elapsed / 1e9, done)

        yield sample


def pair_of(source: AnyPlace, target: AnyPlace, machine: Machine) -> tuple[int, int] | None:
    """Give one CPU of each place, of different cores; None when they have only one core."""
    return _pair_of(source, target, machine, _cores(machine))


def _cores(machine: Machine) -> dict[int, int | None]:
    """Give the core of each CPU."""
    return {cpu.id: cpu.core for cpu in machine.cpus}


def _pair_of(
    source: AnyPlace, target: AnyPlace, machine: Machine, cores: Mapping[int, int | None]
) -> tuple[int, int] | None:
    here, there = machine.usable_cpus(source), machine.usable_cpus(target)
    for other in there:
        if here and cores[other] != cores[here[0]]:
            return here[0], other
    return None


def _spots(machine: Machine, wishes: Wishes) -> list[Place]:
    cpus = {
        cpu
        for each in machine.initiators
        if wishes.wants_node(each.id)
        for cpu in machine.usable_cpus(node(each.id))
    }
    if wishes.level is THOROUGH:
        cores = {cpu.core for cpu in machine.cpus if cpu.id in cpus and cpu.core is not None}
        return [Place("core", core) for core in sorted(cores)]
    llcs = {cpu.llc for cpu in machine.cpus if cpu.id in cpus and cpu.llc is not None}
    return [Place("llc", llc) for llc in sorted(llcs)]


def _homes(source: Place, machine: Machine, wishes: Wishes) -> list[int]:
    usable = [each.id for each in machine.targets]
    if wishes.level is THOROUGH:
        return usable
    own = machine.memory_nodes(source)
    return [own[0]] if own else usable[:1]
