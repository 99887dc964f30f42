"""How a machine is set, and which of it is warned of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numamicro.setting import READERS, read_setting, warnings_of
from numamicro.topology import discover
from tests.topology.trees import CPU, NODE, files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

THP = "sys/kernel/mm/transparent_hugepage"
SYSCTL = "proc/sys"


@pytest.mark.parametrize(
    ("key", "files", "expected"),
    [
        ("kernel.release", {f"{SYSCTL}/kernel/osrelease": "6.1.0-13-amd64"}, "6.1.0-13-amd64"),
        (
            "kernel.flags",
            {"proc/cmdline": "root=UUID=1-2 numa=off isolcpus=1 password=x iommu=pt -- numa=fake"},
            "numa=off isolcpus=1 iommu=pt",
        ),
        ("kernel.mitigations", {f"{CPU}/vulnerabilities/l1tf": "Mitigation: PTE"}, "on"),
        ("kernel.mitigations", {f"{CPU}/vulnerabilities/l1tf": "Vulnerable"}, "off"),
        ("kernel.mitigations", {f"{CPU}/vulnerabilities/l1tf": "Not affected"}, "not-needed"),
        ("kernel.numa_balancing", {f"{SYSCTL}/kernel/numa_balancing": "1"}, 1),
        ("kernel.numa_balancing", {f"{SYSCTL}/kernel/numa_balancing": "garbled"}, None),
        ("vm.zone_reclaim_mode", {f"{SYSCTL}/vm/zone_reclaim_mode": "0"}, 0),
        ("vm.swap_used", {"proc/meminfo": "SwapTotal: 100 kB\nSwapFree: 40 kB"}, 60 * 1024),
        (
            "vm.huge_pages",
            {
                f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages": "0",
                f"{NODE}/node1/hugepages/hugepages-2048kB/nr_hugepages": "512",
            },
            "node1: 512 x 2048kB",
        ),
        (
            "vm.huge_pages",
            {f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages": "0"},
            "none",
        ),
        ("thp.enabled", {f"{THP}/enabled": "always [madvise] never"}, "madvise"),
        ("thp.enabled", {f"{THP}/enabled": "always madvise"}, None),
        ("thp.khugepaged_defrag", {f"{THP}/khugepaged/defrag": "1"}, 1),
        (
            "cpu.governor",
            {
                f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
                f"{CPU}/cpu1/cpufreq/scaling_governor": "performance",
                f"{CPU}/cpu2/cpufreq/scaling_governor": "powersave",
            },
            "performance x 1, powersave x 2",
        ),
        ("cpu.turbo", {f"{CPU}/intel_pstate/no_turbo": "1"}, "off"),
        ("cpu.turbo", {f"{CPU}/intel_pstate/no_turbo": "0"}, "on"),
        ("cpu.turbo", {f"{CPU}/cpufreq/boost": "0"}, "off"),
        ("cpu.smt", {f"{CPU}/smt/control": "forceoff"}, "forceoff"),
        ("vm.damon", {"sys/module/damon_reclaim/parameters/enabled": "Y"}, "on"),
        ("vm.damon", {"sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds": "0"}, "off"),
        (
            "vm.damon",
            {
                "sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds": "1",
                "sys/kernel/mm/damon/admin/kdamonds/0/state": "on",
            },
            "on",
        ),
        ("bios.date", {"sys/class/dmi/id/bios_date": "06/13/2019"}, "06/13/2019"),
        ("hypervisor", {"sys/hypervisor/type": "xen"}, "xen"),
    ],
)
def test_a_key(tmp_path: Path, key: str, files: dict[str, str], expected: str | int | None) -> None:
    assert read_setting(plant(tmp_path, files))[key] == expected


def test_what_is_missing_is_unknown(tmp_path: Path) -> None:
    assert read_setting(tmp_path) == dict.fromkeys(READERS)


def test_no_serial_is_read(tmp_path: Path) -> None:
    names = ("product_serial", "product_uuid", "board_serial", "chassis_serial")
    files = {f"sys/class/dmi/id/{name}": "SECRET" for name in names}
    files |= {"proc/sys/kernel/hostname": "SECRET", "proc/cmdline": "root=UUID=SECRET"}
    assert "SECRET" not in str(read_setting(plant(tmp_path, files)))


SPOILING: list[tuple[str, dict[str, str]]] = [
    ("autonuma", {f"{SYSCTL}/kernel/numa_balancing": "1"}),
    ("zone-reclaim", {f"{SYSCTL}/vm/zone_reclaim_mode": "1"}),
    ("demotion", {"sys/kernel/mm/numa/demotion_enabled": "true"}),
    ("damon", {"sys/module/damon_reclaim/parameters/enabled": "Y"}),
    ("thp-never", {f"{THP}/enabled": "always madvise [never]"}),
    ("thp-defrag-never", {f"{THP}/defrag": "always defer [never]"}),
    ("governor", {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave"}),
    (
        "governor",
        {
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
            f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate",
            f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_power",
        },
    ),
    ("swap", {"proc/meminfo": "SwapTotal: 8388608 kB\nSwapFree: 4194304 kB"}),
    (
        "clock",
        {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet"},
    ),
]

HARMLESS: list[dict[str, str]] = [
    {},
    {f"{SYSCTL}/kernel/numa_balancing": "0", f"{SYSCTL}/vm/zone_reclaim_mode": "0"},
    {f"{THP}/enabled": "always [madvise] never", f"{THP}/defrag": "always [madvise] never"},
    {
        f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
        f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate",
        f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_performance",
    },
    {"proc/meminfo": "SwapTotal: 8388608 kB\nSwapFree: 8380000 kB"},
]


@pytest.mark.parametrize(("code", "files"), SPOILING)
def test_what_spoils_figures_is_warned_of(tmp_path: Path, code: str, files: dict[str, str]) -> None:
    root = plant(tmp_path, files_of(uniform(2, 2)) | files)
    setting = read_setting(root)
    (warning,) = warnings_of(setting, discover(root))
    assert warning.code == code
    assert "{" not in warning.text
    assert "None" not in warning.text


@pytest.mark.parametrize("files", HARMLESS)
def test_what_does_not_is_not(tmp_path: Path, files: dict[str, str]) -> None:
    root = plant(tmp_path, files_of(uniform(2, 2)) | files)
    assert warnings_of(read_setting(root), discover(root)) == ()


def test_autonuma_cannot_spoil_a_single_node(tmp_path: Path) -> None:
    files = files_of(uniform(1, 2)) | {f"{SYSCTL}/kernel/numa_balancing": "1"}
    root = plant(tmp_path, files)
    assert warnings_of(read_setting(root), discover(root)) == ()
