"""`setting` as its users run it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from numamicro.cli import main
from numamicro.file import write_matrix
from tests.examples import matrix
from tests.topology.trees import files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["setting", *map(str, arguments)])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_what_is_read_is_printed_and_what_is_not_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of(uniform(2, 4)) | {"sys/kernel/mm/ksm/run": "1", "proc/uptime": "77.1 1"}
    tree = plant(tmp_path / "tree", files)
    status, out, err = run(capsys, "--root", tree)
    assert (status, err) == (0, "")
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert lines["vm.ksm"] == ["1"]
    assert lines["now.uptime"] == ["77", "moves", "by", "itself"]
    assert lines["machine.nodes"] == ["2"]
    assert "cpu.governor: there is no /sys/devices/system/cpu/cpu0/cpufreq" in out
    status, out, _ = run(capsys, "--root", tree, "--json")
    document = json.loads(out)
    assert document["setting"]["vm.ksm"] == 1
    assert document["unknown"]["cpu.governor"].startswith("there is no")


def test_the_firmwares_own_settings_can_be_handed_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = plant(tmp_path / "tree", files_of(uniform(1, 2)))
    bios = tmp_path / "bios.json"
    bios.write_text('{"Attributes": {"NumaNodesPerSocket": "4", "AssetTag": "SECRET"}}')
    status, out, _ = run(capsys, "--root", tree, "--bios-json", bios)
    assert status == 0
    assert "bios.attribute.NumaNodesPerSocket" in out
    assert "SECRET" not in out
    status, _, err = run(capsys, "--root", tree, "--bios-json", tmp_path / "absent")
    assert status == 2
    assert "cannot read" in err


def test_a_files_setting_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.json"
    write_matrix(matrix(), path)
    status, out, _ = run(capsys, path, "--format", "github")
    assert status == 0
    assert "| thp.enabled" in out
    assert "cpu.governor: the file does not tell" in out
    status, _, err = run(capsys, path, "--root", tmp_path)
    assert status == 2
    assert "choose one" in err


def test_this_machine_tells_something(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys)
    assert status == 0
    assert "kernel.release" in out
