"""The journal: what was measured is kept through a cut, a full disk and a second attempt."""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import time
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numamicro.errors import NumamicroError
from numamicro.file import matrix_text
from numamicro.journal import Journal
from numamicro.matrix import CostMatrix, Measurement, State
from numamicro.topology import Note
from tests import examples
from tests.examples import a_run, failed_run, read_case

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numamicro.case import Case
    from numamicro.matrix import Run

IDENTITY = {
    "plan": {"level": "quick", "only": []},
    "boot_id": "ba9876543210",
    "tool": "numamicro 1",
}
STEPS: tuple[tuple[Case, Run], ...] = tuple(
    (read_case(0, target), a_run(1e9 + target, 2e9, process=process))
    for process in range(2)
    for target in range(3)
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.json.part"


def started(path: Path) -> Journal:
    journal = Journal(path)
    journal.start(IDENTITY)
    return journal


def resumed(path: Path) -> Journal:
    journal = Journal(path)
    journal.resume(IDENTITY)
    return journal


def record(journal: Journal, steps: tuple[tuple[Case, Run], ...]) -> None:
    for case, run in steps:
        journal.add(case, "B/s", run)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


# ---- what is recorded ----------------------------------------------------------------------------


def test_every_run_is_in_the_file_when_it_is_recorded(path: Path) -> None:
    journal = started(path)
    for count, step in enumerate(STEPS, start=2):
        record(journal, (step,))
        assert [type(json.loads(line)) for line in lines(path)] == [dict] * count
    journal.close()


def test_without_a_path_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    journal = Journal()
    journal.start(IDENTITY)
    record(journal, STEPS)
    journal.discard()
    assert len(journal.fold()) == 3
    assert os.listdir(tmp_path) == []


def test_runs_of_a_case_are_folded_into_one_cell(path: Path) -> None:
    journal = started(path)
    record(journal, STEPS)
    journal.close()
    assert journal.fold() == tuple(
        Measurement.of_runs(
            read_case(0, target),
            "B/s",
            tuple(run for case, run in STEPS if case == read_case(0, target)),
        )
        for target in range(3)
    )


def test_it_tells_what_is_there(path: Path) -> None:
    journal = started(path)
    case, run = STEPS[0]
    assert not journal.has(case, 0)
    assert journal.look_up(case) is None
    journal.add(case, "B/s", run)
    assert journal.has(case, 0)
    assert not journal.has(case, 1)
    assert journal.look_up(case) == Measurement.of_runs(case, "B/s", (run,))
    journal.close()


def test_a_case_without_a_run_keeps_its_reason() -> None:
    journal = Journal()
    reason = Note("budget", "spent")
    journal.close_case(read_case(0, 0), "B/s", State.SKIPPED, reason)
    assert journal.fold() == (Measurement(read_case(0, 0), "B/s", State.SKIPPED, reason),)


def test_discarding_removes_the_file_and_closing_leaves_it(path: Path) -> None:
    journal = started(path)
    journal.close()
    assert path.exists()
    resumed(path).discard()
    assert not path.exists()


# ---- several values of one case ------------------------------------------------------------------


def test_each_value_is_a_cell_and_the_first_answers_for_the_case(path: Path) -> None:
    planned = read_case(0, 0)
    journal = started(path)
    for process in range(2):
        for value, rate in (("mean", 1e9), ("best", 2e9)):
            journal.add(planned.having(value=value), "B/s", a_run(rate, process=process))
    journal.close()
    for each in (journal, resumed(path)):
        assert [cell.case["value"] for cell in each.fold()] == ["mean", "best"]
        assert [len(cell.runs) for cell in each.fold()] == [2, 2]
        first = each.look_up(planned)
        assert first is not None
        assert first.case["value"] == "mean"
        assert each.has(planned, 1)
        each.close()


def test_a_process_that_fails_fails_every_value_of_its_case(path: Path) -> None:
    planned = read_case(0, 0)
    journal = started(path)
    journal.add(planned.having(value="mean"), "B/s", a_run(1e9))
    journal.add(planned.having(value="best"), "B/s", a_run(2e9))
    journal.add(planned, "B/s", failed_run(State.HANG, process=1))
    journal.close()
    for each in (journal, resumed(path)):
        cells = each.fold()
        assert [cell.case["value"] for cell in cells] == ["mean", "best"]
        assert {cell.state for cell in cells} == {State.HANG}
        assert each.has(planned, 1)
        each.close()


def test_a_case_that_fails_before_it_has_values_is_one_cell() -> None:
    journal = Journal()
    journal.add(read_case(0, 0), "B/s", failed_run(State.ERROR))
    assert [(cell.case, cell.state) for cell in journal.fold()] == [(read_case(0, 0), State.ERROR)]


# ---- going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("done", range(len(STEPS) + 1))
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(path: Path, done: int) -> None:
    whole = Journal()
    record(whole, STEPS)
    first = started(path)
    record(first, STEPS[:done])
    first.close()
    second = resumed(path)
    for case, run in STEPS:
        if not second.has(case, run.process):
            second.add(case, "B/s", run)
    second.close()
    assert second.fold() == whole.fold()
    assert resumed(path).fold() == whole.fold()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(examples.cases, examples.good_runs | examples.failed_runs), max_size=6))
