"""All-reduce: how long GPUs take to add their vectors, each ending with the whole sum.

It is what tensor parallelism pays twice a layer: for every token a short message, for a prompt a
long one.
"""

from __future__ import annotations

from contextlib import contextmanager
from ctypes import c_uint32, memset
from dataclasses import asdict, dataclass
from functools import partial
from itertools import combinations, product
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, PlaceSet, Route, gpus_of, node
from numamicro.matrix import MATRIX_MESSAGES, Sample, State, in_matrix
from numamicro.probes.gpu import (
    LINK_RATE,
    THREADS,
    GpuProbe,
    gpu,
    kernel_copy,
    without_kernels,
    without_peers,
)
from numamicro.probes.peer import refuse_unsent
from numamicro.probes.probe import CaseFailed, Cost, windowed
from numamicro.topology import Note
from numamicro.units import KIB, MIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numamicro._gpu import Work
    from numamicro.case import AnyPlace, Place
    from numamicro.probes.probe import TakeSample
    from numamicro.topology import Machine, NumaNode
    from numamicro.wishes import Wishes
    from numamicro.worker.gpu_lab import GpuCase
    from numamicro.worker.lab import Lab

MESSAGES = tuple(4 * KIB << 2 * step for step in range(8))
"""Bytes of a vector, from what one token sends to what a long prompt does."""

VARIANTS = ("pull", "push")
TIMINGS = ("graph", "launch", "kernel")
"""Recorded once and replayed, as engines do; launched one by one; repeated inside one kernel."""

NUMBER = "bf16"
MOST_BLOCKS = 36
TIMEOUT_SECONDS, SCREEN_SECONDS = 5.0, 1.0
"""A rank gives up on its peers after this; where a screen hangs on it the driver would soon end it."""

SHORT_SECONDS, LONG_SECONDS = 0.005, 0.002
"""A sample lasts at least this long: of messages that share a graph, and of one that has its own."""

MOST_RECORDED, RECORDED_BYTES = 32, 8 * MIB
"""A graph holds so many repetitions, and fewer of long messages: about as many as engines record."""

PROOF_BYTES = 64 * KIB
MOST_RANKS = 16
STATUS_STRIDE = 128


class AllReduce(GpuProbe):
    """Seconds for an all-reduce, by the slowest rank.

    Ranks read each other's vectors (pull) or write theirs to each other (push), or pass them through
    pinned memory of a node (staged), as a machine without peer access must.
    """

    name: ClassVar[str] = "all-reduce"
    unit: ClassVar[str] = "s"
    swept: ClassVar[tuple[str, ...]] = ("variant",)

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every pair a short and a long message, one pair of each class every size, and all
        GPUs together."""
        seen = set()
        for pair in combinations(machine.gpus, 2):
            here, there = (gpu(each.id) for each in pair)
            kind = machine.locality(here, there)
            swept = wishes.level is THOROUGH or (wishes.level is not QUICK and kind not in seen)
            seen.add(kind)
            yield from self._over(
                here, there, MESSAGES if swept else MATRIX_MESSAGES, machine, wishes
            )
        if len(machine.gpus) > 2 and wishes.level is not QUICK:
            everyone = PlaceSet(tuple(gpu(each.id) for each in machine.gpus))
            yield from self._over(everyone, everyone, MESSAGES, machine, wishes)

    def _over(
        self,
        here: AnyPlace,
        there: AnyPlace,
        messages: Iterable[int],
        machine: Machine,
        wishes: Wishes,
    ) -> Iterator[Case]:
        timings = TIMINGS if wishes.level is THOROUGH else TIMINGS[:1]
        for message, timing in product(messages, timings):
            params = {"message": message, "timing": timing, "number": NUMBER}
            if wishes.wants(self.name, "peer"):
                for variant in VARIANTS:
                    route = Route(here, there, mover="sm")
                    yield Case.of(self.name, "peer", route, variant=variant, **params)
            if wishes.wants(self.name, "staged"):
                for via in _stages(gpus_of(here, there), machine, wishes):
                    route = Route(here, there, via, mover="sm")
                    yield Case.of(self.name, "staged", route, **params)

    def comes_late(self, case: Case) -> bool:
        """Let the matrices of all pairs come first, then curves, and all GPUs together."""
        return not in_matrix(case) or isinstance(case.route.source, PlaceSet)

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when GPUs run no kernels or too many take part, or no peer access is claimed."""
        ranks = len(gpus_of(case.route.source, case.route.target))
        if ranks > MOST_RANKS:
            text = f"{ranks} GPUs take part, and the kernels know {MOST_RANKS}"
            return Note("too-many-gpus", text)
        lacking = without_kernels(case, machine)
        return lacking or (without_peers(case, machine) if case.operation == "peer" else None)

    def window(self, case: Case) -> float:
        """Give short messages longer: the ranks' meeting takes as long for them."""
        return SHORT_SECONDS if recorded(case.number("message")) > 1 else LONG_SECONDS

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate moving every vector over a slow link, as often as a graph does."""
        message, ranks = case.number("message"), len(gpus_of(case.route.source, case.route.target))
        once = 20e-6 + message * ranks / LINK_RATE
        return Cost(
            message * ranks / 0.5e9,
            self.window(case) + once * recorded(message),
        )

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Let the ranks meet and check their sums, then time them, then check the sums again."""
        with lab.gpus() as gpus:
            ranks = Ranks(case, lab, gpus)
            ranks.time_kernels(1)
            ranks.check()
            time, at_once = ranks.timer(str(case["timing"]))

            def sample(count: int) -> Sample:
                return Sample(max(time(count)), count * at_once, count)

            yield windowed(sample, self.window(case))
            ranks.check()


