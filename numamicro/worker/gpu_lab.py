"""What a probe works with on the GPUs: contexts and lanes kept, memory given back after each case."""

from __future__ import annotations

import ctypes
import math
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from numamicro.errors import GpuError
from numamicro.matrix import State
from numamicro.probes.gpu import KERNEL_CAPABILITY
from numamicro.probes.probe import CaseFailed
from numamicro.units import MIB, bytes_text
from numamicro.worker.gpu_link import link_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numamicro._cpu import Arena
    from numamicro._gpu import (
        Context,
        DeviceMemory,
        Driver,
        Function,
        HostMemory,
        Lane,
        Module,
        Pinned,
        Work,
    )
    from numamicro.case import Place
    from numamicro.topology import Gpu, Machine

GPU_SHARE = 0.8
"""Most of a GPU's free memory that one buffer may take."""

HOLD_BYTES = 4 * MIB
"""Copies of this much keep the lanes waiting until all work is queued."""

SCRATCH_BYTES = 2 * HOLD_BYTES
"""Pinned memory for data on their way to a GPU or back, part by part: to pin takes far longer than
to copy."""

QUEUE_SECONDS = 4e-6
"""What the host takes to queue one work, or a little more."""

CONTROL_BYTES = 4096

WAKE_SECONDS = 0.1
"""A GPU at rest lowers its clocks and its PCIe link; copies for so long at most bring them up."""


class Closable(Protocol):
    """What must be given back."""

    def close(self) -> None: ...


Held = TypeVar("Held", bound=Closable)


@dataclass(frozen=True, slots=True)
class _Device:
    """A GPU that is open: its context, its lanes, and what a copy that holds a lane moves."""

    context: Context
    lanes: list[Lane]
    source: int
    target: DeviceMemory
    hold_seconds: float = 0.0

    def hold(self, lane: Lane) -> Work:
        """Give the copy that keeps a lane busy while work is queued behind it."""
        return lane.to_device(self.target.address, self.source, HOLD_BYTES)


