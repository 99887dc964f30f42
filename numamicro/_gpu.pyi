"""The GPUs, through NVIDIA's driver alone: memory, copies, kernels, and how long they take.

Each function does one thing and either returns or raises :class:`numamicro.errors.GpuError`, with
the driver's own name for what went wrong. What is open stays so until it is closed: nothing is given
back behind the caller's back. A lane serves one caller at a time.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict, final

class _Facts(TypedDict):
    """What the driver tells of a GPU: bytes, counts, and -1 for an unknown host node."""

    name: str
    pci: str
    uuid: str
    memory: int
    capability: list[int]
    processors: int
    l2_bytes: int
    copy_engines: int
    time_limit: bool
    integrated: bool
    compute_mode: int
    host_node: int

@final
class Driver:
    """The driver's library, loaded once; none of it is called before :meth:`start`.

    Parameters
    ----------
    library : str
        Looked for as the dynamic loader does.

    Attributes
    ----------
    simulation : str or None
        What a stand-in simulates; None for NVIDIA's own driver.

    Raises
    ------
    GpuError
        There is none, or it is too old.
    """

    def __init__(self, library: str = "libcuda.so.1") -> None: ...
    @property
    def simulation(self) -> str | None: ...
    def start(self) -> tuple[int, int]:
        """Start it; give the CUDA it speaks (12080 is 12.8) and the number of GPUs it shows."""

    def facts(self, ordinal: int) -> _Facts:
        """Give what it tells of a GPU."""

    def peer(self, source: int, target: int) -> tuple[bool, bool]:
        """Give whether it claims that a GPU may address another's memory, and do sums there."""

@final
class Context:
    """A GPU in use by this process: its primary context."""

    def __init__(self, driver: Driver, ordinal: int) -> None: ...
    @property
    def driver(self) -> Driver: ...
    @property
    def ordinal(self) -> int: ...
    @property
    def free_bytes(self) -> int:
        """Bytes of its memory that nobody uses."""

    def reach(self, peer: Context, on: bool) -> None:
        """Let it address the memory of a peer, or no longer."""

    def close(self) -> None: ...

@final
class DeviceMemory:
    """Memory of a GPU; `address` is 0 once closed."""

    def __init__(self, context: Context, size: int) -> None: ...
    @property
    def context(self) -> Context: ...
    @property
    def size(self) -> int: ...
    @property
    def address(self) -> int: ...
    def close(self) -> None: ...

@final
class Pinned:
    """Pages of the caller's, pinned where they are; GPUs address them by `device`."""

    def __init__(self, context: Context, address: int, size: int) -> None: ...
    @property
    def context(self) -> Context: ...
    @property
    def size(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def device(self) -> int: ...
    def close(self) -> None: ...

@final
class HostMemory:
    """Pinned memory that the driver allots where the calling thread's policy says."""

    def __init__(self, context: Context, size: int, *, write_combined: bool) -> None: ...
    @property
    def context(self) -> Context: ...
    @property
    def size(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def device(self) -> int: ...
    def close(self) -> None: ...

@final
class Module:
    """Compiled kernels, loaded into a context."""

    def __init__(self, context: Context, image: bytes) -> None: ...
    @property
    def context(self) -> Context: ...
    def function(self, name: str) -> Function:
        """Give the kernel of that name."""

    def close(self) -> None: ...

@final
class Function:
    """One kernel."""

@final
class Lane:
    """A queue of a GPU: what is queued in one goes in order, what is in several side by side."""

    def __init__(self, context: Context) -> None: ...
    @property
    def context(self) -> Context: ...
    def wait(self) -> None:
        """Wait until all that was queued is done."""

    def to_device(self, target: int, source: int, size: int) -> Work:
        """Give the copy from a host address to a device's."""

    def to_host(self, target: int, source: int, size: int) -> Work:
        """Give the copy from a device's address to the host's."""

    def peer(self, target: DeviceMemory, source: DeviceMemory, size: int) -> Work:
        """Give the copy from one GPU's memory to another's."""

    def fill(self, target: int, value: int, size: int) -> Work:
        """Give the filling of a device's memory with one byte's value."""

    def kernel(
        self, function: Function, grid: int, block: int, arguments: bytes | None = None
    ) -> Work:
        """Give the launch of a kernel of `grid` blocks, each of `block` threads."""

    def close(self) -> None: ...

@final
class Work:
    """Something that a lane can do, once or often."""

    @property
    def lane(self) -> Lane: ...
    def start(self, repetitions: int) -> None:
        """Queue it so many times, and do not wait."""

    def do(self) -> None:
        """Do it once and wait until it is done."""

    def repeated(self, repetitions: int) -> Graph:
        """Give a graph that does it so many times, one after the other."""

    def launch(self, kind: Literal["queue", "wait", "event"], repetitions: int) -> int:
        """Give the nanoseconds that the host takes to queue it, or to wait for it too.

        With ``event`` an event is queued in its place and waited for.
        """

@final
class Graph:
    """Works recorded as one, and the work that does them."""

    def __init__(self, repeated: Work, repetitions: int) -> None: ...
    @property
    def work(self) -> Work: ...
    def close(self) -> None: ...

def time_each(
    works: Sequence[Work], repetitions: int, hold: Work, hold_repetitions: int
) -> list[float]:
    """Do each of the works so many times, side by side; give the nanoseconds that each took.

    Each work has a lane of its own, and `hold` that of the first: all begin when it is done, as
    often as `hold_repetitions` says.
    """
