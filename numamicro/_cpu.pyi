"""The native side: memory that is placed, threads that are pinned, and the timed loops.

Each function does one thing and either returns or raises OSError; what to measure, how often and
what to make of it is decided above. An arena or a team serves one caller at a time.
"""

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, TypeAlias, final

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

class Displaced(OSError):
    """A pinned thread was found on another CPU: its own went offline, or its affinity changed."""

@final
class Region:
    """Memory that another made, looked at alone."""

    def __init__(self, address: int, size: int) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def size(self) -> int: ...
    def census(self, offset: int, length: int, step: int) -> dict[int, int]:
        """Count its pages by node, as :meth:`Arena.census` does."""

    def close(self) -> None:
        """Look no longer; the memory is not ours to give back."""

def bind_thread(nodes: Sequence[int]) -> None:
    """Let new memory of this thread come from these nodes alone; from wherever, if none is given.

    Raises
    ------
    OSError
        EPERM where a container forbids it, EINVAL for a node that cannot give memory.
    """

@final
class Team:
    """Threads that stay until closed, the i-th pinned to ``cpus[i]``; a CPU may come twice.

    What a team is given to do ends with Displaced when a thread was found off its CPU.

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

_Span: TypeAlias = tuple[Arena, int, int]
"""An arena, the length in bytes of the buffer it begins with, and how many threads share it.

The first span is for the first so many threads of the team, the next for those after them, and
so on to the last thread. The lengths are such as `fill` takes for so many threads.
"""

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
        Involuntary context switches inside the window.
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

def fill_each(team: Team, spans: Sequence[_Span], seed: int) -> int:
    """Do as `fill` to several buffers at once. Each holds the same data as if filled alone.

    Raises
    ------
    OSError
        EINVAL when the spans' threads are not those of the team, or a length does not fit.

    Returns
    -------
    int
        The sum of all words of all buffers modulo 2**64.
    """

def read_each(
    team: Team, spans: Sequence[_Span], kernel: str, repetitions: int
) -> tuple[int, int, int, int]:
    """Do as `read` to several buffers at once, each by threads of its own.

    Returns
    -------
    elapsed, bytes, checksum, strays : int
        As `read`: the window and the sums are those of the whole team.
    """

def store_each(
    team: Team, spans: Sequence[_Span], kernel: str, repetitions: int, seed: int
) -> tuple[int, int, int, int]:
    """Do as `store` to several buffers at once, each by threads of its own.

    Returns
    -------
    elapsed, bytes, checksum, strays : int
        As `store`: the window and the sums are those of the whole team.
    """

def expected_each(
    team: Team, spans: Sequence[_Span], kernel: str, repetitions: int, seed: int
) -> int:
    """Compute the checksum that `read_each` or `store_each` must return; no buffer is looked at."""

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

def loaded(
    team: Team,
    chased: Arena,
    length: int,
    line: int,
    seed: int,
    start: int,
    steps: int,
    streamed: Arena,
    stream_length: int,
    kernel: str,
    delay: int,
) -> tuple[int, int, int, int, int]:
    """Let the team's first thread do as `chase` while all others stream through another buffer.

    The chase begins once every other thread streams, and they stream until it ends.

    Parameters
    ----------
    team : Team
        Of at least two threads.
    chased : Arena
        Linked with the same `length`, `line` and `seed`.
    start, steps : int
        As for `chase`.
    streamed : Arena
        Another arena. Its first `stream_length` bytes were filled with the same `seed` since a
        kernel last wrote to them, if `kernel` reads. The other threads share them as for `read`,
        in whole blocks: what is left over behind a thread's last block is not touched.
    stream_length : int
        Bytes; a multiple of 8, with at least 64 KiB for each thread that streams.
    kernel : str
        A name from `kernels` that only reads or only writes. OSError (ENOTSUP) otherwise.
    delay : int
        Turns of an empty loop (about one CPU cycle each) between two blocks of 16 KiB; the more,
        the less load. With 0 the blocks are of 64 KiB, and the load as high as the kernel makes
        it. What load came of it is told by the bytes.

    Returns
    -------
    elapsed : int
        Nanoseconds of the chase alone.
    offset : int
        Where the chase ended, as for `chase`.
    bytes : int
        Read or written in whole blocks that began and ended while the chase ran.
    wrong : int
        Streaming threads whose data were not what they must be; 0 when all is well.
    strays : int
        As for `read`, of the whole team.
    """

def ping(team: Team, arena: Arena, offset: int, round_trips: int) -> tuple[int, int, int]:
    """Hand one cache line to and fro between two threads, each writing when the other has.

    Parameters
    ----------
    team : Team
        Of two threads.
    offset : int
        Of the 64-bit counter that they raise in turn, in bytes; a multiple of 8. Its page should
        have been written before, and its line not used by another pair.

    Returns
    -------
    elapsed : int
        Nanoseconds; a round trip is two transfers of the line.
    round_trips : int
        By what the counter in memory says after; `round_trips`, or the data are wrong.
    strays : int
        As for `read`.
    """

def barrier(team: Team, repetitions: int) -> tuple[int, int, int]:
    """Let the whole team meet again and again at the spin barrier that also starts every job.

    Returns
    -------
    elapsed : int
        Nanoseconds.
    repetitions : int
        Meetings that every thread has passed.
    strays : int
        As for `read`.
    """

def end_with_parent() -> None:
    """Have the kernel end this process when its parent ends, however that happens.

    Raises
    ------
    OSError
        The kernel refuses.
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

