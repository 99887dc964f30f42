"""Runs every kernel on each GPU and holds what it did against what it should have done.

    python -m bench.gpu.checks

prints a line of JSON for each check; one that hangs leaves out those behind it.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
import time
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING

from bench.gpu.loopback import ABORTED, NUMBER_BYTES, OK, TIMED_OUT, Loopback, Vectors, writer
from numamicro._gpu_data import (
    chain_position,
    chain_write,
    chase_arguments,
    copy_arguments,
    pattern_write,
    pattern_wrong,
)
from numamicro.case import Place, node
from numamicro.errors import NumamicroError
from numamicro.probes.probe import CaseFailed
from numamicro.topology import discover
from numamicro.units import KIB, MIB
from numamicro.worker.lab import Lab

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numamicro.topology import Machine
    from numamicro.worker.gpu_lab import GpuCase

SEED = 1
BLOCKS, THREADS = 8, 256
PATIENCE = 0.2
"""Seconds that a rank waits for a peer that never comes."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: whether it holds, what was seen, and a figure where there is one."""

    gpu: str
    name: str
    passed: bool
    said: str
    value: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Desk:
    """What the checks of one GPU work with."""

    gpu: Place
    gpus: GpuCase
    lab: Lab

    def check(
        self,
        name: str,
        passed: bool,
        said: str,
        value: float | None = None,
        unit: str | None = None,
    ) -> Check:
        """Give a check of this GPU."""
        return Check(str(self.gpu), name, passed, said, value, unit)

    def memory(self, size: int) -> int:
        """Give memory of the GPU, every byte 0."""
        return self.gpus.memory(self.gpu, size).address

    def run(
        self, name: str, arguments: bytes, *, blocks: int = BLOCKS, threads: int = THREADS
    ) -> float:
        """Run a kernel once and give its seconds."""
        lane = self.gpus.lane(self.gpu)
        work = lane.kernel(self.gpus.function(self.gpu, name), blocks, threads, arguments)
        return self.gpus.time([work], 1)[0]


def copies(desk: Desk) -> Iterator[Check]:
    """Copy by kernel, and read; the size leaves a rest for every block."""
    size = 8 * MIB + 16
    source, target = desk.memory(size), desk.memory(size)
    desk.gpus.send(partial(pattern_write, seed=SEED), desk.gpu, source, size)
    seconds = desk.run("copy", copy_arguments(target, source, size, 1))
    wrong = desk.gpus.wrong(partial(pattern_wrong, seed=SEED), desk.gpu, target, size)
    yield desk.check("copy kernel", wrong == 0, f"{wrong} words wrong", size / seconds, "B/s")
    seconds = desk.run("read", copy_arguments(desk.memory(16), source, size, 4))
    yield desk.check("read kernel", seconds > 0, "ran", 4 * size / seconds, "B/s")


def chase(desk: Desk) -> Iterator[Check]:
    """Follow a chain through memory; where it ends proves every step."""
    size, steps = 4 * MIB, 2000
    chain, result = desk.memory(size), desk.memory(16)
    desk.gpus.send(partial(chain_write, whole=size), desk.gpu, chain, size)
    seconds = desk.run("chase", chase_arguments(result, chain, 0, steps), blocks=1, threads=1)
    ended, ticks = desk.gpus.words(desk.gpu, result, 2)
    right = ended == chain_position(size, steps)
    yield desk.check(
        "chase kernel",
        right,
        f"ended at {ended}; {ticks / steps:.0f} ticks a step",
        seconds / steps,
        "s",
    )


def sums(desk: Desk) -> Iterator[Check]:
    """All-reduce of two ranks, many repetitions in one kernel and in a graph, on random numbers."""
    for variant in ("pull", "push", "staged"):
        for number in NUMBER_BYTES:
            yield _sum(desk, variant, number, size=4 * KIB, sets=16, repetitions=10_000)
        yield _sum(desk, variant, "f32", size=MIB, sets=1, repetitions=20)
    yield _graph(desk)


@cache
def _vectors(number: str, count: int) -> Vectors:
    """Give the same numbers to every variant: to make them takes longer than to add them."""
    return Vectors.random(number, count, SEED)


def _sum(desk: Desk, variant: str, number: str, *, size: int, sets: int, repetitions: int) -> Check:
    loopback = Loopback(desk.gpus, desk.lab, desk.gpu, variant, number, size, sets)
    vectors = _vectors(number, size * sets // NUMBER_BYTES[number])
    loopback.fill(vectors)
    seconds = loopback.seconds(repetitions)
    wrong, status = loopback.wrong(vectors), [loopback.status(rank) for rank in (0, 1)]
    return desk.check(
        f"all-reduce {variant} {number} {size // KIB} KiB, {repetitions} times",
        wrong == 0 and status == [OK, OK],
        f"{wrong} bytes wrong, ranks ended with {status}",
        seconds / repetitions,
        "s",
    )


def _graph(desk: Desk) -> Check:
    loopback = Loopback(desk.gpus, desk.lab, desk.gpu, "pull", "f32", 16 * KIB, 1)
    vectors = _vectors("f32", 4 * KIB)
    loopback.fill(vectors)
    seconds = loopback.replay(launches=20, replays=5)
    wrong = loopback.wrong(vectors)
    return desk.check("all-reduce as a graph", wrong == 0, f"{wrong} bytes wrong", seconds, "s")


def lonely(desk: Desk) -> Iterator[Check]:
    """A rank whose peer never comes gives up by itself, or when it is told to."""
    for name, expected in (("gives up", TIMED_OUT), ("is called off", ABORTED)):
        loopback = Loopback(desk.gpus, desk.lab, desk.gpu, "pull", "f32", 4 * KIB, 1)
        begun = time.monotonic()
        loopback.work(0, 1, PATIENCE if expected == TIMED_OUT else 60.0).start(1)
        if expected == ABORTED:
            loopback.abort()
        desk.gpus.lane(desk.gpu).wait()
        took, status = time.monotonic() - begun, loopback.status(0)
        yield desk.check(
            f"a lone rank {name}", status == expected, f"ended with {status}", took, "s"
        )


def transfers(desk: Desk) -> Iterator[Check]:
    """Send random bytes of odd lengths to the GPU and back."""
    chance = random.Random(SEED)
    memory = desk.memory(MIB)
    for size in (1, 4095, MIB - 3):
        content = chance.randbytes(size)
        desk.gpus.send(writer(content), desk.gpu, memory, size)
        same = ctypes.string_at(desk.gpus.fetch(desk.gpu, memory, size), size) == content
        yield desk.check(f"{size} bytes there and back", same, "same" if same else "not the same")


CHECKS: tuple[Callable[[Desk], Iterator[Check]], ...] = (transfers, copies, chase, sums, lonely)


def check_gpu(machine: Machine, index: int) -> Iterator[Check]:
    """Make every check on one GPU; what stops one stops those behind it, and is a failed check."""
    gpu = Place("gpu", index)
    near = machine.gpu(index).host_node
    home = node(machine.initiators[0].id if near is None else near)
    try:
        with Lab(home, machine, SEED) as lab:
            for check in CHECKS:
                lab.begin()
                with lab.gpus() as gpus:
                    yield from check(Desk(gpu, gpus, lab))
    except (NumamicroError, CaseFailed) as error:
        yield Check(str(gpu), "all checks", passed=False, said=str(error))


def main() -> int:
    """Print the checks of every GPU as they are made."""
    machine = discover()
    for gpu in machine.gpus:
        for check in check_gpu(machine, gpu.id):
            print(json.dumps(asdict(check)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
