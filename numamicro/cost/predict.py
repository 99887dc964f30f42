"""Seconds to load a model, to take in a prompt, and for each token, as sums and maxima of terms."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from numamicro.cost.capacity import Room, check_room, rooms
from numamicro.cost.cpu import CpuSide
from numamicro.cost.demand import Demand, demand, joined
from numamicro.cost.gpu import HOST_BYTES, GpuSide
from numamicro.cost.placement import Engine, Load, Placement, check
from numamicro.cost.rates import Lacking, Rates
from numamicro.cost.terms import ASSUMED, HYPOTHETICAL, Term, at_rate, max_of, sum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numamicro.cost.model import Layer, ModelSpec


@dataclass(frozen=True, slots=True)
class TokenCost:
    """What a placement costs.

    Parameters
    ----------
    decode : Term
        From one token to the next, for every sequence of the batch.
    prefill, first_token, loading : Term or str
        A prompt through the layers; until its first token; weights from storage. A text says what
        the file lacks to tell.
    rooms : tuple of Room
        Bytes that each memory must hold.
    supposed : bool
        Whether GPUs were taken to reach each other otherwise than they do.
    """

    model: ModelSpec
    placement: Placement
    load: Load
    engine: Engine
    decode: Term
    prefill: Term | str
    first_token: Term | str
    loading: Term | str
    rooms: tuple[Room, ...]
    supposed: bool = False

    @property
    def tokens_per_second(self) -> float:
        """Tokens per second of all sequences and replicas together."""
        return self.load.batch * self.placement.replicas / self.decode.seconds

    @property
    def prompt_rate(self) -> float | None:
        """Prompt tokens per second; None when unknown."""
        if isinstance(self.prefill, str):
            return None
        return self.load.prompt / self.prefill.seconds

    @property
    def origins(self) -> tuple[str, ...]:
        """Where the figures came from, for example measured, simulated, assumed or hypothetical."""
        return tuple(sorted({leaf.figure.origin for leaf in self._leaves() if leaf.figure}))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The defaults that stood in for what the file lacks."""
        found = [
            leaf.figure.source
            for leaf in self._leaves()
            if leaf.figure and leaf.figure.origin == ASSUMED
        ]
        return tuple(dict.fromkeys(found))

    @property
    def is_hypothetical(self) -> bool:
        """Whether any figure is one that nobody measured, but asked about."""
        return self.supposed or HYPOTHETICAL in self.origins

    def _leaves(self) -> list[Term]:
        terms = (self.decode, self.prefill, self.loading)
        return [leaf for term in terms if isinstance(term, Term) for leaf in term.leaves()]