class GpuLab:
    """The GPUs that one worker uses."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._driver: Driver | None = None
        self._modules: dict[Place, Module] = {}
        self._pinned: dict[Arena, Pinned] = {}
        self._scratch = 0
        self._devices: dict[Place, _Device] = {}
        self._open = ExitStack()

    def close(self) -> None:
        """Give everything back to the driver."""
        self._devices.clear()
        self._pinned.clear()
        self._open.close()

    @contextmanager
    def case(self) -> Iterator[GpuCase]:
        """Give what one case takes from the GPUs; at its end all of that is given back."""
        with ExitStack() as taken:
            yield GpuCase(self, taken)

    def context(self, gpu: Place) -> Context:
        """Give the context of a GPU."""
        return self._device(gpu).context

    def lane(self, gpu: Place, number: int = 0) -> Lane:
        """Give one of the GPU's lanes: what is queued in different ones runs side by side."""
        from numamicro._gpu import Lane

        device = self._device(gpu)
        while len(device.lanes) <= number:
            device.lanes.append(self._keep(Lane(device.context)))
        return device.lanes[number]

    def time(self, works: Sequence[Work], repetitions: int) -> list[float]:
        """Give the seconds that each of the works took, all of them side by side."""
        from numamicro._gpu import time_each

        first = works[0].lane
        device = next(each for each in self._devices.values() if first in each.lanes)
        holds = 1 + math.ceil(len(works) * repetitions * QUEUE_SECONDS / device.hold_seconds)
        took = time_each(works, repetitions, device.hold(first), holds)
        return [nanoseconds / 1e9 for nanoseconds in took]

    def function(self, gpu: Place, name: str) -> Function:
        """Give a kernel, ready to run on a GPU.

        Raises
        ------
        CaseFailed
            This package has no kernels for it.
        """
        from numamicro._gpu import Module
        from numamicro._gpu_data import images

        if gpu not in self._modules:
            capability = self.machine.gpu(gpu.id).capability
            image = image_for(capability, images())
            if image is None:
                text = f"no kernels for {gpu} (compute capability {capability[0]}.{capability[1]})"
                raise CaseFailed(State.WAIVED, "no-gpu-kernels", text)
            self._modules[gpu] = self._keep(Module(self.context(gpu), image))
        return self._modules[gpu].function(name)

    def scratch(self, gpu: Place) -> int:
        """Give the address of pinned memory for data on their way to a GPU or back."""
        return self._device(gpu).source

    def pinned(self, gpu: Place, arena: Arena) -> Pinned:
        """Pin an arena, which it then is for every GPU and until :meth:`unpin`."""
        from numamicro._gpu import Pinned

        if arena not in self._pinned:
            pinned = Pinned(self.context(gpu), arena.address, arena.size)
            self._pinned[arena] = self._keep(pinned)
        return self._pinned[arena]

    def unpin(self, arena: Arena) -> None:
        """Let the kernel have an arena's pages again; for one that is not pinned do nothing."""
        if arena in self._pinned:
            _quietly(self._pinned.pop(arena).close)

    def _device(self, gpu: Place) -> _Device:
        if gpu not in self._devices:
            self._devices[gpu] = self._woken(self._opened(gpu), self.machine.gpu(gpu.id))
        return self._devices[gpu]

    def _opened(self, gpu: Place) -> _Device:
        from numamicro import _gpu

        if self._driver is None:
            # Kernels that wait for each other deadlock where the driver loads one at its launch, or
            # lets the host wait for each.
            os.environ["CUDA_MODULE_LOADING"] = "EAGER"
            os.environ.pop("CUDA_LAUNCH_BLOCKING", None)
            self._driver = _gpu.Driver()
            self._driver.start()
        context = self._keep(_gpu.Context(self._driver, int(gpu.id)))
        lane = self._keep(_gpu.Lane(context))
        target = self._keep(_gpu.DeviceMemory(context, HOLD_BYTES))
        if not self._scratch:
            self._scratch = self._pinned_scratch(context)
        return _Device(context, [lane], self._scratch, target)

    def _pinned_scratch(self, context: Context) -> int:
        from numamicro import _cpu, _gpu
        from numamicro._gpu_data import pattern_write

        arena = self._keep(_cpu.Arena(SCRATCH_BYTES, huge=True))
        pattern_write(arena.address, SCRATCH_BYTES, 0, seed=0)
        return self._keep(_gpu.Pinned(context, arena.address, SCRATCH_BYTES)).address

    def _woken(self, device: _Device, gpu: Gpu) -> _Device:
        """Keep a GPU busy until its link is up, and see how long a hold lasts."""
        from numamicro._gpu import time_each

        hold = device.hold(device.lanes[0])
        end = time.monotonic() + WAKE_SECONDS
        awake = False
        while not awake and time.monotonic() < end:
            hold.start(1)
            found = link_now(gpu)
            hold.lane.wait()
            awake = bool(found and gpu.link and not gpu.link.exceeds(*found))
        (nanoseconds,) = time_each([hold], 1, hold, 1)
        return replace(device, hold_seconds=nanoseconds / 1e9)

    def _keep(self, thing: Held) -> Held:
        return keep(self._open, thing)


