"""What a model is to the machine: bytes of weights by layer and class, cache per position, work."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from numamicro.cost.formats import Weights, bits_of

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Cache:
    """What the attention of one layer keeps of a position.

    Parameters
    ----------
    values : int
        Numbers kept for each position: ``2 * kv_heads * head_dim``, or MLA's ``rank + rope``.
    heads : int
        Over how many heads they can be split between GPUs; 1 for MLA, whose latent every rank
        keeps whole.
    work : int
        Numbers of a position that all query heads together take in when one token is decoded: a
        cached head is taken in once for each query head that shares it.
    window : int, optional
        Positions that are looked back at; None: all.
    """

    values: int
    heads: int
    work: int
    window: int | None = None

    def positions(self, context: int) -> int:
        """Give how many positions are read at this depth."""
        return context if self.window is None else min(context, self.window)


@dataclass(frozen=True, slots=True)
class Layer:
    """One transformer block.

    Parameters
    ----------
    attention, mlp, router : Weights
        Read for every token. `mlp` is the dense MLP, or the shared experts.
    expert : Weights
        One routed expert.
    experts, active : int
        How many routed experts there are, and how many a token takes; 0 without.
    normed, rotated : int
        Values of a token that are normed, and length of the tables of angles that turn its queries
        and keys.
    cache : Cache
    width : int
        ``query heads * head dim``: a pair of positions takes ``4 * width`` operations of a prefill;
        for MLA the mean of the key's and the value's width.
    """

    attention: Weights
    mlp: Weights
    cache: Cache
    width: int
    router: Weights = field(default_factory=Weights)
    expert: Weights = field(default_factory=Weights)
    experts: int = 0
    active: int = 0
    normed: int = 0
    rotated: int = 0

    @property
    def every_token(self) -> Weights:
        """What any token reads."""
        return self.attention + self.mlp + self.router

    @property
    def products(self) -> int:
        """Matrices that any token goes through, one after another: those of queries, keys, values and
        the output; two or three of an MLP; the router."""
        return 4 + 3 * bool(self.mlp.parameters) + bool(self.router.parameters)

    @property
    def taken(self) -> float:
        """Values that the products of any token take in, each its own input: the hidden state for
        queries, keys and values, the heads for the output; twice the hidden state and the inner one
        for an MLP."""
        hidden = self.normed / 2
        inner = self.mlp.parameters / (3 * hidden) if hidden else 0.0
        return 3 * hidden + self.width + (2 * hidden + inner if inner else 0.0)

    @property
    def taken_by_experts(self) -> float:
        """The same of a token's routed experts, which share the hidden state."""
        hidden = self.normed / 2
        inner = self.expert.parameters / (3 * hidden) if hidden else 0.0
        return 2 * hidden + self.active * inner if inner else 0.0

    @property
    def total(self) -> Weights:
        """All that is kept."""
        return self.every_token + self.expert * self.experts

    def unique_experts(self, batch: float) -> float:
        """Give how many experts a batch is expected to touch: ``E * (1 - (1 - K/E)^B)``.

        Tokens are taken to choose independently and evenly; real routers are less even, so that
        this is an upper estimate.
        """
        if not self.experts:
            return 0.0
        missed: float = (1.0 - self.active / self.experts) ** batch
        return self.experts * (1.0 - missed)

    def routed(self, batch: float) -> Weights:
        """Give the routed experts' weights that one step of a batch reads."""
        return self.expert * self.unique_experts(batch)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A decoder, as far as its cost goes.

    Parameters
    ----------
    name : str
    layers : tuple of Layer
    embedding : Weights
        One row of it is read for a token.
    head : Weights
        Read whole for every token, tied to the embedding or not.
    tied : bool
        Whether the head is the embedding: kept once.
    hidden, vocabulary, heads, kv_heads : int
        `kv_heads` is 1 for MLA.
    notes : tuple of str
        What is not counted, for example a vision tower.
    """

    name: str
    layers: tuple[Layer, ...]
    embedding: Weights
    head: Weights
    tied: bool
    hidden: int
    vocabulary: int
    heads: int
    kv_heads: int
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> Weights:
        """All weights that are kept."""
        ends = self.head if self.tied else self.embedding + self.head
        return summed(layer.total for layer in self.layers) + ends

    @property
    def parameters(self) -> float:
        """How many parameters there are."""
        return self.total.parameters

    def active(self, batch: float = 1) -> Weights:
        """Give the weights that one decode step of a batch reads: layers and head."""
        layers = (layer.every_token + layer.routed(batch) for layer in self.layers)
        return summed(layers) + self.head

    @property
    def active_parameters(self) -> float:
        """Give the parameters that take part in one token, the head among them."""
        return self.active().parameters

    def cache_bytes(self, context: int, kv_format: str = "F16") -> float:
        """Give the bytes that the attention reads, and the cache keeps, at this depth."""
        values = sum(layer.cache.values * layer.cache.positions(context) for layer in self.layers)
        return values * bits_of(kv_format) / 8

    def renamed(self, name: str) -> ModelSpec:
        """Give the same model under another name."""
        return replace(self, name=name)


def once(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """Give layers with equal ones as one object, so that counting them is quick."""
    seen: dict[Layer, Layer] = {}
    return tuple(seen.setdefault(layer, layer) for layer in layers)


def summed(weights: Iterable[Weights]) -> Weights:
    """Add weights up."""
    total = Weights()
    for part in weights:
        total = total + part
    return total
