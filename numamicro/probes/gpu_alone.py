"""What a GPU costs by itself: launching from the CPUs of each node, and reading its own memory."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Literal

from numamicro.case import Case, Route, gpus_of, node
from numamicro.matrix import Sample, State
from numamicro.probes.gpu import (
    GpuProbe,
    copying,
    gpu,
    kernel_copy,
    without_kernels,
)
from numamicro.probes.probe import CaseFailed, Cost
from numamicro.units import MIB
from numamicro.wishes import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.case import AnyPlace
    from numamicro.probes.probe import TakeSample
    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

LAUNCHES: dict[str, Literal["queue", "wait", "event"]] = {
    "queue": "queue",
    "round-trip": "wait",
    "event": "event",
}
HOST_CLOCK = "CLOCK_MONOTONIC_RAW"
REPETITIONS = 200
"""Fewer than a stream takes before the host must wait for room in it."""

READ_BYTES = 256 * MIB
L2_FACTOR = 4
SINK_BYTES, ONES_BYTES = 16, 4


class Launch(GpuProbe):
    """Seconds the CPUs of a node pay to queue an empty kernel (queue), to queue it and wait for its
    end (round-trip), and to queue an event and wait for that (event)."""

    name: ClassVar[str] = "launch"
    unit: ClassVar[str] = "s"

    def place(self, case: Case) -> AnyPlace:
        """Give the node whose CPUs launch."""
        return case.route.source

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every node with CPUs and every GPU."""
        if wishes.level is QUICK and not wishes.only:
            return
        for operation in LAUNCHES:
            if wishes.wants(self.name, operation):
                for source, target in product(machine.initiators, machine.gpus):
                    if wishes.wants_node(source.id):
                        yield Case.of(self.name, operation, Route(node(source.id), gpu(target.id)))

    def essential(self, case: Case, machine: Machine) -> bool:
        """Let what moves data come first."""
        return False

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the GPU runs no kernels; it has events all the same."""
        return None if case.operation == "event" else without_kernels(case, machine)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate 20 microseconds a launch."""
        return Cost(0.0, REPETITIONS * 20e-6)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Launch by the host's own clock: the host is what pays."""
        (place,) = gpus_of(case.route.target)
        with lab.gpus() as gpus:
            lab.note(clock=HOST_CLOCK)
            lane = gpus.lane(place)
            if case.operation == "event":
                work = lane.fill(gpus.memory(place, SINK_BYTES).address, 0, SINK_BYTES)
            else:
                work = lane.kernel(gpus.function(place, "empty"), 1, 1)
            kind = LAUNCHES[case.operation]
            yield lambda: Sample(work.launch(kind, REPETITIONS) / 1e9, REPETITIONS, REPETITIONS)


class DeviceRead(GpuProbe):
    """Bytes a second that a GPU's kernels read from its own memory, beyond its cache."""

    name: ClassVar[str] = "gpu-memory"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every GPU."""
        if wishes.wants(self.name, "read") and (wishes.level is not QUICK or wishes.only):
            for each in machine.gpus:
                route = Route(gpu(each.id), gpu(each.id), mover="sm-load")
                size = wishes.memory or max(READ_BYTES, L2_FACTOR * (each.l2_bytes or 0))
                yield Case.of(self.name, "read", route, bytes=size)

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the GPU runs no kernels."""
        return without_kernels(case, machine)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Prove that every part is read, then read zeros for the clock.

        The kernel writes its sink only where it finds that the words it read are all ones, taken
        together by exclusive or: so one word of ones among zeros must be seen wherever it is.
        """
        size = case.number("bytes")
        (place,) = gpus_of(case.route.source)
        with lab.gpus() as gpus:
            lane = gpus.lane(place)
            source, sink = gpus.memory(place, size).address, gpus.memory(place, SINK_BYTES).address
            read = kernel_copy(gpus, place, "read", sink, source, size)
            for offset in (0, size // 2, size - ONES_BYTES):
                lane.fill(source + offset, 0xFF, ONES_BYTES).do()
                lane.fill(sink, 0, SINK_BYTES).do()
                read(1)
                lane.fill(source + offset, 0, ONES_BYTES).do()
                if not any(gpus.words(place, sink, 2)):
                    text = f"the kernel did not read what was at {offset} of {size} bytes"
                    raise CaseFailed(State.WRONG, "unread", text)
            yield copying(read, size, self.window(case))
