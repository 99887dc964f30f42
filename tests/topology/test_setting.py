"""How a machine is set."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from numamicro.errors import NumamicroError
from numamicro.setting import KEYS, facts_of, is_volatile, read_bios_json, read_setting, unread
from numamicro.topology import discover
from tests.topology.trees import CPU, NODE, files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

THP = "sys/kernel/mm/transparent_hugepage"
SYSCTL = "proc/sys"
PCI = "sys/bus/pci/devices"
EDAC = "sys/devices/system/edac/mc"

WEIGHTS = "sys/kernel/mm/mempolicy/weighted_interleave"
UNCORE = f"{CPU}/intel_uncore_frequency"
NVIDIA = "proc/driver/nvidia"
ATTRIBUTES = "sys/class/firmware-attributes/thinklmi/attributes"
VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.71.05  Release Build"
INFORMATION = "Model: \t A\nIRQ: 1\nGPU UUID: \t GPU-SECRET\nVideo BIOS: \t 96.00.5A"
PARAMS = (
    "EnablePCIeRelaxedOrderingMode: 1\nGrdmaPciTopoCheckOverride: 0\n"
    'RegistryDwords: "PeerMappingOverride=1;"'
)
GPU_FILES = {
    f"{PCI}/0000:01:00.0/class": "0x030200",
    f"{PCI}/0000:01:00.0/max_link_speed": "32.0 GT/s PCIe",
    f"{PCI}/0000:01:00.0/max_link_width": "16",
    f"{PCI}/0000:01:00.0/current_link_speed": "2.5 GT/s PCIe",
    f"{PCI}/0000:01:00.0/current_link_width": "16",
    f"{PCI}/0000:01:00.0/resource": "0x00000000f8000000 0x00000000f8ffffff 0x0000000000040200\n"
    "0x0000033800000000 0x0000033fffffffff 0x000000000014220c\n"
    "0x0000000000000000 0x0000000000000000 0x0000000000000000",
    f"{PCI}/0000:01:00.0/aer_dev_correctable": "RxErr 10\nBadTLP 2\nTOTAL_ERR_COR 12",
}
GROUPED = {
    f"sys/kernel/iommu_groups/{group}/devices/{device}": ""
    for group, device in (
        (0, "0000:01:00.0"),
        (0, "0000:02:00.0"),
        (1, "0000:03:00.0"),
        (1, "0000:03:00.1"),
    )
}


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
        ("kernel.isolated", {f"{CPU}/isolated": "2-3"}, "2-3"),
        ("kernel.isolated", {f"{CPU}/isolated": ""}, "none"),
        (
            "vm.weighted_interleave",
            {f"{WEIGHTS}/node0": "3", f"{WEIGHTS}/node1": "1"},
            "node0: 3, node1: 1",
        ),
        ("now.uptime", {"proc/uptime": "31925.84 60000.11"}, 31925),
        ("now.steal", {"proc/stat": "cpu  100 0 100 700 0 0 0 100 0 0\ncpu0 1 2"}, "10.00"),
        ("now.steal", {"proc/stat": "cpu garbled"}, None),
        (
            "now.temperature",
            {
                "sys/class/hwmon/hwmon0/name": "nvme",
                "sys/class/hwmon/hwmon0/temp1_input": "90000",
                "sys/class/hwmon/hwmon1/name": "k10temp",
                "sys/class/hwmon/hwmon1/temp1_input": "61250",
                "sys/class/hwmon/hwmon1/temp3_input": "55000",
                "sys/class/hwmon/hwmon1/temp1_max": "99000",
            },
            61,
        ),
        (
            "now.throttles",
            {f"{CPU}/cpu{i}/thermal_throttle/package_throttle_count": str(7 * i) for i in range(3)},
            14,
        ),
        ("cpu.pstate", {f"{CPU}/amd_pstate/status": "active"}, "amd_pstate active"),
        (
            "cpu.frequency_limits",
            {
                f"{CPU}/cpu{i}/cpufreq/scaling_{end}_freq": khz
                for i in range(2)
                for end, khz in (("min", "1500000"), ("max", "3700000"))
            },
            "1500-3700",
        ),
        ("cpu.idle_driver", {f"{CPU}/cpuidle/current_driver": "acpi_idle"}, "acpi_idle"),
        (
            "cpu.idle_states",
            {
                f"{CPU}/cpu0/cpuidle/state0/name": "POLL",
                f"{CPU}/cpu0/cpuidle/state0/disable": "0",
                f"{CPU}/cpu0/cpuidle/state1/name": "C1",
                f"{CPU}/cpu0/cpuidle/state2/name": "C2",
                f"{CPU}/cpu0/cpuidle/state2/disable": "1",
            },
            "POLL, C1, C2 (off)",
        ),
        (
            "cpu.uncore",
            {
                f"{UNCORE}/package_00_die_00/min_freq_khz": "800000",
                f"{UNCORE}/package_00_die_00/max_freq_khz": "2400000",
            },
            "800-2400",
        ),
        ("cpu.microcode", {"proc/cpuinfo": "model\t: 1\nmicrocode\t: 0xa0011d1"}, "0xa0011d1"),
        (
            "memory.slots",
            {
                "run/udev/data/+dmi:id": "E:MEMORY_DEVICE_0_SIZE=1024\n"
                "E:MEMORY_DEVICE_0_LOCATOR=DIMM_A1\nE:MEMORY_DEVICE_1_LOCATOR=DIMM_A2"
            },
            "DIMM_A1",
        ),
        ("pci.links", GPU_FILES, "32.0 GT/s x16 x 1"),
        ("now.links", GPU_FILES, "2.5 GT/s x16 x 1"),
        # The second window is that to the memory; the first holds registers, the sixth the ROM.
        ("pci.bar1", GPU_FILES, "32 GiB x 1"),
        ("now.link_errors", GPU_FILES, 12),
        (
            "pci.aspm",
            {"sys/module/pcie_aspm/parameters/policy": "[default] performance powersave"},
            "default",
        ),
        ("iommu.groups", GROUPED, 2),
        # Two functions of one device share a group whatever ACS does; two devices need not.
        ("iommu.shared", GROUPED, 2),
        ("amd.tsme", {f"{PCI}/0000:05:00.1/tsme_status": "1"}, "1"),
        (
            "amd.bootloader",
            {f"{PCI}/0000:05:00.1/bootloader_version": "00.2d.00.78"},
            "00.2d.00.78",
        ),
        ("nvidia.driver", {f"{NVIDIA}/version": VERSION}, "595.71.05"),
        ("nvidia.module", {f"{NVIDIA}/version": VERSION}, "open"),
        ("nvidia.vbios", {f"{NVIDIA}/gpus/0000:01:00.0/information": INFORMATION}, "96.00.5A x 1"),
        ("nvidia.relaxed_ordering", {f"{NVIDIA}/params": PARAMS}, "1"),
        ("nvidia.topology_override", {f"{NVIDIA}/params": PARAMS}, "0"),
        ("nvidia.registry", {f"{NVIDIA}/params": PARAMS}, '"PeerMappingOverride=1;"'),
        ("board.name", {"sys/class/dmi/id/board_name": "X12"}, "X12"),
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
    assert read_setting(tmp_path) == dict.fromkeys(KEYS)


def test_no_serial_is_read(tmp_path: Path) -> None:
    names = ("product_serial", "product_uuid", "board_serial", "chassis_serial")
    files = {f"sys/class/dmi/id/{name}": "SECRET" for name in names}
    files |= {"proc/sys/kernel/hostname": "SECRET", "proc/cmdline": "root=UUID=SECRET"}
    files |= {f"{NVIDIA}/gpus/0000:01:00.0/information": INFORMATION}
    assert "SECRET" not in str(read_setting(plant(tmp_path, files)))


def test_what_the_kernel_shows_of_the_firmware_is_read_and_nothing_private(tmp_path: Path) -> None:
    values = {
        "NUMANodesPerSocket": "NPS4",
        "SETUP013": "Enabled",
        "AssetTag": "SECRET",
        "SystemSerialNumber": "SECRET",
        "MemoryOwnerTag": "SECRET",
        "PowerOnPassword": "SECRET",
        "CorePrefetchNote": "02:42:ac:11:00:02",
        "PerfServiceUri": "https://SECRET",
        "Favourite": "SECRET",
    }
    files = {f"{ATTRIBUTES}/{name}/current_value": value for name, value in values.items()}
    found = read_setting(plant(tmp_path, files))
    kept = {key: value for key, value in found.items() if key.startswith("bios.attribute.")}
    assert kept == {
        "bios.attribute.NUMANodesPerSocket": "NPS4",
        "bios.attribute.SETUP013": "Enabled",
    }


def test_a_redfish_file_brings_the_same_keys(tmp_path: Path) -> None:
    path = tmp_path / "bios.json"
    attributes = {
        "NumaNodesPerSocket": "4",
        "ProcVirtualization": True,
        "CoreCount": 8,
        "MemorySpeed": None,
        "ServerName": "SECRET",
        "UefiBootSeq": "NIC.0011223344556677",
        "DramMap": {"a": 1},
    }
    path.write_text(json.dumps({"Id": "Bios", "Attributes": attributes}))
    assert read_bios_json(path) == {
        "bios.attribute.CoreCount": 8,
        "bios.attribute.NumaNodesPerSocket": "4",
        "bios.attribute.ProcVirtualization": "true",
    }


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"Attributes": []}', '{"Attributes": {}}'])
def test_what_is_no_redfish_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bios.json"
    path.write_text(text)
    with pytest.raises(NumamicroError, match="no Redfish Bios resource"):
        read_bios_json(path)
    with pytest.raises(NumamicroError, match="cannot read"):
        read_bios_json(tmp_path / "absent")


def test_each_key_that_is_unknown_has_a_reason(tmp_path: Path) -> None:
    files = {f"{CPU}/cpu0/cpufreq/scaling_driver": "", "sys/kernel/mm/ksm/run": "2"}
    setting = read_setting(plant(tmp_path, files))
    reasons = unread(setting, tmp_path)
    assert reasons["cpu.driver"] == f"/{CPU}/cpu0/cpufreq/scaling_driver does not tell"
    assert reasons["cpu.turbo"].startswith("there is no /")
    assert reasons["bios.attribute.*"].endswith("(--bios-json hands them in)")
    assert "vm.ksm" not in reasons
    assert "hypervisor" not in reasons  # null says that there is none
    missing = {key for key, value in setting.items() if value is None}
    assert missing - set(reasons) == {"hypervisor", "container"}


def test_what_moves_by_itself_is_marked() -> None:
    assert is_volatile("now.load")
    assert is_volatile("now.new_in_a_later_version")
    assert is_volatile("vm.swap_used")
    assert not is_volatile("cpu.governor")
    assert not is_volatile("bios.attribute.NPS")


@pytest.mark.parametrize("key", KEYS)
def test_a_value_has_the_type_that_its_key_has(key: str) -> None:
    value = read_setting("/")[key]
    assert value is None or type(value) is KEYS[key].kind


def test_nodes_per_package_are_what_the_kernel_shows(tmp_path: Path) -> None:
    whole = uniform(2, 4, packages={0: 0, 1: 1})
    cut = uniform(4, 2, packages={0: 0, 1: 0, 2: 1, 3: 1})
    for name, facts, expected in (("1", whole, "1"), ("2", cut, "2")):
        found = facts_of(discover(plant(tmp_path / name, files_of(facts))))
        assert found["machine.nodes_per_package"] == expected
        assert found["machine.cores"] == 8
    spanning = files_of(uniform(1, 4))
    spanning[f"{CPU}/cpu3/topology/physical_package_id"] = "1"
    found = facts_of(discover(plant(tmp_path / "0", spanning)))
    assert found["machine.nodes_per_package"] == "1/2"