class GpuCase:
    """What one case has of the GPUs, until it ends."""

    def __init__(self, lab: GpuLab, taken: ExitStack) -> None:
        self._lab = lab
        self._taken = taken

    def lane(self, gpu: Place, number: int = 0) -> Lane:
        """Give one of the GPU's lanes: what is queued in different ones runs side by side."""
        return self._lab.lane(gpu, number)

    def time(self, works: Sequence[Work], repetitions: int) -> list[float]:
        """Give the seconds that each of the works took, all of them side by side."""
        return self._lab.time(works, repetitions)

    def memory(self, gpu: Place, size: int) -> DeviceMemory:
        """Give memory of a GPU, every byte 0.

        Raises
        ------
        CaseFailed
            The GPU has not that much to spare.
        """
        from numamicro._gpu import DeviceMemory

        context = self._lab.context(gpu)
        free = context.free_bytes
        if size > free * GPU_SHARE:
            text = f"{bytes_text(size)} is more than {GPU_SHARE:.0%} of {bytes_text(free)} free"
            raise CaseFailed(State.WAIVED, "too-little-memory", f"{text} on {gpu}")
        memory = keep(self._taken, DeviceMemory(context, size))
        self.lane(gpu).fill(memory.address, 0, size).do()
        return memory

    def send(
        self, write: Callable[[int, int, int], None], gpu: Place, address: int, size: int
    ) -> None:
        """Let `write` fill host memory part by part, and copy that to a GPU's.

        `write` takes an address, the part's bytes, and where in the whole the part begins.
        """
        host, lane = self._lab.scratch(gpu), self.lane(gpu)
        for begin, part in _parts(size):
            write(host, part, begin)
            lane.to_device(address + begin, host, part).do()

    def wrong(
        self, count: Callable[[int, int, int], int], gpu: Place, address: int, size: int
    ) -> int:
        """Give what `count` finds wrong in a GPU's memory, part by part as :meth:`send` has them."""
        return sum(
            count(self.fetch(gpu, address + begin, part), part, begin)
            for begin, part in _parts(size)
        )

    def fetch(self, gpu: Place, address: int, size: int) -> int:
        """Copy a GPU's memory, `SCRATCH_BYTES` at most, to the host; give its address there, good
        until the next copy."""
        host = self._lab.scratch(gpu)
        self.lane(gpu).to_host(host, address, size).do()
        return host

    def words(self, gpu: Place, address: int, count: int) -> list[int]:
        """Give words of 8 bytes of a GPU's memory."""
        host = self.fetch(gpu, address, 8 * count)
        return [*(ctypes.c_uint64 * count).from_address(host)]

    def processors(self, gpu: Place) -> int:
        """Count the multiprocessors of a GPU; 1 where the driver does not."""
        return self._lab.machine.gpu(gpu.id).processors or 1

    def link(self, gpu: Place) -> tuple[int, int] | None:
        """Give generation and width of its PCIe link at this moment; None where nobody tells."""
        return link_now(self._lab.machine.gpu(gpu.id))

    def function(self, gpu: Place, name: str) -> Function:
        """Give a kernel, ready to run on a GPU."""
        return self._lab.function(gpu, name)

    def repeated(self, work: Work, repetitions: int) -> Work:
        """Give a graph that does a work so many times, as a work of its own."""
        return keep(self._taken, work.repeated(repetitions)).work

    def pinned(self, gpu: Place, arena: Arena) -> Pinned:
        """Give an arena pinned, so that every GPU can address it; it stays so for later cases."""
        return self._lab.pinned(gpu, arena)

    def unpin(self, arena: Arena) -> None:
        """Let the kernel have an arena's pages again, should an earlier case have pinned them."""
        self._lab.unpin(arena)

    def host_memory(self, gpu: Place, size: int, *, write_combined: bool) -> HostMemory:
        """Give pinned memory of the driver's own making, where this thread's policy puts it."""
        from numamicro._gpu import HostMemory

        context = self._lab.context(gpu)
        return keep(self._taken, HostMemory(context, size, write_combined=write_combined))

    def control(self, gpu: Place) -> Pinned:
        """Give a pinned page, zeroed, by which kernels and host tell each other to give up."""
        from numamicro._cpu import Arena
        from numamicro._gpu import Pinned

        arena = keep(self._taken, Arena(CONTROL_BYTES, huge=False))
        ctypes.memset(arena.address, 0, CONTROL_BYTES)
        return keep(self._taken, Pinned(self._lab.context(gpu), arena.address, CONTROL_BYTES))

    def reach(self, here: Place, there: Place) -> None:
        """Let two GPUs address each other's memory until the case ends.

        Raises
        ------
        CaseFailed
            One of them has as many peers as it can have at once.
        """
        for one, other in ((here, there), (there, here)):
            context, peer = self._lab.context(one), self._lab.context(other)
            try:
                context.reach(peer, True)
            except GpuError as error:
                if error.name != "CUDA_ERROR_TOO_MANY_PEERS":
                    raise
                raise CaseFailed(State.WAIVED, "too-many-peers", str(error)) from error
            self._taken.callback(_quietly, context.reach, peer, False)


def _parts(size: int) -> Iterator[tuple[int, int]]:
    """Give where each part of so many bytes begins, and its bytes."""
    for begin in range(0, size, SCRATCH_BYTES):
        yield begin, min(SCRATCH_BYTES, size - begin)


def image_for(capability: tuple[int, int], images: Mapping[str, bytes]) -> bytes | None:
    """Give the kernels for a GPU: machine code of its own major version, else what the driver can
    compile itself; None where there is neither."""
    major, minor = capability
    for below in range(minor, -1, -1):
        if image := images.get(f"sm_{major}{below}"):
            return image
    return images.get("compute_70") if capability >= KERNEL_CAPABILITY else None


def keep(stack: ExitStack, thing: Held) -> Held:
    """Close a thing when the stack is closed.

    A context that broke down in the work cannot give its memory back; the error of the work tells.
    """
    stack.callback(_quietly, thing.close)
    return thing


def _quietly(give_back: Callable[..., None], *arguments: object) -> None:
    with suppress(GpuError):
        give_back(*arguments)
