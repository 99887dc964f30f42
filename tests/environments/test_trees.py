"""Guests as their files show them: what the commands say of a topology that somebody made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.cli import main
from tests.topology.trees import files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PCI = "sys/bus/pci/devices/0000:00:05.0"
GPU_NOWHERE = {f"{PCI}/class": "0x030200", f"{PCI}/numa_node": "-1"}
GUEST = {"proc/cpuinfo": "model name: any\nflags: fpu hypervisor", **GPU_NOWHERE}
WSL = {
    "proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2",
    "proc/cpuinfo": "flags: fpu hypervisor",
}


def said(
    root: Path, files: dict[str, str], nodes: int, capsys: pytest.CaptureFixture[str]
) -> tuple[str, str]:
    """Give what doctor and topology print of a tree."""
    plant(root, files_of(uniform(nodes, 4)) | files)
    texts = []
    for command in ("doctor", "topology"):
        assert main([command, "--root", str(root)]) == 0
        texts.append(capsys.readouterr().out)
    return texts[0], texts[1]


def test_a_hypervisor_that_hides_the_nodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor, topology = said(tmp_path, GUEST, 1, capsys)
    for text in (doctor, topology):
        assert "what it hides is unknown, not equal" in text
        assert "numatune" in text
    assert "the hypervisor hides the node of 1 device" in doctor
    assert "pxb-pcie" in doctor


def test_a_guest_with_nodes_is_still_made_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor, _ = said(tmp_path, GUEST, 2, capsys)
    assert "made up the topology shown here (nodes and caches)" in doctor
    assert "limits: the hypervisor hides the node of 1 device" in doctor


def test_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    doctor, topology = said(tmp_path, WSL, 1, capsys)
    for text in (doctor, topology):
        assert "WSL" in text
        assert "run on Linux itself" in text
    assert "/proc/sys/kernel/osrelease names Microsoft" in doctor
    assert "made up the topology" not in doctor
