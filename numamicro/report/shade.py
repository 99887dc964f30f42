"""How strongly a cell is shaded: by how many times as much it costs as the best of its table.

A ratio needs no legend of its own in each table, and it does not blow noise up: cells that differ
by a few per cent look alike.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.matrix import Measurement

STEPS = (1.05, 1.2, 1.5, 2.0, 3.0, 5.0)
"""From which ratio on a cell is of the next strength; below the first it is not shaded."""

LEGEND = (
    f"< {STEPS[0]:g}",
    *(f"< {ratio:g}" for ratio in STEPS[1:]),
    f"{STEPS[-1]:g} or more",
)
"""What each strength stands for, in times the best."""

# Backgrounds of a 256-colour terminal, from the palest to the strongest; text on them is black.
# Lightness falls from step to step, so that they can be told apart without seeing hues.
_BACKGROUNDS = (230, 223, 216, 209, 202, 166)
_PLAIN = "\033[0m"
_PAINTS = tuple(f"\033[38;5;16;48;5;{color}m" for color in _BACKGROUNDS)

CODES = frozenset({_PLAIN, *_PAINTS})
"""The control sequences that :func:`painted` writes."""


def cost_ratio(value: float, best: float, unit: str) -> float:
    """Give how many times as much as the best a figure costs: of time, or of a rate's inverse."""
    return best / value if is_rate(unit) else value / best


def strength(ratio: float) -> int:
    """Give the strength of a ratio: an index of LEGEND, 0 is not shaded."""
    return bisect_right(STEPS, ratio)


def best_center(cells: Sequence[Measurement]) -> float | None:
    """Give the best figure of some cells in their base unit; None where none has one."""
    centers = [summary.center for cell in cells if (summary := cell.summary())]
    if not centers:
        return None
    return max(centers) if is_rate(cells[0].unit) else min(centers)


def painted(text: str, level: int) -> str:
    """Give text on the background of a strength."""
    return f"{_PAINTS[level - 1]}{text}{_PLAIN}" if level else text


def legend_line() -> str:
    """Give the one line that says what the backgrounds of a terminal mean."""
    shown = (painted(f" {text} ", level) for level, text in enumerate(LEGEND))
    return f"Shaded by cost, times the best of each table: {' '.join(shown)}"
