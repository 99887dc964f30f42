"""What one decode step asks of the place that holds some layers, or only their routed experts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numamicro.cost.formats import Weights, bits_of
from numamicro.cost.model import summed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numamicro.cost.model import Cache, Layer
    from numamicro.cost.placement import Load


@dataclass(frozen=True, slots=True)
class Attended:
    """Cache that query heads take in, of layers whose caches look alike.

    Parameters
    ----------
    heads : int
        Heads of a position that lie side by side.
    head_bytes : float
        Keys and values of one of them, over all positions of one sequence.
    bytes : float
        Of all layers, sequences and query heads: counted for every query head that takes it.
    """

    heads: int
    head_bytes: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Demand:
    """Sums over layers for one step of a batch.

    Parameters
    ----------
    weights : Weights
        Read once.
    shared : Weights
        The shared experts' part of them.
    common, routed : Weights
        The same weights, each counted as often as a token of the batch goes through them: those that
        every token does, and the routed experts.
    kept : Weights
        All that has to be there.
    cache : tuple of (heads, bytes)
        Key-value cache that is read, by the number of heads it can be split into.
    attended : tuple of Attended
        Cache that the query heads take in.
    squares : float
        Operations of the attention of a prompt, divided by the square of its tokens.
    layers, dense, sparse : int
        Layers with their attention here; those of them without routed experts; and layers whose
        routed experts are here.
    products : int
        Products of matrices, one after another: all experts of a token are one.
    summed : int
        Additions that put the results of a token's experts together.
    normed, rotated : int
        Values of a token that are normed; entries of tables of angles.
    taken : float
        Values of a token that products take in, each its own.
    """

    weights: Weights = field(default_factory=Weights)
    shared: Weights = field(default_factory=Weights)
    common: Weights = field(default_factory=Weights)
    routed: Weights = field(default_factory=Weights)
    kept: Weights = field(default_factory=Weights)
    cache: tuple[tuple[int, float], ...] = ()
    attended: tuple[Attended, ...] = ()
    squares: float = 0.0
    layers: int = 0
    dense: int = 0
    sparse: int = 0
    products: int = 0
    summed: int = 0
    normed: int = 0
    rotated: int = 0
    taken: float = 0.0

    def cache_bytes(self, ranks: int = 1) -> float:
        """Give the bytes of cache for each of so many ranks: heads are split, never cut."""
        return sum(size / min(ranks, heads) for heads, size in self.cache)

    @property
    def used(self) -> Weights:
        """What tokens go through, counted for each token."""
        return self.common + self.routed

    @property
    def operations(self) -> float:
        """Multiplications and additions of the weights in one step."""
        return 2 * self.used.parameters


def demand(
    layers: Sequence[Layer], load: Load, *, resident: bool = True, routed: bool = True
) -> Demand:
    """Sum up what layers ask for.

    Parameters
    ----------
    resident, routed : bool
        Whether to count what every token reads, with the cache; and the routed experts.
    """
    counts = _grouped(layers)
    value = bits_of(load.cache_format) / 8 * load.batch
    read: list[Weights] = []
    common: list[Weights] = []
    chosen: list[Weights] = []
    kept: list[Weights] = []
    caches: dict[int, float] = {}
    for layer, count in counts:
        if resident:
            read.append(layer.every_token * count)
            common.append(layer.every_token * (count * load.batch))
            kept.append(layer.every_token * count)
            size = count * value * layer.cache.values * layer.cache.positions(load.context)
            caches[layer.cache.heads] = caches.get(layer.cache.heads, 0.0) + size
        if routed and layer.experts:
            read.append(layer.routed(load.batch) * count)
            chosen.append(layer.expert * (layer.active * load.batch * count))
            kept.append(layer.expert * (layer.experts * count))
    return Demand(
        weights=summed(read),
        shared=summed(layer.mlp * count for layer, count in counts if layer.experts and resident),
        common=summed(common),
        routed=summed(chosen),
        kept=summed(kept),
        cache=tuple(caches.items()),
        attended=joined(_attended(layer.cache, count, load) for layer, count in counts if resident),
        squares=sum(2.0 * layer.width * count for layer, count in counts if resident),
        layers=len(layers) if resident else 0,
        dense=sum(count for layer, count in counts if resident and not layer.experts),
        sparse=sum(count for layer, count in counts if layer.experts and routed),
        products=sum(
            count * (resident * layer.products + 3 * (routed and bool(layer.experts)))
            for layer, count in counts
        ),
        summed=sum(
            (layer.active - 1) * count for layer, count in counts if layer.experts and routed
        ),
        normed=sum(layer.normed * count for layer, count in counts if resident),
        rotated=sum(layer.rotated * count for layer, count in counts if resident),
        taken=sum(
            count * (resident * layer.taken + routed * layer.taken_by_experts)
            for layer, count in counts
        ),
    )


def joined(parts: Iterable[Attended]) -> tuple[Attended, ...]:
    """Put together what is of caches that look alike."""
    found: dict[tuple[int, float], float] = {}
    for part in parts:
        alike = (part.heads, part.head_bytes)
        found[alike] = found.get(alike, 0.0) + part.bytes
    return tuple(Attended(*alike, size) for alike, size in found.items())


def _attended(cache: Cache, layers: int, load: Load) -> Attended:
    values = bits_of(load.cache_format) / 8 * cache.positions(load.context)
    return Attended(
        cache.heads,
        values * cache.values / cache.heads,
        layers * load.batch * values * cache.work,
    )


def _grouped(layers: Sequence[Layer]) -> list[tuple[Layer, int]]:
    """Count layers that are one object: a model keeps equal layers once."""
    counts = Counter(map(id, layers))
    return [(layer, counts[id(layer)]) for layer in {id(layer): layer for layer in layers}.values()]
