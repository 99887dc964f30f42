"""Copies as PyTorch makes them, and cuBLAS through it: ``python -m bench.gpu.with_torch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.gpu.figures import Figure, tell
from numamicro.stats import median
from numamicro.units import GIB, MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COPY_BYTES = 64 * MIB
SAMPLES, REPETITIONS, WARM_UP = 10, 20, 5
GEMM = 8192


def figures() -> Iterator[Figure]:
    """Time copies between pinned memory and the first GPU, within it, and a matrix product."""
    import torch

    host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    near = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    seconds = _seconds(torch, lambda: near.copy_(host, non_blocking=True))
    yield Figure("h2d", COPY_BYTES / seconds, "B/s")
    seconds = _seconds(torch, lambda: host.copy_(near, non_blocking=True))
    yield Figure("d2h", COPY_BYTES / seconds, "B/s")
    large, other = (torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(2))
    seconds = _seconds(torch, lambda: other.copy_(large))
    yield Figure("own memory, read and written", 2 * GIB / seconds, "B/s")
    a, b, c = (torch.ones(GEMM, GEMM, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    seconds = _seconds(torch, lambda: torch.matmul(a, b, out=c))
    yield Figure(f"cuBLAS bf16 product of {GEMM}", 2 * GEMM**3 / seconds, "FLOP/s")


def _seconds(torch: Any, work: Callable[[], object]) -> float:
    """Give the median seconds of one work by the GPU's own clock."""
    for _ in range(WARM_UP):
        work()
    taken = []
    for _ in range(SAMPLES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(REPETITIONS):
            work()
        end.record()
        end.synchronize()
        taken.append(begin.elapsed_time(end) * 1e-3 / REPETITIONS)
    return median(taken)


if __name__ == "__main__":
    tell("PyTorch", figures)
