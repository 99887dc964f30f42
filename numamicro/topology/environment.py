"""What stands between a process and the machine: hypervisor, container, control group."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from numamicro.topology.machine import Cgroup
from numamicro.topology.sysfs import whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.topology.sysfs import Tree

# The first CPU's entry in /proc/cpuinfo fits; on 4096 CPUs the whole file has megabytes.
_CPUINFO_BYTES = 16384

# What a hypervisor calls itself in the firmware tables it gives its guest.
_VENDORS = {
    "QEMU": "qemu",
    "VMware": "vmware",
    "innotek": "virtualbox",
    "Xen": "xen",
    "Parallels": "parallels",
    "Amazon EC2": "amazon",
    "Google": "google",
    "BHYVE": "bhyve",
    "OpenStack": "openstack",
    "Microsoft Corporation": "hyperv",
}
_CLOCKS = {"kvm-clock": "kvm", "hyperv": "hyperv", "xen": "xen"}

_CONTAINERS = re.compile(r"docker|kubepods|libpod|lxc|machine\.slice/systemd-nspawn")

# A limit beyond this is how cgroup v1 writes "none".
_NO_LIMIT = 1 << 60


def cpu_facts(tree: Tree) -> dict[str, str]:
    """Give the first entries of each name in /proc/cpuinfo."""
    return tree.fields("proc/cpuinfo", _CPUINFO_BYTES)


def architecture(tree: Tree) -> str:
    """Give the machine name as ``uname -m`` would; ``unknown`` for a tree that does not tell."""
    if tree.live:
        return os.uname().machine
    facts = cpu_facts(tree)
    text = " ".join([*facts, *facts.values()])
    signs = {
        "IA-64": "ia64",
        "IBM/S390": "s390x",
        "POWER": "ppc64le",
        "CPU implementer": "aarch64",
        "GenuineIntel": "x86_64",
        "AuthenticAMD": "x86_64",
        "HygonGenuine": "x86_64",
    }
    return next((name for sign, name in signs.items() if sign in text), "unknown")


def cpu_model(tree: Tree) -> str | None:
    """Give the name of the CPU as the kernel tells it."""
    facts = cpu_facts(tree)
    for key in ("model name", "Model Name", "cpu", "cpu model"):
        if facts.get(key):
            return facts[key][:100]
    arm = [facts.get(key, "")[:8] for key in ("CPU implementer", "CPU part")]
    return f"Arm implementer {arm[0]} part {arm[1]}" if all(arm) else None


def hypervisor(tree: Tree) -> str | None:
    """Give the hypervisor's name, ``unnamed`` when there is a nameless one, None on bare metal."""
    named = _named_hypervisor(tree)
    if "hypervisor" in cpu_facts(tree).get("flags", "").split():
        return named or "unnamed"
    return named


def _named_hypervisor(tree: Tree) -> str | None:
    xen = tree.text("sys/hypervisor/type")
    if xen:
        return xen[:20]
    if tree.has("proc/device-tree/hypervisor/compatible"):
        return "kvm"
    vendor = tree.text("sys/class/dmi/id/sys_vendor") or ""
    product = tree.text("sys/class/dmi/id/product_name") or ""
    # Microsoft and Google also sell real machines, Amazon rents out whole ones.
    real = ("Microsoft Corporation" in vendor and "Virtual" not in product) or ".metal" in product
    names = [] if real else [name for sign, name in _VENDORS.items() if sign in vendor]
    clock = tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource") or ""
    clocks = [name for sign, name in _CLOCKS.items() if clock.startswith(sign)]
    return next(iter([*names, *clocks]), None)


def is_wsl(tree: Tree) -> bool:
    """Whether this is the Windows Subsystem for Linux."""
    release = tree.text("proc/sys/kernel/osrelease") or tree.text("proc/version") or ""
    return "microsoft" in release.lower()


