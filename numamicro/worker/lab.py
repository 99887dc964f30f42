"""What a probe works with inside a worker: pinned threads, and memory whose place is proven."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from numamicro.census import placement
from numamicro.doctor.permissions import BIND_REMEDY, PIN_REMEDY
from numamicro.matrix import MIN_SHARE, Placement, State
from numamicro.probes.probe import CaseFailed
from numamicro.topology import Note
from numamicro.topology.notes import format_ids
from numamicro.units import bytes_text
from numamicro.worker.gpu_lab import GpuCase, GpuLab

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from numamicro._cpu import Arena, Region, Team
    from numamicro.case import AnyPlace, Param
    from numamicro.topology import Machine

CACHED_SHARE = 0.8
"""Most of a node's available memory that the buffers kept for reuse may hold together."""
HUGE_SHARE = 0.95
"""A buffer counts as huge when at least this share is in huge pages, as small below the rest."""
FIRST_TOUCH = "first-touch"
"""The policy of memory that may not be bound: a page goes where its first writer runs."""

# A container's filter forbids binding, or the kernel does not know it.
_FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSYS)


@dataclass(slots=True)
class _Buffer:
    """An arena with what was asked of it."""

    arena: Arena
    target: AnyPlace
    huge: bool
    policy: str
    pages: str = "auto"
    length: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """Where the pages of one buffer are.

    Parameters
    ----------
    target : Place or PlaceSet
        Where they should be.
    pages : str
        huge, small or auto, as was asked.
    where : Placement
        Where they are, as the kernel says.
    sure : bool
        Whether they can be nowhere else, should the kernel not say: they are bound, or there is
        only one node with memory.
    """

    target: AnyPlace
    pages: str
    where: Placement
    sure: bool


