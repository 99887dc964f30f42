"""The runner of the guests: what it tells the emulator, and what it says where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.vm.guest import arguments
from tests.vm.kernel import Kernel, archive
from tests.vm.topologies import TOPOLOGIES, Topology

ROOT = Path(__file__).parents[1]
INSIDE = ROOT / "tests/vm/inside"


def run(folder: Path, *names: str, ci: str) -> subprocess.CompletedProcess[str]:
    """Run the guests' tests where no program is installed."""
    environment = {"PATH": str(folder), "CI": ci}
    command = [sys.executable, "-m", "tests.vm", *names]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_without_an_emulator_the_tests_are_skipped_with_what_is_missing(tmp_path: Path) -> None:
    done = run(tmp_path, "2n", ci="")
    assert done.returncode == 0
    assert "sudo apt-get install qemu-system-x86" in done.stdout


def test_without_an_emulator_ci_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "2n", ci="1")
    assert done.returncode == 1
    assert "no guest can be had, so nothing was tested on several nodes" in done.stdout


def test_a_topology_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    done = run(tmp_path, "3n", ci="1")
    assert done.returncode == 2
    assert "there is no topology '3n'; there are 2n, 8n" in done.stderr


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda each: each.name)
def test_a_topology_is_told_to_the_emulator_whole(topology: Topology, tmp_path: Path) -> None:
    kernel = Kernel("6.1", tmp_path / "image", tmp_path / "files")
    told = arguments(topology, kernel, tmp_path)
    slots = sum(node.cpus + node.empty for node in topology.nodes)
    (smp,) = (told[at + 1] for at, word in enumerate(told) if word == "-smp")
    shape = {
        name: int(count) for name, _, count in (part.partition("=") for part in smp.split(","))
    }
    assert shape["maxcpus"] == slots == shape["sockets"] * shape["cores"]
    added = sum("-x86_64-cpu," in word for word in told)
    assert shape["cpus"] + added == sum(node.cpus for node in topology.nodes)
    assert sum(word.startswith("cpu,node-id=") for word in told) == slots
    assert sum(word.startswith("node,nodeid=") for word in told) == len(topology.nodes)
    size = len(topology.distances)
    assert size in (0, len(topology.nodes))
    assert sum(word.startswith("dist,") for word in told) == size * max(size - 1, 0)


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda each: each.name)
def test_a_topology_asks_for_checks_and_faults_that_there_are(topology: Topology) -> None:
    assert {f"{check}.py" for check in topology.checks} <= {path.name for path in INSIDE.iterdir()}
    assert ("faults" in topology.checks) == bool(topology.faults)
    assert ("plug" in topology.checks) == bool(topology.plugged)
    assert ("slow" in topology.checks) == bool(topology.slow)


def test_every_check_and_every_fault_is_in_some_guest() -> None:
    usual = [topology for topology in TOPOLOGIES if not topology.by_hand]
    checks = {check for topology in usual for check in topology.checks}
    assert checks == {path.stem for path in INSIDE.glob("*.py")} - {"scene", "slow"}
    assert {fault for topology in usual for fault in topology.faults} == {
        "unbound",
        "wrong-node",
        "off-by-one",
        "index",
        "exhausted",
    }


def test_an_archive_is_one_that_cpio_reads(tmp_path: Path) -> None:
    files = [("folder", 0o040755, b""), ("folder/odd", 0o100644, b"12345"), ("even", 0o100755, b"")]
    blob = archive(files)
    assert len(blob) % 4 == 0
    found, at = [], 0
    while True:
        fields = [int(blob[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        assert blob[at : at + 6] == b"070701"
        size, length = fields[6], fields[11]
        name = blob[at + 110 : at + 110 + length - 1].decode()
        at += -(-(110 + length) // 4) * 4
        content = blob[at : at + size]
        at += -(-size // 4) * 4
        if name == "TRAILER!!!":
            break
        found.append((name, fields[1], content))
    assert found == files
    assert at == len(blob)
