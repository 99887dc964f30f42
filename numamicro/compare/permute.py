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
        Scatter of the figure in the middle; each figure's own is raised by it.
    """

    p: tuple[float, ...]
    critical: float
    usual: float

    def reach(self, scatter: float, base: int, new: int, found: float) -> float:
        """Give the shift that would have been seen in a figure of this scatter.

        `found` is the number of standard errors by which a true shift must pass the limit.
        """
        size = sqrt(1 / base + 1 / new)
        return (self.critical * (scatter + self.usual) + found * scatter) * size


def floor(base: int, new: int) -> float:
    """Give the smallest p that relabelling so many files can bring."""
    ways = comb(base + new, base)
    return (2 if base == new else 1) / ways


def max_t(rows: Sequence[Sequence[float]], base: int, level: float, *, seed: int = 1) -> Adjusted:
    """Test whether figures differ between two sides (Westfall and Young's step-down maxT).

    Whole files change sides, so that what the figures of one file have in common is kept: no
    independence and no distribution is assumed, only that files of one setting could be exchanged.
    The statistic is the difference of means over the scatter within sides, raised by the usual
    scatter of the family (Tusher's moderated t), for few files know their own scatter badly.

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
    observed, usual = _statistics(labels[:1], values, known)
    order = np.argsort(-observed[0], kind="stable")
    limits = observed[0][order] * (1 - 1e-9)
    counts = np.zeros(len(order))
    largest = []
    for start in range(0, len(labels), _AT_ONCE):
        found, _ = _statistics(labels[start : start + _AT_ONCE], values, known)
        # The largest of a figure and of all that come after it: those before are settled by then.
        steps = np.maximum.accumulate(found[:, order[::-1]], axis=1)[:, ::-1]
        counts += (steps >= limits).sum(axis=0)
        largest.append(steps[:, 0])
    p = np.empty(len(order))
    p[order] = np.maximum.accumulate(counts / len(labels))
    return Adjusted(
        tuple(p.tolist()),
        float(np.quantile(np.concatenate(largest), 1 - level, method="higher")),
        float(usual[0]),
    )


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


def _statistics(labels: Any, values: Any, known: Any) -> tuple[Any, Any]:
    """Give |t| of each relabelling and figure, and the usual scatter under each relabelling."""
    import numpy as np

    n, first = known.sum(axis=0), labels @ known
    second = n - first
    lacking = (first == 0) | (second == 0)
    first, second = np.maximum(first, 1), np.maximum(second, 1)
    one = labels @ values
    other = values.sum(axis=0) - one
    shift = other / second - one / first
    within = (values**2).sum(axis=0) - one**2 / first - other**2 / second
    scatter = np.sqrt(np.maximum(within, 0) / np.maximum(n - 2, 1))
    usual = np.median(scatter, axis=1)
    size = np.sqrt(1 / first + 1 / second)
    raised = (scatter + usual[:, None] + _LEAST) * size
    return np.where(lacking, 0.0, np.abs(shift) / raised), usual
