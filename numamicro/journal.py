"""What was measured so far, saved run by run: a crash, a Ctrl-C or a power cut loses one run at most.

The journal stands beside the output as ``OUT.part``: a line for what the run is, then a line for
each case and process. It is folded into the output at the end.
"""

from __future__ import annotations

import fcntl
import json
import os
from typing import TYPE_CHECKING, Any

from numamicro.errors import NumamicroError
from numamicro.file import SCHEMA
from numamicro.matrix import Measurement, Run, State
from numamicro.wire import case_from_json, case_to_json, run_from_json, run_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numamicro.case import Case
    from numamicro.topology import Note


class Journal:
    """Runs by case, in memory and, when a path is given, in a file that only grows.

    Parameters
    ----------
    path : Path, optional
        The file. Without one nothing is written.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.fault: str | None = None
        self.label: str | None = None
        self._file: int | None = None
        self._runs: dict[Case, list[Run]] = {}
        self._units: dict[Case, str] = {}
        self._closed: dict[Case, tuple[State, Note]] = {}
        self._values: dict[Case, dict[Case, None]] = {}  # as planned -> one case a value

    # ---- opening ---------------------------------------------------------------------------------

    def start(self, identity: Mapping[str, object]) -> None:
        """Begin a new file that says what this run is.

        Raises
        ------
        NumamicroError
            The file exists (an unfinished run), or cannot be written.
        """
        if self.path is None:
            return
        if self._stands(self.path):
            raise NumamicroError(
                f"{self.path} holds an unfinished run: add --resume to go on with it, or remove it"
            )
        self._open(os.O_CREAT | os.O_EXCL)
        self._write({"journal": SCHEMA, "run": dict(identity), "label": self.label})
        if self.fault:
            self.discard()
            raise NumamicroError(f"cannot write {self.path}: {self.fault}")

    @staticmethod
    def _stands(path: Path) -> bool:
        try:
            return path.exists()
        except OSError as error:
            raise NumamicroError(f"cannot write {path}: {error.strerror}") from error

    def resume(self, identity: Mapping[str, object]) -> None:
        """Take up the file where it ended; a last line cut short is dropped.

        Raises
        ------
        NumamicroError
            There is no such file, it is no journal, or it is of another run.
        """
        if self.path is None:
            raise NumamicroError("--resume needs -o: it goes on with what stands beside the output")
        self._open(0)
        try:
            self._take_up(self.path, identity)
        except BaseException:
            self.close()
            raise

    def _take_up(self, path: Path, identity: Mapping[str, object]) -> None:
        try:
            whole, _, cut = path.read_bytes().rpartition(b"\n")
        except OSError as error:
            raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
        lines = whole.split(b"\n")
        self._check(lines[0], identity)
        for number, line in enumerate(lines[1:], start=2):
            self._replay(line, f"{path}, line {number}")
        if cut and self._file is not None:
            os.ftruncate(self._file, len(whole) + 1)

    def _check(self, line: bytes, identity: Mapping[str, object]) -> None:
        header = self._parse(line, f"{self.path}, line 1")
        if header.get("journal") != SCHEMA:
            raise NumamicroError(f"{self.path} is no journal that this numamicro can go on with")
        label = header.get("label")
        self.label = label if isinstance(label, str) and self.label is None else self.label
        written = header.get("run")
        known = written if isinstance(written, dict) else {}
        changed = _changed(known, identity)
        if changed:
            differ = "differs" if len(changed) == 1 else "differ"
            raise NumamicroError(
                f"{self.path} is of another run ({', '.join(changed)} {differ}): give the same "
                "options on the same boot, or remove it"
            )

    def _replay(self, line: bytes, where: str) -> None:
        entry = self._parse(line, where)
        case, unit = case_from_json(entry.get("case"), where), entry.get("unit")
        if not isinstance(unit, str):
            raise NumamicroError(f"{where} is damaged: remove the file to start again")
        self._remember(case, unit, run_from_json(entry.get("run"), where))

    @staticmethod
    def _parse(line: bytes, where: str) -> dict[str, Any]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise NumamicroError(f"{where} is damaged: remove the file to start again") from error
        if not isinstance(entry, dict):
            raise NumamicroError(f"{where} is damaged: remove the file to start again")
        return entry

    # ---- recording -------------------------------------------------------------------------------

    def add(self, case: Case, unit: str, run: Run) -> None:
        """Record a run, in memory and in the file.

        A full disk does not stop the run: the file stays as far as it came, `fault` says why, and
        what is in memory can still be shown.
        """
        self._remember(case, unit, run)
        self._write({"case": case_to_json(case), "unit": unit, "run": run_to_json(run)})

    def close_case(self, case: Case, unit: str, state: State, reason: Note) -> None:
        """Record why a case has no run: waived, skipped or cancelled; the first reason stays."""
        self._units.setdefault(case, unit)
        self._closed.setdefault(case, (state, reason))

    def has(self, case: Case, process: int) -> bool:
        """Tell whether this process' run of the case is there."""
        runs = self._runs.get(self._first_value(case), ())
        return any(run.process == process for run in runs)

    def look_up(self, case: Case) -> Measurement | None:
        """Give a planned case as far as it is measured; of several values, the first."""
        case = self._first_value(case)
        runs = self._runs.get(case)
        return Measurement.of_runs(case, self._units[case], tuple(runs)) if runs else None

    def fold(self) -> tuple[Measurement, ...]:
        """Give every case that was planned, measured or not."""
        cells = []
        for case, unit in self._units.items():
            cell = self.look_up(case)
            if cell is None:
                state, reason = self._closed[case]
                cell = Measurement(case, unit, state, reason)
            cells.append(cell)
        return tuple(cells)

    def discard(self) -> None:
        """Remove the file: all it held is in the output."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file and leave it where it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _first_value(self, case: Case) -> Case:
        return next(iter(self._values.get(case, (case,))))

    def _remember(self, case: Case, unit: str, run: Run) -> None:
        planned = case.without("value")
        if planned != case:
            self._values.setdefault(planned, {})[case] = None
        # A process that failed brought no values; its failure is one of each value known so far.
        for named in self._values.get(case, (case,)):
            self._units[named] = unit
            self._runs.setdefault(named, []).append(run)

    def _open(self, how: int) -> None:
        assert self.path is not None
        try:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | how, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError as error:
            if how:
                raise NumamicroError(f"cannot write {self.path}: {error.strerror}") from error
            raise NumamicroError(
                f"there is nothing to resume: {self.path} does not exist"
            ) from error
        except BlockingIOError as error:
            self.close()
            raise NumamicroError(f"{self.path} is in use by another run: let it end") from error
        except OSError as error:
            self.close()
            raise NumamicroError(f"cannot write {self.path}: {error.strerror}") from error

    def _write(self, entry: Mapping[str, object]) -> None:
        if self._file is None or self.fault:
            return
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        try:
            size = os.fstat(self._file).st_size
            if os.write(self._file, line) != len(line):
                os.ftruncate(self._file, size)
                self.fault = "No space left on device"
        except OSError as error:
            self.fault = error.strerror


def _changed(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Name what differs; of groups, the entries within."""
    names: list[str] = []
    for key, value in wanted.items():
        if known.get(key) == value:
            continue
        inner = known.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        names += _changed(inner, value) if both and inner else [key]
    return names
