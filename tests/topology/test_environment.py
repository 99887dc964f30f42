"""Hypervisors, containers and control groups, each known by its own traces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numamicro.topology import Cgroup, Machine, discover
from tests.topology.trees import files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30
DMI = "sys/class/dmi/id"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
V1 = (
    "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n"
    "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n"
    "cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0"
)
V2 = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0"


def seen(root: Path, files: dict[str, str], nodes: int = 2) -> Machine:
    return discover(plant(root, files_of(uniform(nodes, 2)) | files))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"proc/cpuinfo": "model name: any\nflags: fpu hypervisor sse"}, "unnamed"),
        ({"proc/cpuinfo": "flags: fpu hypervisor", CLOCK: "kvm-clock"}, "kvm"),
        ({"proc/cpuinfo": "flags: fpu", CLOCK: "tsc"}, None),
        ({"sys/hypervisor/type": "xen"}, "xen"),
        ({f"{DMI}/sys_vendor": "QEMU"}, "qemu"),
        ({f"{DMI}/sys_vendor": "VMware, Inc."}, "vmware"),
        (
            {
                f"{DMI}/sys_vendor": "Microsoft Corporation",
                f"{DMI}/product_name": "Virtual Machine",
            },
            "hyperv",
        ),
        (
            {f"{DMI}/sys_vendor": "Microsoft Corporation", f"{DMI}/product_name": "Surface"},
            None,
        ),
        ({f"{DMI}/sys_vendor": "Amazon EC2", f"{DMI}/product_name": "m7i.metal-24xl"}, None),
        ({f"{DMI}/sys_vendor": "Supermicro"}, None),
        ({"proc/device-tree/hypervisor/compatible": "linux,kvm"}, "kvm"),
    ],
)
def test_a_hypervisor(tmp_path: Path, files: dict[str, str], expected: str | None) -> None:
    machine = seen(tmp_path, files)
    assert machine.hypervisor == expected
    assert ("virtual-machine" in {n.code for n in machine.notes}) == (expected is not None)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"run/systemd/container": "lxc"}, "lxc"),
        ({"proc/self/cgroup": "4:memory:/docker/0123abcd"}, "docker"),
        ({"proc/self/cgroup": "0::/kubepods.slice/pod1"}, "kubernetes"),
        ({"proc/self/cgroup": "0::/machine.slice/libpod-77.scope"}, "podman"),
        ({"proc/self/cgroup": "0::/user.slice/user-1000.slice"}, None),
    ],
)
def test_a_container(tmp_path: Path, files: dict[str, str], expected: str | None) -> None:
    assert seen(tmp_path, files).container == expected


def test_wsl(tmp_path: Path) -> None:
    release = {"proc/sys/kernel/osrelease": "5.15.167.4-microsoft-standard-WSL2"}
    machine = seen(tmp_path, release, nodes=1)
    assert machine.wsl
    assert [n.code for n in machine.notes] == ["wsl"]


def test_the_tightest_group_counts(tmp_path: Path) -> None:
    machine = seen(
        tmp_path,
        {
            "proc/self/mounts": V2,
            "proc/self/cgroup": "0::/a/b",
            "sys/fs/cgroup/a/memory.max": str(3 * GIB),
            "sys/fs/cgroup/a/memory.current": str(2 * GIB),
            "sys/fs/cgroup/a/memory.stat": f"anon 1\ninactive_file {GIB // 2}",
            "sys/fs/cgroup/a/b/memory.max": str(2 * GIB),
            "sys/fs/cgroup/a/b/memory.current": "0",
            "sys/fs/cgroup/memory.max": "max",
        },
    )
    assert machine.cgroup == Cgroup(2, None, None, 2 * GIB, 3 * GIB // 2)
    assert machine.available(0) == 3 * GIB // 2
    assert "memory-limit" in {n.code for n in machine.notes}


def test_a_first_version_group(tmp_path: Path) -> None:
    machine = seen(
        tmp_path,
        {
            "proc/self/mounts": V1,
            "proc/self/cgroup": "5:memory:/box\n3:cpuset:/\n0::/",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "77",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": str(GIB),
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": str(GIB // 4),
            "sys/fs/cgroup/cpuset/cpuset.cpus": "0-3",
            "sys/fs/cgroup/cpuset/cpuset.mems": "0-1",
        },
    )
    assert machine.cgroup == Cgroup(1, (0, 1, 2, 3), (0, 1), GIB, 3 * GIB // 4)


def test_no_limit(tmp_path: Path) -> None:
    files = {"proc/self/mounts": V2, "proc/self/cgroup": "0::/"}
    machine = seen(tmp_path, files | {"sys/fs/cgroup/memory.max": "max"})
    assert machine.cgroup == Cgroup(2)
    assert machine.available(0) == 6 * GIB


def test_a_container_that_sees_its_own_group_on_top(tmp_path: Path) -> None:
    machine = seen(
        tmp_path,
        {
            "proc/self/mounts": V1,
            "proc/self/cgroup": "5:memory:/docker/0123\n3:cpuset:/docker/0123",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(GIB),
            "sys/fs/cgroup/memory/memory.usage_in_bytes": str(2 * GIB),
        },
    )
    assert machine.cgroup == Cgroup(1, None, None, GIB, 0)
    assert machine.available(1) == 0


def test_no_group_name_is_kept(tmp_path: Path) -> None:
    files = {"proc/self/mounts": V2, "proc/self/cgroup": "0::/user.slice/secret-name"}
    assert "secret-name" not in str(seen(tmp_path, files).to_json())


@pytest.mark.parametrize(
    ("cpuinfo", "architecture", "model"),
    [
        ("vendor_id : GenuineIntel\nmodel name : Xeon", "x86_64", "Xeon"),
        ("vendor_id: AuthenticAMD\nmodel name: EPYC", "x86_64", "EPYC"),
        ("CPU implementer : 0x41\nCPU part: 0xd0c", "aarch64", "Arm implementer 0x41 part 0xd0c"),
        ("processor: 0\ncpu : POWER9, altivec supported", "ppc64le", "POWER9, altivec supported"),
        ("", "unknown", None),
    ],
)
def test_the_processor(tmp_path: Path, cpuinfo: str, architecture: str, model: str | None) -> None:
    machine = seen(tmp_path, {"proc/cpuinfo": cpuinfo})
    assert machine.architecture == architecture
    assert machine.cpu_model == model