@dataclass(frozen=True, slots=True)
class Wires:
    """Where one rank lays its vector and finds the others' (two slots each), and their flags."""

    send: tuple[int, ...]
    receive: tuple[int, ...]
    signal: tuple[int, ...]
    watch: tuple[int, ...]


class Ranks:
    """The GPUs of one all-reduce, with their vectors, slots and flags."""

    def __init__(self, case: Case, lab: Lab, gpus: GpuCase) -> None:
        from numamicro._gpu_data import FLAG_BYTES, addend_write

        self._gpus, self._seed = gpus, lab.seed
        self._places = gpus_of(case.route.source, case.route.target)
        self._message = case.number("message")
        processors = min(gpus.processors(place) for place in self._places)
        self._blocks = max(1, min(MOST_BLOCKS, processors, self._message // (16 * THREADS)))
        self._flags = FLAG_BYTES * self._blocks
        limited = any(lab.machine.gpu(place.id).time_limit for place in self._places)
        self._timeout = SCREEN_SECONDS if limited else TIMEOUT_SECONDS
        self._inputs = self._on_each(self._message)
        self._outputs = self._on_each(self._message)
        self._generations = self._on_each(self._flags)
        self._control = gpus.control(self._places[0])
        if case.route.via is None:
            self._reach_all()
            self._wires = self._between_peers(push=case["variant"] == "push")
        else:
            self._wires = self._through(case.route.via, lab)
        kernel = "allreduce_pair" if len(self._places) == 2 else "allreduce_group"
        self._functions = [gpus.function(place, f"{kernel}_{NUMBER}") for place in self._places]
        for rank, place in enumerate(self._places):
            fill = partial(addend_write, seed=lab.seed, rank=rank)
            gpus.send(fill, place, self._inputs[rank], self._message)

    def time_kernels(self, repetitions: int) -> list[float]:
        """Give what each rank took for so many repetitions inside one kernel."""
        works = [self._kernel(rank, repetitions) for rank in range(len(self._places))]
        took = self._gpus.time(works, 1)
        self._refuse_failed()
        return took

    def timer(self, timing: str) -> tuple[Callable[[int], list[float]], int]:
        """Give the function that times all ranks, and the all-reduces that it counts as one."""
        if timing == "kernel":
            return self.time_kernels, 1
        works = [self._kernel(rank, 1) for rank in range(len(self._places))]
        at_once = recorded(self._message) if timing == "graph" else 1
        if timing == "graph":
            works = [self._gpus.repeated(work, at_once) for work in works]

        def time(count: int) -> list[float]:
            took = self._gpus.time(works, count)
            self._refuse_failed()
            return took

        return time, at_once

    def check(self) -> None:
        """Look at the sums of every rank, then make its memory hold none of them."""
        from numamicro._gpu_data import sum_wrong

        count = partial(sum_wrong, seed=self._seed, ranks=len(self._places))
        for place, output in zip(self._places, self._outputs, strict=True):
            wrong = self._gpus.wrong(count, place, output, self._message)
            if wrong:
                text = f"{wrong} of {self._message // 8} words on {place} are not the sum"
                raise CaseFailed(State.WRONG, "sum", text)
            self._gpus.lane(place).fill(output, 0, self._message).do()

    def _on_each(self, size: int) -> list[int]:
        return [self._gpus.memory(place, size).address for place in self._places]

    def _reach_all(self) -> None:
        """Open the ways, and prove each: a driver may claim that data arrive, and drop them."""
        for here, there in combinations(self._places, 2):
            self._gpus.reach(here, there)
            for source, target in ((here, there), (there, here)):
                prove(self._gpus, source, target, self._seed)

    def _between_peers(self, *, push: bool) -> list[Wires]:
        """Wire ranks through their own memory: slots for themselves or, to be pushed to, for each
        rank; and flags for each rank."""
        count, slots = len(self._places), 2 * self._message
        memory = self._on_each(slots * count if push else slots)
        flags = self._on_each(self._flags * count)
        ranks = range(count)

        def of(rank: int) -> Wires:
            others = [other for other in ranks if other != rank]
            return Wires(
                send=tuple(memory[other] + rank * slots for other in others)
                if push
                else (memory[rank],),
                receive=tuple(memory[rank] + other * slots for other in ranks)
                if push
                else tuple(memory),
                signal=tuple(flags[other] + rank * self._flags for other in ranks),
                watch=tuple(flags[rank] + other * self._flags for other in ranks),
            )

        return [of(rank) for rank in ranks]

    def _through(self, via: Place, lab: Lab) -> list[Wires]:
        """Wire ranks through pinned memory of a node."""
        count, slots = len(self._places), 2 * self._message
        size = count * slots + count * count * self._flags
        arena = lab.arena(via, size, "auto")
        start = self._gpus.pinned(self._places[0], arena).device
        flags = start + count * slots
        memset(arena.address + count * slots, 0, count * count * self._flags)
        ranks = range(count)

        def line(owner: int, sender: int) -> int:
            return flags + (owner * count + sender) * self._flags

        return [
            Wires(
                send=(start + rank * slots,),
                receive=tuple(start + other * slots for other in ranks),
                signal=tuple(line(other, rank) for other in ranks),
                watch=tuple(line(rank, other) for other in ranks),
            )
            for rank in ranks
        ]

    def _kernel(self, rank: int, repetitions: int) -> Work:
        from numamicro._gpu_data import all_reduce_arguments

        arguments = all_reduce_arguments(
            rank=rank,
            source=self._inputs[rank],
            target=self._outputs[rank],
            size=self._message,
            sets=1,
            repetitions=repetitions,
            generation=self._generations[rank],
            abort=self._control.device,
            status=self._control.device + STATUS_STRIDE * (1 + rank),
            timeout_ns=int(self._timeout * 1e9),
            **asdict(self._wires[rank]),
        )
        lane = self._gpus.lane(self._places[rank])
        return lane.kernel(self._functions[rank], self._blocks, THREADS, arguments)

    def _refuse_failed(self) -> None:
        for rank, place in enumerate(self._places):
            status = c_uint32.from_address(self._control.address + STATUS_STRIDE * (1 + rank))
            if status.value:
                text = f"{place} waited {self._timeout:.0f} s for the flag of a peer in vain"
                raise CaseFailed(State.HANG, "peer-silent", text)


def prove(gpus: GpuCase, source: Place, target: Place, seed: int) -> None:
    """Store a little into a peer's memory and load it back, and look at both on the owner's side.

    Raises
    ------
    CaseFailed
        What arrived is not what was sent.
    """
    from numamicro._gpu_data import pattern_write

    sent, got, again = (
        gpus.memory(place, PROOF_BYTES).address for place in (source, target, source)
    )
    gpus.send(partial(pattern_write, seed=seed), source, sent, PROOF_BYTES)
    kernel_copy(gpus, source, "copy", got, sent, PROOF_BYTES)(1)
    refuse_unsent(gpus, source, target, got, PROOF_BYTES, seed)
    kernel_copy(gpus, source, "copy", again, got, PROOF_BYTES)(1)
    refuse_unsent(gpus, target, source, again, PROOF_BYTES, seed)


def recorded(message: int) -> int:
    """Give how many all-reduces of a message one graph holds."""
    return max(1, min(MOST_RECORDED, RECORDED_BYTES // message))


def _stages(gpus: Iterable[Place], machine: Machine, wishes: Wishes) -> list[Place]:
    """Give the nodes to pass through: the nearest, the farthest unless quick, all if thorough."""
    near = [machine.gpu(each.id).host_node for each in gpus]

    def distance(target: NumaNode) -> int:
        return sum(target.distances.get(index, 0) for index in near if index is not None)

    nodes = sorted((each for each in machine.targets if wishes.wants_node(each.id)), key=distance)
    if wishes.level is THOROUGH:
        return [node(each.id) for each in nodes]
    ends = nodes[:1] if wishes.level is QUICK else [*nodes[:1], *nodes[1:][-1:]]
    return [node(each.id) for each in ends]
