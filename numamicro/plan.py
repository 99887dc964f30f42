"""From a machine and wishes to the list of what to measure, most important first.

Sweeps over threads and variants are made on one route of each locality class; on the other routes
the values that won there are used again, for 64 node pairs must not mean 64 sweeps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from numamicro.bulk import no_collector
from numamicro.case import Case, Param, Route, gpus_of, node
from numamicro.errors import NumamicroError
from numamicro.matrix import Measurement, best_of
from numamicro.probes.gpu import CONTEXT_SECONDS
from numamicro.probes.probe import SIZE_CODES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numamicro.case import AnyPlace, Place
    from numamicro.probes.probe import Probe
    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes

BEST = "best"
"""In a planned case: the value that won on the route it follows, known only once that is measured."""

START_SECONDS = 0.3
"""For a worker to start."""

LookUp: TypeAlias = Callable[[Case], Measurement | None]


class Priority(IntEnum):
    """What comes first when time is short."""

    CLASSES = 0  # one route of each locality class, swept
    PAIRS = 1  # every other route, with the values that won
    OTHER_CLASSES = 2  # the same of what is not essential
    OTHER_PAIRS = 3
    SWEEPS = 4  # curves, and the rest of the sweeps


PHASES = (
    (Priority.CLASSES, Priority.PAIRS),
    (Priority.OTHER_CLASSES,),
    (Priority.OTHER_PAIRS, Priority.SWEEPS),
)
"""A short budget fills the essential matrices in every process before it widens any of them."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A case to measure, or one that is waived.

    Parameters
    ----------
    case : Case
        Its swept parameters may hold BEST.
    seconds : float
        Estimate for one process.
    rivals : tuple of Case
        The cases of the representative route among which the best decides what BEST means.
    otherwise : Case, optional
        What to measure when none of the rivals has a figure.
    """

    case: Case
    probe: Probe
    priority: Priority
    seconds: float
    rivals: tuple[Case, ...] = ()
    otherwise: Case | None = None
    waived: Note | None = None

    @property
    def place(self) -> AnyPlace:
        """The place on whose CPUs its worker runs."""
        return self.probe.place(self.case)

    def resolve(self, look_up: LookUp, cpus: int) -> Case:
        """Give the case with BEST replaced by what won.

        `cpus` bounds the thread count: an initiator may be smaller than the one it follows.
        """
        if not self.rivals:
            return self.case
        best = best_of(tuple(cell for rival in self.rivals if (cell := look_up(rival))))
        if best is None:
            return self.otherwise or self.case
        values = {name: best.case[name] for name in self.probe.swept}
        if "threads" in values:
            values["threads"] = min(best.case.number("threads"), cpus)
        return self.case.having(**values)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is to be measured, and the wishes it came from."""

    wishes: Wishes
    planned: tuple[Planned, ...]

    @property
    def to_measure(self) -> tuple[Planned, ...]:
        """What is not waived."""
        return tuple(item for item in self.planned if item.waived is None)

    @property
    def seconds(self) -> float:
        """Estimate of the run, within its budget."""
        return min(self.wanted, self.wishes.budget)

    @property
    def wanted(self) -> float:
        """Estimate of all that is planned, over all processes."""
        a_process = sum(item.seconds for item in self.to_measure) + self._starts
        return a_process * self.wishes.level.processes

    @property
    def _starts(self) -> float:
        """Estimate what the workers of one process take to start: one for each initiator in each
        block of a phase, and one for each GPU or pair in each phase."""
        workers: defaultdict[object, set[Place]] = defaultdict(set)
        for number, phase in enumerate(PHASES):
            for item in self.to_measure:
                if item.priority in phase:
                    block = None if gpus_of(item.place) else item.priority
                    route = item.case.route
                    gpus = gpus_of(route.source, route.target)
                    workers[number, block, item.place].update(gpus)
        contexts = sum(len(gpus) for gpus in workers.values())
        return START_SECONDS * len(workers) + CONTEXT_SECONDS * contexts

    def in_order(self, cells: Iterable[Measurement]) -> tuple[Measurement, ...]:
        """Give cells as the plan has their probes and operations, whatever order they were
        measured in: a file and its tables read the same each time."""
        planned = [(item.case.probe, item.case.operation) for item in self.planned]
        rank = {kind: index for index, kind in enumerate(dict.fromkeys(planned))}
        return tuple(
            sorted(
                cells,
                key=lambda cell: (
                    rank.get((cell.case.probe, cell.case.operation), len(rank)),
                    cell.case.key,
                ),
            )
        )


