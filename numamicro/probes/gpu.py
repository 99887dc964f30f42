"""What the probes of GPUs share: routes, where their workers run, and how a copy is checked."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Place, PlaceSet, Route, gpus_of, node
from numamicro.errors import NumamicroError
from numamicro.matrix import Sample, State
from numamicro.probes.probe import CaseFailed, Cost, Probe, windowed
from numamicro.topology import Note
from numamicro.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numamicro.case import AnyPlace, Case
    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.gpu_lab import GpuCase

COPY_BYTES = 64 * MIB
KERNEL_CAPABILITY = (7, 0)
"""Older GPUs run no kernels here: what copy engines do is measured, the rest is waived."""
WINDOW_SECONDS = 0.001
"""A sample lasts at least this long: two thousand ticks of a GPU's clock for events."""

COPY_SECONDS = 0.02
"""Large copies are timed longer, or setting up and checking would take more time than they do."""

COPY_WARM_UP_SECONDS = 0.02
"""A copy engine has no clock to rise, and its link was brought up with the context."""

# For estimates only: a slow link, so that a plan errs on the long side.
LINK_RATE = 10e9
CONTEXT_SECONDS = 0.25
"""For a worker to open a GPU and to wake it, which it does once."""

BLOCKS, THREADS = 2, 512
"""Blocks a multiprocessor, and threads a block: enough loads in flight for the fastest link."""


def gpu(index: int) -> Place:
    """Give the place of the GPU with this ordinal."""
    return Place("gpu", index)


class GpuProbe(Probe):
    """A cost that GPUs pay. Its worker is one a GPU, or one a pair of them, and runs beside them."""

    unit: ClassVar[str] = "B/s"
    needs_gpu: ClassVar[bool] = True

    def place(self, case: Case) -> AnyPlace:
        """Give the GPUs of the route."""
        parts = gpus_of(case.route.source, case.route.target)
        return parts[0] if len(parts) == 1 else PlaceSet(parts)

    def warm_up(self, case: Case) -> float:
        """Give a copy less than what runs on processors."""
        copies = case.route.mover == "copy-engine"
        return COPY_WARM_UP_SECONDS if copies else super().warm_up(case)

    def window(self, case: Case) -> float:
        """Give the seconds that a sample lasts at least."""
        return COPY_SECONDS if case.route.mover == "copy-engine" else WINDOW_SECONDS

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate filling and checking the buffers, then one pass over a slow link a sample."""
        size = case.number("bytes")
        return Cost(size / 1e9, self.window(case) + size / LINK_RATE)


def host_routes(machine: Machine, wishes: Wishes) -> Iterator[Route]:
    """Give every route from a node with memory to a GPU."""
    for source in machine.targets:
        for target in machine.gpus:
            if wishes.wants_node(source.id):
                yield Route(node(source.id), gpu(target.id), mover="copy-engine")


def peer_routes(machine: Machine, mover: str) -> Iterator[Route]:
    """Give every route from a GPU to another."""
    for source, target in permutations(machine.gpus, 2):
        yield Route(gpu(source.id), gpu(target.id), mover=mover)


def without_peers(case: Case, machine: Machine) -> Note | None:
    """Say why the GPUs of the route cannot be asked to address each other's memory."""
    for here, there in combinations(gpus_of(case.route.source, case.route.target), 2):
        if machine.gpu(here.id).mig or machine.gpu(there.id).mig:
            return Note("mig", "instances of a GPU (MIG) have no peers")
        pair = machine.gpu_pair(here, there)
        if pair and not pair.claimed:
            return Note("no-peer-access", "the driver claims no peer access between these GPUs")
    return None


def without_kernels(case: Case, machine: Machine) -> Note | None:
    """Say which GPU of the route is too old for the kernels."""
    for place in gpus_of(case.route.source, case.route.target):
        major, minor = machine.gpu(place.id).capability
        if (major, minor) < KERNEL_CAPABILITY:
            text = f"{place} is too old for the kernels (compute capability {major}.{minor})"
            return Note("no-gpu-kernels", text)
    return None


def back(route: Route) -> Route:
    """Give the route the other way."""
    return Route(route.target, route.source, route.via, route.mover)


def pair_of(route: Route) -> tuple[Place, Place]:
    """Give the two GPUs of a route.

    Raises
    ------
    NumamicroError
        It is no route between two places.
    """
    if isinstance(route.source, Place) and isinstance(route.target, Place):
        return route.source, route.target
    raise NumamicroError(f"{route} is no route between two GPUs")


def kernel_copy(
    gpus: GpuCase, mover: Place, name: str, target: int, source: int, size: int
) -> Callable[[int], list[float]]:
    """Give the function that lets a GPU's kernel pass over `size` bytes so many times."""
    from numamicro._gpu_data import copy_arguments

    function, lane = gpus.function(mover, name), gpus.lane(mover)
    grid = BLOCKS * gpus.processors(mover)

    def time(count: int) -> list[float]:
        arguments = copy_arguments(target, source, size, count)
        return gpus.time([lane.kernel(function, grid, THREADS, arguments)], 1)

    return time


def copying(
    time: Callable[[int], Sequence[float]], size: int, window: float
) -> Callable[[], Sample]:
    """Give a sampler of `size` bytes a repetition.

    `time` takes a number of repetitions and gives the seconds of each of the works side by side: the
    slowest counts.
    """
    return windowed(lambda count: Sample(max(time(count)), size * count, count), window)


def refuse_wrong(wrong: int, size: int, what: str) -> None:
    """Fail the case when words of the data are not those that were sent.

    Raises
    ------
    CaseFailed
        `wrong` is above 0.
    """
    if wrong:
        text = f"{wrong} of {size // 8} words {what} are not those that were sent"
        raise CaseFailed(State.WRONG, "data", text)
