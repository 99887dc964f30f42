"""The best order of a group of GPUs for a ring, and its slowest link."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numamicro.cost.terms import Figure


def slowest_of_ring(group: Sequence[int], cost: Callable[[int, int], Figure]) -> Figure:
    """Give the slowest pair of the best order in which a group can form a ring.

    The smallest threshold whose pairs still form a ring through all is that pair's time, so the
    pairs are admitted from the fastest on. Groups have at most a few dozen members.

    Parameters
    ----------
    group : sequence of int
        Three or more.
    cost : callable
        Time of a pair, the same both ways.
    """
    pairs = {(one, other): cost(one, other) for one in group for other in group if one < other}
    ordered = sorted(pairs.items(), key=lambda item: item[1].value)
    low, high = len(group) - 1, len(ordered) - 1  # a ring has as many pairs as members
    while low < high:
        middle = (low + high) // 2
        if _has_ring(tuple(group), frozenset(pair for pair, _ in ordered[: middle + 1])):
            high = middle
        else:
            low = middle + 1
    return ordered[low][1]


def _has_ring(group: tuple[int, ...], pairs: frozenset[tuple[int, int]]) -> bool:
    """Tell whether the pairs hold a ring through the whole group: sets of members reached, by end."""
    rank = {member: index for index, member in enumerate(group)}
    near = [0] * len(group)
    for one, other in pairs:
        near[rank[one]] |= 1 << rank[other]
        near[rank[other]] |= 1 << rank[one]
    ends = {1: 1}  # members on the path -> its possible ends, the path beginning at the first
    for _ in range(len(group) - 1):
        longer: dict[int, int] = defaultdict(int)
        for path, last in ends.items():
            for end in range(len(group)):
                if not last >> end & 1:
                    continue
                for following in range(len(group)):
                    if near[end] >> following & 1 and not path >> following & 1:
                        longer[path | 1 << following] |= 1 << following
        ends = longer
    return bool(ends.get((1 << len(group)) - 1, 0) & near[0])
