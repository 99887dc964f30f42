"""Student's t, tails, and relabelling of files, against published tables, closed forms and counting."""

from __future__ import annotations

import statistics
from itertools import combinations
from math import atan, comb, exp, isnan, log, pi, sqrt
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.compare_power import World, tally
from numamicro.comparison.permute import floor, max_t
from numamicro.comparison.verdict import Design, boots_needed, design_of
from numamicro.stats import (
    fewest_for,
    holm,
    predicted,
    scatter,
    t_quantile,
    tail,
    trend,
    two_sided,
    welch,
)

freedoms = st.floats(1, 200)
sides = st.lists(st.floats(-10, 10), min_size=2, max_size=9)

# ---- Student's t ---------------------------------------------------------------------------------


# Percentage points of Student's t, two-sided, as every book has them.
@pytest.mark.parametrize(
    ("freedom", "at_5", "at_1"),
    [
        (1, 12.706, 63.657),
        (2, 4.303, 9.925),
        (4, 2.776, 4.604),
        (8, 2.306, 3.355),
        (10, 2.228, 3.169),
        (30, 2.042, 2.750),
        (120, 1.980, 2.617),
    ],
)
def test_quantiles_are_the_tables(freedom: int, at_5: float, at_1: float) -> None:
    assert t_quantile(0.05, freedom) == pytest.approx(at_5, abs=6e-4)
    assert t_quantile(0.01, freedom) == pytest.approx(at_1, abs=6e-4)


@given(st.floats(0, 50))
def test_one_and_two_degrees_of_freedom_have_closed_forms(t: float) -> None:
    assert two_sided(t, 1) == pytest.approx(1 - 2 * atan(t) / pi, abs=1e-7)
    assert two_sided(t, 2) == pytest.approx(1 - t / sqrt(2 + t * t), abs=1e-7)


@given(st.floats(0, 6))
def test_many_degrees_of_freedom_are_normal(t: float) -> None:
    assert two_sided(t, 1e5) == pytest.approx(2 * (1 - statistics.NormalDist().cdf(t)), abs=1e-4)


@given(st.sampled_from([0.2, 0.05, 0.01, 0.001]), freedoms)
def test_a_quantile_gives_its_chance_back(chance: float, freedom: float) -> None:
    # Degrees of freedom are rounded down, so that the chance is never more than was asked.
    assert two_sided(t_quantile(chance, freedom), freedom) <= chance * (1 + 1e-6)
    assert two_sided(t_quantile(chance, freedom), freedom) >= chance * 0.7


# ---- two sides -----------------------------------------------------------------------------------


def test_welch_is_the_textbooks() -> None:
    # Welch's own example is long lost to the books; these figures are worked out by hand.
    base, new = [1.0, 2.0, 3.0], [2.0, 4.0, 6.0, 8.0]
    effect = welch(base, new)
    assert effect.shift == 3.0
    assert effect.error == pytest.approx(sqrt(1 / 3 + (20 / 3) / 4))
    a, b = 1 / 3, 5 / 3
    assert effect.freedom == pytest.approx((a + b) ** 2 / (a**2 / 2 + b**2 / 3))


@given(sides, sides)
def test_welch_turns_with_its_sides(base: list[float], new: list[float]) -> None:
    there, back = welch(base, new), welch(new, base)
    assert there.shift == pytest.approx(-back.shift)
    assert there.error == pytest.approx(back.error)
    assert there.p == pytest.approx(back.p, abs=1e-9)
    low, high = there.interval or (0.0, 0.0)
    assert low <= there.shift <= high


def test_one_value_tells_no_scatter() -> None:
    effect = welch([1.0], [2.0])
    assert (effect.interval, effect.p) == (None, 1.0)
    assert isnan(effect.error)
    assert scatter([1.0], [2.0]) is None
    assert scatter([1.0, 3.0], [5.0]) == pytest.approx(sqrt(2))


