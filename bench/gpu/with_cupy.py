"""NCCL's all-reduce and cuBLAS, both through CuPy: ``python -m bench.gpu.with_cupy``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from bench.gpu.figures import Figure, tell
from numamicro.stats import median
from numamicro.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MESSAGES = (4 * KIB, 16 * KIB, MIB, 16 * MIB)
SAMPLES, REPETITIONS, WARM_UP = 10, 20, 5
GEMM = 8192


def figures() -> Iterator[Figure]:
    """Time NCCL's all-reduce over two GPUs, or on one alone, and a matrix product."""
    import cupy
    from cupy.cuda import nccl

    devices = list(range(min(2, cupy.cuda.runtime.getDeviceCount())))
    ranks = [_Rank(cupy, device) for device in devices]
    communicators = nccl.NcclCommunicator.initAll(devices)

    def all_reduce(size: int) -> None:
        nccl.groupStart()
        for rank, communicator in zip(ranks, communicators, strict=True):
            communicator.allReduce(
                *(rank.source, rank.target, size // 2),
                *(nccl.NCCL_FLOAT16, nccl.NCCL_SUM, rank.stream.ptr),
            )
        nccl.groupEnd()

    for size in MESSAGES:
        seconds = _seconds(cupy, ranks, partial(all_reduce, size))
        yield Figure(f"NCCL all-reduce of {size // KIB} KiB, {len(devices)} GPUs", seconds, "s")
    with ranks[0].device:
        a, b, c = (cupy.ones((GEMM, GEMM), dtype=cupy.float16) for _ in range(3))
        seconds = _seconds(cupy, ranks[:1], lambda: cupy.matmul(a, b, out=c))
    yield Figure(f"cuBLAS f16 product of {GEMM}", 2 * GEMM**3 / seconds, "FLOP/s")


class _Rank:
    """A GPU with its stream and vectors."""

    def __init__(self, cupy: Any, device: int) -> None:
        self.device = cupy.cuda.Device(device)
        with self.device:
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self._vectors = [cupy.zeros(MESSAGES[-1] // 2, dtype=cupy.float16) for _ in range(2)]
        self.source, self.target = (vector.data.ptr for vector in self._vectors)


def _seconds(cupy: Any, ranks: list[_Rank], work: Callable[[], object]) -> float:
    """Give the median seconds of one work, by the clock of the first rank's GPU."""
    with ranks[0].device, ranks[0].stream:
        for _ in range(WARM_UP):
            work()
        taken = []
        for _ in range(SAMPLES):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            for _ in range(REPETITIONS):
                work()
            end.record()
            end.synchronize()
            taken.append(cupy.cuda.get_elapsed_time(begin, end) * 1e-3 / REPETITIONS)
    return median(taken)


if __name__ == "__main__":
    tell("CuPy", figures)