def test_any_run_reads_back(path: Path, steps: list[tuple[Case, Run]]) -> None:
    path.unlink(missing_ok=True)
    journal = started(path)
    record(journal, tuple(steps))
    journal.close()
    again = resumed(path)
    again.close()
    assert again.fold() == journal.fold()


def test_a_last_line_cut_anywhere_is_dropped_and_the_file_goes_on(path: Path) -> None:
    journal = started(path)
    record(journal, STEPS[:3])
    journal.close()
    whole = path.read_bytes()
    last = lines(path)[-1]
    for kept in range(len(last)):
        path.write_bytes(whole[: len(whole) - len(last) + kept])
        again = resumed(path)
        assert len(again.fold()) == 2
        record(again, STEPS[2:3])
        again.close()
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"\0" * 40,
        b"{}",
        b"[]",
        b"null",
        b'{"case": 1}',
        b"[" * 100_000,
        b'{"case": {',
        b"\xff",
    ],
    ids=["empty", "zeros", "object", "list", "null", "number", "deep", "cut", "binary"],
)
def test_a_damaged_line_is_refused_by_its_number(path: Path, damage: bytes) -> None:
    journal = started(path)
    record(journal, STEPS)
    journal.close()
    written = lines(path)
    for number in (1, 2, 4, len(written)):
        path.write_bytes(b"".join([*written[: number - 1], damage + b"\n", *written[number:]]))
        before = path.read_bytes()
        with pytest.raises(NumamicroError) as caught:
            resumed(path)
        sentence = str(caught.value)
        assert sentence.startswith(f"{path}")
        assert "\n" not in sentence
        assert number == 1 or f", line {number}" in sentence
        assert path.read_bytes() == before


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_value_is_refused_or_harmless(path: Path, data: st.DataObject) -> None:
    path.unlink(missing_ok=True)
    journal = started(path)
    record(journal, STEPS[:1])
    journal.close()
    entry = json.loads(lines(path)[1])
    key = data.draw(st.sampled_from(["case", "unit", "run"]))
    inner = data.draw(st.sampled_from([None, *entry[key]])) if key != "unit" else None
    value = data.draw(examples.json_values)
    entry[key] = value if inner is None else entry[key] | {inner: value}
    path.write_bytes(lines(path)[0] + json.dumps(entry).encode() + b"\n")
    again = Journal(path)
    try:
        again.resume(IDENTITY)
    except NumamicroError as error:
        sentence = str(error)
    else:
        sentence = f"{path}, line 2"
        assert len(again.fold()) == 1
    again.close()
    assert sentence.startswith(f"{path}, line 2")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"boot_id": "000000000000"}, "(boot_id differs)"),
        ({"plan": {"level": "default", "only": []}}, "(level differs)"),
        ({"tool": "numamicro 2", "boot_id": None}, "(boot_id, tool differ)"),
    ],
)
def test_another_run_is_refused(path: Path, change: dict[str, object], said: str) -> None:
    started(path).close()
    before = path.read_bytes()
    with pytest.raises(NumamicroError) as caught:
        Journal(path).resume(IDENTITY | change)
    assert f"{path} is of another run {said}" in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("header", [{}, {"journal": 99, "run": IDENTITY}, {"journal": 1}])
