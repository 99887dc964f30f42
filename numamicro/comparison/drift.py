"""Whether figures moved with time while the setting stood: then time may be what differs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import TYPE_CHECKING

from numamicro.stats import LEVEL, holm, trend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.comparison.boots import Side
    from numamicro.comparison.pairing import Item, Name

MATTERS = 0.01
"""A drift is told when it comes to this share of the figure from the first boot to the last."""


@dataclass(frozen=True, slots=True)
class Drift:
    """A roll-up that rose or fell from boot to boot within sides.

    Parameters
    ----------
    change : float
        From the first boot to the last, as a share.
    """

    name: Name
    change: float


def in_turns(base: Side, new: Side) -> bool:
    """Tell whether boots of both sides alternate at least once: all of one first is no turn."""
    order = [side for _, side in _order(base, new)]
    return sum(one != other for one, other in pairwise(order)) > 1


def drifts(items: Sequence[Item], base: Side, new: Side) -> list[Drift]:
    """Give the roll-ups whose figures follow the order in which files were taken, side by side.

    A line is fitted through both sides about their own means, so that the setting itself is no
    drift; the chances of all roll-ups are adjusted together.
    """
    places = {position: rank for rank, (position, _) in enumerate(_order(base, new))}
    found = []
    for item in items:
        if item.kind == "rollup" and item.why is None:
            series = [
                [(float(places[name, i]), log(value)) for i, value in enumerate(side) if value]
                for name, side in (("base", item.base), ("new", item.new))
            ]
            if slope := trend(series):
                found.append((item.name, slope))
    chances = holm([slope.p for _, slope in found])
    last = len(places) - 1
    return [
        Drift(name, exp(slope.shift * last) - 1)
        for (name, slope), p in zip(found, chances, strict=True)
        if p < LEVEL and abs(slope.shift * last) > MATTERS
    ]


def _order(base: Side, new: Side) -> list[tuple[tuple[str, int], str]]:
    """Give the boots in the order of their time, each with its side."""
    boots = [
        (boot.header.created, (name, index), name)
        for name, side in (("base", base), ("new", new))
        for index, boot in enumerate(side.boots)
    ]
    return [(position, name) for _, position, name in sorted(boots)]
