"""Tests of many figures at once, by relabelling whole files. The one module that needs numpy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb, sqrt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_LABELS = 2000
"""Relabellings that are tried; where there are more, so many are drawn."""

_AT_ONCE = 128
"""Relabellings in one piece: keeps thousands of figures within some megabytes."""

_LEAST = 1e-12
"""Added to a scatter of zero: equal values differ by the rounding of their logarithms."""


@dataclass(frozen=True, slots=True)
class Adjusted:
    """What a family of figures has in common, and each figure's own p.

    Parameters
    ----------
    p : tuple of float
        Of each figure: the chance that the largest of the family is so large where nothing changed.
    critical : float
        What the statistic of a figure must pass.
    usual : float
        Scatter of the figure in the middle, which moderates each figure's own.
    """

    p: tuple[float, ...]
    critical: float
    usual: float

    def reach(self, scatter: float, base: int, new: int, found: float) -> float:
        """Give the shift that would have been seen in a figure of this scatter.

        `found` is the number of standard errors by which a true shift must pass the limit.
        """
        size = sqrt(1 / base + 1 / new)
        moderated = sqrt((scatter**2 + self.usual**2) / 2)
        return (self.critical * moderated + found * scatter) * size


def floor(base: int, new: int) -> float:
    """Give the smallest p that relabelling so many files can bring."""
    ways = comb(base + new, base)
    return (2 if base == new else 1) / ways


def max_t(rows: Sequence[Sequence[float]], base: int, level: float, *, seed: int = 1) -> Adjusted:
    """Test whether figures differ between two sides (Westfall and Young's step-down maxT).

    What the largest of a family is by chance is found by exchanging whole files between the sides, so
    that what the figures of one file have in common is kept and no independence is assumed. Files are
    exchanged by their distances from their own side's mean: a figure that did change must not look
    like scatter to the others, nor to itself. The statistic is a moderated t: its variance is half the
    figure's own, half that of the figure in the middle of the family, for few files know their own
    scatter badly.

    Parameters
    ----------
    rows : files x figures
        Logarithms, those of the base side first; NaN where a file lacks a figure.
    base : int
        Files of the base side.
    level : float
        Chance of a false alarm to which `critical` belongs.
    """
    import numpy as np

    values = np.asarray(rows, dtype=float)
    known = ~np.isnan(values)
    values = np.where(known, values - np.nanmean(values, axis=0), 0.0)
    labels = _labels(len(values), base, seed)
    shifts, scatters = _effects(labels[:1], values, known)
    usual = float(np.median(scatters)) + _LEAST
    observed = shifts[0] / _moderated(scatters[0], usual)
    order = np.argsort(-observed, kind="stable")
    limits = observed[order] * (1 - 1e-9)
    rest = _distances(values, known, base)
    # The true labels themselves are as large as what was observed; so are they with sides exchanged.
    counts = np.full(len(order), 2.0 if 2 * base == len(values) else 1.0)
    largest = []
    for start in range(1, len(labels), _AT_ONCE):
        shifts, scatters = _effects(labels[start : start + _AT_ONCE], rest, known)
        found = shifts / _moderated(scatters, usual)
        # The largest of a figure and of all that come after it: those before are settled by then.
        steps = np.maximum.accumulate(found[:, order[::-1]], axis=1)[:, ::-1]
        counts += (steps >= limits).sum(axis=0)
        largest.append(steps[:, 0])
    p = np.empty(len(order))
    p[order] = np.minimum(np.maximum.accumulate(counts / len(labels)), 1.0)
    return Adjusted(
        tuple(p.tolist()),
        float(np.quantile(np.concatenate(largest), 1 - level, method="higher")),
        usual,
    )


def _distances(values: Any, known: Any, base: int) -> Any:
    """Give the distance of each file from its side's mean, enlarged by what fitting that mean took."""
    import numpy as np

    found = np.zeros_like(values)
    for side in (slice(0, base), slice(base, None)):
        n = np.maximum(known[side].sum(axis=0), 1)
        mean = values[side].sum(axis=0) / n
        enlarged = np.sqrt(n / np.maximum(n - 1, 1))
        found[side] = np.where(known[side], (values[side] - mean) * enlarged, 0.0)
    return found


def _moderated(scatter: Any, usual: float) -> Any:
    import numpy as np

    return np.sqrt((scatter**2 + usual**2) / 2)


def _labels(files: int, base: int, seed: int) -> Any:
    """Give ways to choose the base side, the true one first: all of them, or as many as are drawn."""
    import numpy as np

    if comb(files, base) <= MOST_LABELS:
        chosen = np.array(list(combinations(range(files), base)))
    else:
        draw = np.random.default_rng(seed)
        ways = np.tile(np.arange(files), (MOST_LABELS, 1))
        chosen = draw.permuted(ways, axis=1)[:, :base]
        chosen[0] = np.arange(base)
    labels = np.zeros((len(chosen), files))
    np.put_along_axis(labels, chosen, 1.0, axis=1)
    return labels


def _effects(labels: Any, values: Any, known: Any) -> tuple[Any, Any]:
    """Give the distance of the sides' means, in units of what one file a side would have as error,
    and the scatter within sides; of each relabelling and figure."""
    import numpy as np

    n = known.sum(axis=0)
    # Where no file lacks a figure, one count a relabelling does for all figures.
    first = labels.sum(axis=1, keepdims=True) if known.all() else labels @ known
    second = n - first
    lacking = (first == 0) | (second == 0)
    first, second = np.maximum(first, 1), np.maximum(second, 1)
    one = labels @ values
    other = values.sum(axis=0) - one
    shift = np.abs(other / second - one / first) / np.sqrt(1 / first + 1 / second)
    within = (values**2).sum(axis=0) - one**2 / first - other**2 / second
    scatter = np.sqrt(np.maximum(within, 0) / np.maximum(n - 2, 1))
    return np.where(lacking, 0.0, shift), scatter
