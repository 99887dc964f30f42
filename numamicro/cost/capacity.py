"""Whether a placement fits: bytes that each memory must hold, against what it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.case import AnyPlace
    from numamicro.cost.demand import Demand
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.placement import Placement
    from numamicro.cost.rates import Rates

from numamicro.case import node
from numamicro.cost.cells import gpu


@dataclass(frozen=True, slots=True)
class Room:
    """What one memory must hold, and what it has (bytes; None: unknown, and not checked)."""

    place: AnyPlace
    weights: float
    cache: float
    capacity: int | None

    @property
    def needed(self) -> float:
        """Weights and cache together."""
        return self.weights + self.cache

    @property
    def fits(self) -> bool:
        """Whether it has room, as far as is known."""
        return self.capacity is None or self.needed <= self.capacity


def rooms(
    rates: Rates,
    placement: Placement,
    on_cpu: Demand,
    stages: Sequence[Demand],
    ends: tuple[float, float],
) -> tuple[Room, ...]:
    """Give the room that every memory of a placement needs.

    Parameters
    ----------
    ends : tuple of float
        Bytes of embedding and head on the CPUs, and on the last stage.
    """
    found = []
    weights, cache = on_cpu.kept.bytes, on_cpu.cache_bytes()
    if weights:
        for index, share in placement.held().items():
            home = placement.cache_node
            cached = cache * share if home is None else cache * (index == home)
            if placement.policy == "replicated" and home is None:
                cached = cache / len(placement.memory)
            size = (weights + ends[0]) * share
            found.append(Room(node(index), size, cached, rates.machine.node(index).memory))
    for index, (group, asked) in enumerate(zip(placement.stages, stages, strict=True)):
        last = ends[1] if index == len(stages) - 1 else 0.0
        for member in group:
            size = (asked.kept.bytes + last) / len(group)
            cached = asked.cache_bytes(len(group))
            found.append(Room(gpu(member), size, cached, rates.gpu_memory(member)))
    return tuple(found)


def check_room(model: ModelSpec, needed: Sequence[Room]) -> None:
    """Refuse what does not fit.

    Raises
    ------
    NumamicroError
        A memory is too small; the sentence has the bytes.
    """
    for room in needed:
        if not room.fits:
            assert room.capacity is not None
            raise NumamicroError(
                f"{model.name} does not fit: {room.place} has {bytes_text(room.capacity)} and would "
                f"hold {bytes_text(room.weights)} of weights and {bytes_text(room.cache)} of cache; "
                "place it otherwise, quantise it, or see what it would cost with --ignore-capacity"
            )
