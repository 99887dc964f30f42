"""How a machine is set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numamicro.setting import READERS, read_setting
from tests.topology.trees import CPU, NODE, plant

if TYPE_CHECKING:
    from pathlib import Path

THP = "sys/kernel/mm/transparent_hugepage"
SYSCTL = "proc/sys"
PCI = "sys/bus/pci/devices"
EDAC = "sys/devices/system/edac/mc"


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
        ("kernel.perf_event_paranoid", {f"{SYSCTL}/kernel/perf_event_paranoid": "-1"}, -1),
        ("vm.ksm", {"sys/kernel/mm/ksm/run": "1"}, 1),
        ("now.load", {"proc/loadavg": "5.67 2.52 2.83 6/137 734"}, "5.67"),
        ("now.load", {"proc/loadavg": "busy"}, None),
        (
            "now.cpu_pressure",
            {"proc/pressure/cpu": "some avg10=1.25 avg60=0.00\nfull avg10=9.00 avg60=0.00"},
            "1.25",
        ),
        ("now.memory_pressure", {"proc/pressure/memory": "some avg10=0.00 avg60=0.00"}, "0.00"),
        (
            "iommu.domains",
            {
                f"sys/kernel/iommu_groups/{n}/type": t
                for n, t in enumerate(("DMA", "DMA-FQ", "DMA"))
            },
            "DMA x 2, DMA-FQ x 1",
        ),
        (
            "pci.unplaced",
            {
                f"{PCI}/0000:01:00.0/class": "0x030000",
                f"{PCI}/0000:01:00.0/numa_node": "-1",
                f"{PCI}/0000:02:00.0/class": "0x010802",
                f"{PCI}/0000:02:00.0/numa_node": "1",
                # A bridge moves nothing by itself.
                f"{PCI}/0000:00:01.0/class": "0x060400",
                f"{PCI}/0000:00:01.0/numa_node": "-1",
            },
            1,
        ),
        (
            "memory.channels",
            {
                f"{EDAC}/mc0/dimm0/size": "16384",
                f"{EDAC}/mc0/dimm0/dimm_location": "channel 0 slot 0",
                f"{EDAC}/mc0/dimm1/size": "16384",
                f"{EDAC}/mc0/dimm1/dimm_location": "channel 0 slot 1",
                f"{EDAC}/mc0/dimm2/size": "0",
                f"{EDAC}/mc0/dimm2/dimm_location": "channel 1 slot 0",
                f"{EDAC}/mc1/rank0/size": "16384",
                f"{EDAC}/mc1/rank0/dimm_location": "csrow 0 channel 0",
            },
            2,
        ),
        (
            "memory.modules",
            {"run/udev/data/+dmi:id": "E:MEMORY_DEVICE_0_SIZE=1024\nE:MEMORY_DEVICE_2_SIZE=1024"},
            2,
        ),
        ("rights.seccomp", {"proc/self/status": "Seccomp:\t2"}, "on"),
        ("rights.seccomp", {"proc/self/status": "Seccomp:\t0"}, "off"),
        # What a copied tree's machine would have answered is unknown.
        ("rights.mbind", {"proc/self/status": "Mems_allowed_list:\t0"}, None),
    ],
)
def test_a_key(
    tmp_path: Path, key: str, files: dict[str, str | bytes], expected: str | int | None
) -> None:
    assert read_setting(plant(tmp_path, files))[key] == expected


def test_what_is_missing_is_unknown(tmp_path: Path) -> None:
    assert read_setting(tmp_path) == dict.fromkeys(READERS)


def test_no_serial_is_read(tmp_path: Path) -> None:
    names = ("product_serial", "product_uuid", "board_serial", "chassis_serial")
    files = {f"sys/class/dmi/id/{name}": "SECRET" for name in names}
    files |= {"proc/sys/kernel/hostname": "SECRET", "proc/cmdline": "root=UUID=SECRET"}
    assert "SECRET" not in str(read_setting(plant(tmp_path, files)))
