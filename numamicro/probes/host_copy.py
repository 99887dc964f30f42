"""Host copies: how fast a GPU's copy engine moves data from and to the memory of each node."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, Place, PlaceSet, Route, gpus_of, node
from numamicro.errors import NumamicroError
from numamicro.matrix import Sample
from numamicro.probes.gpu import (
    COPY_BYTES,
    WINDOW_SECONDS,
    GpuProbe,
    back,
    copying,
    gpu,
    host_routes,
    refuse_wrong,
)
from numamicro.probes.probe import Cost, windowed
from numamicro.topology import Note
from numamicro.units import KIB, MIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numamicro.probes.probe import TakeSample
    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.gpu_lab import GpuCase
    from numamicro.worker.lab import Lab

WAYS = {"h2d": ("h2d",), "d2h": ("d2h",), "both": ("h2d", "d2h")}
_QUICK_OPERATIONS = ("h2d", "d2h")

KINDS = ("pinned", "driver-pinned", "write-combined", "pageable")
"""Host memory: placed by us and then pinned, what cuMemHostAlloc makes, the same without caching,
and not pinned at all, so that the driver copies it once more."""

TRANSFERS = tuple(4 * KIB << 2 * step for step in range(8))
SMALL_BYTES = 64
SIZE_SECONDS = 0.006

LEAST_BYTES = 2 * MIB
"""Of an arena: each thread that fills it needs its share."""


class HostCopy(GpuProbe):
    """Bytes a second between pages of a node and a GPU: to it, from it, or both at once."""

    name: ClassVar[str] = "host-copy"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give each direction between each node and each GPU; if thorough, each kind of memory."""
        operations = _QUICK_OPERATIONS if wishes.level is QUICK and not wishes.only else (*WAYS,)
        for operation in operations:
            for route in self.routes(operation, machine, wishes):
                for kind in KINDS if wishes.level is THOROUGH else KINDS[:1]:
                    size = wishes.memory or COPY_BYTES
                    yield Case.of(self.name, operation, route, bytes=size, memory=kind)

    def essential(self, case: Case, machine: Machine) -> bool:
        """Let pinned memory come before other kinds."""
        return case["memory"] == KINDS[0]

    def routes(self, operation: str, machine: Machine, wishes: Wishes) -> Iterator[Route]:
        """Give the routes of an operation, where it is wanted: as the data go."""
        if wishes.wants(self.name, operation):
            for route in host_routes(machine, wishes):
                yield back(route) if operation == "d2h" else route

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Copy and check once, then copy for the clock, then check what came last."""
        with copies(case, lab, case.number("bytes"), str(case["memory"])) as (time, size):
            yield copying(time, size, self.window(case))


class HostCopySize(HostCopy):
    """Bytes a second of copies of every size, one after the other."""

    name: ClassVar[str] = "host-copy-size"
    late: ClassVar[bool] = True

    def window(self, case: Case) -> float:
        """Give less than for a large copy: a lane is held as long as the host takes to queue them."""
        return SIZE_SECONDS

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give each size on each route, if thorough or asked for."""
        if wishes.level is THOROUGH or wishes.only:
            for operation in _QUICK_OPERATIONS:
                for route in self.routes(operation, machine, wishes):
                    for size in TRANSFERS:
                        yield Case.of(self.name, operation, route, transfer=size, memory="pinned")

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate as for one large copy."""
        return super().cost(case.having(bytes=case.number("transfer")), machine)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Do as for one large copy."""
        with copies(case, lab, case.number("transfer")) as (time, size):
            yield copying(time, size, self.window(case))


class HostLatency(HostCopy):
    """Seconds for a copy so small that nothing but its start counts."""

    name: ClassVar[str] = "host-latency"
    unit: ClassVar[str] = "s"

    def window(self, case: Case) -> float:
        """Give no more than it takes to tell: many queued copies hold a lane for long."""
        return WINDOW_SECONDS

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give each direction between each node and each GPU."""
        if wishes.level is not QUICK or wishes.only:
            for operation in _QUICK_OPERATIONS:
                for route in self.routes(operation, machine, wishes):
                    yield Case.of(self.name, operation, route, bytes=SMALL_BYTES, memory="pinned")

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Copy and check as large copies are, and count copies in place of bytes."""
        with copies(case, lab, SMALL_BYTES) as (time, _):
            window = self.window(case)
            yield windowed(lambda count: Sample(max(time(count)), count, count), window)


