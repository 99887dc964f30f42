"""Statistics against numpy, the standard library and plain counting."""

from __future__ import annotations

import statistics
from fractions import Fraction
from itertools import product
from math import comb
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.stats import (
    Summary,
    drifts,
    edges,
    is_bimodal,
    median,
    median_interval,
    quantile,
    summarise,
)

if TYPE_CHECKING:
    import random

finite = st.floats(-1e12, 1e12)
positive = st.floats(1e-9, 1e12)
values = st.lists(finite, min_size=1, max_size=60)
groups = st.lists(st.lists(positive, min_size=1, max_size=12), min_size=1, max_size=5)


@given(values, st.floats(0, 1))
def test_quantile_is_numpys(data: list[float], share: float) -> None:
    assert quantile(data, share) == pytest.approx(float(np.quantile(data, share)), abs=1e-3)


@given(values)
def test_median_is_the_standard_librarys(data: list[float]) -> None:
    assert median(data) == pytest.approx(statistics.median(data), abs=1e-3)


@given(values, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_are_ordered_and_within_the_data(data: list[float], a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert min(data) <= quantile(data, low)
    assert quantile(data, high) <= max(data)
    assert quantile(data, low) <= quantile(data, high) + 1e-3


def exact_coverage(n: int, rank: int) -> Fraction:
    """Give the chance that the median of n draws lies within their order statistics at `rank`."""
    return 1 - 2 * Fraction(sum(comb(n, k) for k in range(rank + 1)), 2**n)


@pytest.mark.parametrize("n", [*range(1, 80), 150, 1023, 1024, 1500])
def test_the_interval_is_the_narrowest_that_covers_95_percent(n: int) -> None:
    interval = median_interval([float(value) for value in range(n)])
    if n < 6:
        assert interval is None
        return
    assert interval is not None
    rank = int(interval[0])
    assert interval[1] == n - 1 - rank
    assert exact_coverage(n, rank) >= Fraction(95, 100) > exact_coverage(n, rank + 1)


def test_the_interval_covers_as_often_as_counting_all_cases_says() -> None:
    n = 9
    interval = median_interval([float(value) for value in range(n)])
    assert interval is not None
    rank = int(interval[0])
    # Each draw is below (0) or above (1) the true median, evenly; it is covered when the
    # rank + 1 smallest are not all above it, nor the rank + 1 largest all below.
    covered = sum(rank < sum(draw) < n - rank for draw in product((0, 1), repeat=n))
    assert covered / 2**n >= 0.95
    assert covered == exact_coverage(n, rank) * 2**n


def test_six_values_are_the_fewest_and_give_their_extremes() -> None:
    assert median_interval([3.0, 1.0, 2.0, 5.0, 4.0]) is None
    assert median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (1.0, 6.0)


def test_a_summary_by_hand() -> None:
    summary = summarise([[1.0, 2.0, 9.0], [4.0], [5.0, 7.0]])
    # Medians of the processes: 2, 4, 6; pooled: 1 2 4 5 7 9.
    assert summary == Summary(
        center=4.0,
        low=1.0,
        high=9.0,
        q1=2.5,
        q3=6.5,
        minimum=1.0,
        maximum=9.0,
        n=6,
        processes=3,
    )
    assert summary.spread == 1.0


@given(groups)
def test_a_summary_is_in_order(data: list[list[float]]) -> None:
    summary = summarise(data)
    assert summary.minimum <= summary.q1 <= summary.q3 <= summary.maximum
    assert summary.minimum <= summary.center <= summary.maximum
    assert summary.n == sum(map(len, data))
    assert summary.processes == len(data)
    assert (summary.low is None) == (summary.high is None) == (summary.n < 6)
    if summary.low is not None and summary.high is not None:
        assert summary.minimum <= summary.low <= summary.high <= summary.maximum
        if len(data) == 1:
            assert summary.low <= summary.center <= summary.high


@given(groups, st.randoms(use_true_random=False))
def test_order_does_not_matter(data: list[list[float]], order: random.Random) -> None:
    shuffled = [order.sample(group, len(group)) for group in data]
    order.shuffle(shuffled)
    assert summarise(shuffled) == summarise(data)


@given(groups, st.sampled_from((0.5, 2.0, 1024.0)))
def test_a_summary_scales_with_its_values(data: list[list[float]], factor: float) -> None:
    scaled = summarise([[value * factor for value in group] for group in data])
    plain = summarise(data)
    assert scaled.center == plain.center * factor
    assert (scaled.q1, scaled.q3) == (plain.q1 * factor, plain.q3 * factor)
    assert scaled.spread == plain.spread


def test_each_process_counts_once_however_many_samples_it_took() -> None:
    assert summarise([[10.0] * 100, [20.0], [30.0]]).center == 20.0


def test_equal_values_have_no_spread() -> None:
    summary = summarise([[5.0] * 8])
    assert (summary.low, summary.center, summary.high, summary.spread) == (5.0, 5.0, 5.0, 0.0)
    assert summarise([[0.0] * 3]).spread == 0.0


# ---- shapes --------------------------------------------------------------------------------------


def noisy(center: float, count: int, share: float, seed: int) -> list[float]:
    random = Random(seed)
    return [center * (1 + random.uniform(-share, share)) for _ in range(count)]


@pytest.mark.parametrize("seed", range(20))
def test_two_modes_are_seen_and_one_wide_mode_is_not(seed: int) -> None:
    mixed = noisy(36, 12, 0.03, seed) + noisy(68, 8, 0.03, seed + 1)
    Random(seed).shuffle(mixed)
    assert is_bimodal(mixed)
    assert not is_bimodal([Random(seed + index).gauss(50, 8) for index in range(40)])
    assert not is_bimodal([*noisy(50, 19, 0.03, seed), 5.0])


def test_equal_or_few_values_have_one_mode() -> None:
    assert not is_bimodal([7.0] * 30)
    assert not is_bimodal([1.0, 2.0] * 4)


@pytest.mark.parametrize("seed", range(20))
def test_a_trend_is_seen_and_noise_is_not(seed: int) -> None:
    rising = [value * (1 + 0.02 * index) for index, value in enumerate(noisy(10, 20, 0.01, seed))]
    assert drifts(rising)
    assert drifts(rising[::-1])
    assert not drifts(noisy(10, 20, 0.2, seed))
    flat = [value * (1 + 0.0001 * index) for index, value in enumerate([10.0] * 20)]
    assert not drifts(flat)


def test_edges_are_the_last_sizes_that_fit() -> None:
    curve = [(16, 1.0), (32, 1.0), (64, 2.9), (128, 3.0), (256, 3.1), (512, 7.0), (1024, 11.0)]
    assert edges([*curve, (2048, 11.5), (4096, 90.0)]) == [32, 256, 2048]
    assert edges([]) == []
    assert edges([(1, 1.0), (2, 1.0)]) == []