def test_another_sort_of_file_is_refused(path: Path, header: object) -> None:
    path.write_text(json.dumps(header) + "\n")
    with pytest.raises(NumamicroError, match=r"out\.json\.part is "):
        resumed(path)


def test_an_unfinished_run_is_not_overwritten(path: Path) -> None:
    path.write_text("what was measured")
    with pytest.raises(NumamicroError, match="holds an unfinished run: add --resume to go on"):
        started(path)
    assert path.read_text() == "what was measured"


def test_a_link_planted_in_its_place_is_not_followed(path: Path) -> None:
    path.symlink_to("elsewhere")
    with pytest.raises(NumamicroError, match=r"cannot write .*: File exists"):
        started(path)
    assert not path.with_name("elsewhere").exists()


def test_there_must_be_something_to_resume(path: Path) -> None:
    with pytest.raises(NumamicroError, match=r"nothing to resume: .*out\.json\.part does not"):
        resumed(path)
    with pytest.raises(NumamicroError, match="--resume needs -o"):
        Journal().resume(IDENTITY)
    path.mkdir()
    with pytest.raises(NumamicroError, match=r"cannot write .*: Is a directory"):
        resumed(path)


def test_two_runs_cannot_share_a_journal(path: Path) -> None:
    first = started(path)
    with pytest.raises(NumamicroError, match="in use by another run"):
        resumed(path)
    first.close()
    resumed(path).close()


# ---- a full disk ---------------------------------------------------------------------------------


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Make each write fail that would grow a file beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root with CAP_SYS_ADMIN")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_keeps_what_was_measured(path: Path) -> None:
    journal = started(path)
    record(journal, STEPS[:2])
    kept = path.read_bytes()
    # One more line fits in part: what came of it must go.
    with files_end_at(len(kept) + 20):
        record(journal, STEPS[2:])
    journal.close()
    assert journal.fault
    assert len(journal.fold()) == 3
    assert all(len(cell.runs) == 2 for cell in journal.fold())
    assert path.read_bytes() == kept
    again = resumed(path)
    record(again, STEPS[2:])
    again.close()
    assert again.fold() == journal.fold()


def test_a_disk_that_fills_up_is_survived(small_disk: Path) -> None:
    journal = started(small_disk / "out.json.part")
    steps = [(read_case(0, target), a_run(*[1e9] * 20)) for target in range(200)]
    record(journal, tuple(steps))
    journal.close()
    assert journal.fault == "No space left on device"
    assert len(journal.fold()) == 200
    again = resumed(small_disk / "out.json.part")
    assert 10 < len(again.fold()) < 200
    assert again.fold() == journal.fold()[: len(again.fold())]
    again.discard()


def test_a_journal_that_cannot_even_begin_says_so(path: Path) -> None:
    with files_end_at(10), pytest.raises(NumamicroError, match=r"cannot write .*: "):
        started(path)
    assert not path.exists()
    with pytest.raises(NumamicroError, match=r"cannot write .*: No such file or directory"):
        started(path / "out.json.part")


# ---- speed ---------------------------------------------------------------------------------------


def seconds_to_keep(count: int, path: Path) -> list[float]:
    """Give the processor's seconds it takes to write, to read, to fold and to print that many cells."""
    steps = tuple((read_case(0, 0, rank=rank), a_run(1e9, 2e9, 3e9)) for rank in range(count))
    marks = [time.process_time()]
    journal = started(path)
    record(journal, steps)
    journal.close()
    marks.append(time.process_time())
    again = resumed(path)
    marks.append(time.process_time())
    cells = again.fold()
    marks.append(time.process_time())
    matrix_text(CostMatrix(examples.header(), cells))
    marks.append(time.process_time())
    again.discard()
    return [end - start for start, end in pairwise(marks)]


def test_forty_times_the_cells_take_about_forty_times_as_long(path: Path) -> None:
    gc.freeze()  # what other tests left behind is not this one's to look through, again and again
    try:
        rounds = [[seconds_to_keep(count, path) for count in (200, 8_000)] for _ in range(3)]
    finally:
        gc.unfreeze()
    # Each step by itself, for one that looks at all there is for each cell must not hide behind
    # others; and the least of three turns, for a busy core can slow one half of a turn threefold.
    ratios = [[more / some for some, more in zip(*turn, strict=True)] for turn in rounds]
    assert all(least < 100 for least in map(min, *ratios)), ratios
