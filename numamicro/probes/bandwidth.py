"""Bandwidth: how fast the CPUs of one place stream through memory of another."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, Place, PlaceSet, Route, node
from numamicro.matrix import Sample, State
from numamicro.probes.probe import (
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
from numamicro.units import MIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numamicro.case import AnyPlace
    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

USUAL_BYTES = 256 * MIB
# No loop wins everywhere: each operation is tried in every variant that wins somewhere, and the
# best is published.
VARIANTS = {
    "read": ("1-stream", "4-stream"),
    "write": ("1-stream", "4-stream", "nt"),
    "copy": ("1-stream", "2-stream", "nt", "movsb"),
    "triad": ("1-stream", "2-stream", "nt"),
}
_QUICK_OPERATIONS = ("read",)
# For estimates only: a slow core and a slow socket, so that a plan errs on the long side.
_CORE_RATE, _SOCKET_RATE = 8e9, 40e9


class Bandwidth(Probe):
    """Program bytes a second, by a pinned team whose threads walk slices of one buffer."""

    name: ClassVar[str] = "bandwidth"
    unit: ClassVar[str] = "B/s"
    swept: ClassVar[tuple[str, ...]] = ("threads", "variant")
    size_parameter: ClassVar[str] = "bytes"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give each operation in its variants at each thread count, on every route."""
        operations = _QUICK_OPERATIONS if wishes.level is QUICK and not wishes.only else VARIANTS
        for operation in operations:
            if wishes.wants(self.name, operation):
                yield from self._sweep(operation, machine, wishes)

    def _sweep(self, operation: str, machine: Machine, wishes: Wishes) -> Iterator[Case]:
        for route in _routes(machine, wishes):
            size = buffer_bytes(route, machine, wishes, USUAL_BYTES)
            curve = wishes.level is THOROUGH or (
                operation == "read" and route.source == route.target
            )
            for threads in thread_counts(route.source, machine, wishes, curve=curve):
                for variant in VARIANTS[operation]:
                    yield Case.of(
                        self.name,
                        operation,
                        route,
                        bytes=size,
                        pages="auto",
                        threads=threads,
                        variant=variant,
                    )

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the buffer cannot be had beyond the caches."""
        return unfit(case, machine)

    def essential(self, case: Case, machine: Machine) -> bool:
        """Reads between all nodes make the matrix; stores cost more wherever reads do."""
        places = (case.route.source, case.route.target)
        kinds = {getattr(place, "kind", "") for place in places}
        return case.operation == "read" and kinds == {"node"}

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate from a slow core: a first touch, then one pass a sample."""
        size = case.number("bytes")
        threads = case.get("threads")
        cores = threads if isinstance(threads, int) else 1
        a_pass = size / min(_CORE_RATE * cores, _SOCKET_RATE)
        return Cost(a_pass, a_pass, touch_seconds(case, machine, size))

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Fill the buffer, then pass over all of it and check the sum of its words."""
        from numamicro import _cpu

        size = case.number(self.size_parameter)
        arena = lab.arena(case.route.target, size, str(case["pages"]))
        team = lab.team(case.number("threads"))
        kernel = kernel_for(case.operation, str(case["variant"]))
        lab.note(isa=kernel.isa, kernel=kernel.name, bus_ratio=kernel.bus_ratio)
        _cpu.fill(team, arena, size, lab.seed)

        @cache
        def due(count: int) -> int:
            return _cpu.expected(team, size, kernel.name, count, lab.seed)

        def passes(count: int) -> Sample:
            if kernel.writes:
                result = _cpu.store(team, arena, size, kernel.name, count, lab.seed)
            else:
                result = _cpu.read(team, arena, size, kernel.name, count)
            elapsed, moved, total, strays = result
            if total != due(count):
                text = f"{kernel.name} gave the sum {total:#x} where {due(count):#x} was due"
                raise CaseFailed(State.WRONG, "checksum", text)
            lab.strays += strays
            return Sample(elapsed / 1e9, moved, count)

        yield self.sampler(passes, case)

    def sampler(self, passes: Callable[[int], Sample], case: Case) -> TakeSample:
        """Give what takes a sample, by a function that makes so many passes in one window."""
        return windowed(passes)


def _routes(machine: Machine, wishes: Wishes) -> Iterator[Route]:
    """Give node to node first, then what lies above and below the node.

    Packages only where one holds several nodes, caches only where a node holds several: elsewhere
    they are the nodes again.
    """
    yield from node_routes(machine, wishes)
    if wishes.level is QUICK:
        return
    initiators = [node(each.id) for each in machine.initiators if wishes.wants_node(each.id)]
    targets = tuple(node(each.id) for each in machine.targets if wishes.wants_node(each.id))
    if len(targets) > 1:
        yield from (Route(each, PlaceSet(targets)) for each in initiators)
    if not wishes.nodes and len(initiators) > len(machine.packages):
        packages = [Place("package", index) for index in machine.packages]
        usable = [each for each in packages if machine.memory_nodes(each)]
        yield from (Route(source, target) for source in packages for target in usable)
    for each in initiators:
        cpus = set(machine.usable_cpus(each))
        llcs = sorted({cpu.llc for cpu in machine.cpus if cpu.id in cpus and cpu.llc is not None})
        if each in targets and len(llcs) > 1:
            yield from (Route(Place("llc", llc), each) for llc in llcs)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A loop of the native side. `bus_ratio` is bus bytes over program bytes, in the model that a
    plain store first fetches the line it writes to."""

    name: str
    isa: str
    writes: bool
    bus_ratio: float


def thread_counts(
    source: AnyPlace, machine: Machine, wishes: Wishes, *, curve: bool = True
) -> list[int]:
    """Give the team sizes to try on an initiator: 1 and every core, for a curve also the powers of
    2 between and every CPU.

    The counts beyond the cores use SMT siblings.
    """
    cpus, cores = len(machine.usable_cpus(source)), machine.cores(source)
    if wishes.threads:
        return [count for count in sorted(set(wishes.threads)) if count <= cpus]
    if wishes.level is QUICK or not curve:
        return sorted({1, cores})
    return sorted({1, cores, cpus} | {2**power for power in range(1, cores.bit_length())} - {0})


def kernel_for(operation: str, variant: str) -> Kernel:
    """Give the loop of the widest instruction set that this CPU runs.

    Raises
    ------
    CaseFailed
        This CPU runs no loop of the operation in that variant.
    """
    from numamicro import _cpu

    wanted = f"{operation}-{variant.removesuffix('-stream')}-"
    for name, isa, _, reads, writes, bus in _cpu.kernels():
        if name.startswith(wanted):
            return Kernel(name, isa, writes > 0, bus / (reads + writes))
    raise CaseFailed(State.WAIVED, "no-kernel", f"this CPU runs no {variant} loop of {operation}")