class Lab:
    """Teams and arenas of one worker, kept from case to case because a first touch is dear.

    Every arena a probe takes is checked against its target before and after the timing, whether
    or not the probe thinks of it.

    Parameters
    ----------
    initiator : Place or PlaceSet
        Whose CPUs the teams run on.
    seed : int
        Makes the data and the order of a chase; the same seed repeats them.
    """

    def __init__(self, initiator: AnyPlace, machine: Machine, seed: int) -> None:
        self.initiator = initiator
        self.machine = machine
        self.seed = seed
        self.strays = 0
        self._cpus = machine.usable_cpus(initiator)
        self._teams: dict[
            tuple[int, ...], Team
        ] = {}  # their threads sleep while they have nothing to do
        self.used_cpus: tuple[int, ...] = ()
        self._buffers: list[_Buffer] = []  # least recently used first
        self._in_use: list[_Buffer] = []
        self._watched: list[tuple[AnyPlace, Region]] = []
        self._warnings: list[Note] = []
        self._outcome: dict[str, Param | None] = {}
        self._gpus = GpuLab(machine)

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._gpus.close()  # first: their pages may still be pinned
        self.dismiss_teams()
        for buffer in self._buffers:
            buffer.arena.close()

    @property
    def cores(self) -> int:
        """Physical cores of the initiator."""
        return self.machine.cores(self.initiator)

    def begin(self) -> None:
        """Forget what the last case used; its arenas stay for the next."""
        self._in_use, self._watched, self._outcome, self._warnings = [], [], {}, []
        self.strays, self.used_cpus = 0, ()
        # Unbound pages follow whoever reads them: what the last case left is not where it was.
        for buffer in [each for each in self._buffers if each.policy == FIRST_TOUCH]:
            self._drop(buffer)

    def note(self, **outcome: Param | None) -> None:
        """Record what came of the case and is not its identity: the ISA that ran, for example."""
        self._outcome |= outcome

    def warn(self, warning: Note) -> None:
        """Record what may spoil the figure of the case."""
        self._warnings.append(warning)

    @property
    def warnings(self) -> tuple[Note, ...]:
        """What was warned of in this case."""
        return tuple(self._warnings)

    @property
    def outcome(self) -> dict[str, Param | None]:
        """What was noted of this case."""
        common: dict[str, Param | None] = {
            "cpus": ",".join(map(str, self.used_cpus)),
            "clock": "CLOCK_MONOTONIC_RAW",
            "strays": self.strays,
        }
        if self._in_use:
            common["policy"] = ",".join(sorted({buffer.policy for buffer in self._in_use}))
        return common | self._outcome

    @contextmanager
    def gpus(self) -> Iterator[GpuCase]:
        """Give what one case takes from GPUs; the figures are then by their own clocks."""
        self.note(clock="cuEventElapsedTime")
        with self._gpus.case() as case:
            yield case

    def team(self, threads: int) -> Team:
        """Give a team of that many threads, each pinned to a CPU of its own: cores before SMT."""
        if threads > len(self._cpus):
            raise CaseFailed(
                State.WAIVED,
                "too-few-cpus",
                f"{self.initiator} has {len(self._cpus)} usable CPUs, not {threads}",
            )
        return self.team_on(self._cpus[:threads])

    def team_on(self, cpus: tuple[int, ...]) -> Team:
        """Give a team with a thread on each of these CPUs, in this order."""
        if cpus not in self._teams:
            self._teams[cpus] = _pinned(cpus)
        self.used_cpus = cpus
        return self._teams[cpus]

    def dismiss_teams(self) -> None:
        """End every team: a thread that lost its CPU stays unpinned for good."""
        for team in self._teams.values():
            team.close()
        self._teams = {}

    def cores_of(self, place: AnyPlace) -> tuple[int, ...]:
        """Give one usable CPU of every core of a place."""
        return self.machine.usable_cpus(place)[: self.machine.cores(place)]

    def arena(self, target: AnyPlace, size: int, pages: str) -> Arena:
        """Give at least `size` bytes on `target`, every page written.

        Parameters
        ----------
        pages : str
            huge, small, or auto (huge where they can be had).
        """
        huge = pages != "small"
        buffer = self._reuse(target, size, huge) or self._map(target, size, huge)
        buffer.length, buffer.pages = size, pages
        self._buffers.remove(buffer)
        self._buffers.append(buffer)
        self._in_use.append(buffer)
        return buffer.arena

    @contextmanager
    def placed_on(self, target: AnyPlace) -> Iterator[None]:
        """Let memory that this thread makes meanwhile come from a node."""
        from numamicro._cpu import bind_thread

        try:
            bind_thread(self.machine.memory_nodes(target))
        except OSError as error:
            raise CaseFailed(
                State.WAIVED,
                "bind-forbidden",
                f"this thread's memory cannot be placed on {target} here ({error.strerror}): "
                f"{BIND_REMEDY}",
            ) from error
        try:
            yield
        finally:
            bind_thread(())

    def watch(self, target: AnyPlace, address: int, size: int) -> None:
        """Ask with the arenas where memory is that a driver made on `target`."""
        from numamicro._cpu import Region

        self._watched.append((target, Region(address, size)))

    def _reuse(self, target: AnyPlace, size: int, huge: bool) -> _Buffer | None:
        for buffer in self._buffers:
            fits = (buffer.target, buffer.huge) == (target, huge) and buffer.arena.size >= size
            if fits and buffer not in self._in_use:
                return buffer
        return None

    def _map(self, target: AnyPlace, size: int, huge: bool) -> _Buffer:
        self._make_room(target, size)
        buffer = self._bound(target, size, huge)
        self._buffers.append(buffer)
        self._touch(buffer)
        return buffer

    def _make_room(self, target: AnyPlace, size: int) -> None:
        limit = self._limit(target)
        if limit is None:
            return
        while self._held(target) + size > limit:
            idle = [b for b in self._buffers if b.target == target and b not in self._in_use]
            if not idle:
                raise CaseFailed(
                    State.WAIVED,
                    "too-little-memory",
                    f"{bytes_text(size)} more on {target} would pass the {bytes_text(limit)} that "
                    f"may be used ({CACHED_SHARE:.0%} of what is available)",
                )
            self._drop(idle[0])

    def _drop(self, buffer: _Buffer) -> None:
        self._buffers.remove(buffer)
        self._gpus.unpin(buffer.arena)
        buffer.arena.close()

    def _limit(self, target: AnyPlace) -> int | None:
        available = self.machine.available_on(target)
        return None if available is None else int(available * CACHED_SHARE)

    def _held(self, target: AnyPlace) -> int:
        return sum(buffer.arena.size for buffer in self._buffers if buffer.target == target)

    def _bound(self, target: AnyPlace, size: int, huge: bool) -> _Buffer:
        """Map memory that comes from the target alone, or unbound memory where that is forbidden."""
        from numamicro._cpu import Arena

        nodes = self.machine.memory_nodes(target)
        policy: Literal["bind", "interleave"] = "bind" if len(nodes) == 1 else "interleave"
        try:
            return _Buffer(Arena(size, huge=huge, policy=policy, nodes=nodes), target, huge, policy)
        except OSError as error:
            refusal = error
        touchable = len(nodes) == 1 and self._local_cpus(target)
        if refusal.errno not in (*_FORBIDDEN, errno.EINVAL) or not touchable:
            raise _unbindable(target, size, refusal)
        return _Buffer(Arena(size, huge=huge), target, huge, FIRST_TOUCH)

    def _touch(self, buffer: _Buffer) -> None:
        """Write every page once. Unbound memory goes where its first writer runs: on the target."""
        from numamicro._cpu import fill

        unbound = buffer.policy == FIRST_TOUCH
        writers = self._local_cpus(buffer.target) if unbound else self._cpus[: self.cores]
        with _pinned(writers) as team:
            fill(team, buffer.arena, buffer.arena.size, self.seed)

    def _local_cpus(self, target: AnyPlace) -> tuple[int, ...]:
        return self.machine.usable_cpus(target)

    def placements(self) -> list[Held]:
        """Ask where the memory in use is."""
        own = [
            Held(
                each.target,
                each.pages,
                self._placement(each.target, each.arena, each.length),
                sure=each.policy != FIRST_TOUCH or self._single,
            )
            for each in self._in_use
        ]
        return own + [
            Held(
                target,
                "auto",
                _or_untold(self._placement(target, region, region.size)),
                sure=True,  # the thread was bound while the driver made it
            )
            for target, region in self._watched
        ]

    def _placement(self, target: AnyPlace, memory: Arena | Region, length: int) -> Placement:
        return placement(memory, length, self.machine.memory_nodes(target), self.machine)

    @property
    def _single(self) -> bool:
        """Whether only one node has memory."""
        return sum(node.memory != 0 for node in self.machine.nodes) == 1


