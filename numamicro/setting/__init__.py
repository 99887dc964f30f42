"""How the machine is set: what firmware, kernel and container were told.

Keys are dotted names and values plain; None is "unknown", which is never "the same as before".
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from numamicro import rights
from numamicro.setting.facts import facts_of
from numamicro.topology import environment
from numamicro.topology.cpus import CPU
from numamicro.topology.dimms import peak_of, read_dimms, summary_of
from numamicro.topology.nodes import NODE
from numamicro.topology.sysfs import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ["READERS", "facts_of", "is_volatile", "read_setting"]

Value: TypeAlias = "str | int | None"
Reader: TypeAlias = "Callable[[Tree], Value]"

_THP = "sys/kernel/mm/transparent_hugepage"
_DMI = "sys/class/dmi/id"
_DAMON = "sys/kernel/mm/damon/admin/kdamonds"
_VULNERABILITIES = f"{CPU}/vulnerabilities"
_CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
_EDAC = "sys/devices/system/edac/mc"
_PCI = "sys/bus/pci/devices"
_GROUPS = "sys/kernel/iommu_groups"

# Displays, accelerators, network cards and NVMe drives, by the first digits of their PCI class.
_FAR_REACHING = ("0x03", "0x12", "0x02", "0x0108")

# Words of the kernel's command line that move memory, CPUs or clocks. The rest may be private.
_FLAG = re.compile(
    r"numa\w*|isolcpus|nohz_full|maxcpus|nr_cpus|nosmt|mem|memmap|movable\w*|kernelcore|"
    r"(default_)?hugepage\w*|hugetlb_cma|transparent_hugepage|mitigations|(\w+_)?iommu(\.\w+)?|"
    r"(intel|amd)_pstate|(intel_idle|processor)\.max_cstate|idle|clocksource|tsc|pci|pcie_aspm|"
    r"init_on_(alloc|free)|efi_fake_mem|page_reporting\.\w+|deferred_init|preempt"
)

# What one file may say at most; a garbled one must not swell the result file.
_LONGEST = 200


def read_setting(root: str | Path = "/") -> dict[str, str | int | None]:
    """Read every key of :data:`READERS`.

    Parameters
    ----------
    root : str or path
        The folder below which sys/ and proc/ lie.

    Returns
    -------
    dict
        None where a value cannot be read.
    """
    tree = Tree(os.fspath(root))
    return {key: read(tree) for key, read in READERS.items()}


def is_volatile(key: str) -> bool:
    """Tell whether a key moves by itself, so that a difference is none of the setting."""
    return key.startswith("now.") or key == "vm.swap_used"


def _text(path: str) -> Reader:
    def read(tree: Tree) -> Value:
        text = tree.text(path)
        return text[:_LONGEST] if text else None

    return read


def _number(path: str) -> Reader:
    return lambda tree: tree.number(path)


def _choice(path: str) -> Reader:
    """Read the word that stands in brackets, as in ``always [madvise] never``."""

    def read(tree: Tree) -> Value:
        words = (tree.text(path) or "").split()
        return next((w[1:-1][:_LONGEST] for w in words if w[:1] == "[" and w[-1:] == "]"), None)

    return read


def _over_cpus(file: str) -> Reader:
    """Read a word that each CPU has; where they differ, each word with the number of its CPUs."""

    def read(tree: Tree) -> Value:
        texts = [tree.text(f"{CPU}/cpu{id}/{file}") for id in tree.numbered(CPU, "cpu")]
        kinds = {text[:_LONGEST] for text in texts if text}
        return _words(texts) if len(kinds) > 1 else next(iter(kinds), None)

    return read


def _turbo(tree: Tree) -> Value:
    off = tree.number(f"{CPU}/intel_pstate/no_turbo")
    on = tree.number(f"{CPU}/cpufreq/boost")
    known = on if off is None else 1 - off
    return None if known is None else "on" if known else "off"


def _words(texts: Iterable[str | None]) -> Value:
    """Give the words with the number of each, as in ``DMA x 12, identity x 3``."""
    counts = Counter(text[:_LONGEST] for text in texts if text)
    return ", ".join(f"{text} x {counts[text]}" for text in sorted(counts))[:_LONGEST] or None


def _iommu(tree: Tree) -> Value:
    """Read how devices' addresses are translated: the kinds of domain with their number."""
    return _words(tree.text(f"{_GROUPS}/{group}/type") for group in tree.numbered(_GROUPS, ""))


def _unplaced(tree: Tree) -> Value:
    """Count devices that move much memory and whose node the firmware does not tell."""
    devices = [
        device
        for device in tree.names(_PCI)
        if (tree.text(f"{_PCI}/{device}/class") or "").startswith(_FAR_REACHING)
    ]
    nodes = [tree.number(f"{_PCI}/{device}/numa_node") for device in devices]
    return sum(node is not None and node < 0 for node in nodes) if devices else None


def _channels(tree: Tree) -> Value:
    """Count the memory channels that hold a module, where a driver for error correction tells."""
    found = {
        (controller, channel[1])
        for controller in tree.numbered(_EDAC, "mc")
        for kind in ("dimm", "rank")
        for module in tree.numbered(f"{_EDAC}/mc{controller}", kind)
        if tree.size(f"{_EDAC}/mc{controller}/{kind}{module}/size")
        and (where := tree.text(f"{_EDAC}/mc{controller}/{kind}{module}/dimm_location"))
        and (channel := re.search(r"\bchannel (\d+)", where))
    }
    return len(found) or None


