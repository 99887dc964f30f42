"""The native side: memory that is placed, threads that are pinned, and the timed loops.

Each function does one thing and either returns or raises OSError; what to measure, how often and
what to make of it is decided above. An arena or a team serves one caller at a time.
"""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, final

if sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    from typing_extensions import Buffer

@final
class Arena(Buffer):
    """Anonymous memory whose policy is set before anything touches it.

    Parameters
    ----------
    size : int
        Bytes. The address is a multiple of 2 MiB.
    huge : bool
        Ask the kernel for huge pages, or for none. What it gave is seen in smaps after the touch.
    policy : str
        ``none`` (the process's own), ``bind`` or ``interleave``.
    nodes : sequence of int
        Os indices of the nodes to bind to or to interleave over; empty for ``none``.

    Attributes
    ----------
    address, size : int
        0 once closed.
    bound : bool
        Whether a policy was set.

    Raises
    ------
    OSError
        ENOMEM; EINVAL when any of the nodes does not exist, has no memory or is not allowed;
        EPERM where a container forbids setting the policy.
    """

    def __init__(
        self,
        size: int,
        *,
        huge: bool,
        policy: Literal["none", "bind", "interleave"] = "none",
        nodes: Sequence[int] = (),
    ) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def bound(self) -> bool: ...
    def census(self, offset: int, length: int, step: int) -> dict[int, int]:
        """Ask the kernel where the pages at offset, offset + step, ... below offset + length are.

        Returns
        -------
        dict
            Node id -> pages looked at. A negative key is -errno: the kernel could not place these
            pages (-ENOENT or -EFAULT, by its version: never touched).
        """

    def close(self) -> None:
        """Give the memory back. OSError (EBUSY) while a memoryview looks at it."""

    def __enter__(self) -> Arena: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    if sys.version_info >= (3, 12):
        def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Team:
    """Threads that stay until closed, the i-th pinned to ``cpus[i]``; a CPU may come twice.

    Raises
    ------
    OSError
        EINVAL when a CPU does not exist, is offline or is not allowed, or when none is given.
    """

    def __init__(self, cpus: Sequence[int]) -> None: ...
    @property
    def cpus(self) -> tuple[int, ...]: ...
    def close(self) -> None:
        """End the threads."""

    def __enter__(self) -> Team: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...

def fill(team: Team, arena: Arena, length: int, seed: int) -> int:
    """Write every 64-bit word of the first `length` bytes, each thread its own slice.

    The data are neither zero nor constant, and the same for the same seed whatever the team.

    Parameters
    ----------
    length : int
        Bytes; a multiple of 8, with at least 4 KiB for each thread when there are several.
    seed : int
        From 0 to 2**64 - 1.

    Returns
    -------
    int
        The sum of all words modulo 2**64.
    """

def read(
    team: Team, arena: Arena, length: int, kernel: str, repetitions: int
) -> tuple[int, int, int, int]:
    """Read the first `length` bytes `repetitions` times, each thread its own slice.

    Parameters
    ----------
    length : int
        Bytes, as for `fill`.
    kernel : str
        A name from `kernels` that writes nothing. OSError (ENOTSUP) otherwise.

    Returns
    -------
    elapsed : int
        Nanoseconds from the first thread's start to the last one's end.
    bytes : int
        What was truly read.
    checksum : int
        The sum of all words read modulo 2**64: the buffer's own times `repetitions`, or the data
        are wrong.
    strays : int
        Involuntary context switches inside the window, plus threads found off their CPU after it.
    """

def store(
    team: Team, arena: Arena, length: int, kernel: str, repetitions: int, seed: int
) -> tuple[int, int, int, int]:
    """Write to a buffer that was filled with `seed`, each thread within its own slice.

    A slice holds the arrays that the kernel reads and, behind them, the one that it writes:
    ``copy`` makes it the first, ``triad`` the first plus twice the second (as 64-bit integers),
    ``write`` a ramp that begins with `seed`. Filling once serves any number of calls, since the
    arrays read stay as they are. The array written is summed and spoiled after the timed part.

    Parameters
    ----------
    length : int
        Bytes, as for `fill`.
    kernel : str
        A name from `kernels` that writes. OSError (ENOTSUP) otherwise.
    repetitions : int
        At least 1, or nothing is written and the checksum is that of older data.

    Returns
    -------
    elapsed : int
        Nanoseconds, as for `read`.
    bytes : int
        What the program truly read and wrote. Up to 1.6 % of the buffer lies between the arrays
        unused.
    checksum : int
        The sum of the words written; `expected` says what it must be.
    strays : int
        As for `read`.
    """

def expected(team: Team, length: int, kernel: str, repetitions: int, seed: int) -> int:
    """Compute the checksum that `read` or `store` must return for a buffer filled with `seed`.

    No buffer is looked at. It is the same for every call with the same arguments and team size.
    """

def link(team: Team, arena: Arena, length: int, line: int, seed: int) -> None:
    """Link the lines of the first `length` bytes into one cycle in the seed's random order.

    Parameters
    ----------
    length, line : int
        Bytes; the cycle has ``length // line`` lines, and `line` is a multiple of 8.
    """

def position(length: int, line: int, seed: int, step: int) -> int:
    """Give the byte offset of the line that the cycle visits at `step`."""

def chase(
    team: Team, arena: Arena, length: int, line: int, seed: int, start: int, steps: int
) -> tuple[int, int, int]:
    """Follow `steps` links of a linked buffer, each load waiting for the one before.

    Parameters
    ----------
    team : Team
        Of one thread.
    start : int
        The step of the cycle to begin at; go on where the last walk ended, or its lines are
        cached.

    Returns
    -------
    elapsed : int
        Nanoseconds.
    offset : int
        Where the walk ended, in bytes: ``position(length, line, seed, start + steps)``, or the
        links are wrong.
    strays : int
        As for `read`.
    """

def kernels() -> list[tuple[str, str, int, int, int, int]]:
    """Give what this CPU can run, widest vectors first.

    Returns
    -------
    list of (name, isa, streams, read, written, bus)
        The name is operation-variant-isa: read, write, copy or triad; 1 or 4 streams of plain
        accesses, nt (non-temporal stores) or movsb. `streams` places of an array are walked in
        step. `read` and `written` count arrays: of the bytes that a call reports, read / (read +
        written) were read. `bus` / (read + written) of them crossed the memory bus, in the model
        that a plain store first fetches its line.
    """
