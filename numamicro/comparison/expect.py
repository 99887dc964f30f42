"""What the user expects of a change, and whether it came: ``h2d=up``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.comparison.pairing import called
from numamicro.comparison.verdict import Verdict
from numamicro.errors import NumamicroError
from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numamicro.comparison.verdict import Judged

DIRECTIONS = ("up", "down", "same", "better", "worse")


@dataclass(frozen=True, slots=True)
class Expectation:
    """A roll-up, and where its figure should go.

    Parameters
    ----------
    name : str
        ``h2d``, ``bandwidth/read`` or ``read.other-package``.
    direction : str
        One of DIRECTIONS. up and down are of the figure itself: a latency that falls is down.
    """

    name: str
    direction: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether an expectation held.

    Parameters
    ----------
    held : bool or None
        None where the files do not tell.
    figures : tuple of Judged
        The roll-ups it is of.
    """

    expected: Expectation
    held: bool | None
    figures: tuple[Judged, ...]


def parse_expectations(texts: Sequence[str]) -> tuple[Expectation, ...]:
    """Read ``h2d=up,latency=down``.

    Raises
    ------
    NumamicroError
        A text is no expectation.
    """
    parts = [part.strip() for text in texts for part in text.split(",")]
    found = []
    for part in parts:
        name, _, direction = part.partition("=")
        if not name or direction not in DIRECTIONS:
            raise NumamicroError(
                f"--expect {part:.60}: write NAME=DIRECTION with one of {', '.join(DIRECTIONS)}, "
                "for example h2d=up"
            )
        found.append(Expectation(name.strip(), direction))
    return tuple(found)


def outcomes(expected: Sequence[Expectation], figures: Sequence[Judged]) -> Iterator[Outcome]:
    """Give each expectation with what became of it.

    Raises
    ------
    NumamicroError
        No roll-up has that name.
    """
    rollups = [figure for figure in figures if figure.item.kind == "rollup"]
    items = [figure.item for figure in rollups]
    for each in expected:
        wanted = called(items, each.name)
        meant = tuple(figure for figure in rollups if figure.item in wanted)
        if not meant:
            known = sorted({figure.item.name.operation for figure in rollups})
            raise NumamicroError(
                f"--expect {each.name}: these files have no such roll-up; they have "
                f"{', '.join(known) or 'none'}"
            )
        yield Outcome(each, _held(each.direction, meant), meant)


def _held(direction: str, figures: Sequence[Judged]) -> bool | None:
    """Tell whether a name's roll-ups went where they should: some did, and none went the other way."""
    answers = [_went(direction, figure) for figure in figures]
    if -1 in answers or not any(answer is None or answer > 0 for answer in answers):
        return False
    if None in answers:
        return None
    return True


def _went(direction: str, figure: Judged) -> int | None:
    """Give 1 where a figure went as expected, 0 where it stood, -1 where it went another way."""
    if figure.verdict in (Verdict.INCONCLUSIVE, Verdict.INDICATIVE, Verdict.NOT_COMPARABLE):
        return None
    moved = figure.verdict not in (Verdict.UNCHANGED, Verdict.SMALL)
    if direction == "same":
        return -1 if moved else 1
    if not moved:
        return 0
    up = figure.ratio > 1
    wanted = direction == "up" or (direction == "better") == is_rate(figure.item.unit)
    if direction == "down":
        wanted = False
    return 1 if up == wanted else -1