def test_a_prediction_interval_holds_the_next_value_so_often() -> None:
    draw = Random(7)
    inside = 0
    for _ in range(2000):
        effect = predicted([draw.gauss(0, 1) for _ in range(5)], [draw.gauss(0, 1)])
        low, high = effect.interval or (0.0, 0.0)
        inside += low <= 0 <= high
    assert 0.93 < inside / 2000 < 0.97


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_bonferroni_step_by_step(chances: list[float]) -> None:
    adjusted = holm(chances)
    assert all(p <= q for p, q in zip(chances, adjusted, strict=True))
    assert min(adjusted) == min(1.0, len(chances) * min(chances))
    order = sorted(range(len(chances)), key=lambda i: chances[i])
    assert [adjusted[i] for i in order] == sorted(adjusted)


@given(st.floats(-1, 1), st.floats(-5, 5))
def test_a_trend_is_common_to_series_of_other_levels(slope: float, level: float) -> None:
    series = [
        [(float(t), slope * t) for t in (0, 2, 4)],
        [(float(t), level + slope * t) for t in (1, 3, 5)],
    ]
    found = trend(series)
    assert found is not None
    assert found.shift == pytest.approx(slope, abs=1e-9)
    assert trend([[(0.0, 1.0)], [(1.0, 2.0)]]) is None


# ---- tails ---------------------------------------------------------------------------------------


def test_tails_need_the_values_that_order_statistics_ask_for() -> None:
    assert fewest_for(0.95) == 72
    assert fewest_for(0.99) == 368
    assert str(tail([1.0] * 40, 0.99)) == "p99 of n=40, no interval"
    assert str(tail([1.0] * 368, 0.99)) == "p99 of n=368"


@pytest.mark.parametrize(("share", "n"), [(0.95, 72), (0.95, 150), (0.99, 368), (0.5, 20)])
def test_the_interval_of_a_tail_covers_it(share: float, n: int) -> None:
    values = [float(i) for i in range(n)]
    found = tail(values, share)
    assert found.low is not None
    assert found.high is not None
    low, high = int(found.low), int(found.high)
    # The quantile lies between these order statistics with the chance that their ranks give.
    chance = sum(comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(low + 1, high + 1))
    assert chance >= 0.95
    assert found.low <= found.value <= found.high


# ---- relabelling ---------------------------------------------------------------------------------


def plain_p(values: list[float], base: int) -> float:
    """Give the p of a single figure by counting: distances from the sides' means are exchanged."""

    def statistic(data: list[float], chosen: tuple[int, ...]) -> float:
        one = [data[i] for i in chosen]
        other = [data[i] for i in range(len(data)) if i not in chosen]
        within = sum((v - sum(s) / len(s)) ** 2 for s in (one, other) for v in s)
        variance = (within / (len(data) - 2) + usual) / 2
        shift = abs(sum(one) / len(one) - sum(other) / len(other))
        return shift / sqrt(variance + 1e-30)

    sides = (values[:base], values[base:])
    usual = sum((v - sum(s) / len(s)) ** 2 for s in sides for v in s) / (len(values) - 2)
    rest = [(v - sum(s) / len(s)) * sqrt(len(s) / (len(s) - 1)) for s in sides for v in s]
    first, *others = combinations(range(len(values)), base)
    observed = statistic(values, first)
    itself = 2 if 2 * base == len(values) else 1
    found = sum(statistic(rest, chosen) >= observed * (1 - 1e-9) for chosen in others)
    return (itself + found) / (1 + len(others))


@given(st.integers(0, 10_000), st.integers(2, 4), st.integers(2, 4))
def test_one_figure_is_counted_by_hand(seed: int, base: int, new: int) -> None:
    draw = Random(seed)
    values = [draw.gauss(0, 1) for _ in range(base + new)]
    found = max_t([[value] for value in values], base, 0.05)
    assert found.p[0] == pytest.approx(min(1.0, plain_p(values, base)))


