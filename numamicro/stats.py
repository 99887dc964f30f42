"""Summaries of samples. Pure functions of numbers, no numpy: reading a file must start fast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Summary:
    """Where the middle of some values lies and how far they reach.

    Parameters
    ----------
    center : float
        Median of the process medians.
    low, high : float or None
        95 % interval of the median by order statistics; None below six values.
    q1, q3, minimum, maximum : float
        Of all values pooled.
    n, processes : int
    """

    center: float
    low: float | None
    high: float | None
    q1: float
    q3: float
    minimum: float
    maximum: float
    n: int
    processes: int

    @property
    def spread(self) -> float:
        """Interquartile range as a share of the centre (dimensionless)."""
        return (self.q3 - self.q1) / self.center if self.center else 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """Give the value below which `share` of the values lie, interpolated (Hyndman-Fan type 7)."""
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def median(values: Sequence[float]) -> float:
    """Give the middle value."""
    return quantile(values, 0.5)


@cache
def _interval_rank(n: int) -> int | None:
    # Largest rank k with P(the median lies outside [x_(k), x_(n+1-k)]) <= 5 %: two binomial tails.
    tail, rank = 0.0, None
    for k in range(n // 2):
        tail += comb(n, k) / 2**n
        if 2 * tail > 0.05:
            break
        rank = k
    return rank


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Give a distribution-free 95 % interval of the median, or None below six values."""
    rank = _interval_rank(len(values))
    if rank is None:
        return None
    ordered = sorted(values)
    return ordered[rank], ordered[-1 - rank]


def summarise(groups: Sequence[Sequence[float]]) -> Summary:
    """Summarise values grouped by the process that took them.

    Each process counts once in the centre, however many samples it took: samples of one process
    share its page placement and are not independent.

    Parameters
    ----------
    groups : sequence of non-empty sequences of float
    """
    pooled = [value for group in groups for value in group]
    interval = median_interval(pooled)
    return Summary(
        center=median([median(group) for group in groups]),
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        q1=quantile(pooled, 0.25),
        q3=quantile(pooled, 0.75),
        minimum=min(pooled),
        maximum=max(pooled),
        n=len(pooled),
        processes=len(groups),
    )
