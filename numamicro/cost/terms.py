"""Figures with their intervals and where they came from, and times built from them by sum or maximum.

Intervals are added bound by bound: figures of one run share their machine's mood, so that treating
their errors as independent would promise too much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ASSUMED = "assumed"
HYPOTHETICAL = "hypothetical"


@dataclass(frozen=True, slots=True)
class Figure:
    """A rate (per second) or a time (seconds).

    Parameters
    ----------
    value, low, high : float
        The centre and its interval.
    source : str
        The key of the cell it was measured in, or the words of an assumption.
    origin : str
        measured, simulated, imported, hypothetical or assumed.
    """

    value: float
    low: float
    high: float
    source: str
    origin: str

    def __mul__(self, factor: float) -> Figure:
        return replace(
            self, value=self.value * factor, low=self.low * factor, high=self.high * factor
        )

    def inverse(self) -> Figure:
        """Give the time of one for a rate, or the rate for a time."""
        return replace(self, value=1 / self.value, low=1 / self.high, high=1 / self.low)


def smaller(figures: Iterable[Figure]) -> Figure:
    """Give the smallest by centre, its bounds no larger than any other's."""
    found = sorted(figures, key=lambda figure: figure.value)
    return replace(
        found[0],
        low=min(figure.low for figure in found),
        high=min(figure.high for figure in found),
    )


@dataclass(frozen=True, slots=True)
class Term:
    """A time with its name: of so many bytes (or operations) at a rate, or made of parts.

    Parameters
    ----------
    seconds, low, high : float
    domain : str
        What would have to be faster: ``memory of node0``, ``GPU``, ``links``, ``waiting``, ...
    how : str
        sum or max over `parts`; empty for a leaf.
    amount : float, optional
        Bytes, operations or repetitions, as `unit` says.
    figure : Figure, optional
        What `amount` is divided by (a rate) or multiplied with (a time).
    """

    name: str
    seconds: float
    low: float
    high: float
    domain: str = ""
    how: str = ""
    parts: tuple[Term, ...] = ()
    amount: float | None = None
    unit: str = ""
    figure: Figure | None = None

    def leaves(self) -> Iterator[Term]:
        """Give all leaves below, whether they bind or not."""
        if not self.how:
            yield self
        for part in self.parts:
            yield from part.leaves()

    def binding(self) -> Iterator[Term]:
        """Give the leaves that make up the time: of a maximum only the largest part."""
        if not self.how:
            yield self
        elif self.how == "max":
            yield from max(self.parts, key=lambda part: part.seconds).binding()
        else:
            for part in self.parts:
                yield from part.binding()

    def times(self, count: float, name: str = "") -> Term:
        """Give the time of so many in turn."""
        return replace(
            self,
            name=name or self.name,
            seconds=self.seconds * count,
            low=self.low * count,
            high=self.high * count,
            amount=None if self.amount is None else self.amount * count,
            parts=tuple(part.times(count) for part in self.parts),
        )


def at_rate(name: str, amount: float, unit: str, rate: Figure, domain: str) -> Term:
    """Give the time of an amount (bytes, operations) at a rate per second."""
    low, high = amount / rate.high, amount / rate.low
    return Term(name, amount / rate.value, low, high, domain, amount=amount, unit=unit, figure=rate)


def repeated(name: str, count: float, time: Figure, domain: str) -> Term:
    """Give the time of so many repetitions of one."""
    return Term(
        name,
        count * time.value,
        count * time.low,
        count * time.high,
        domain,
        amount=count,
        unit="times",
        figure=time,
    )


def sum_of(name: str, parts: Iterable[Term]) -> Term:
    """Give the time of parts that follow one another."""
    kept = tuple(part for part in parts if part.seconds)
    return Term(
        name,
        sum(part.seconds for part in kept),
        sum(part.low for part in kept),
        sum(part.high for part in kept),
        how="sum",
        parts=kept,
    )


def max_of(name: str, parts: Iterable[Term]) -> Term:
    """Give the time of parts that go on together: that of the longest."""
    kept = tuple(part for part in parts if part.seconds)
    if len(kept) == 1:
        return kept[0]
    return Term(
        name,
        max((part.seconds for part in kept), default=0.0),
        max((part.low for part in kept), default=0.0),
        max((part.high for part in kept), default=0.0),
        how="max",
        parts=kept,
    )
