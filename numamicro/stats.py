"""Summaries of samples. Pure functions of numbers, no numpy: reading a file must start fast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import comb, exp, inf, lgamma, log, log1p, nan, pi, sqrt
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
    """Give the middle value, or the mean of the two in the middle."""
    ordered = sorted(values)
    below = (len(ordered) - 1) // 2
    return ordered[below] + (ordered[-1 - below] - ordered[below]) / 2


def _chance(n: int, k: int) -> float:
    """Give the chance that exactly k of n values lie below the median."""
    if n <= 1000:
        return float(comb(n, k) / 2**n)
    # Whole numbers of thousands of digits take seconds; logarithms are exact enough here.
    return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2))


@cache
def _interval_rank(n: int, error: float) -> int | None:
    # Largest rank k with P(the median lies outside [x_(k), x_(n+1-k)]) <= error: two binomial tails.
    tail, rank = 0.0, None
    for k in range(n // 2):
        tail += _chance(n, k)
        if 2 * tail > error:
            break
        rank = k
    return rank


def median_interval(values: Sequence[float], error: float = 0.05) -> tuple[float, float] | None:
    """Give a distribution-free interval of the median, or None where there are too few values.

    Parameters
    ----------
    values : sequence of float
        At least six for an `error` of 0.05.
    error : float
        At most how often it may miss the median.
    """
    rank = _interval_rank(len(values), error)
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


# ---- tails ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tail:
    """A value that a share of all values stays below.

    Parameters
    ----------
    low, high : float or None
        95 % interval by order statistics; None where `n` is below :func:`fewest_for`.
    """

    share: float
    value: float
    low: float | None
    high: float | None
    n: int

    def __str__(self) -> str:
        """Write as ``p99 of n=40, no interval``."""
        interval = "" if self.low is not None else ", no interval"
        return f"p{100 * self.share:g} of n={self.n}{interval}"


def tail(values: Sequence[float], share: float) -> Tail:
    """Give a quantile far from the middle, with the distribution-free interval that `n` allows."""
    ordered = sorted(values)
    ranks = _tail_ranks(len(ordered), share)
    return Tail(
        share,
        quantile(ordered, share),
        ordered[ranks[0]] if ranks else None,
        ordered[ranks[1]] if ranks else None,
        len(ordered),
    )


def fewest_for(share: float) -> int:
    """Give the values that a 95 % interval of a tail takes: 72 for p95, 368 for p99."""
    n = 1
    while _tail_ranks(n, share) is None:
        n += 1
    return n


@cache
def _tail_ranks(n: int, share: float) -> tuple[int, int] | None:
    # The quantile lies above the value of rank k when fewer than k + 1 of n values lie below it;
    # each side may miss it with 2.5 %.
    if n == 0 or share**n > 0.025 or (1 - share) ** n > 0.025:
        return None
    below, low, high = 0.0, 0, n - 1
    for k in range(n):
        below += exp(
            lgamma(n + 1)
            - lgamma(k + 1)
            - lgamma(n - k + 1)
            + k * log(share)
            + (n - k) * log1p(-share)
        )
        if below <= 0.025:
            low = k
        if below >= 0.975:
            high = k
            break
    return low, min(high, n - 1)


# ---- Student's t ---------------------------------------------------------------------------------

_TERMS = 60


def _beta(x: float, a: float, b: float) -> float:
    """Give the regularised incomplete beta function I_x(a, b), by its continued fraction
    (DLMF 8.17.22), which converges fast below (a + 1) / (a + b + 2)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(1 - x, b, a)
    fraction = 1.0
    for k in range(_TERMS, 0, -1):
        m, odd = divmod(k, 2)
        if odd:
            part = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            part = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        fraction = 1 + part / fraction
    front = lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)
    return exp(front) / a / fraction


def two_sided(t: float, freedom: float) -> float:
    """Give the chance that |t| is at least so large with these degrees of freedom."""
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def t_quantile(chance: float, freedom: float) -> float:
    """Give the t that |t| passes with this two-sided chance.

    Degrees of freedom are rounded down to tenths: an interval is a little too wide, never too narrow.
    """
    return _t_quantile(chance, max(int(freedom * 10), 1))


@cache
def _t_quantile(chance: float, tenths: int) -> float:
    # Newton's method: the chance falls ever slower, so that steps from the left never pass the root.
    freedom = tenths / 10
    scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * pi)
    t, step = 0.0, 1.0
    while step > 1e-12 * t:
        density = scale * exp(-(freedom + 1) / 2 * log1p(t * t / freedom))
        step = (two_sided(t, freedom) - chance) / (2 * density)
        t += step
    return t