class HostCopyTogether(HostCopy):
    """Bytes a second of several GPUs at once, each with a buffer on the node next to it.

    All GPUs of the machine, and each two that share a PCIe switch: what a model that is loaded, or
    kept in host memory, meets. Every GPU copies as much, and the slowest counts.
    """

    name: ClassVar[str] = "host-copy-together"
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give both directions for every set of GPUs, if thorough or asked for."""
        if wishes.level is not THOROUGH and not wishes.only:
            return
        size = wishes.memory or COPY_BYTES
        for members in _groups(machine):
            gpus = PlaceSet(tuple(gpu(index) for index in members))
            homes = sorted({home(each, machine) for each in gpus.places})
            if not all(wishes.wants_node(int(each.id)) for each in homes):
                continue
            nodes = homes[0] if len(homes) == 1 else PlaceSet(tuple(homes))
            route = Route(nodes, gpus, mover="copy-engine")
            for operation in _QUICK_OPERATIONS:
                if wishes.wants(self.name, operation):
                    way = back(route) if operation == "d2h" else route
                    yield Case.of(self.name, operation, way, bytes=size, memory="pinned")


@contextmanager
def copies(
    case: Case, lab: Lab, size: int, kind: str = "pinned"
) -> Iterator[tuple[Callable[[int], list[float]], int]]:
    """Give the function that times the copies of a case side by side, and the bytes of all of them.

    Each copies once before and is checked, and once more at the end.
    """
    with lab.gpus() as gpus:
        flows = [
            Flow(way, host, to, size, kind, lab, gpus) for way, host, to in _ends(case, lab.machine)
        ]
        for flow in flows:
            flow.work.start(1)
            _note_link(flow, lab, gpus)
            flow.work.lane.wait()
            flow.check()
            flow.clear()
        works = [flow.work for flow in flows]
        yield lambda count: gpus.time(works, count), size * len(works)
        for flow in flows:
            flow.check()


def _note_link(flow: Flow, lab: Lab, gpus: GpuCase) -> None:
    """Record how a GPU's link is trained while a copy is under way: at rest it may be slower."""
    found = gpus.link(flow.gpu)
    if found is None:
        return
    generation, width = found
    lab.note(pcie_generation=generation, pcie_width=width)
    link = lab.machine.gpu(flow.gpu.id).link
    if link and link.exceeds(generation, width):
        text = (
            f"the PCIe link of {flow.gpu} stays at generation {generation} x{width} under load, "
            f"where {link.max_generation} x{link.max_width} is possible: look at slot, riser and "
            "BIOS"
        )
        lab.warn(Note("slow-link", text))


def _ends(case: Case, machine: Machine) -> Iterator[tuple[str, Place, Place]]:
    """Give way, node and GPU of each copy of a case: on a GPU of several it is the nearest node."""
    gpus = gpus_of(case.route.source, case.route.target)
    for each in gpus:
        for way in WAYS[case.operation]:
            yield way, node_of(case.route) if len(gpus) == 1 else home(each, machine), each


def node_of(route: Route) -> Place:
    """Give the node of a route between a node and a GPU."""
    for end in (route.source, route.target):
        if isinstance(end, Place) and end.kind == "node":
            return end
    raise NumamicroError(f"{route} is no route between a node and a GPU")


def home(place: Place, machine: Machine) -> Place:
    """Give the node next to a GPU, where memory can be had there, else the first that has some."""
    targets = [each.id for each in machine.targets]
    next_to = machine.gpu(place.id).host_node
    return node(next_to if next_to in targets else targets[0])


def _groups(machine: Machine) -> list[tuple[int, ...]]:
    """Give all GPUs together, and each two behind one PCIe switch."""
    everyone = tuple(each.id for each in machine.gpus)
    pairs = [pair.gpus for pair in machine.gpu_pairs if pair.level in ("PIX", "PXB")]
    return [group for group in dict.fromkeys([*pairs, everyone]) if len(group) > 1]


class Flow:
    """One copy between a node and a GPU, with its own buffers and its own lane."""

    def __init__(
        self, way: str, host: Place, to: Place, size: int, kind: str, lab: Lab, gpus: GpuCase
    ) -> None:
        from numamicro._gpu_data import pattern_write

        self._gpus, self.gpu, self._size, self._seed = gpus, to, size, lab.seed
        self._to_device = way == "h2d"
        # Each way has an engine of its own, so that both can run at once.
        self._lane = gpus.lane(to, 0 if self._to_device else 1)
        self._host = _host_memory(kind, host, to, size, lab, gpus)
        self._device = gpus.memory(to, size).address
        if self._to_device:
            self.work = self._lane.to_device(self._device, self._host, size)
            pattern_write(self._host, size, 0, seed=lab.seed)
        else:
            self.work = self._lane.to_host(self._host, self._device, size)
            gpus.send(partial(pattern_write, seed=lab.seed), to, self._device, size)
        self.clear()

    def clear(self) -> None:
        """Make the target hold nothing of what is sent."""
        from numamicro._gpu_data import pattern_write

        if self._to_device:
            self._lane.fill(self._device, 0, self._size).do()
        else:
            pattern_write(self._host, self._size, 0, seed=self._seed + 1)

    def check(self) -> None:
        """Look at what arrived, on the side that it belongs to."""
        from numamicro._gpu_data import pattern_wrong

        count = partial(pattern_wrong, seed=self._seed)
        if self._to_device:
            wrong = self._gpus.wrong(count, self.gpu, self._device, self._size)
        else:
            wrong = count(self._host, self._size, 0)
        where = f"on {self.gpu}" if self._to_device else "on the host"
        refuse_wrong(wrong, self._size, where)


def _host_memory(kind: str, host: Place, to: Place, size: int, lab: Lab, gpus: GpuCase) -> int:
    """Give the address of memory of a kind on a node, its pages to be asked for with the case's."""
    if kind in ("pinned", "pageable"):
        arena = lab.arena(host, max(size, LEAST_BYTES), "auto")
        if kind == "pinned":
            return gpus.pinned(to, arena).address
        gpus.unpin(arena)
        return arena.address
    with lab.placed_on(host):
        made = gpus.host_memory(to, size, write_combined=kind == "write-combined")
    lab.watch(host, made.address, size)
    return made.address