@given(st.integers(0, 10_000))
def test_adjusted_chances_keep_to_the_floor_and_the_order_of_nothing_else(seed: int) -> None:
    draw = Random(seed)
    rows = [[draw.gauss(0, 1) for _ in range(6)] for _ in range(8)]
    found = max_t(rows, 4, 0.05)
    assert min(found.p) >= floor(4, 4) - 1e-12
    assert max(found.p) <= 1.0
    # A figure of the family that is added twice changes nothing for the others.
    twice = max_t([[*row, row[0]] for row in rows], 4, 0.05)
    assert twice.p[0] == pytest.approx(twice.p[6])


def test_a_large_change_is_at_the_floor_and_does_not_hide_others() -> None:
    draw = Random(3)
    rows = [
        [draw.gauss(100 if i >= 5 else 0, 1), draw.gauss(10 if i >= 5 else 0, 1), draw.gauss(0, 1)]
        for i in range(10)
    ]
    p = max_t(rows, 5, 0.05).p
    assert p[0] == p[1] == pytest.approx(floor(5, 5))
    assert p[2] > 0.05


def test_equal_values_are_no_change() -> None:
    rows = [[log(40e9), log(1e-7)] for _ in range(10)]
    assert max_t(rows, 5, 0.05).p == (1.0, 1.0)


def test_a_value_that_a_file_lacks_is_left_out() -> None:
    draw = Random(5)
    rows = [[draw.gauss(5 if i >= 5 else 0, 1), draw.gauss(0, 1)] for i in range(10)]
    rows[0][1] = float("nan")
    p = max_t(rows, 5, 0.05).p
    assert p[0] == pytest.approx(floor(5, 5))
    assert p[1] > 0.05


def test_many_files_are_sampled_and_still_told_apart() -> None:
    draw = Random(6)
    rows = [[draw.gauss(3 if i >= 20 else 0, 1), draw.gauss(0, 1)] for i in range(40)]
    found = max_t(rows, 20, 0.05)
    assert found.p[0] < 0.01
    assert found.p == max_t(rows, 20, 0.05).p  # the draw is seeded


# ---- designs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("boots", "design"),
    [
        ((1, 1), Design.SINGLE),
        ((2, 1), Design.FEW),
        ((3, 3), Design.FEW),
        ((4, 1), Design.FEW),
        ((5, 1), Design.PREDICTED),
        ((1, 5), Design.PREDICTED),
        ((5, 3), Design.PREDICTED),
        ((4, 4), Design.EXCHANGED),
        ((5, 4), Design.EXCHANGED),
        ((20, 20), Design.EXCHANGED),
    ],
)
def test_so_many_boots_allow_a_design(boots: tuple[int, int], design: Design) -> None:
    assert design_of(*boots) is design


def test_more_noise_takes_more_boots() -> None:
    counts = [sum(boots_needed(noise, log(1.03), (5, 1), 0.05)) for noise in (0.005, 0.01, 0.02)]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert boots_needed(None, 0.03, (1, 1), 0.05) == (4, 0)


# ---- what it comes to ----------------------------------------------------------------------------

_TIMES = 120


@pytest.mark.parametrize("boots", [(5, 1), (4, 4), (5, 5)])
@pytest.mark.parametrize("noise", [0.005, 0.05])
def test_a_false_alarm_is_rare(boots: tuple[int, int], noise: float) -> None:
    """Whole comparisons, of roll-ups and cells together, in which anything is better or worse."""
    found = tally(World(noise, noise / 3, cells=12), *boots, _TIMES, seed=11)
    # 5 % of 120 are 6; more than 12 would come by chance in one of a hundred such tests.
    assert found.false_verdict * _TIMES <= 12
    assert found.false_change * _TIMES <= 14


def test_a_change_of_a_twentieth_is_seen_as_often_as_it_should() -> None:
    alone = World(0.015, 0.0, cells=1, change=exp(0.0488) - 1, changed=1)
    assert tally(alone, 5, 1, _TIMES, ("read",)).seen > 0.45
    assert tally(alone, 5, 2, _TIMES, ("read",)).seen > 0.65
    many = World(0.0, 0.015, change=log(1.05), changed=60)
    assert tally(many, 5, 5, 20).seen > 0.85