# ---- two sides -----------------------------------------------------------------------------------

LEVEL = 0.05
"""Intervals are of 1 - LEVEL, and so many false alarms are borne."""

POWER = 0.8
"""A change counts as one that could have been seen when it is found so often."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference of means: of logarithms, a ratio.

    Parameters
    ----------
    shift : float
        New less base.
    error : float
        Standard error of `shift`; NaN where nothing tells how far values scatter.
    freedom : float
        Degrees of freedom of `error`.
    """

    shift: float
    error: float
    freedom: float

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval of the shift by Student's t; None without degrees of freedom."""
        if not self.freedom:
            return None
        half = t_quantile(LEVEL, self.freedom) * self.error
        return self.shift - half, self.shift + half

    @property
    def p(self) -> float:
        """Chance of such a shift where there is none; 1 without degrees of freedom."""
        if not self.freedom:
            return 1.0
        if not self.error:
            return float(self.shift == 0)
        return two_sided(self.shift / self.error, self.freedom)

    def reach(self, chance: float = LEVEL) -> float:
        """Give the shift that a test with this chance of a false alarm finds with POWER."""
        if not self.freedom:
            return inf
        found = t_quantile(2 * (1 - POWER), self.freedom)
        return (t_quantile(chance, self.freedom) + found) * self.error


def welch(base: Sequence[float], new: Sequence[float]) -> Effect:
    """Compare means of two sides that may scatter differently (Welch, with Satterthwaite's degrees
    of freedom). A side of one value leaves none."""
    shift = _mean(new) - _mean(base)
    if min(len(base), len(new)) < 2:
        return Effect(shift, nan, 0.0)
    parts = [(_variance(side) / len(side), len(side) - 1) for side in (base, new)]
    total = sum(part for part, _ in parts)
    if total <= 0:
        return Effect(shift, 0.0, float(len(base) + len(new) - 2))
    # Shares of the whole, for squares of tiny variances are zero.
    freedom = 1 / sum((part / total) ** 2 / df for part, df in parts)
    return Effect(shift, sqrt(total), freedom)


def predicted(many: Sequence[float], few: Sequence[float]) -> Effect:
    """Compare the mean of `few` values with what `many` let expect: a prediction interval.

    Only `many` tell the scatter, so that `few` may be one.
    """
    error = sqrt(_variance(many) * (1 / len(many) + 1 / len(few)))
    return Effect(_mean(few) - _mean(many), error, float(len(many) - 1))


def scatter(*sides: Sequence[float]) -> float | None:
    """Give the standard deviation within sides, pooled; None where no side has two values."""
    freedom = sum(len(side) - 1 for side in sides if side)
    if not freedom:
        return None
    squares = sum(_variance(side) * (len(side) - 1) for side in sides if len(side) > 1)
    return sqrt(squares / freedom)


def holm(chances: Sequence[float]) -> list[float]:
    """Adjust p-values of one family so that any false alarm stays below the level (Holm)."""
    adjusted, worst = [0.0] * len(chances), 0.0
    for rank, index in enumerate(sorted(range(len(chances)), key=lambda i: chances[i])):
        worst = max(worst, min(1.0, (len(chances) - rank) * chances[index]))
        adjusted[index] = worst
    return adjusted


def trend(series: Sequence[Sequence[tuple[float, float]]]) -> Effect | None:
    """Give the slope of values over time that several series have in common, each about its own mean.

    Parameters
    ----------
    series : sequence of sequences of (time, value)

    Returns
    -------
    Effect or None
        `shift` is per unit of time; None where no degree of freedom or no time is left.
    """
    points: list[tuple[float, float]] = []
    for each in series:
        if each:
            middle, level = _mean([time for time, _ in each]), _mean([value for _, value in each])
            points += [(time - middle, value - level) for time, value in each]
    freedom = len(points) - sum(1 for each in series if each) - 1
    spread = sum(time * time for time, _ in points)
    if freedom < 1 or not spread:
        return None
    slope = sum(time * value for time, value in points) / spread
    rest = sum((value - slope * time) ** 2 for time, value in points)
    return Effect(slope, sqrt(rest / freedom / spread), float(freedom))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    mean = _mean(values)
    return sum([(value - mean) ** 2 for value in values]) / (len(values) - 1)