class Predictor:
    """A model, a load and an engine on the machine of one matrix; a placement gives its cost."""

    def __init__(
        self,
        model: ModelSpec,
        load: Load,
        engine: Engine,
        rates: Rates,
        *,
        ignore_capacity: bool = False,
    ) -> None:
        self.model = model
        self.load = load
        self.engine = engine
        self.rates = rates
        self.ignore_capacity = ignore_capacity
        self._known: dict[object, _Parts] = {}  # by what decides who is asked for what

    def cost(self, placement: Placement) -> TokenCost:
        """Predict.

        Raises
        ------
        NumamicroError
            The placement is none, does not fit, or the file lacks what a token's time needs.
        """
        parts = self._parts(placement)
        decode = self.decode(placement)
        prefill = _or_why(lambda: self._prefill(parts))
        return TokenCost(
            model=self.model,
            placement=placement,
            load=self.load,
            engine=self.engine,
            decode=decode,
            prefill=prefill,
            first_token=prefill
            if isinstance(prefill, str)
            else _or_why(lambda: self._first(parts, prefill)),
            loading=_or_why(lambda: self._loading(parts)),
            rooms=self._rooms(parts),
            supposed=self.rates.forced_peer is not None,
        )

    def decode(self, placement: Placement) -> Term:
        """Give the time of one token alone, the quick part of :meth:`cost`.

        Raises
        ------
        NumamicroError
            As :meth:`cost`.
        """
        parts = self._parts(placement)
        if not self.ignore_capacity:
            check_room(self.model, self._rooms(parts))
        return self._decode(parts)

    def first_token(self, placement: Placement) -> Term | str:
        """Give the time until a prompt's first token alone; a text says what the file lacks.

        Raises
        ------
        NumamicroError
            The placement is none.
        """
        parts = self._parts(placement)
        return _or_why(lambda: self._first(parts, self._prefill(parts)))

    def fits(self, placement: Placement) -> bool:
        """Tell whether every memory has room."""
        return all(room.fits for room in self._rooms(self._parts(placement)))

    def gpus_have_room(self, placement: Placement) -> bool:
        """Tell whether the GPUs alone have room."""
        needed = self._rooms(self._parts(placement))
        return all(room.fits for room in needed if getattr(room.place, "kind", "") == "gpu")

    def without_capacity(self) -> Predictor:
        """Give the same predictor with no limit to memory."""
        return Predictor(self.model, self.load, self.engine, self.rates, ignore_capacity=True)

    # ---- parts -----------------------------------------------------------------------------------

    def _parts(self, placement: Placement) -> _Parts:
        check(self.model, placement, self.load)
        key = (len(placement.stages), placement.cpu_layers, placement.cpu_experts)
        if key not in self._known:
            self._known[key] = _Parts.of(self.model, placement, self.load)
        return replace(self._known[key], placement=placement)

    def _rooms(self, parts: _Parts) -> tuple[Room, ...]:
        return rooms(
            self.rates, parts.placement, parts.on_cpu, parts.stages, self._head_bytes(parts)
        )

    def _head_bytes(self, parts: _Parts) -> tuple[float, float]:
        """Give the bytes of embedding and head that lie on the CPUs, and on the last stage."""
        head, model = self.model.head.bytes, self.model
        if not parts.placement.stages:
            return (head if model.tied else head + model.embedding.bytes), 0.0
        # An engine keeps the table of embeddings in host memory, one row of it goes to the GPU.
        return model.embedding.bytes, head

    def _sides(self, parts: _Parts) -> tuple[CpuSide, GpuSide]:
        return (
            CpuSide(self.rates, parts.placement, self.engine, self.load),
            GpuSide(self.rates, parts.placement, self.engine, self.load, self.model),
        )

    def _decode(self, parts: _Parts) -> Term:
        cpu, gpus = self._sides(parts)
        layers = cpu.decode("layers on the CPUs", parts.cpu_layers)
        if not parts.placement.stages:
            return sum_of("token", (layers, cpu.head(self.model)))
        terms = [layers, *self._entry(parts, gpus)]
        terms += self._stages(parts, gpus)
        terms += self._experts(parts, cpu, gpus)
        return sum_of("token", (*terms, gpus.logits()))

    def _activation(self) -> float:
        return self.load.batch * self.model.hidden * HOST_BYTES

    def _entry(self, parts: _Parts, gpus: GpuSide) -> list[Term]:
        """Give the hop from the CPUs' layers to the first stage."""
        if not parts.placement.cpu_layers:
            return []
        node = parts.placement.nodes[0]
        return [gpus.up(node, parts.placement.stages[0][0], self._activation())]

    def _stages(self, parts: _Parts, gpus: GpuSide) -> list[Term]:
        terms: list[Term] = []
        groups = parts.placement.stages
        for index, (group, asked) in enumerate(zip(groups, parts.stages, strict=True)):
            if index:
                size = self._activation() / 2
                terms.append(gpus.hop(groups[index - 1][-1], group[0], size))
            head = self.model.head.bytes if index == len(groups) - 1 else 0.0
            overlapping = asked.shared.bytes if self._overlaps(parts) else 0.0
            terms.append(gpus.stage(group, asked, head, overlapping))
        return terms

    def _overlaps(self, parts: _Parts) -> bool:
        return self.engine.overlap and parts.cpu_experts.sparse > 0

    def _experts(self, parts: _Parts, cpu: CpuSide, gpus: GpuSide) -> list[Term]:
        """Give the experts on the CPUs and the hops there and back of every such layer.

        The attention of a layer gives its experts their input, so that only the shared experts on
        the GPU can run at the same time.
        """
        if not parts.cpu_experts.sparse:
            return []
        busy = cpu.decode("experts on the CPUs", parts.cpu_experts)
        node, index = parts.placement.nodes[0], parts.placement.stages[0][0]
        both = (
            gpus.down(index, node, self._activation()),
            gpus.up(node, index, self._activation()),
        )
        hops = sum_of("hops", both).times(parts.cpu_experts.sparse)
        if not self._overlaps(parts):
            return [busy, hops]
        size = sum(asked.shared.bytes for asked in parts.stages)
        shared = gpus.shared(parts.placement.stages[0], size)
        return [max_of("experts", (busy, shared)), hops]

    # ---- prompt ----------------------------------------------------------------------------------

    def _prefill(self, parts: _Parts) -> Term:
        tokens = self.load.prompt
        chunk = min(self.engine.prefill_chunk, tokens)
        chunks = ceil(tokens / chunk)
        wide = _Parts.of(self.model, parts.placement, replace(self.load, batch=chunk))
        cpu, gpus = self._sides(parts)
        terms = [
            gpus.prefill(group, asked, tokens, chunks)
            for group, asked in zip(parts.placement.stages, wide.stages, strict=True)
        ]
        cpu = CpuSide(self.rates, parts.placement, self.engine, replace(self.load, batch=chunk))
        for name, asked in (
            ("layers on the CPUs", wide.cpu_layers),
            ("experts on the CPUs", wide.cpu_experts),
        ):
            if asked.weights.parameters:
                terms.append(self._cpu_prefill(name, asked, parts, cpu, gpus, chunks))
        return sum_of("prompt", terms)

    def _cpu_prefill(
        self, name: str, asked: Demand, parts: _Parts, cpu: CpuSide, gpus: GpuSide, chunks: int
    ) -> Term:
        stages = parts.placement.stages
        if not (stages and self.engine.streams and self.load.prompt >= LONG_PROMPT):
            return cpu.prefill(name, asked, self.load.prompt, chunks)
        computed = gpus.prefill(stages[0], asked, self.load.prompt, chunks)
        return sum_of(name, (gpus.streamed(stages[0], asked.weights.bytes, chunks), computed))

    def _first(self, parts: _Parts, prefill: Term) -> Term:
        """Give the time to the first token: a prompt's last logits are its own."""
        cpu, gpus = self._sides(parts)
        last = gpus.logits() if parts.placement.stages else cpu.head(self.model)
        return sum_of("first token", (prefill, last))

    # ---- loading ---------------------------------------------------------------------------------

    def _loading(self, parts: _Parts) -> Term:
        """Give the longest of reading, copying and sending: an engine does them side by side."""
        rates, placement = self.rates, parts.placement
        on_host, on_gpu = self._head_bytes(parts)
        host = parts.on_cpu.kept.bytes + on_host
        copies = len(placement.memory) if placement.policy == "replicated" else 1
        total = self.model.total.bytes
        steps = [at_rate("storage", total, "B", rates.storage(), "the storage")]
        if host and placement.memory:
            size, rate = host * copies, rates.copy(placement.memory[0])
            steps.append(at_rate("host copy", size, "B", rate, "the host's copying"))
        for index, (group, asked) in enumerate(zip(placement.stages, parts.stages, strict=True)):
            head = on_gpu if index == len(placement.stages) - 1 else 0.0
            size = (asked.kept.bytes + head) / len(group)
            for member in group:
                best = max(
                    (rates.to_gpu(node, member) for node in rates.memory_nodes()),
                    key=lambda figure: figure.value,
                )
                steps.append(
                    at_rate(f"host to gpu{member}", size, "B", best, f"the link to gpu{member}")
                )
        return max_of("load", steps)


