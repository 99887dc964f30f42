"""Summaries of samples. Pure functions of numbers, no numpy: reading a file must start fast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import comb, exp, lgamma, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


NARROW = 0.01
"""A median is known well enough when half its interval is this share of it or less."""


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
    def error(self) -> float | None:
        """Half the interval as a share of the centre (dimensionless); None without an interval."""
        if self.low is None or self.high is None or not self.center:
            return None
        return (self.high - self.low) / 2 / self.center

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


def _chance(n: int, k: int) -> float:
    """Give the chance that exactly k of n values lie below the median."""
    if n <= 1000:
        return float(comb(n, k) / 2**n)
    # Whole numbers of thousands of digits take seconds; logarithms are exact enough here.
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2))


@cache
def _interval_rank(n: int) -> int | None:
    # Largest rank k with P(the median lies outside [x_(k), x_(n+1-k)]) <= 5 %: two binomial tails.
    tail, rank = 0.0, None
    for k in range(n // 2):
        tail += _chance(n, k)
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


def is_settled(values: Sequence[float]) -> bool:
    """Tell whether the median of the values is known within :data:`NARROW`."""
    error = summarise([values]).error
    return error is not None and error <= NARROW


def is_bimodal(values: Sequence[float]) -> bool:
    """Tell whether values fall into two groups that lie well apart.

    The values are cut where the two halves explain most of the variance (Otsu). They count as two
    groups when that is nearly all of it, each group has a fifth of the values, and the gap between
    them is a tenth of the value and wider than either group.
    """
    ordered = sorted(values)
    n = len(ordered)
    if n < 10:
        return False
    mean = sum(ordered) / n
    total = sum((value - mean) ** 2 for value in ordered)
    if total == 0:
        return False
    least = max(n // 5, 2)
    below, explained, cut = sum(ordered[: least - 1]), 0.0, least
    for k in range(least, n - least + 1):
        below += ordered[k - 1]
        gap = below / k - (n * mean - below) / (n - k)
        if (between := k * (n - k) / n * gap**2) > explained:
            explained, cut = between, k
    gap = ordered[cut] - ordered[cut - 1]
    widest = max(ordered[cut - 1] - ordered[0], ordered[-1] - ordered[cut])
    return explained / total > 0.9 and gap > max(widest, 0.1 * ordered[cut])


def drifts(values: Sequence[float]) -> bool:
    """Tell whether values rise or fall with time: Spearman's rank correlation above 0.8, and the
    last quarter's median a twentieth away from the first's."""
    n = len(values)
    if n < 10:
        return False
    ranks = {index: rank for rank, index in enumerate(sorted(range(n), key=lambda i: values[i]))}
    distance = sum((ranks[index] - index) ** 2 for index in range(n))
    correlation = 1 - 6 * distance / (n * (n * n - 1))
    first, last = median(values[: n // 4]), median(values[-(n // 4) :])
    return abs(correlation) > 0.8 and abs(last - first) > 0.05 * first


def edges(points: Sequence[tuple[int, float]]) -> list[int]:
    """Give the sizes after which a latency curve rises: where the caches end, by measuring.

    A rise is a step of a quarter or more between neighbours; steps that follow one another are one
    rise, for a cache that is shared or not of a power of 2 spreads its edge.

    Parameters
    ----------
    points : sequence of (size in bytes, latency in seconds), by size
    """
    found = []
    rising = False
    for (size, here), (_, there) in pairwise(points):
        steep = there > 1.25 * here
        if steep and not rising:
            found.append(size)
        rising = steep
    return found
