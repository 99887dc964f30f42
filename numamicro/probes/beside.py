"""Beside: copies to a GPU while the CPUs of the node stream from the same memory, as offload does."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case
from numamicro.matrix import Sample
from numamicro.probes.bandwidth import USUAL_BYTES, kernel_for
from numamicro.probes.gpu import COPY_BYTES, GpuProbe, back, host_routes
from numamicro.probes.host_copy import copies, node_of
from numamicro.probes.probe import Cost, windowed
from numamicro.wishes import THOROUGH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numamicro._cpu import Arena, Team
    from numamicro.probes.probe import TakeSample
    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

OPERATIONS = ("h2d", "d2h")
WINDOW_SECONDS = 0.05
"""Long beside one pass of the CPUs, so that little of either runs alone."""


class Beside(GpuProbe):
    """Bytes a second of a copy (gpu) and of the reading CPUs (cpu), both at once on one node."""

    name: ClassVar[str] = "host-copy-beside"
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give both directions on each node with CPUs, if thorough or asked for."""
        if wishes.level is not THOROUGH and not wishes.only:
            return
        for route in host_routes(machine, wishes):
            threads = machine.cores(route.source)
            for operation in OPERATIONS if threads else ():
                if wishes.wants(self.name, operation):
                    way = back(route) if operation == "d2h" else route
                    size = wishes.memory or COPY_BYTES
                    yield Case.of(
                        self.name, operation, way, bytes=size, memory="pinned", readers=threads
                    )

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate the copies, and the filling of what the CPUs read."""
        alone = super().cost(case, machine)
        return Cost(alone.set_up + 1.0, alone.sample + WINDOW_SECONDS)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Let the CPUs pass over a buffer again and again while copies are timed."""
        place = node_of(case.route)
        team = lab.team_on(lab.cores_of(place))
        arena = lab.arena(place, USUAL_BYTES, "auto")
        with copies(case, lab, case.number("bytes")) as (time, size):

            def copy(count: int) -> Sample:
                return Sample(max(time(count)), size * count, count)

            sample = windowed(copy, WINDOW_SECONDS)

            def both() -> Mapping[str, Sample]:
                reader = _Reader(team, arena)
                with reader:
                    copied = sample()
                return {"gpu": copied, "cpu": reader.sample()}

            yield both


class _Reader:
    """A team that reads a buffer over and over, from a thread of its own."""

    def __init__(self, team: Team, arena: Arena) -> None:
        self._team, self._arena = team, arena
        self._kernel = kernel_for("read", "4-stream").name
        self._end = Event()
        self._thread = Thread(target=self._read)
        self._nanoseconds = self._bytes = self._passes = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _read(self) -> None:
        from numamicro._cpu import read

        while not (self._passes and self._end.is_set()):
            elapsed, moved, _, _ = read(self._team, self._arena, USUAL_BYTES, self._kernel, 1)
            self._nanoseconds += elapsed
            self._bytes += moved
            self._passes += 1

    def sample(self) -> Sample:
        """Give what was read while it ran."""
        return Sample(self._nanoseconds / 1e9, self._bytes, self._passes)