def dot_fill(team: Team, arena: Arena, length: int, format: str, seed: int) -> int:
    """Fill the first `length` bytes with rows of weights, each thread its own slice.

    Parameters
    ----------
    length : int
        Bytes, as for `fill`; enough for 8 rows of 2048 weights a thread. OSError (EINVAL) otherwise.
    format : str
        F16, BF16, Q8_0, Q4_0 or Q4_K. OSError (ENOTSUP) otherwise.

    Returns
    -------
    int
        Results of the loops that are not what the format's definition makes them; 0 when all is
        well.
    """

def dot(
    team: Team, arena: Arena, length: int, format: str, many: bool, matrices: int, repetitions: int
) -> tuple[int, int, int, int, int]:
    """Multiply every row of a buffer filled by `dot_fill` with one vector, or with 48 if `many`.

    All threads meet after each of so many `matrices` of a pass; at its end where there are 0.

    Returns
    -------
    elapsed : int
        Nanoseconds.
    bytes : int
        Of weights, scales included.
    operations : int
        Multiplications and additions.
    sum : int
        Of the results' bits modulo 2**64: in proportion to `repetitions`, or they are wrong.
    strays : int
        As for `read`.
    """

def dot_kernels() -> list[tuple[str, str]]:
    """Give (format, isa) of the loops that this CPU can run; the first of a format is taken."""

def attend_fill(
    team: Team, arena: Arena, offset: int, length: int, positions: int, heads: int, seed: int
) -> int:
    """Fill `length` bytes with layers of keys and values.

    Parameters
    ----------
    offset, length : int
        Where they begin, on a cache line, and bytes enough for a layer: 512 for each head of each
        position. OSError (EINVAL) otherwise.

    Returns
    -------
    int
        Results of the attention that differ from plain arithmetic by more than rounding.
    """

def attend(
    team: Team, arena: Arena, offset: int, length: int, positions: int, heads: int, repetitions: int
) -> tuple[int, int, int, int]:
    """Let four query heads a cached head look at every layer that `attend_fill` laid down.

    More where all threads need as many: they share out the query heads and meet behind each layer.

    Returns
    -------
    elapsed, bytes, sum, strays : int
        As for `dot`; of keys and values, each counted for every query head that takes it.
    """

def step(team: Team, kind: str, values: int, repetitions: int) -> tuple[int, int, float, int]:
    """Do a small operation on a vector of `values` floats, by the team's first thread.

    Parameters
    ----------
    kind : str
        norm (to a root mean square of 1), rotate (pairs, by a table of angles) or quantize (to 8
        bits, by blocks of 256). KeyError otherwise.
    values : int
        Even, of blocks a multiple of 256. OSError (EINVAL) otherwise.

    Returns
    -------
    elapsed : int
        Nanoseconds.
    values : int
        That went through.
    sum : float
        Of the squares: `values` of the call after norm; after rotate and quantize, what it was before.
    strays : int
        As for `read`.
    """
