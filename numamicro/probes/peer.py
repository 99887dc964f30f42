"""Peers: how fast one GPU's data reach another's memory, and how long one load from there takes."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case
from numamicro.matrix import Sample, State
from numamicro.probes.gpu import (
    COPY_BYTES,
    GpuProbe,
    copying,
    gpu,
    kernel_copy,
    pair_of,
    peer_routes,
    refuse_wrong,
    without_kernels,
    without_peers,
)
from numamicro.probes.probe import CaseFailed
from numamicro.units import MIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numamicro._gpu import DeviceMemory
    from numamicro.case import Place
    from numamicro.probes.probe import TakeSample
    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.gpu_lab import GpuCase
    from numamicro.worker.lab import Lab

MOVERS = {"copy": "copy-engine", "read": "sm-load", "write": "sm-store"}
_QUICK_OPERATIONS = ("copy",)

CHAIN_BYTES = 8 * MIB
STEPS = 1000
"""Loads of one walk: a millisecond where each takes a microsecond."""


class PeerCopy(GpuProbe):
    """Bytes a second from one GPU's memory to another's.

    The source's copy engine moves them, or kernels do: the target's by loading (read), or the
    source's by storing (write). Where no peer access is claimed the driver takes a copy through host
    memory of its own choice: a detour.
    """

    name: ClassVar[str] = "peer-copy"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every mover between every two GPUs; with `thorough`, every detour too."""
        operations = _QUICK_OPERATIONS if wishes.level is QUICK and not wishes.only else (*MOVERS,)
        size = wishes.memory or COPY_BYTES
        for operation in operations:
            if wishes.wants(self.name, operation):
                for route in peer_routes(machine, MOVERS[operation]):
                    direct = Case.of(self.name, operation, route, bytes=size, path="direct")
                    yield direct
                    needed = wishes.level is THOROUGH or without_peers(direct, machine)
                    if operation == "copy" and needed:
                        yield direct.having(path="detour")

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the driver claims no peer access, or a GPU runs no kernels."""
        if case["path"] == "detour":
            return None
        lacking = without_kernels(case, machine) if case.operation != "copy" else None
        return without_peers(case, machine) or lacking

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Copy once and let the target's owner check it, then copy for the clock and check again."""
        from numamicro._gpu_data import pattern_write

        size, (source, target) = case.number("bytes"), pair_of(case.route)
        with lab.gpus() as gpus:
            if case["path"] == "direct":
                gpus.reach(source, target)
            sent, got = gpus.memory(source, size), gpus.memory(target, size)
            gpus.send(partial(pattern_write, seed=lab.seed), source, sent.address, size)

            def check() -> None:
                refuse_unsent(gpus, source, target, got.address, size, lab.seed)

            time = self._timer(case.operation, gpus, got, sent)
            time(1)
            check()
            gpus.lane(target).fill(got.address, 0, size).do()
            yield copying(time, size, self.window(case))
            check()

    def _timer(
        self, operation: str, gpus: GpuCase, got: DeviceMemory, sent: DeviceMemory
    ) -> Callable[[int], list[float]]:
        if operation == "copy":
            copy = gpus.lane(gpu(sent.context.ordinal)).peer(got, sent, sent.size)
            return lambda count: gpus.time([copy], count)
        mover = got if operation == "read" else sent
        ordinal = gpu(mover.context.ordinal)
        return kernel_copy(gpus, ordinal, "copy", got.address, sent.address, sent.size)


def refuse_unsent(
    gpus: GpuCase, source: object, target: Place, address: int, size: int, seed: int
) -> None:
    """Fail the case when the target's owner does not see what was sent."""
    from numamicro._gpu_data import pattern_wrong

    wrong = gpus.wrong(partial(pattern_wrong, seed=seed), target, address, size)
    refuse_wrong(wrong, size, f"from {source} on {target}")


class PeerLatency(GpuProbe):
    """Seconds for one load from another GPU's memory, when its address comes from the one before."""

    name: ClassVar[str] = "peer-latency"
    unit: ClassVar[str] = "s"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every GPU that loads, and every other whose memory it is."""
        if wishes.wants(self.name, "load") and (wishes.level is not QUICK or wishes.only):
            for route in peer_routes(machine, "sm-load"):
                yield Case.of(self.name, "load", route, bytes=CHAIN_BYTES)

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the driver claims no peer access, or a GPU runs no kernels."""
        return without_peers(case, machine) or without_kernels(case, machine)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Link the peer's memory to a cycle, walk it, and check where each walk ends."""
        loader, owner = pair_of(case.route)
        with lab.gpus() as gpus:
            gpus.reach(loader, owner)
            yield chase(gpus, loader, owner, case.number("bytes"))


def chase(gpus: GpuCase, loader: Place, owner: Place, size: int) -> Callable[[], Sample]:
    """Give the function that walks a cycle in the owner's memory and gives its loads' time."""
    from numamicro._gpu_data import chain_position, chain_write, chase_arguments

    chain, result = gpus.memory(owner, size), gpus.memory(loader, 16)
    gpus.send(partial(chain_write, whole=size), owner, chain.address, size)
    walk = gpus.function(loader, "chase")
    arguments = chase_arguments(result.address, chain.address, 0, STEPS)
    work = gpus.lane(loader).kernel(walk, 1, 1, arguments)
    due = chain_position(size, STEPS)

    def sample() -> Sample:
        (seconds,) = gpus.time([work], 1)
        ended = gpus.words(loader, result.address, 1)[0]
        if ended != due:
            text = f"the walk through memory of {owner} ended at {ended}, not at {due}"
            raise CaseFailed(State.WRONG, "chase", text)
        return Sample(seconds, STEPS)

    return sample