LONG_PROMPT = 32
"""From so many tokens on llama.cpp takes the CPUs' weights to a GPU for a prompt."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What each place is asked for."""

    placement: Placement
    cpu_layers: Demand
    cpu_experts: Demand
    on_cpu: Demand
    stages: tuple[Demand, ...]

    @classmethod
    def of(cls, model: ModelSpec, placement: Placement, load: Load) -> _Parts:
        first = placement.cpu_layers if placement.stages else len(model.layers)
        moved = set(placement.cpu_experts) if placement.stages else set()
        below = demand(model.layers[:first], load)
        experts = demand(
            [model.layers[index] for index in sorted(moved) if index >= first], load, resident=False
        )
        stages = tuple(
            _plus(
                demand([layer for i, layer in part if i not in moved], load),
                demand([layer for i, layer in part if i in moved], load, routed=False),
            )
            for part in _split(list(enumerate(model.layers))[first:], len(placement.stages))
        )
        return cls(placement, below, experts, _plus(below, experts), stages)


def _split(layers: Sequence[tuple[int, Layer]], parts: int) -> list[Sequence[tuple[int, Layer]]]:
    """Cut into so many runs of as nearly as possible the same number of layers."""
    ends = [round(len(layers) * index / parts) for index in range(parts + 1)] if parts else []
    return [layers[start:end] for start, end in itertools.pairwise(ends)]


def _plus(one: Demand, other: Demand) -> Demand:
    caches = dict(one.cache)
    for heads, size in other.cache:
        caches[heads] = caches.get(heads, 0.0) + size
    return Demand(
        weights=one.weights + other.weights,
        shared=one.shared + other.shared,
        common=one.common + other.common,
        routed=one.routed + other.routed,
        kept=one.kept + other.kept,
        cache=tuple(caches.items()),
        attended=joined(one.attended + other.attended),
        squares=one.squares + other.squares,
        layers=one.layers + other.layers,
        dense=one.dense + other.dense,
        sparse=one.sparse + other.sparse,
        products=one.products + other.products,
        summed=one.summed + other.summed,
        normed=one.normed + other.normed,
        rotated=one.rotated + other.rotated,
        taken=one.taken + other.taken,
    )


def _or_why(compute: Callable[[], Term]) -> Term | str:
    """Give a term, or what the file lacks for it."""
    try:
        return compute()
    except Lacking as error:
        return str(error)
