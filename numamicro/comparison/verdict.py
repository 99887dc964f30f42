"""From the figures of two sides to a verdict on each: a test, an interval, and what that says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, inf, log, nan, sqrt
from typing import TYPE_CHECKING

from numamicro.comparison.pairing import called
from numamicro.comparison.permute import Adjusted, floor, max_t
from numamicro.stats import LEVEL, POWER, Effect, holm, predicted, scatter, t_quantile, welch
from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.comparison.pairing import Item

FAMILY_LEVEL = 0.03
"""Chance of a change that is none which each of two families, roll-ups and cells, may have. They mostly
err together, so that both stay below LEVEL."""

FEWEST_BASE = 5
"""Boots of one side that tell how boots scatter, so that one boot of the other can be judged."""

MOST_BOOTS = 50
"""A difference that takes more boots than this a side is given up."""


class Verdict(StrEnum):
    """What a comparison of one figure came to."""

    BETTER = "better"
    WORSE = "worse"
    UNCERTAIN = "changed, size uncertain"
    SMALL = "changed by less than matters"
    UNCHANGED = "no measurable change"
    INCONCLUSIVE = "inconclusive"
    INDICATIVE = "indicative only"
    NOT_COMPARABLE = "not comparable"


class Design(StrEnum):
    """What so many boots a side allow."""

    EXCHANGED = "files exchanged"  # four or more a side: every figure is tested
    PREDICTED = "predicted"  # many against few: roll-ups that were declared are tested
    FEW = "too few"  # ratios and their intervals
    SINGLE = "one against one"  # ratios


def design_of(base: int, new: int) -> Design:
    """Give what so many boots allow."""
    if base == new == 1:
        return Design.SINGLE
    if min(base, new) >= 4 and floor(base, new) < FAMILY_LEVEL:
        return Design.EXCHANGED
    if max(base, new) >= FEWEST_BASE and min(base, new) >= 1:
        return Design.PREDICTED
    return Design.FEW


@dataclass(frozen=True, slots=True)
class Judged:
    """A figure with its verdict.

    Parameters
    ----------
    ratio : float
        New over base.
    low, high : float or None
        95 % interval of the ratio.
    n : tuple of int
        Boots that have the figure, on each side.
    p : float or None
        Adjusted for all figures of its family; None where it was not tested.
    threshold : float
        A smaller change does not matter, as a share of the base.
    reach : float or None
        The smallest change that would have been seen, as a share of the base.
    more : tuple of int
        Boots of each side that would settle it; (0, 0) where nothing is open.
    why : str
        What stands in the way of a verdict, or of a comparison.
    """

    item: Item
    verdict: Verdict
    ratio: float = nan
    low: float | None = None
    high: float | None = None
    n: tuple[int, int] = (0, 0)
    p: float | None = None
    threshold: float = 0.0
    reach: float | None = None
    more: tuple[int, int] = (0, 0)
    why: str = ""

    @property
    def change(self) -> float:
        """The change as a share of the base."""
        return self.ratio - 1


def threshold_of(item: Item, share: float = 0.5) -> float:
    """Give the change that matters in practice, as a share of the figure."""
    if share != 0.5:
        return 0.10
    if item.name.probe.startswith("all-reduce"):
        return 0.05
    return 0.03 if is_rate(item.unit) else 0.05


@dataclass(frozen=True, slots=True)
class _Logs:
    """A figure's logarithms, and what they let one say without a test."""

    item: Item
    base: list[float]
    new: list[float]
    effect: Effect
    scatter: float | None
    threshold: float  # of the logarithm

    @property
    def n(self) -> tuple[int, int]:
        return len(self.base), len(self.new)


def judge(
    items: Sequence[Item], boots: tuple[int, int], declared: Sequence[str] = (), share: float = 0.5
) -> list[Judged]:
    """Give a verdict on each item, in their order.

    Parameters
    ----------
    boots : tuple of int
        Of each side.
    declared : sequence of str
        What the user expects to change; where boots are few, that alone is tested.
    share : float
        The quantile that figures are.
    """
    design = design_of(*boots)
    judged: dict[int, Judged] = {}
    logs: dict[int, _Logs] = {}
    for index, item in enumerate(items):
        if item.why is not None:
            judged[index] = Judged(item, Verdict.NOT_COMPARABLE, why=item.why)
        elif not (any(item.base) and any(item.new)):
            judged[index] = Judged(item, Verdict.NOT_COMPARABLE, why=_NO_BOOT)
        else:
            logs[index] = _logs(item, design, share)
    if design is Design.EXCHANGED:
        for family in (("rollup", "token"), ("cell",)):
            judged |= _exchanged({i: each for i, each in logs.items() if each.item.kind in family})
    elif design is Design.PREDICTED:
        judged |= _predicted(logs, declared)
    else:
        judged |= {index: _untested(each, design) for index, each in logs.items()}
    return [judged[index] for index in range(len(items))]


_NO_BOOT = "no boot of one side has all the cells that it is a mean of"


def _logs(item: Item, design: Design, share: float) -> _Logs:
    base, new = ([log(value) for value in side if value] for side in (item.base, item.new))
    few = min(len(base), len(new)) < 4
    if design is Design.PREDICTED or (few and max(len(base), len(new)) >= FEWEST_BASE):
        if len(base) >= len(new):
            effect = predicted(base, new)
        else:
            back = predicted(new, base)
            effect = replace(back, shift=-back.shift)
    else:
        effect = welch(base, new)
    within = scatter(base, new)
    # Never below what two runs of one setting differ by.
    threshold = max(log(1 + threshold_of(item, share)), sqrt(2) * (within or 0.0))
    return _Logs(item, base, new, effect, within, threshold)