def _or_untold(found: Placement) -> Placement:
    """Take a driver's pages that the kernel does not look into for untold, not for never written."""
    return found if all(key >= 0 for key in found.pages) else Placement(None, None)


def _pinned(cpus: tuple[int, ...]) -> Team:
    from numamicro._cpu import Team

    try:
        return Team(cpus)
    except OSError as error:
        raise _unpinnable(cpus, error) from error


def _unpinnable(cpus: Iterable[int], error: OSError) -> CaseFailed:
    """Say why no thread could be pinned to these CPUs, and what would help."""
    text = f"no thread can be pinned to CPUs {format_ids(cpus)} ({error.strerror})"
    if error.errno == errno.EINVAL:
        text += ": they went offline or left the cpuset; start again"
        return CaseFailed(State.ERROR, "cpus-gone", text)
    way = f": {PIN_REMEDY}" if error.errno in (errno.EPERM, errno.EACCES) else ""
    return CaseFailed(State.ERROR, "pinning", f"{text}{way}")


def _unbindable(target: AnyPlace, size: int, error: OSError) -> CaseFailed:
    if error.errno in _FORBIDDEN:
        text = (
            f"memory may not be bound here ({error.strerror}), and {target} is no single node whose "
            f"own CPUs could touch its pages first: {BIND_REMEDY}"
        )
        return CaseFailed(State.WAIVED, "bind-forbidden", text)
    gone = ": its memory has gone, or a cpuset bars it" * (error.errno == errno.EINVAL)
    text = f"{target} cannot take {bytes_text(size)}: {error.strerror}{gone}"
    return CaseFailed(State.ERROR, "bind", text)


def misplaced(held: Held) -> Note | None:
    """Say why a placement makes a figure void; None when it is what was asked, or sure enough."""
    target, pages, found = held.target, held.pages, held.where
    if found.share is None and not held.sure:
        return Note(
            "placement-unknown",
            "memory could not be bound, and the kernel would not say where the pages were "
            f"(move_pages and numa_maps are refused): {BIND_REMEDY}",
        )
    unwritten = sum(count for key, count in found.pages.items() if key < 0)
    if unwritten:
        return Note("never-written", f"{unwritten} pages of the buffer were never written")
    if found.share is not None and found.share < MIN_SHARE:
        where = ", ".join(f"node{key}: {count}" for key, count in sorted(found.pages.items()))
        return Note(
            "misplaced", f"only {found.share:.1%} of the pages were on {target} (pages on {where})"
        )
    if pages == "huge" and found.huge_share is not None and found.huge_share < HUGE_SHARE:
        return Note(
            "page-size",
            f"huge pages were asked for and only {found.huge_share:.0%} of the buffer got them",
        )
    if pages == "small" and found.huge_share is not None and found.huge_share > 1 - HUGE_SHARE:
        return Note("page-size", f"{found.huge_share:.0%} of the buffer was in huge pages")
    return None
