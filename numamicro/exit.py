"""What the exit status means; the one table of it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numamicro.matrix import CostMatrix


class Exit(IntEnum):
    """Statuses that scripts can rely on."""

    DONE = 0
    WORSE = 1  # compare found something worse
    USAGE = 2  # bad arguments, unreadable input, unwritable output
    FAILED_CELLS = 3  # done, but some cells failed
    NOT_COMPARABLE = 4
    INTERNAL = 70
    SIGNAL = 128  # plus the signal's number: 130 is Ctrl-C


def status_of(matrix: CostMatrix) -> Exit:
    """Give the status of a finished run: waived and skipped cells are no failure, none ok is.

    That GPUs have no part in it is a result too: a machine may have none, or none that reach each
    other, where every machine has CPUs and memory to be measured.
    """
    from numamicro.case import gpus_of
    from numamicro.matrix import FAILED_STATES, State

    states = {cell.state for cell in matrix.measurements}
    only_without_gpus = all(
        cell.state is State.WAIVED and gpus_of(cell.case.route.source, cell.case.route.target)
        for cell in matrix.measurements
    )
    failed = bool(states & FAILED_STATES) or (State.OK not in states and not only_without_gpus)
    return Exit.FAILED_CELLS if failed else Exit.DONE
