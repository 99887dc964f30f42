"""Seconds that the GPUs take of a step, and what passes between them and the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.cost.rates import Lacking
from numamicro.cost.terms import (
    ASSUMED,
    Figure,
    Term,
    at_rate,
    max_of,
    repeated,
    smaller,
    sum_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.cost.demand import Demand
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.placement import Engine, Load, Placement
    from numamicro.cost.rates import Rates

ACTIVATION_BYTES = 2
"""GPUs pass activations to each other in 16 bits."""

HOST_BYTES = 4
"""Activations and logits reach the host in 32 bits."""

NEVER_COMPUTE_BOUND = 16
"""Up to this batch no GPU since 2017 is bound by arithmetic in a decode step: each does more than 50
operations for every byte it reads, and a 16-bit weight brings two for each sequence."""


class GpuSide:
    """The GPUs of a placement and what they take."""

    def __init__(
        self, rates: Rates, placement: Placement, engine: Engine, load: Load, model: ModelSpec
    ) -> None:
        self.rates = rates
        self.placement = placement
        self.engine = engine
        self.load = load
        self.model = model

    # ---- decode ----------------------------------------------------------------------------------

    def stage(self, group: Sequence[int], asked: Demand, head_bytes: float, shared: float) -> Term:
        """Give the time of one stage in a step: ``max(bytes / (eta * BW), operations / F)``, a fixed
        time for each layer, and two all-reduces a layer.

        Parameters
        ----------
        head_bytes : float
            Bytes of the head where this stage has it, else 0.
        shared : float
            Bytes of shared experts that are counted elsewhere, because they overlap.
        """
        ranks = len(group)
        size = (asked.weights.bytes - shared + head_bytes) / ranks
        rate = self._memory(group)
        parts = [
            at_rate("weights", size, "B", rate, "the GPU's memory"),
            at_rate("cache", asked.cache_bytes(ranks), "B", rate, "the GPU's memory"),
        ]
        busy = max_of("kernels", (sum_of("memory", parts), *self._arithmetic(group, asked)))
        operations = self.engine.meetings(asked.layers, asked.dense, asked.sparse, asked.summed)
        count = operations / self.engine.meetings(1, 1, 0, 0)
        layers = repeated("layers", count, self._layer_time(), "the GPU's launches")
        return sum_of(_named(group), (busy, layers, *self._reduces(group, asked, bool(head_bytes))))

    def shared(self, group: Sequence[int], size: float) -> Term:
        """Give the time in which a group reads its shared experts."""
        return at_rate(
            "shared experts", size / len(group), "B", self._memory(group), "the GPU's memory"
        )

    def _memory(self, group: Sequence[int]) -> Figure:
        slowest = smaller(self.rates.gpu_read(index) for index in group)
        return slowest * self.engine.gpu_efficiency

    def _layer_time(self) -> Figure:
        seconds = self.engine.gpu_layer_seconds
        label = f"engine {self.engine.name}: {seconds * 1e6:.0f} us a layer"
        return Figure(seconds, seconds, seconds, label, "engine")

    def _arithmetic(self, group: Sequence[int], asked: Demand) -> tuple[Term, ...]:
        try:
            rate = self._products(group)
        except Lacking:
            if self.load.batch > NEVER_COMPUTE_BOUND:
                raise
            return ()
        if rate.origin == ASSUMED and self.load.batch <= NEVER_COMPUTE_BOUND:
            return ()
        work = asked.operations / len(group)
        return (at_rate("arithmetic", work, "operations", rate, "the GPU's arithmetic"),)

    def _products(self, group: Sequence[int]) -> Figure:
        return smaller(self.rates.gpu_gemm(index) for index in group)

    def _reduces(self, group: Sequence[int], asked: Demand, has_head: bool) -> list[Term]:
        if len(group) == 1:
            return []
        size = self.load.batch * self.model.hidden * ACTIVATION_BYTES
        reduce = self._all_reduce(group, size)
        parts = [repeated("all-reduces", 2 * asked.layers, reduce, "the links between GPUs")]
        if has_head:
            # Gathering logits that are split by vocabulary moves half of what reducing them would.
            logits = self.load.batch * self.model.vocabulary * ACTIVATION_BYTES
            gather = self._all_reduce(group, logits / 2)
            parts.append(repeated("gather of logits", 1, gather, "the links between GPUs"))
        return parts

    def _all_reduce(self, group: Sequence[int], size: float) -> Figure:
        if self.placement.peer:
            return self.rates.all_reduce(group, size)
        return self.rates.staged_all_reduce(group, size, self.placement.via)

    # ---- between stages and host -----------------------------------------------------------------

    def hop(self, sender: int, receiver: int, size: float) -> Term:
        """Give the time of activations from one GPU to another: ``alpha + S / beta``, through a node
        ``alpha_d2h + S / beta_d2h + alpha_h2d + S / beta_h2d``."""
        name = f"gpu{sender} to gpu{receiver}"
        if self.placement.peer:
            start = self.rates.peer_hop(sender, receiver)
            rate = self.rates.peer(sender, receiver)
            domain = "the links between GPUs"
            parts = (repeated("start", 1, start, domain), at_rate("copy", size, "B", rate, domain))
            return sum_of(name, parts)
        ways = [
            sum_of(
                f"{name} through node{node}",
                (self.down(sender, node, size), self.up(node, receiver, size)),
            )
            for node in self._hosts()
        ]
        return min(ways, key=lambda way: way.seconds)

    def down(self, index: int, node: int, size: float) -> Term:
        """Give the time of a small copy from a GPU to a node."""
        return self._copy(
            f"gpu{index} to node{node}", index, node, size, self.rates.from_gpu(index, node)
        )

    def up(self, node: int, index: int, size: float) -> Term:
        """Give the time of a small copy from a node to a GPU."""
        return self._copy(
            f"node{node} to gpu{index}", index, node, size, self.rates.to_gpu(node, index)
        )

    def _copy(self, name: str, index: int, node: int, size: float, rate: Figure) -> Term:
        domain = f"the link between node{node} and gpu{index}"
        start = repeated("start", 1, self.rates.host_hop(node, index), domain)
        return sum_of(name, (start, at_rate("copy", size, "B", rate, domain)))

    def logits(self) -> Term:
        """Give the time in which the logits reach the host, from the last stage."""
        if not self.engine.host_samples:
            return sum_of("logits to the host", ())
        size = self.load.batch * self.model.vocabulary * HOST_BYTES
        index = self.placement.stages[-1][0]
        ways = [self.down(index, node, size) for node in self._hosts()]
        fastest = min(ways, key=lambda way: way.seconds)
        return sum_of("logits to the host", (fastest,))

    def _hosts(self) -> tuple[int, ...]:
        if self.placement.via is not None:
            return (self.placement.via,)
        return self.placement.nodes or self.rates.memory_nodes()

    # ---- prefill and load ------------------------------------------------------------------------

    def prefill(self, group: Sequence[int], chunk: Demand, tokens: int, chunks: int) -> Term:
        """Give the time of a prompt in one stage: ``max(operations / F, bytes / BW)`` and two
        all-reduces of a chunk's activations a layer.

        Parameters
        ----------
        chunk : Demand
            Of a batch as large as a chunk.
        """
        ranks = len(group)
        per_token = chunk.operations / self.engine.prefill_chunk
        work = (per_token * tokens + chunk.squares * tokens**2) / ranks
        read = chunk.weights.bytes * chunks / ranks
        parts = [
            max_of(
                "kernels",
                (
                    at_rate(
                        "matrix products",
                        work,
                        "operations",
                        self._products(group),
                        "the GPU's arithmetic",
                    ),
                    at_rate("weights", read, "B", self._memory(group), "the GPU's memory"),
                ),
            )
        ]
        if ranks > 1:
            size = min(tokens, self.engine.prefill_chunk) * self.model.hidden * ACTIVATION_BYTES
            reduce = self._all_reduce(group, size)
            count = 2 * chunk.layers * chunks
            parts.append(repeated("all-reduces", count, reduce, "the links between GPUs"))
        return sum_of(_named(group), parts)

    def streamed(self, group: Sequence[int], size: float, chunks: int) -> Term:
        """Give the time in which the CPUs' weights go to a GPU, once for each chunk of a prompt."""
        index = group[0]
        rate = smaller(self.rates.to_gpu(node, index) for node in self.placement.memory)
        return at_rate(
            "weights of the CPUs to the GPU", size * chunks, "B", rate, f"the link to gpu{index}"
        )


def _named(group: Sequence[int]) -> str:
    return "+".join(f"gpu{index}" for index in group)