@no_collector()
def make_plan(machine: Machine, wishes: Wishes, probes: Sequence[Probe]) -> Plan:
    """Plan what `wishes` ask of `machine`.

    Raises
    ------
    NumamicroError
        A wish names a node or a probe that is not there, or leaves nothing to measure.
    """
    _check_wishes(machine, wishes, probes)
    planned = [item for probe in probes for item in _plan_probe(probe, machine, wishes)]
    _check_operations(machine, wishes, probes)
    nothing = not any(item.waived is None for item in planned)
    if nothing and not _is_without_gpus(planned, machine, wishes, probes):
        raise NumamicroError(_why_nothing(planned))
    if wishes.memory is not None:
        _check_memory(planned)
    planned.sort(key=lambda item: item.priority)
    return Plan(wishes, _sharing_buffers(planned, machine))


def _check_wishes(machine: Machine, wishes: Wishes, probes: Sequence[Probe]) -> None:
    for index in wishes.nodes:
        machine.node(index)
    most = max((len(machine.usable_cpus(node(each.id))) for each in machine.initiators), default=0)
    if wishes.threads and max(wishes.threads) > most:
        raise NumamicroError(
            f"--threads {max(wishes.threads)}: no node has more than {most} CPUs usable here"
        )
    if 0 in wishes.threads:
        raise NumamicroError("--threads 0: a team has at least one thread")
    names = {probe.name for probe in probes}
    for name in wishes.only:
        if name.partition("/")[0] not in names:
            raise NumamicroError(
                f"--only {name}: there is no such measurement; there are {', '.join(sorted(names))}"
            )


def _check_operations(machine: Machine, wishes: Wishes, probes: Sequence[Probe]) -> None:
    """Refuse an operation that its probe lacks, as far as the probe has any on this machine."""
    for name in wishes.only:
        named, _, operation = name.partition("/")
        (probe,) = (each for each in probes if each.name == named)
        everything = replace(wishes, only=(named,), nodes=(), threads=())
        known = list(dict.fromkeys(case.operation for case in probe.cases(machine, everything)))
        if operation and known and operation not in known:
            raise NumamicroError(f"--only {name}: {named} has {', '.join(known)}")


def _check_memory(planned: Sequence[Planned]) -> None:
    """Refuse a size that leaves a probe nothing: that is a slip, and no property of the machine."""
    measured = {item.probe.name for item in planned if item.waived is None}
    for item in planned:
        if item.waived and item.waived.code in SIZE_CODES and item.probe.name not in measured:
            raise NumamicroError(f"--memory: {item.waived.text}")


def _is_without_gpus(
    planned: Sequence[Planned], machine: Machine, wishes: Wishes, probes: Sequence[Probe]
) -> bool:
    """Tell whether only GPUs were asked for and have no part in it here: there is none, no pair of
    them, or the probe says why. That is a result, and no slip of who asked."""
    asked = {name.partition("/")[0] for name in wishes.only}
    named = [probe for probe in probes if probe.name in asked]
    everywhere = replace(wishes, nodes=(), threads=())
    return (
        bool(named)
        and all(probe.needs_gpu for probe in named)
        and (bool(planned) or not any(any(probe.cases(machine, everywhere)) for probe in named))
    )