# ---- designs -------------------------------------------------------------------------------------


def _exchanged(family: dict[int, _Logs]) -> dict[int, Judged]:
    """Test a family by exchanging whole files; what too few files have is left untested."""
    tested = {index: each for index, each in family.items() if min(each.n) >= 4}
    judged = {
        index: _untested(each, Design.FEW) for index, each in family.items() if index not in tested
    }
    if not tested:
        return judged
    rows = list(zip(*(_column(each.item) for each in tested.values()), strict=True))
    first = len(next(iter(tested.values())).item.base)
    adjusted = max_t(rows, first, FAMILY_LEVEL)
    for (index, each), p in zip(tested.items(), adjusted.p, strict=True):
        reach = _reach(each, adjusted)
        judged[index] = _tested(each, p, reach, FAMILY_LEVEL, len(tested))
    return judged


def _column(item: Item) -> list[float]:
    return [log(value) if value else nan for value in (*item.base, *item.new)]


def _reach(each: _Logs, adjusted: Adjusted) -> float:
    found = t_quantile(2 * (1 - POWER), each.effect.freedom)
    return adjusted.reach(each.scatter or 0.0, *each.n, found)


def _predicted(logs: dict[int, _Logs], declared: Sequence[str]) -> dict[int, Judged]:
    """Test what was declared, or the core roll-ups; there is no room for more."""
    meant = _declared([each.item for each in logs.values()], declared)
    chosen = [i for i, each in logs.items() if each.item in meant and max(each.n) >= FEWEST_BASE]
    chances = holm([logs[index].effect.p for index in chosen])
    judged = {}
    for index, p in zip(chosen, chances, strict=True):
        each = logs[index]
        reach = each.effect.reach(LEVEL / len(chosen))
        judged[index] = _tested(each, p, reach, LEVEL, len(chosen))
    rest = {index: each for index, each in logs.items() if index not in judged}
    return judged | {index: _untested(each, Design.PREDICTED) for index, each in rest.items()}


def _declared(items: Sequence[Item], declared: Sequence[str]) -> list[Item]:
    """Give the roll-ups that were declared, or else the core ones; and the token."""
    rollups = [item for item in items if item.kind == "rollup"]
    named = [item for name in declared for item in called(rollups, name)]
    core = [item for item in rollups if item.is_core]
    return [*(named if declared else core), *(item for item in items if item.kind == "token")]


# ---- one figure ----------------------------------------------------------------------------------


def _tested(each: _Logs, p: float, reach: float, level: float, family: int) -> Judged:
    judged = replace(_described(each), p=p, reach=exp(reach) - 1 if reach < 100 else inf)
    low, high = each.effect.interval or (-inf, inf)
    if p < level:
        return replace(judged, verdict=_changed(each, low, high))
    if abs(each.effect.shift) <= each.threshold:
        return replace(judged, verdict=Verdict.UNCHANGED)
    more = boots_needed(each.scatter, each.threshold, each.n, level / family)
    return replace(judged, verdict=Verdict.INCONCLUSIVE, more=more)


def _changed(each: _Logs, low: float, high: float) -> Verdict:
    limit = each.threshold
    if low > limit or high < -limit:
        up = low > limit
        return Verdict.BETTER if up == is_rate(each.item.unit) else Verdict.WORSE
    if -limit < low and high < limit:
        return Verdict.SMALL
    return Verdict.UNCERTAIN


def _untested(each: _Logs, design: Design) -> Judged:
    judged = _described(each)
    if design is Design.SINGLE:
        more = boots_needed(None, each.threshold, each.n, LEVEL)
        return replace(judged, verdict=Verdict.INDICATIVE, more=more, why=_SINGLE)
    if design is Design.PREDICTED:
        missing = (max(0, 4 - each.n[0]), max(0, 4 - each.n[1]))
        return replace(judged, verdict=Verdict.INDICATIVE, more=missing, why=_NO_ROOM)
    more = boots_needed(each.scatter, each.threshold, each.n, LEVEL)
    return replace(judged, verdict=Verdict.INCONCLUSIVE, more=more, why=_TOO_FEW)


_SINGLE = "one against one tells nothing of how much boots differ"
_NO_ROOM = "with less than four on a side only declared roll-ups are tested"
_TOO_FEW = "too few to test: four a side, or five of one"


def _described(each: _Logs) -> Judged:
    interval = each.effect.interval
    low, high = (exp(min(end, 700.0)) for end in interval) if interval else (None, None)
    return Judged(
        each.item,
        Verdict.INCONCLUSIVE,
        ratio=exp(each.effect.shift),
        low=low,
        high=high,
        n=each.n,
        threshold=exp(each.threshold) - 1,
    )


def boots_needed(
    within: float | None, target: float, have: tuple[int, int], level: float
) -> tuple[int, int]:
    """Give the further boots of each side after which a shift of `target` would be seen.

    Where nothing is known of the scatter: what the cheapest design takes, five and one.

    Parameters
    ----------
    within : float or None
        Standard deviation of one boot, of the logarithm.
    have : tuple of int
        Boots there are.
    """
    base, new = have
    if within is None:
        return max(0, FEWEST_BASE - base), max(0, 1 - new)
    while base + new < 2 * MOST_BOOTS:
        if design_of(base, new) is Design.EXCHANGED:
            error = within * sqrt(1 / base + 1 / new)
            if Effect(0.0, error, float(base + new - 2)).reach(level) <= target:
                break
        # The smaller side brings more; on a tie the new one needs no setting back.
        base, new = (base + 1, new) if base < new else (base, new + 1)
    return base - have[0], new - have[1]
