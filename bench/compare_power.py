"""How often `compare` raises a false alarm, and how often it sees a change: ``python -m bench.compare_power``.

Figures are drawn, not measured: boots differ as a whole and cell by cell, and the truth is known.
docs/BIOS.md has the table that this prints.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from math import exp
from random import Random
from typing import TYPE_CHECKING

from tabulate import tabulate

from numamicro.comparison.pairing import Item, Name
from numamicro.comparison.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Sequence

SEEN = frozenset({Verdict.BETTER, Verdict.WORSE, Verdict.UNCERTAIN, Verdict.SMALL})
"""Verdicts that say that something changed."""

SETTLED = frozenset({Verdict.BETTER, Verdict.WORSE})
CLASSES = 4


@dataclass(frozen=True, slots=True)
class World:
    """What figures are like.

    Parameters
    ----------
    boot, own : float
        Noise of a boot as a whole and of each cell in it (standard deviation of the logarithm).
    cells : int
        Divided evenly over CLASSES roll-ups.
    change : float
        True change of every cell on the new side, as a share.
    changed : int
        Cells that change; the rest stands.
    """

    boot: float
    own: float
    cells: int = 60
    change: float = 0.0
    changed: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """Shares of comparisons.

    Parameters
    ----------
    false_verdict : float
        A better or worse where nothing changed, in any roll-up or cell.
    false_change : float
        The same, with changes of uncertain size.
    seen, settled : float
        Of the figures that changed: those of which a change is said, and with better or worse.
    """

    false_verdict: float
    false_change: float
    seen: float
    settled: float


def items_of(world: World, base: int, new: int, draw: Random) -> list[Item]:
    """Give the cells and roll-ups of a comparison drawn at random."""
    boots = base + new
    shared = [draw.gauss(0, world.boot) for _ in range(boots)]
    logs = []
    for cell in range(world.cells):
        shift = world.change if cell < world.changed else 0.0
        logs.append(
            [
                shared[i] + draw.gauss(0, world.own) + (shift if i >= base else 0.0)
                for i in range(boots)
            ]
        )
    size = max(1, world.cells // CLASSES)
    groups = [logs[start : start + size] for start in range(0, world.cells, size)]
    means = [[sum(column) / len(group) for column in zip(*group, strict=True)] for group in groups]
    rows = [("rollup", row) for row in means] + [("cell", row) for row in logs]
    return [_item(kind, index, row, base) for index, (kind, row) in enumerate(rows)]


def _item(kind: str, index: int, row: Sequence[float], base: int) -> Item:
    values = tuple(exp(value) for value in row)
    name = Name("bandwidth", "read", (), f"figure{index}")
    return Item(kind, name, "B/s", values[:base], values[base:])


def tally(
    world: World, base: int, new: int, times: int, declared: Sequence[str] = (), seed: int = 1
) -> Tally:
    """Draw and judge so many comparisons."""
    draw = Random(seed)
    false_verdicts = false_changes = 0
    seen: list[bool] = []
    settled: list[bool] = []
    size = max(1, world.cells // CLASSES)
    for _ in range(times):
        judged = judge(items_of(world, base, new, draw), (base, new), declared)
        rollups, cells = judged[: -world.cells], judged[-world.cells :]
        moved = [i * size < world.changed for i in range(len(rollups))]
        moved += [i < world.changed for i in range(world.cells)]
        figures = list(zip([*rollups, *cells], moved, strict=True))
        false_verdicts += any(each.verdict in SETTLED for each, true in figures if not true)
        false_changes += any(each.verdict in SEEN for each, true in figures if not true)
        tested = [each for each, true in figures if true and each.p is not None]
        seen += [each.verdict in SEEN for each in tested]
        settled += [each.verdict in SETTLED for each in tested]
    return Tally(false_verdicts / times, false_changes / times, _share(seen), _share(settled))


def _share(answers: Sequence[bool]) -> float:
    return sum(answers) / len(answers) if answers else float("nan")


DESIGNS = ((5, 1), (5, 2), (4, 4), (5, 5), (8, 8))


def table(times: int) -> str:
    """Give the table: false alarms by noise and design, and what of a change of 5 % is seen."""
    rows = []
    for base, new in DESIGNS:
        for noise in (0.005, 0.015, 0.05):
            still = tally(World(noise, noise / 3), base, new, times)
            # One cell, one roll-up, declared: what the cheap design is for.
            single = World(noise, 0.0, cells=1, change=0.0488, changed=1)
            moved = World(noise, noise / 3, change=0.0488, changed=60)
            one = tally(single, base, new, times, ("read",))
            many = tally(moved, base, new, times)
            rows.append(
                [
                    f"{base}+{new}",
                    f"{noise:.1%}",
                    f"{still.false_verdict:.1%}",
                    f"{still.false_change:.1%}",
                    f"{one.seen:.0%}",
                    f"{many.seen:.0%}",
                    f"{many.settled:.0%}",
                ]
            )
    headers = [
        "boots",
        "boot noise",
        "false better/worse",
        "false change",
        "+5 % seen, one figure",
        "+5 % seen, 64 figures",
        "better/worse",
    ]
    return tabulate(rows, headers=headers, tablefmt="github", disable_numparse=True)


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare_power", description=__doc__)
    parser.add_argument("--times", type=int, default=40, help="comparisons a line (default 40)")
    print(table(parser.parse_args(arguments).times))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
