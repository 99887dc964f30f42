"""Turns, the ratio of two contenders that took turns, and what a claim makes of it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from numamicro.stats import median

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numamicro.case import Param


ERROR = 0.05
"""How often an interval may miss the ratio."""


TRIALS = 9
"""Turns that do not count, of each loop that a contender can choose from: a few mislead, where one loop
is a twentieth faster and single turns differ by an eighth."""


class Reading(NamedTuple):
    """What one turn brought: a value in the contest's base unit, and what is known of it."""

    value: float
    facts: Mapping[str, Param | None] = {}


class TakesTurns(Protocol):
    """Whatever can take a turn."""

    def turn(self, number: int) -> Reading: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """One contender's turn in one round.

    Parameters
    ----------
    foreign, stolen : float
        Shares of the machine's CPU time in this turn that other programs used and that the
        hypervisor kept.
    """

    round: int
    contender: str
    reading: Reading
    foreign: float
    stolen: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """Middle ratio of `n` pairs, with its interval (None where there are too few pairs)."""

    center: float
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What should hold of `ours` over `peer`: the interval of the ratio lies within the bounds.

    A claim without bounds only reports.
    """

    ours: str
    peer: str
    at_least: float | None = None
    at_most: float | None = None
    why: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether it has a bound."""
        return self.at_least is not None or self.at_most is not None

    def verdict(self, ratio: Ratio) -> str:
        """Give met, missed, undecided (the interval reaches over a bound), or reported."""
        if not self.is_judged:
            return "reported"
        low, high = self.at_least or 0.0, self.at_most or float("inf")
        if ratio.low is None or ratio.high is None:
            return "undecided"
        if low <= ratio.low and ratio.high <= high:
            return "met"
        return "missed" if ratio.high < low or ratio.low > high else "undecided"


def order(names: Sequence[str], rounds: range, seed: int) -> Iterator[tuple[int, str]]:
    """Give who takes which turn: all once a round, in a new random order each round."""
    rng = random.Random(seed + rounds.start)
    for number in rounds:
        yield from ((number, name) for name in rng.sample(list(names), len(names)))


def best_in_trial(choices: Sequence[TakesTurns], *, highest: bool) -> int:
    """Let the choices take turns that do not count; give the index of the one with the best median.

    A single one takes one turn, to warm up.
    """
    trials = range(TRIALS if len(choices) > 1 else 1)
    values = [[choice.turn(number).value for choice in choices] for number in trials]
    medians = [median(column) for column in zip(*values, strict=True)]
    return medians.index(max(medians) if highest else min(medians))


def ratio_of(turns: Sequence[Turn], ours: str, peer: str, error: float = ERROR) -> Ratio:
    """Give the ratio of two contenders, paired by round, with an interval that may err so often.

    The ratio is the middle of what any two pairs have as their mean (Hodges and Lehmann 1963), its
    interval that of Wilcoxon's signed ranks: of the noise it assumes that swapping the contenders
    would turn it round, which turns in random order give, and no shape. Where noise is normal that
    takes two thirds of the pairs that the interval of a median wants. A round in which the whole
    machine was slow counts for neither.
    """
    values = {(turn.round, turn.contender): turn.reading.value for turn in turns}
    logs = [
        log(value / values[number, peer])
        for (number, name), value in values.items()
        if name == ours and (number, peer) in values
    ]
    means = np.sort([(a + b) / 2 for i, a in enumerate(logs) for b in logs[i:]])
    rank = _interval_rank(len(logs), error)
    low, high = (None, None) if rank is None else (exp(means[rank]), exp(means[-1 - rank]))
    return Ratio(exp(median(means.tolist())), low, high, len(logs))


@cache
def _interval_rank(n: int, error: float) -> int | None:
    """Give how many means lie outside at each end, or None if even all of them would err too often.

    Each rank of `n` is positive or negative by chance; outside lie as many means as the sum of the
    positive ones may be at most in half of all errors.
    """
    chances = np.zeros(n * (n + 1) // 2 + 1)
    chances[0] = 1.0
    for rank in range(1, n + 1):
        with_rank = np.zeros_like(chances)
        with_rank[rank:] = chances[:-rank]
        chances = (chances + with_rank) / 2
    fewer = int(np.searchsorted(np.cumsum(chances), error / 2, side="right"))
    return fewer - 1 if fewer else None
