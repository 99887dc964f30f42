"""What the scenes are made of: GPUs, streams that begin together, and the ranks of an all-reduce."""

from __future__ import annotations

import ctypes as c
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from tests.standin.client import (
    LINE,
    MAX_RANKS,
    AllReduceArgs,
    Driver,
    DriverError,
    Gpu,
    Handle,
    HostMemory,
)

Work: TypeAlias = tuple[Gpu, Handle, Callable[[], None]]
"""Something to do on a stream of a GPU."""

MIB = 1 << 20
_HOLD_BYTES = 4 * MIB
PATIENCE_MS = 20_000


def gpus() -> list[Gpu]:
    driver = Driver()
    return [Gpu(driver, index) for index in range(driver.count())]


class Gate:
    """Holds streams until all their work is queued, so that the host's own time is not measured."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self.source = HostMemory(gpu, _HOLD_BYTES)
        self.target = gpu.allocate(_HOLD_BYTES)
        self.opened = gpu.event()

    def close(self, *streams: tuple[Gpu, Handle]) -> None:
        self.gpu.upload(self.target, self.source.address, _HOLD_BYTES)
        self.gpu.record(self.opened)
        for gpu, stream in streams:
            gpu.use().cuStreamWaitEvent(stream, self.opened, 0)


def timed(gate: Gate, works: list[Work]) -> list[float]:
    """Give the seconds of works that begin together, each on its own stream."""
    gate.close(*((gpu, stream) for gpu, stream, _ in works))
    events = [(gpu.event(), gpu.event()) for gpu, _, _ in works]
    for (gpu, stream, work), (begin, end) in zip(works, events, strict=True):
        gpu.record(begin, stream)
        work()
        gpu.record(end, stream)
    return [
        gpu.elapsed(begin, end) for (gpu, _, _), (begin, end) in zip(works, events, strict=True)
    ]


class Group:
    """Ranks of an all-reduce on some GPUs, or on one alone, with all their buffers."""

    def __init__(
        self,
        members: list[Gpu],
        variant: str,
        size: int,
        node: int,
        grid: int,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        self.members = members
        self.size = size
        self.grid = grid
        count = len(members)
        slots = 2 * size
        flags = LINE * grid
        self.inputs = [gpu.allocate(size) for gpu in members]
        self.outputs = [gpu.allocate(size) for gpu in members]
        self.control = HostMemory(members[0], 4096, 0)
        self.shared = None
        if variant == "staged":
            self.shared = HostMemory(members[0], (slots + flags * count) * count, node)
            base = self.shared.address
            rooms = [[base + slots * rank] * count for rank in range(count)]
            base += slots * count
            lines = [
                [base + flags * (rank * count + peer) for peer in range(count)]
                for rank in range(count)
            ]
        else:
            rooms = [[gpu.allocate(slots) for _ in members] for gpu in members]
            lines = [[gpu.allocate(flags) for _ in members] for gpu in members]
        generations = [gpu.allocate(flags) for gpu in members]
        self.arguments = []
        for rank in range(count):
            peers = [peer for peer in range(count) if peer != rank]
            pushes = variant == "push"
            sends = [rooms[peer][rank] for peer in peers] if pushes else [rooms[rank][rank]]
            receive = [rooms[rank][p] if pushes else rooms[p][p] for p in range(count)]
            self.arguments.append(
                AllReduceArgs(
                    input=self.inputs[rank],
                    output=self.outputs[rank],
                    send=row(sends),
                    receive=row(receive),
                    signal=row([lines[peer][rank] for peer in range(count)]),
                    watch=row(lines[rank]),
                    generation=generations[rank],
                    abort=self.control.address,
                    status=self.control.address + LINE * (1 + rank),
                    timeout_ns=patience_ms * 1_000_000,
                    words=size // 16,
                    repetitions=1,
                    sets=1,
                    rank=rank,
                    ranks=count,
                    sends=len(sends),
                )
            )

    def launch(self, rank: int, repetitions: int, number: str = "f32") -> None:
        arguments = AllReduceArgs.from_buffer_copy(self.arguments[rank])
        arguments.repetitions = repetitions
        kind = "pair" if len(self.members) == 2 else "group"
        self.members[rank].launch(f"allreduce_{kind}_{number}", self.grid, 512, arguments)

    def status(self) -> list[int]:
        return [self.control.memory[LINE * (1 + rank)] for rank in range(len(self.members))]


def row(addresses: list[int]) -> Any:
    return (c.c_uint64 * MAX_RANKS)(*addresses)


def loaded(image: str) -> list[Gpu]:
    everything = gpus()
    with open(image, "rb") as file:
        content = file.read()
    for gpu in everything:
        gpu.load(content)
    return everything


def floats(count: int, seed: int) -> bytes:
    chance = random.Random(seed)
    return struct.pack(f"{count}f", *(chance.uniform(-1, 1) for _ in range(count)))


def access(members: list[Gpu]) -> None:
    """Enable all the peer access that there is."""
    for gpu in members:
        for peer in members:
            if gpu is not peer:
                with suppress(DriverError):
                    gpu.enable(peer)


def sums(contents: list[bytes]) -> bytes:
    rows = [struct.unpack(f"{len(content) // 4}f", content) for content in contents]
    total = rows[0]
    for row in rows[1:]:
        packed = struct.pack(f"{len(row)}f", *(a + b for a, b in zip(total, row, strict=True)))
        total = struct.unpack(f"{len(row)}f", packed)
    return struct.pack(f"{len(total)}f", *total)
