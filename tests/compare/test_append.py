"""One file a boot, whatever number of runs it has."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from numamicro.append import added, boot_file, check_same
from numamicro.errors import NumamicroError
from numamicro.file import read_matrix, write_matrix
from numamicro.matrix import CostMatrix, Measurement, State
from numamicro.topology import Note
from tests.compare.truth import boot, figures
from tests.examples import a_run, failed_run, header, read_case
from tests.test_cli import SHORT, numamicro, obey_signals, one_sentence

if TYPE_CHECKING:
    from pathlib import Path

TRUTH = figures()


def test_processes_are_counted_on() -> None:
    draw = Random(1)
    one, other = boot(TRUTH, draw), boot(TRUTH, draw, processes=2)
    both = added(one, other)
    for before, after, whole in zip(
        one.measurements, other.measurements, both.measurements, strict=True
    ):
        assert [run.process for run in whole.runs] == [0, 1, 2, 3, 4]
        assert [run.samples for run in whole.runs] == [
            run.samples for run in (*before.runs, *after.runs)
        ]
    assert both.header.boot_id == one.header.boot_id


def test_a_cell_that_one_run_did_not_try_is_the_others() -> None:
    case = read_case(0, 0)
    skipped = Measurement(case, "B/s", State.SKIPPED, Note("budget", "spent"))
    measured = Measurement.of_runs(case, "B/s", (a_run(40e9),))
    head = header()
    for pair in ((skipped, measured), (measured, skipped)):
        (cell,) = added(*(CostMatrix(head, (each,)) for each in pair)).measurements
        assert cell == measured
    (cell,) = added(CostMatrix(head, (skipped,)), CostMatrix(head, ())).measurements
    assert cell == skipped


def test_the_gravest_state_of_all_processes_is_the_cells() -> None:
    case = read_case(0, 0)
    head = header()
    good = Measurement.of_runs(case, "B/s", (a_run(40e9),))
    bad = Measurement.of_runs(case, "B/s", (failed_run(State.WRONG),))
    for pair in ((good, bad), (bad, good)):
        (cell,) = added(*(CostMatrix(head, (each,)) for each in pair)).measurements
        assert cell.state is State.WRONG
        assert len(cell.runs) == 2


def test_a_setting_that_changed_within_the_boot_is_refused(tmp_path: Path) -> None:
    head = replace(header(), setting={"thp.enabled": "always", "now.load": "1", "cpu.turbo": None})
    path = tmp_path / "x.json"
    check_same(head, head, path)
    check_same(head, replace(head, setting={**head.setting, "now.load": "9"}), path)
    check_same(head, replace(head, setting={**head.setting, "cpu.turbo": "on"}), path)
    with pytest.raises(NumamicroError, match=r"thp\.enabled at always, and it is never now"):
        check_same(head, replace(head, setting={"thp.enabled": "never"}), path)
    with pytest.raises(NumamicroError, match="another boot"):
        check_same(head, replace(head, boot_id="other"), path)


def test_a_boot_without_an_id_has_no_file(tmp_path: Path) -> None:
    with pytest.raises(NumamicroError, match="-o"):
        boot_file(tmp_path, None)
    assert boot_file(tmp_path / "new", "abc") == tmp_path / "new" / "abc.json"
    assert (tmp_path / "new").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(NumamicroError, match="cannot make the folder"):
        boot_file(tmp_path / "file" / "x", "abc")


@pytest.fixture(scope="module")
def boots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that one run made, with this boot's file."""
    folder = tmp_path_factory.mktemp("append") / "boots"
    result = numamicro(*SHORT, "-q", "--append", str(folder))
    assert result.returncode == 0, result.stderr
    return folder


def check_boot(folder: Path, count: int) -> Path:
    """Give the one file of a folder, which holds so many runs of this boot."""
    (path,) = folder.iterdir()  # and no journal beside it
    found = read_matrix(path)
    assert path.stem == found.header.boot_id
    assert all(len(cell.runs) == count for cell in found.measurements)
    assert found.header.plan["processes"] == count
    return path


def test_another_setting_of_this_boot_is_refused_before_anything_is_measured(
    boots: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(boots, tmp_path / "boots")
    path = check_boot(folder, 1)
    found = read_matrix(path)
    changed = {**found.header.setting, "kernel.release": "another"}
    write_matrix(CostMatrix(replace(found.header, setting=changed), found.measurements), path)
    before = path.read_bytes()
    refused = numamicro(*SHORT, "-q", "--append", str(folder))
    assert "kernel.release at another" in one_sentence(refused)
    assert path.read_bytes() == before
    both = numamicro(*SHORT, "--append", str(folder), "-o", str(tmp_path / "x.json"))
    assert "choose one" in one_sentence(both)


def test_a_run_is_added_to_its_boots_file_only_when_it_is_whole(
    boots: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(boots, tmp_path / "boots")
    path = check_boot(folder, 1)
    before = path.read_bytes()
    command = [sys.executable, "-m", "numamicro", *SHORT, "--append", str(folder)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.DEVNULL,
        preexec_fn=obey_signals,
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()  # it has begun
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert path.read_bytes() == before
    journal = path.with_name(f"{path.name}.part")
    resume = (
        ["--resume"] if journal.exists() else []
    )  # it may have been ended before its first cell
    again = numamicro(*SHORT, "-q", "--append", str(folder), *resume)
    assert again.returncode == 0, again.stderr
    assert check_boot(folder, 2) == path
