"""Bandwidth: how fast the CPUs of one place stream through memory of another."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, Place
from numamicro.matrix import Sample, State
from numamicro.probes.probe import (
    CaseFailed,
    Cost,
    Probe,
    TakeSample,
    buffer_bytes,
    node_routes,
    touch_seconds,
    unfit,
)
from numamicro.units import MIB
from numamicro.wishes import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

USUAL_BYTES = 256 * MIB
# For estimates only: a slow core and a slow socket, so that a plan errs on the long side.
_CORE_RATE, _SOCKET_RATE = 8e9, 40e9


class Bandwidth(Probe):
    """Program bytes a second, by a pinned team whose threads walk slices of one buffer."""

    name: ClassVar[str] = "bandwidth"
    unit: ClassVar[str] = "B/s"
    swept: ClassVar[tuple[str, ...]] = ("threads", "variant")

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give reads with 1 and 4 streams at each thread count, on every route."""
        if not wishes.wants(self.name, "read"):
            return
        for route in node_routes(machine, wishes):
            size = buffer_bytes(route, machine, wishes, USUAL_BYTES)
            for threads in thread_counts(route.source, machine, wishes):
                for variant in ("1-stream", "4-stream"):
                    yield Case.of(
                        self.name,
                        "read",
                        route,
                        bytes=size,
                        pages="auto",
                        threads=threads,
                        variant=variant,
                    )

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the buffer cannot be had beyond the caches."""
        return unfit(case, machine)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate from a slow core: a first touch, then one pass a sample."""
        size = case.number("bytes")
        threads = case.get("threads")
        cores = threads if isinstance(threads, int) else 1
        return Cost(touch_seconds(size), size / min(_CORE_RATE * cores, _SOCKET_RATE))

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Fill the buffer, then read all of it once a sample and compare the sum of its words."""
        from numamicro import _cpu

        size = case.number("bytes")
        team = lab.team(case.number("threads"))
        arena = lab.arena(case.route.target, size, str(case["pages"]))
        kernel, isa = kernel_for(case.operation, str(case["variant"]))
        checksum = _cpu.fill(team, arena, size, lab.seed)
        lab.note(isa=isa, kernel=kernel)

        def sample() -> Sample:
            elapsed, moved, total, strays = _cpu.read(team, arena, size, kernel, 1)
            if total != checksum:
                raise CaseFailed(
                    State.WRONG,
                    "checksum",
                    f"{kernel} summed the buffer to {total:#x}, and {checksum:#x} was written",
                )
            lab.strays += strays
            return Sample(elapsed / 1e9, moved)

        yield sample


def thread_counts(source: object, machine: Machine, wishes: Wishes) -> list[int]:
    """Give the team sizes to try on an initiator: 1 and every core, with powers of 2 between.

    The counts beyond the cores use SMT siblings.
    """
    if not isinstance(source, Place):
        return []
    cpus, cores = len(machine.usable_cpus(source)), machine.cores(source)
    if wishes.threads:
        return [count for count in sorted(set(wishes.threads)) if count <= cpus]
    if wishes.level is QUICK:
        return sorted({1, cores})
    return sorted({1, cores, cpus} | {2**power for power in range(1, cores.bit_length())} - {0})


def kernel_for(operation: str, variant: str) -> tuple[str, str]:
    """Give the kernel of the widest instruction set that this CPU runs, and that set's name.

    Raises
    ------
    CaseFailed
        No kernel of this CPU does the operation in that variant.
    """
    from numamicro import _cpu

    streams = variant.removesuffix("-stream")
    for kernel, isa, *_ in _cpu.kernels():
        if kernel == f"{operation}-{streams}-{isa}":
            return kernel, isa
    raise CaseFailed(State.WAIVED, "no-kernel", f"this CPU runs no {variant} kernel of {operation}")
