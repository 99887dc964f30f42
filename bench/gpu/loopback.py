"""An all-reduce of two ranks on one GPU: all that two GPUs do, but for the way between them.

The sums are held against others, made in Python with another arithmetic; nothing is shared with the
kernels but the bits.
"""

from __future__ import annotations

import ctypes
import random
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro._gpu_data import FLAG_BYTES, all_reduce_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numamicro._gpu import Work
    from numamicro.case import Place
    from numamicro.worker.gpu_lab import GpuCase
    from numamicro.worker.lab import Lab

RANKS = 2
THREADS = 256
STATUS_STRIDE = 128
OK, TIMED_OUT, ABORTED = 0, 1, 2
NUMBER_BYTES = {"f32": 4, "f16": 2, "bf16": 2}


@dataclass(frozen=True, slots=True)
class Vectors:
    """What each rank puts in, set after set, and what both must then hold."""

    inputs: tuple[bytes, bytes]
    sum: bytes

    @classmethod
    def random(cls, number: str, count: int, seed: int) -> Vectors:
        """Give numbers of both signs, small and large, whose sums do not overflow."""
        chance = random.Random(seed)
        draw = [
            [chance.uniform(-1, 1) * 2.0 ** chance.randint(-12, 12) for _ in range(count)]
            for _ in range(RANKS)
        ]
        packed = [pack(number, row) for row in draw]
        rows = [unpack(number, row) for row in packed]
        total = pack(number, (one + other for one, other in zip(*rows, strict=True)))
        return cls((packed[0], packed[1]), total)


def pack(number: str, values: Iterable[float]) -> bytes:
    """Round each value to the nearest number, ties to even."""
    row = list(values)
    if number == "f16":
        return struct.pack(f"<{len(row)}e", *row)
    single = struct.pack(f"<{len(row)}f", *row)
    return single if number == "f32" else _upper_halves(single)


def _upper_halves(single: bytes) -> bytes:
    bits = struct.unpack(f"<{len(single) // 4}I", single)
    rounded = ((word + 0x7FFF + (word >> 16 & 1)) >> 16 for word in bits)
    return struct.pack(f"<{len(bits)}H", *rounded)


def unpack(number: str, packed: bytes) -> tuple[float, ...]:
    """Give the values of packed numbers."""
    if number == "f16":
        return struct.unpack(f"<{len(packed) // 2}e", packed)
    if number == "bf16":
        halves = struct.unpack(f"<{len(packed) // 2}H", packed)
        packed = struct.pack(f"<{len(halves)}I", *(half << 16 for half in halves))
    return struct.unpack(f"<{len(packed) // 4}f", packed)


class Loopback:
    """Two ranks on one GPU, each on a lane of its own, with `sets` vectors of `size` bytes.

    Parameters
    ----------
    variant : str
        pull, push or staged.
    """

    def __init__(
        self, gpus: GpuCase, lab: Lab, gpu: Place, variant: str, number: str, size: int, sets: int
    ) -> None:
        self._gpus, self._gpu = gpus, gpu
        self._size, self._sets = size, sets
        self._blocks = max(1, min(8, gpus.processors(gpu) // RANKS, size // (16 * THREADS)))
        self._flags = FLAG_BYTES * self._blocks
        self._function = gpus.function(gpu, f"allreduce_pair_{number}")
        self._control = gpus.control(gpu)
        self._inputs = [self._memory(size * sets) for _ in range(RANKS)]
        self._outputs = [self._memory(size * sets) for _ in range(RANKS)]
        self._generations = [self._memory(self._flags) for _ in range(RANKS)]
        pushes = variant == "push"
        if variant == "staged":
            arena = lab.arena(lab.initiator, RANKS * (2 * size + self._flags), "auto")
            ctypes.memset(arena.address, 0, RANKS * (2 * size + self._flags))
            start = gpus.pinned(gpu, arena).device
            slots = [start + 2 * size * rank for rank in range(RANKS)]
            lines = [start + 2 * size * RANKS + self._flags * rank for rank in range(RANKS)]
        else:
            slots = [self._memory(2 * size) for _ in range(RANKS)]
            lines = [self._memory(self._flags) for _ in range(RANKS)]
        # To push is to write where the other reads its own memory; here both are one memory.
        self._sends = slots[::-1] if pushes else slots
        self._receives = slots if pushes else slots[::-1]
        self._lines = lines

    def _memory(self, size: int) -> int:
        return self._gpus.memory(self._gpu, size).address

    def work(self, rank: int, repetitions: int, patience: float = 5.0) -> Work:
        """Give a rank's part of so many repetitions, the set changing with each.

        Parameters
        ----------
        patience : float
            Seconds that it waits for the other.
        """
        other = 1 - rank
        arguments = all_reduce_arguments(
            rank=rank,
            source=self._inputs[rank],
            target=self._outputs[rank],
            size=self._size,
            sets=self._sets,
            repetitions=repetitions,
            send=(self._sends[rank],),
            receive=_by_rank(other, self._receives[rank]),
            signal=_by_rank(other, self._lines[other]),
            watch=_by_rank(other, self._lines[rank]),
            generation=self._generations[rank],
            abort=self._control.device,
            status=self._control.device + STATUS_STRIDE * (1 + rank),
            timeout_ns=int(patience * 1e9),
        )
        lane = self._gpus.lane(self._gpu, rank)
        return lane.kernel(self._function, self._blocks, THREADS, arguments)

    def seconds(self, repetitions: int) -> float:
        """Let both ranks do so many repetitions; give what the slower one took."""
        return max(self._gpus.time([self.work(rank, repetitions) for rank in range(RANKS)], 1))

    def replay(self, launches: int, replays: int) -> float:
        """Let both ranks replay a graph of so many launches; give the seconds of one launch."""
        works = [self._gpus.repeated(self.work(rank, 1), launches) for rank in range(RANKS)]
        return max(self._gpus.time(works, replays)) / (launches * replays)

    def fill(self, vectors: Vectors) -> None:
        """Give each rank its vectors, and forget what the last run left."""
        for rank, content in enumerate(vectors.inputs):
            self._gpus.send(writer(content), self._gpu, self._inputs[rank], len(content))
            lane = self._gpus.lane(self._gpu, rank)
            lane.fill(self._outputs[rank], 0, self._size * self._sets).do()

    def wrong(self, vectors: Vectors) -> int:
        """Count the bytes, over both ranks, that are not the sum's."""
        return sum(self._wrong(rank, vectors.sum) for rank in range(RANKS))

    def _wrong(self, rank: int, expected: bytes) -> int:
        host = self._gpus.fetch(self._gpu, self._outputs[rank], len(expected))
        found = ctypes.string_at(host, len(expected))
        if found == expected:
            return 0
        return sum(one != other for one, other in zip(found, expected, strict=True))

    def status(self, rank: int) -> int:
        """Say how a rank's kernel ended: OK, TIMED_OUT or ABORTED."""
        return ctypes.c_uint32.from_address(
            self._control.address + STATUS_STRIDE * (1 + rank)
        ).value

    def abort(self) -> None:
        """Tell both ranks to leave."""
        ctypes.c_uint32.from_address(self._control.address).value = 1


def _by_rank(rank: int, address: int) -> tuple[int, int]:
    return (address, 0) if rank == 0 else (0, address)


def writer(content: bytes) -> Callable[[int, int, int], None]:
    """Give the function that writes a part of some bytes to host memory."""

    def write(address: int, size: int, begin: int) -> None:
        ctypes.memmove(address, content[begin : begin + size], size)

    return write
