"""One file a boot: another run of the same boot adds its processes to the file that is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.matrix import CostMatrix, Measurement
from numamicro.plausibility import judged
from numamicro.setting import is_volatile

if TYPE_CHECKING:
    from pathlib import Path

    from numamicro.matrix import Header, Run


def boot_file(folder: Path, boot: str | None) -> Path:
    """Give the file of a boot in a folder, which is made where it is missing.

    Parameters
    ----------
    boot : str or None
        Its hashed id.

    Raises
    ------
    NumamicroError
        The boot has no id here, or the folder cannot be made.
    """
    if boot is None:
        raise NumamicroError(
            "this boot has no id here (a container hides it): name the file of each boot with -o"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NumamicroError(f"cannot make the folder {folder}: {error.strerror}") from error
    return folder / f"{boot}.json"


def check_same(earlier: Header, now: Header, path: Path) -> None:
    """Refuse a run that must not be pooled with what a file holds.

    Raises
    ------
    NumamicroError
        It is of another boot or machine, or a setting was changed since.
    """
    if earlier.boot_id != now.boot_id or earlier.machine_id != now.machine_id:
        raise NumamicroError(f"{path} is of another boot or machine: move it out of the way")
    for key, value in now.setting.items():
        known = earlier.setting.get(key)
        if None not in (value, known) and value != known and not is_volatile(key):
            raise NumamicroError(
                f"{path} was measured with {key} at {known}, and it is {value} now: set it back, or "
                "keep the new setting in another folder"
            )


def added(earlier: CostMatrix, later: CostMatrix) -> CostMatrix:
    """Give both runs as one matrix of their boot: processes are counted on, and a cell takes the
    gravest state of all its processes, as within one run."""
    cells = {cell.case: cell for cell in earlier.measurements}
    for cell in later.measurements:
        cells[cell.case] = _joined(cells[cell.case], cell) if cell.case in cells else cell
    header = earlier.header
    peak = header.setting.get("memory.peak")
    return CostMatrix(
        replace(header, plan=_plan(header, later.header)),
        judged(cells.values(), header.machine, float(peak) if isinstance(peak, int) else None),
    )


def _joined(earlier: Measurement, later: Measurement) -> Measurement:
    if not earlier.runs or not later.runs:
        return earlier if earlier.runs else later
    first = 1 + max(run.process for run in earlier.runs)
    counted = tuple(_after(first, run) for run in later.runs)
    return Measurement.of_runs(earlier.case, earlier.unit, earlier.runs + counted)


def _after(first: int, run: Run) -> Run:
    return replace(run, process=first + run.process)


def _plan(earlier: Header, later: Header) -> dict[str, object]:
    """Give the plan of the first run with the processes of both."""
    counts = [header.plan.get("processes") for header in (earlier, later)]
    known = [count for count in counts if isinstance(count, int)]
    return dict(earlier.plan) | ({"processes": sum(known)} if len(known) == 2 else {})