def _why_nothing(planned: Sequence[Planned]) -> str:
    if planned and planned[0].waived:
        return f"nothing is left to measure: {planned[0].waived.text}"
    return (
        "nothing is left to measure: no operation, node with usable CPUs, node with usable memory "
        "and thread count match what was asked (see --only, --nodes and --threads)"
    )


def _plan_probe(probe: Probe, machine: Machine, wishes: Wishes) -> Iterator[Planned]:
    representatives: dict[tuple[object, ...], tuple[Case, ...]] = {}
    for (route, *rest), table in _tables(probe, probe.cases(machine, wishes)).items():
        refused = {case: why for case in table if (why := probe.waived(case, machine))}
        waived = [
            Planned(case, probe, Priority.PAIRS, 0.0, waived=why) for case, why in refused.items()
        ]
        cases = [case for case in table if case not in refused]
        if not cases:
            yield waived[-1]  # one cell says it; the route's sweep would only repeat it
            continue
        yield from waived
        if probe.comes_late(cases[0]):
            yield from _all(probe, cases, machine, wishes, Priority.SWEEPS)
            continue
        kind = (*_class(machine, route), *rest)
        first, other = (
            (Priority.CLASSES, Priority.PAIRS)
            if probe.essential(cases[0], machine)
            else (Priority.OTHER_CLASSES, Priority.OTHER_PAIRS)
        )
        if kind not in representatives:
            representatives[kind] = tuple(cases)
            yield from _all(probe, cases, machine, wishes, first)
        elif len(cases) == 1:
            yield from _all(probe, cases, machine, wishes, other)
        else:
            yield _follow(probe, cases[-1], other, representatives[kind], machine, wishes)
            if route.source == route.target:
                yield from _all(probe, cases, machine, wishes, Priority.SWEEPS)


def _tables(
    probe: Probe, cases: Iterable[Case]
) -> dict[tuple[Route, str, tuple[tuple[str, Param], ...]], list[Case]]:
    """Group cases that differ in swept parameters alone, by route, operation and the rest."""
    tables = defaultdict(list)
    varied = {*probe.swept, "bytes"}
    for case in cases:
        fixed = tuple([item for item in case.params if item[0] not in varied])
        tables[case.route, case.operation, fixed].append(case)
    return tables


def _class(machine: Machine, route: Route) -> tuple[str, ...]:
    """Give what routes must have in common for one sweep to serve them all."""
    kinds = (getattr(place, "kind", "set") for place in (route.source, route.target))
    return (machine.locality(route.source, route.target), *kinds)


def _sharing_buffers(planned: Iterable[Planned], machine: Machine) -> tuple[Planned, ...]:
    """Take the first touch out of the estimate of a case that finds its buffer in its worker."""
    touched = set()
    shared = []
    for item in planned:
        case = item.case
        touch = 0.0 if item.waived else item.probe.cost(item.otherwise or case, machine).touch
        if touch:
            buffer = (item.priority, case.route, case.get("bytes"), case.get("pages"))
            if buffer in touched:
                item = replace(item, seconds=item.seconds - touch)
            touched.add(buffer)
        shared.append(item)
    return tuple(shared)


def _all(
    probe: Probe, cases: Iterable[Case], machine: Machine, wishes: Wishes, priority: Priority
) -> Iterator[Planned]:
    for case in cases:
        yield Planned(case, probe, priority, _seconds(probe, case, machine, wishes))


def _follow(
    probe: Probe,
    case: Case,
    priority: Priority,
    rivals: tuple[Case, ...],
    machine: Machine,
    wishes: Wishes,
) -> Planned:
    followed = case.having(**dict.fromkeys(probe.swept, BEST))
    return Planned(
        followed,
        probe,
        priority,
        _seconds(probe, case, machine, wishes),
        rivals=rivals,
        otherwise=case,
    )


def _seconds(probe: Probe, case: Case, machine: Machine, wishes: Wishes) -> float:
    cost = probe.cost(case, machine)
    sampling = cost.sample * wishes.level.samples
    return cost.touch + cost.set_up + probe.warm_up(case) + sampling