def _modules(tree: Tree) -> Value:
    return len(read_dimms(tree)) or None


def _pressure(resource: str) -> Reader:
    """Read the share of the last 10 s in which some process waited, in per cent."""

    def read(tree: Tree) -> Value:
        found = re.search(
            r"^some avg10=([0-9.]{1,6})", tree.text(f"proc/pressure/{resource}") or ""
        )
        return found[1] if found else None

    return read


def _load(tree: Tree) -> Value:
    found = re.match(r"[0-9.]{1,10} ", tree.text("proc/loadavg") or "")
    return found[0].strip() if found else None


def _flags(tree: Tree) -> Value:
    line = tree.text("proc/cmdline")
    if line is None:
        return None
    # What follows a lone -- is for the first process, not for the kernel.
    words = line.split(" -- ")[0].split()
    return " ".join(w for w in words if _FLAG.fullmatch(w.partition("=")[0]))[:_LONGEST]


def _swap_used(tree: Tree) -> Value:
    memory = tree.meminfo("proc/meminfo")
    if "SwapTotal" not in memory or "SwapFree" not in memory:
        return None
    return max(0, memory["SwapTotal"] - memory["SwapFree"])


def _mitigations(tree: Tree) -> Value:
    names = tree.names(_VULNERABILITIES)
    states = [tree.text(f"{_VULNERABILITIES}/{name}") or "" for name in names]
    if any(state.startswith("Mitigation") for state in states):
        return "on"
    if any(state.startswith("Vulnerable") for state in states):
        return "off"
    return "not-needed" if any(states) else None


def _damon(tree: Tree) -> Value:
    count = tree.number(f"{_DAMON}/nr_kdamonds")
    states = [tree.text(f"{_DAMON}/{i}/state") for i in tree.numbered(_DAMON, "")]
    modules = ("damon_reclaim", "damon_lru_sort")
    switches = [tree.text(f"sys/module/{module}/parameters/enabled") for module in modules]
    if "on" in states or "Y" in switches:
        return "on"
    return "off" if count == 0 or "off" in states or "N" in switches else None


def _huge_pages(tree: Tree) -> Value:
    """Read what is reserved, as in ``node0: 512 x 2048kB``; ``none`` where nothing is."""
    nodes = tree.numbered(NODE, "node")
    counts = {
        (node, name): tree.number(f"{NODE}/node{node}/hugepages/{name}/nr_hugepages")
        for node in nodes
        for name in tree.names(f"{NODE}/node{node}/hugepages")
    }
    if not counts:
        return None
    pools = (
        f"node{node}: {count} x {name.removeprefix('hugepages-')}"
        for (node, name), count in counts.items()
        if count
    )
    return ", ".join(pools)[:_LONGEST] or "none"


def _dimms(tree: Tree) -> Value:
    text = summary_of(read_dimms(tree))
    return text[:_LONGEST] if text else None


READERS: dict[str, Reader] = {
    "kernel.release": _text("proc/sys/kernel/osrelease"),
    "kernel.flags": _flags,
    "kernel.mitigations": _mitigations,
    "kernel.numa_balancing": _number("proc/sys/kernel/numa_balancing"),
    "kernel.perf_event_paranoid": _number("proc/sys/kernel/perf_event_paranoid"),
    "vm.zone_reclaim_mode": _number("proc/sys/vm/zone_reclaim_mode"),
    "vm.overcommit_memory": _number("proc/sys/vm/overcommit_memory"),
    "vm.demotion": _text("sys/kernel/mm/numa/demotion_enabled"),
    "vm.damon": _damon,
    "vm.ksm": _number("sys/kernel/mm/ksm/run"),
    "vm.swap_used": _swap_used,
    "vm.huge_pages": _huge_pages,
    "thp.enabled": _choice(f"{_THP}/enabled"),
    "thp.defrag": _choice(f"{_THP}/defrag"),
    "thp.khugepaged_defrag": _number(f"{_THP}/khugepaged/defrag"),
    "cpu.driver": _over_cpus("cpufreq/scaling_driver"),
    "cpu.governor": _over_cpus("cpufreq/scaling_governor"),
    "cpu.preference": _over_cpus("cpufreq/energy_performance_preference"),
    "cpu.turbo": _turbo,
    "cpu.smt": _text(f"{CPU}/smt/control"),
    "clock.source": _text(_CLOCK),
    "memory.dimms": _dimms,
    "memory.peak": lambda tree: peak_of(read_dimms(tree)),
    "memory.channels": _channels,
    "memory.modules": _modules,
    "pci.unplaced": _unplaced,
    "iommu.domains": _iommu,
    "rights.affinity": rights.affinity,
    "rights.mbind": rights.mbind,
    "rights.move_pages": rights.move_pages,
    "rights.perf": rights.perf,
    "rights.seccomp": rights.seccomp,
    "now.load": _load,
    "now.cpu_pressure": _pressure("cpu"),
    "now.memory_pressure": _pressure("memory"),
    "hypervisor": environment.hypervisor,
    "container": environment.container,
    "bios.vendor": _text(f"{_DMI}/bios_vendor"),
    "bios.version": _text(f"{_DMI}/bios_version"),
    "bios.date": _text(f"{_DMI}/bios_date"),
}