def container(tree: Tree) -> str | None:
    """Give the kind of container around this process; None outside of one."""
    named = tree.text("run/systemd/container")
    if named:
        return named[:20]
    if tree.has("run/.containerenv"):
        return "podman"
    if tree.has(".dockerenv"):
        return "docker"
    found = _CONTAINERS.search(tree.text("proc/self/cgroup") or "")
    names = {"kubepods": "kubernetes", "libpod": "podman"}
    return names.get(found[0], found[0].rpartition("-")[2]) if found else None


def cgroup(tree: Tree) -> Cgroup | None:
    """Give the limits of this process' control group; None when it is in none."""
    groups = dict(_memberships(tree))
    mounts = dict(_mounts(tree))
    if "memory" in mounts or "cpuset" in mounts:
        cpus, mems = _cpuset(tree, _folders(tree, mounts.get("cpuset"), groups.get("cpuset")))
        folders = _folders(tree, mounts.get("memory"), groups.get("memory"))
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        return Cgroup(1, cpus, mems, *_memory(tree, folders, *names))
    if "" not in mounts:
        return None
    folders = _folders(tree, mounts[""], groups.get(""))
    cpus, mems = _cpuset(tree, folders)
    return Cgroup(
        2, cpus, mems, *_memory(tree, folders, "memory.max", "memory.current", "inactive_file")
    )


def _memberships(tree: Tree) -> Iterator[tuple[str, str]]:
    """Give (controller, path) for every group of this process; v2 has the controller ''."""
    for line in (tree.text("proc/self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number.isdecimal():
            yield from ((controller, path) for controller in controllers.split(","))


def _mounts(tree: Tree) -> Iterator[tuple[str, str]]:
    """Give (controller, folder) for every cgroup mount; v2 has the controller ''."""
    text = tree.text("proc/self/mounts") or tree.text("proc/mounts") or ""
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 3 and fields[2] == "cgroup2":
            yield "", fields[1].strip("/")
        elif len(fields) > 3 and fields[2] == "cgroup":
            yield from ((option, fields[1].strip("/")) for option in fields[3].split(","))


def _folders(tree: Tree, mount: str | None, path: str | None) -> list[str]:
    """Give the group's folder and its parents' up to the mount.

    In a container the path may be the host's, while the mount shows the group itself at its top.
    """
    if mount is None:
        return []
    parts = [part for part in (path or "").split("/") if part]
    if ".." in parts or not tree.has("/".join([mount, *parts])):
        return [mount]
    return ["/".join([mount, *parts[:depth]]) for depth in range(len(parts), -1, -1)]


def _cpuset(
    tree: Tree, folders: list[str]
) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
    def nearest(what: str) -> tuple[int, ...] | None:
        names = (f"cpuset.{what}.effective", f"cpuset.effective_{what}", f"cpuset.{what}")
        found = (tree.ids(f"{folder}/{name}") for folder in folders for name in names)
        return next((ids for ids in found if ids), None)

    return nearest("cpus"), nearest("mems")


def _memory(
    tree: Tree, folders: list[str], limit_name: str, usage_name: str, cache_name: str
) -> tuple[int | None, int | None]:
    """Give the tightest limit, and the least that is left below any limit."""
    limits: list[int] = []
    left: list[int] = []
    for folder in folders:
        limit = whole(tree.text(f"{folder}/{limit_name}"))
        if limit is None or limit >= _NO_LIMIT:
            continue
        usage = tree.size(f"{folder}/{usage_name}") or 0
        # Cold page cache counts as usage, but gives way.
        cold = min(usage, _statistic(tree, folder, cache_name))
        limits.append(limit)
        left.append(max(0, limit - usage + cold))
    return min(limits, default=None), min(left, default=None)


def _statistic(tree: Tree, folder: str, name: str) -> int:
    lines = (line.split() for line in (tree.text(f"{folder}/memory.stat") or "").splitlines())
    return next((whole(line[1]) or 0 for line in lines if line[:1] == [name] and line[1:]), 0)
