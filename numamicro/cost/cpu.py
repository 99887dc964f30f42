"""Seconds that the CPUs take of a step: weights through memory, links and cores, and waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.cost.formats import Weights
from numamicro.cost.rates import MATRIX_BYTES
from numamicro.cost.terms import Figure, Term, at_rate, max_of, repeated, sum_of
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.cost.demand import Demand
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.placement import Engine, Load, Placement
    from numamicro.cost.rates import Rates


class CpuSide:
    """The CPUs of a placement and what they take.

    ``T = max(T_stream, W / K) + T_cache + n * (t_barrier + t_dispatch)`` with ``T_stream`` the longest of each
    memory's, each link's and each node's cores' part.
    """

    def __init__(self, rates: Rates, placement: Placement, engine: Engine, load: Load) -> None:
        self.rates = rates
        self.placement = placement
        self.engine = engine
        self.load = load

    def decode(self, name: str, asked: Demand) -> Term:
        """Give the time of one step."""
        if not asked.weights.parameters:
            return sum_of(name, ())
        parts = (
            self._weights(asked.weights, asked.used, asked.products),
            self._cache(asked),
            self._steps(asked.normed, asked.rotated),
            *self._quantize(asked.taken, asked.weights),
            self._waiting(asked),
        )
        return sum_of(name, parts)

    def head(self, model: ModelSpec) -> Term:
        """Give the time of the last norm and the head, which every token reads whole."""
        weights = self._weights(model.head, model.head * self.load.batch, 1)
        quantize = self._quantize(model.hidden, model.head)
        return sum_of("head", (weights, self._steps(model.hidden, 0), *quantize))

    def prefill(self, name: str, asked: Demand, tokens: int, chunks: int) -> Term:
        """Give the time of a prompt.

        Parameters
        ----------
        asked : Demand
            Of one chunk: its weights are read once for each.
        """
        if not asked.weights.parameters:
            return sum_of(name, ())
        products = sum_of("products", self._prompt_products(asked, tokens))
        stream = self._stream(asked.weights).times(chunks, "weights, once a chunk")
        steps = self._steps(asked.normed, asked.rotated).times(chunks)
        parts = (max_of("weights", (products, stream)), self._scores(asked, tokens), steps)
        return sum_of(name, parts)

    def _prompt_products(self, asked: Demand, tokens: int) -> Iterator[Term]:
        common, routed = (each * (1 / self.load.batch) for each in (asked.common, asked.routed))
        if not self.engine.experts_singly:
            common, routed = common + routed, Weights()
        yield sum_of("matrix products", self._products(common, tokens))
        if routed.parameters:
            yield self._singly(routed * tokens)

    # ---- parts -----------------------------------------------------------------------------------

    def _weights(self, weights: Weights, used: Weights, products: int) -> Term:
        return max_of("weights", (self._stream(weights, products), self._dot(used)))

    def _quantize(self, taken: float, weights: Weights) -> Iterator[Term]:
        """Give the time in which what products take in is made 8 bits, by one thread for each token.

        llama.cpp has fast loops for blocks of 32, and for four tokens at once: three are left at most.
        """
        turns = -(-min(self.load.batch, 3) // self.placement.team)
        count = turns * taken * weights.super_share if self.engine.quantizes_plainly else 0
        if count:
            time = self.rates.step("quantize")
            yield repeated("quantize", count, time, "the cores' arithmetic")

    def _steps(self, normed: int, rotated: int) -> Term:
        """Give the time of norms and tables of angles: of one thread for each sequence."""
        turns = -(-self.load.batch // self.placement.team)
        kinds = (("norm", normed), ("rotate", rotated))
        parts = [
            repeated(kind, turns * count, self.rates.step(kind), "the cores' arithmetic")
            for kind, count in kinds
            if count
        ]
        return sum_of("small operations", parts)

    def _stream(self, weights: Weights, products: int = 0) -> Term:
        return max_of("weights from memory", self._streams(weights.bytes, weights, products))

    def _streams(
        self, size: float, weights: Weights | None = None, products: int = 0
    ) -> Iterator[Term]:
        """Give what a read of so many bytes takes of each memory, each link and each node's cores.

        Weights, too, go no faster than their products let them.
        """
        placement, rates = self.placement, self.rates
        shares = placement.shares()
        for target in sorted({target for _, target in shares}):
            share = sum(part for (_, there), part in shares.items() if there == target)
            yield at_rate(
                f"memory of node{target}",
                size * share,
                "B",
                rates.memory(target),
                f"the memory of node{target}",
            )
        for (reader, target), share in sorted(shares.items()):
            if reader != target:
                yield at_rate(
                    f"node{reader} from node{target}",
                    size * share,
                    "B",
                    rates.link(reader, target),
                    f"the link from node{target} to node{reader}",
                )
        for reader, threads in placement.threads:
            yield self._into(reader, threads, size, shares)
            if weights:
                yield self._through(reader, threads, weights, products)
        together = self._together()
        if together:
            yield at_rate("all nodes at once", size, "B", together, "the memory of all nodes")

    def _through(self, reader: int, threads: int, weights: Weights, products: int) -> Term:
        """Give the time in which a node's threads take their part from memory through dot products.

        At the end of a matrix all wait for the last: the first MiB of each goes at the rate of
        threads that meet after each MiB, and what more there is at that of a long stream.
        """
        share = threads / self.placement.team
        domain = f"the memory of node{reader}"
        parts = []
        for name, size in weights.bytes_by_format().items():
            first = min(size, products * MATRIX_BYTES * size / weights.bytes)
            matrix, stream = (self.rates.stream(name, threads, ends=ends) for ends in (True, False))
            if not stream:
                continue
            if matrix and first:
                what = f"{name} through the cores, matrix by matrix"
                parts.append(at_rate(what, first * share, "B", matrix, domain))
                size -= first
            if size:
                parts.append(
                    at_rate(f"{name} through the cores", size * share, "B", stream, domain)
                )
        return sum_of(f"through the cores of node{reader}", parts)

    def _into(
        self, reader: int, threads: int, size: float, shares: dict[tuple[int, int], float]
    ) -> Term:
        """Give the time in which a node's cores take in their part, whatever limits them."""
        sources = {target: part for (node, target), part in shares.items() if node == reader}
        name, domain = f"into the cores of node{reader}", f"the cores of node{reader}"
        even = len(set(sources.values())) == 1
        if even and len(sources) > 1:
            figure = self.rates.read(reader, sorted(sources), threads)
            return at_rate(name, size * sum(sources.values()), "B", figure, domain)
        return sum_of(
            name,
            (
                at_rate(
                    f"{name} from node{target}",
                    size * part,
                    "B",
                    self.rates.read(reader, (target,), threads),
                    domain,
                )
                for target, part in sorted(sources.items())
            ),
        )

    def _together(self) -> Figure | None:
        """Give what all nodes reach at once, where they read as the probe let them."""
        nodes = sorted(self.placement.nodes)
        if len(nodes) < 2 or sorted(self.placement.memory) != nodes:
            return None
        pairing = {"interleaved": "interleave", "first-touch": None}.get(
            self.placement.policy, "own"
        )
        return self.rates.together(nodes, pairing) if pairing else None

    def _dot(self, used: Weights) -> Term:
        """Give the time of the products: one by one, or as a matrix where a batch makes that faster."""
        single = self._singly(used)
        if self.load.batch == 1:
            return single
        matrix = sum_of("matrix products", self._products(used, 1))
        return min((single, matrix), key=lambda term: term.seconds)

    def _singly(self, used: Weights) -> Term:
        return sum_of(
            "dot products",
            (
                at_rate(
                    f"dot products in {name}",
                    size,
                    "B",
                    self.rates.dot(name, self.placement.team),
                    "the cores' arithmetic",
                )
                for name, size in used.bytes_by_format().items()
            ),
        )

    def _products(self, weights: Weights, tokens: int) -> Iterator[Term]:
        for name, count in weights.by_format:
            yield at_rate(
                f"matrix products in {name}",
                2 * count * tokens,
                "operations",
                self.rates.gemm(name, self.placement.team),
                "the cores' arithmetic",
            )

    def _cache(self, asked: Demand) -> Term:
        stream = self._cache_stream(asked.cache_bytes())
        return max_of("cache", (stream, sum_of("attention", self._attention(asked))))

    def _attention(self, asked: Demand) -> Iterator[Term]:
        for part in asked.attended:
            figure = self.rates.attention(self.placement.team, part.heads, part.head_bytes)
            name = f"attention, {bytes_text(part.head_bytes)} a head"
            yield at_rate(name, part.bytes, "B", figure, "the attention")

    def _cache_stream(self, size: float) -> Term:
        home = self.placement.cache_node
        if home is None:
            return max_of("cache from memory", self._streams(size))
        parts = [
            at_rate(
                f"cache of node{home} into node{reader}",
                size * threads / self.placement.team,
                "B",
                self.rates.read(reader, (home,), threads),
                f"the memory of node{home}",
            )
            for reader, threads in self.placement.threads
        ]
        whole = at_rate(
            f"cache of node{home}", size, "B", self.rates.memory(home), f"the memory of node{home}"
        )
        return max_of("cache from memory", (whole, *parts))

    def _waiting(self, asked: Demand) -> Term:
        meetings = self.engine.meetings(asked.layers, asked.dense, asked.sparse, asked.summed)
        barrier = self.rates.barrier(self.placement.nodes, self.placement.team)
        waits = repeated("barriers", meetings, barrier, "waiting of threads for each other")
        seconds = self.engine.dispatch_seconds
        dispatch = Figure(seconds, seconds, seconds, f"dispatch of {self.engine.name}", "engine")
        turns = repeated("dispatch", meetings, dispatch, "waiting for the next operation")
        return sum_of("operations", (waits, turns) if seconds else (waits,))

    def _scores(self, asked: Demand, tokens: int) -> Term:
        return at_rate(
            "attention of the prompt",
            asked.squares * tokens**2,
            "operations",
            self.rates.gemm("F16", self.placement.team),
            "the cores' arithmetic",
        )
