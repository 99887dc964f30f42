"""Two sets of result files, and what changed between them: verdicts that hold up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.bulk import no_collector
from numamicro.comparison.boots import Side, differ, read_sides, shared_boots, tail_words
from numamicro.comparison.changes import Asked, parse_changed
from numamicro.comparison.differences import (
    Difference,
    differences,
    not_seen,
    unknown_on_both,
)
from numamicro.comparison.drift import Drift, drifts, in_turns
from numamicro.comparison.expect import Expectation, Outcome, outcomes
from numamicro.comparison.pairing import pair
from numamicro.comparison.verdict import Design, Judged, Verdict, design_of, judge
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from numamicro.comparison.boots import Value
    from numamicro.matrix import CostMatrix

UNITS = ("boot", "file")
"""What counts once: a boot, or a run within one boot."""


@dataclass(frozen=True, slots=True)
class Options:
    """How two sides are compared.

    Parameters
    ----------
    unit : str
        One of UNITS.
    changed : str, optional
        What was changed, in the user's words.
    expected : tuple of Expectation
    share : float
        The quantile that is compared; 0.5 is the median.
    token : callable, optional
        Gives the seconds of a token from a matrix.
    """

    unit: str = "boot"
    changed: str | None = None
    expected: tuple[Expectation, ...] = ()
    share: float = 0.5
    token: Callable[[CostMatrix], Value] | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison came to.

    Parameters
    ----------
    why_not : str or None
        Why nothing can be compared; then there are no figures.
    remarks : tuple of str
        What a reader must know of all verdicts.
    figures : tuple of Judged
        A token, roll-ups, cells, and what cannot be compared.
    """

    base: Side
    new: Side
    options: Options
    why_not: str | None
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]
    remarks: tuple[str, ...]
    outcomes: tuple[Outcome, ...] = ()
    drifts: tuple[Drift, ...] = ()
    figures: tuple[Judged, ...] = ()

    @property
    def design(self) -> Design:
        """What so many boots a side allow."""
        return design_of(len(self.base.boots), len(self.new.boots))

    @property
    def is_worse(self) -> bool:
        """Whether anything is worse."""
        return any(figure.verdict is Verdict.WORSE for figure in self.figures)

    @property
    def more(self) -> tuple[int, int]:
        """Boots of each side that would settle every roll-up and the token that is tested."""
        figures = [each for each in self.figures if each.item.kind != "cell"]
        open_ones = [each.more for each in figures if each.verdict is Verdict.INCONCLUSIVE]
        return (
            max((base for base, _ in open_ones), default=0),
            max((new for _, new in open_ones), default=0),
        )


def compare(base: Sequence[Path], new: Sequence[Path], options: Options) -> Comparison:
    """Read two sides and compare them.

    Raises
    ------
    NumamicroError
        A file is no result file, a side mixes machines, or boots do not suit the unit.
    """
    with no_collector():
        sides = read_sides(base, new, unit=options.unit, share=options.share, token=options.token)
        return compare_sides(*sides, options)


def compare_sides(base: Side, new: Side, options: Options) -> Comparison:
    """Compare two sides that were read.

    Raises
    ------
    NumamicroError
        The boots do not suit the unit.
    """
    _check_unit(base, new, options.unit)
    asked = parse_changed(options.changed) if options.changed is not None else None
    found = tuple(differences(base, new, asked))
    unknown = tuple(unknown_on_both(base, new))
    remarks = tuple(_remarks(base, new, options, found, asked))
    why_not = differ(base.first, new.first)
    if why_not is not None:
        return Comparison(base, new, options, why_not, found, unknown, remarks)
    items = pair(base, new)
    counts = (len(base.boots), len(new.boots))
    declared = tuple(each.name for each in options.expected)
    figures = judge(items, counts, declared, options.share)
    if all(figure.verdict is Verdict.NOT_COMPARABLE for figure in figures):
        why_not = "none of their figures: no cell of one has its like, with a figure, in the other"
    return Comparison(
        base,
        new,
        options,
        why_not,
        found,
        unknown,
        remarks,
        tuple(outcomes(options.expected, figures)),
        tuple(drifts(items, base, new)),
        tuple(figures),
    )


def _check_unit(base: Side, new: Side, unit: str) -> None:
    boots = {boot.header.boot_id for side in (base, new) for boot in side.boots}
    if unit == "file" and len(boots) > 1:
        raise NumamicroError(
            f"--unit file compares runs within one boot, and these are of {len(boots)}: leave it out"
        )
    if unit == "boot" and shared_boots(base, new):
        raise NumamicroError(
            f"{shared_boots(base, new)} boot(s) stand on both sides: a boot has one firmware "
            "setting; to compare runs within one boot add --unit file"
        )


def _remarks(
    base: Side,
    new: Side,
    options: Options,
    found: Sequence[Difference],
    asked: Asked | None,
) -> list[str]:
    remarks = []
    if asked is not None and (why := not_seen(found, base, new, asked)):
        remarks.append(why)
    for side, mixed in (
        (base, [each.key for each in found if each.is_mixed and len(each.base) > 1]),
        (new, [each.key for each in found if each.is_mixed and len(each.new) > 1]),
    ):
        if mixed:
            remarks.append(
                f"the {side.name} side is not one setting: {', '.join(mixed)} differ in it"
            )
    if options.unit == "file":
        remarks.append("runs within one boot are compared: what another boot brings is unknown")
    if options.share != 0.5:
        sides = [(side.name, tail_words(side)) for side in (base, new)]
        remarks += [f"{name}: {words}" for name, words in sides if words]
    if design_of(len(base.boots), len(new.boots)) is not Design.SINGLE and not in_turns(base, new):
        remarks.append(
            "the sides were not taken in turns: a drift over time would look like the change"
        )
    if None in {base.first.machine_id, new.first.machine_id}:
        remarks.append(
            "a file does not tell its machine: that both sides are of one is taken on trust"
        )
    if None in {boot.header.boot_id for side in (base, new) for boot in side.boots}:
        remarks.append("a file does not tell its boot: such files of one side count as one boot")
    return remarks
