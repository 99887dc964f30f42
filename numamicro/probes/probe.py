"""What every probe is: its name and unit, its cases, and how one sample is taken."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from numamicro.case import Case, Route, node
from numamicro.matrix import Sample, State
from numamicro.topology import Note
from numamicro.units import GIB, MIB, bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

    from numamicro.case import AnyPlace
    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

LINE_BYTES = 64
"""A cache line: buffers are whole lines, and a chase visits one after the other."""

CACHE_FACTOR = 4
"""A buffer is this many times the caches that its team can reach, so that DRAM is what is timed."""

MEMORY_SHARE = 0.4
"""Most of a node's available memory that one buffer may take."""

SIZE_CODES = ("fits-cache", "too-little-memory")
"""Reasons that a buffer's size gives."""

WINDOW_SECONDS = 0.01
"""A sample lasts at least this long, so that starting and stopping a team is lost in it."""

WARM_UP_SECONDS = 0.1
"""Time for the clock to rise and the branch predictors to settle; what it brings is dropped."""

TakeSample: TypeAlias = Callable[[], Sample | Mapping[str, Sample]]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a case takes, in seconds: once to set up, for each sample, and for the first touch of
    its buffer, which a case that finds it in its worker is spared."""

    set_up: float
    sample: float
    touch: float = 0.0


class CaseFailed(Exception):
    """Raised by a probe when a case ended in a state of its own; the run goes on with the next."""

    def __init__(self, state: State, code: str, text: str) -> None:
        super().__init__(text)
        self.state = state
        self.reason = Note(code, text)


class Probe(ABC):
    """One measured cost. A subclass is one file; it must be importable, for it runs in a worker.

    Attributes
    ----------
    name : str
        Names the cells, for example ``bandwidth``.
    unit : str
        ``B/s`` or another rate (amount over seconds), or ``s`` (seconds over amount).
    units : mapping
        Units of named values that have another.
    swept : tuple of str
        Parameters that are tried out on one route of each locality class; on the other routes
        the best values found there are used again.
    late : bool
        Whether its cases come after every matrix when time is short.
    needs_gpu : bool
        Whether it has no cases on a machine without GPUs.
    alone : bool
        Whether no other case may have the worker after one of its: what it loads stays.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    units: ClassVar[Mapping[str, str]] = {}
    swept: ClassVar[tuple[str, ...]] = ()
    late: ClassVar[bool] = False
    needs_gpu: ClassVar[bool] = False
    alone: ClassVar[bool] = False

    def unit_of(self, value: str) -> str:
        """Give the unit of a named value."""
        return self.units.get(value, self.unit)

    @abstractmethod
    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every case that the level asks for, on every route that there is."""

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say why a case does not apply on this machine; None when it does."""
        return None

    def essential(self, case: Case, machine: Machine) -> bool:
        """Tell whether a case belongs to the matrices that come before all else."""
        return True

    def place(self, case: Case) -> AnyPlace:
        """Give the place on whose CPUs the worker runs; cases of one place share a worker."""
        return case.route.source

    def comes_late(self, case: Case) -> bool:
        """Tell whether a case comes after every matrix when time is short."""
        return self.late

    def warm_up(self, case: Case) -> float:
        """Give the seconds for which a case is done before its samples, and dropped."""
        return WARM_UP_SECONDS

    @abstractmethod
    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate what a case takes."""

    @abstractmethod
    def ready(self, case: Case, lab: Lab) -> AbstractContextManager[TakeSample]:
        """Set a case up in the worker and give the function that takes one sample.

        The function gives one :class:`Sample`, or several by name; each name becomes a cell with
        the parameter ``value``. It raises :class:`CaseFailed` when its data check fails.
        """


def windowed(take: Callable[[int], Sample], window: float = WINDOW_SECONDS) -> Callable[[], Sample]:
    """Give a sampler that repeats until a sample lasts for the window, in seconds.

    `take` takes a number of repetitions. The number grows while a case warms up.
    """
    count = 1

    def sample() -> Sample:
        nonlocal count
        taken = take(count)
        count = max(count, math.ceil(count * window / taken.seconds))
        return taken

    return sample


def node_routes(machine: Machine, wishes: Wishes) -> Iterator[Route]:
    """Give every route from a node with CPUs to a node with memory."""
    for initiator in machine.initiators:
        for target in machine.targets:
            if wishes.wants_node(initiator.id) and wishes.wants_node(target.id):
                yield Route(node(initiator.id), node(target.id))


def buffer_bytes(route: Route, machine: Machine, wishes: Wishes, usual: int) -> int:
    """Give the size of a buffer on the route's target: beyond the caches, within the memory.

    `usual` is grown beyond the caches, then shrunk to what the node can spare, but never back
    into the caches: :func:`unfit` then says why such a case is waived.
    """
    if wishes.memory is not None:
        return wishes.memory // LINE_BYTES * LINE_BYTES
    least = cache_floor(route, machine)
    most = memory_limit(route, machine)
    wanted = max(usual, least)
    fitting = wanted if most is None else min(wanted, most // (2 * MIB) * 2 * MIB)
    return max(fitting, least)


def cache_floor(route: Route, machine: Machine) -> int:
    """Give the smallest buffer, in bytes, that does not fit the caches of the route's initiator."""
    caches = machine.llc_bytes(machine.usable_cpus(route.source))
    return max(CACHE_FACTOR * caches, 64 * MIB)


def memory_limit(route: Route, machine: Machine) -> int | None:
    """Give the most bytes one buffer may take of the route's target; None when unknown."""
    available = machine.available_on(route.target)
    return None if available is None else int(available * MEMORY_SHARE)


def unfit(case: Case, machine: Machine) -> Note | None:
    """Say why the case's buffer is of no use here: within the caches, or beyond the memory."""
    size = case.number("bytes")
    least = cache_floor(case.route, machine)
    most = memory_limit(case.route, machine)
    if size < least:
        return Note(
            "fits-cache",
            f"a buffer of {bytes_text(size)} is not clear of the last-level caches of "
            f"{case.route.source}: at least {bytes_text(least)} is needed to time memory",
        )
    if most is not None and size > most:
        return Note(
            "too-little-memory",
            f"a buffer of {bytes_text(size)} is more than the {bytes_text(most)} that may be "
            f"used of {case.route.target} ({MEMORY_SHARE:.0%} of what is available)",
        )
    return None


def touch_seconds(case: Case, machine: Machine, size: int) -> float:
    """Estimate the first touch of a buffer: the kernel zeroes each page, then it is filled.

    All cores of the initiator share the work. A guest may wait for its host to find the memory,
    which no number of cores makes faster.
    """
    busy = min(machine.cores(case.route.source), 4)
    return (2.0 if machine.hypervisor else 0.6 / max(busy, 1)) * size / GIB
