"""What simulators of GPU nodes want to know of one: the slowest of its GPUs, links and ways."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import permutations, product
from typing import TYPE_CHECKING

from numamicro.cost.rates import Lacking, Rates
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numamicro.cost.terms import Figure
    from numamicro.matrix import CostMatrix


@dataclass(frozen=True, slots=True)
class GpuNode:
    """Figures of a whole GPU node, in base units; None where the file has none.

    Parameters
    ----------
    count : int
        GPUs.
    memory : int or None
        Bytes of the smallest.
    read, host, peer : float or None
        Bytes per second: of a GPU's own memory, from the nearest node to a GPU, between two GPUs.
    peer_latency : float or None
        Seconds for one load from another GPU's memory, else to start a copy there.
    gemm : float or None
        Operations per second of a matrix product.
    """

    count: int
    memory: int | None
    read: float | None
    host: float | None
    peer: float | None
    peer_latency: float | None
    gemm: float | None


def gpu_node(matrix: CostMatrix, format: str) -> GpuNode:
    """Give the slowest of each figure that the file has: what parts wait for.

    Raises
    ------
    NumamicroError
        The file tells of no GPU.
    """
    rates = Rates(matrix)
    gpus = rates.gpus()
    if not gpus:
        raise NumamicroError(f"--to {format} needs GPUs, and the file tells of none")
    each, pairs = [(index,) for index in gpus], list(permutations(gpus, 2))
    nodes = [target.id for target in matrix.header.machine.targets]
    nearest = [max(_known(rates.to_gpu, product(nodes, [index])), default=None) for index in gpus]
    memory = [rates.gpu_memory(index) for index in gpus]
    hops = _loads(matrix) or _known(rates.peer_hop, pairs)
    return GpuNode(
        count=len(gpus),
        memory=min((size for size in memory if size), default=None),
        read=min(_known(rates.gpu_read, each), default=None),
        host=min((rate for rate in nearest if rate), default=None),
        peer=min(_known(rates.peer, pairs), default=None),
        peer_latency=max(hops, default=None),
        gemm=min(_known(rates.gpu_gemm, each), default=None),
    )


def _known(figure: Callable[..., Figure], routes: Iterable[tuple[int, ...]]) -> list[float]:
    """Give the figures of those routes for which the file has one."""
    found = []
    for route in routes:
        with suppress(Lacking):
            found.append(figure(*route).value)
    return found


def _loads(matrix: CostMatrix) -> list[float]:
    """Give the seconds of single loads from peers' memory."""
    cells = matrix.cells("peer-latency", "load")
    return [summary.center for cell in cells if (summary := cell.summary())]
