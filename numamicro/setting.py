"""How the machine is set: what firmware, kernel and container were told, and what spoils figures.

Keys are dotted names and values plain; None is "unknown", which is never "the same as before".
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from numamicro.topology import Note, environment
from numamicro.topology.cpus import CPU
from numamicro.topology.dimms import peak_of, read_dimms, summary_of
from numamicro.topology.nodes import NODE
from numamicro.topology.sysfs import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numamicro.topology import Machine

Value: TypeAlias = "str | int | None"
Reader: TypeAlias = "Callable[[Tree], Value]"

_THP = "sys/kernel/mm/transparent_hugepage"
_DMI = "sys/class/dmi/id"
_DAMON = "sys/kernel/mm/damon/admin/kdamonds"
_VULNERABILITIES = f"{CPU}/vulnerabilities"
_CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"

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


def warnings_of(setting: Mapping[str, Value], machine: Machine) -> tuple[Note, ...]:
    """Say what will spoil figures here, each with its evidence and its remedy.

    What the machine hides or leaves out is not repeated: see :attr:`Machine.notes`.
    """
    return tuple(
        Note(rule.code, rule.text.format(setting.get(rule.key)))
        for rule in _RULES
        if rule.holds(setting, machine)
    )


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
        texts = (tree.text(f"{CPU}/cpu{id}/{file}") for id in tree.numbered(CPU, "cpu"))
        counts = Counter(text[:_LONGEST] for text in texts if text)
        if len(counts) > 1:
            return ", ".join(f"{text} x {counts[text]}" for text in sorted(counts))[:_LONGEST]
        return next(iter(counts), None)

    return read


def _turbo(tree: Tree) -> Value:
    off = tree.number(f"{CPU}/intel_pstate/no_turbo")
    on = tree.number(f"{CPU}/cpufreq/boost")
    known = on if off is None else 1 - off
    return None if known is None else "on" if known else "off"


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
    "vm.zone_reclaim_mode": _number("proc/sys/vm/zone_reclaim_mode"),
    "vm.overcommit_memory": _number("proc/sys/vm/overcommit_memory"),
    "vm.demotion": _text("sys/kernel/mm/numa/demotion_enabled"),
    "vm.damon": _damon,
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
    "hypervisor": environment.hypervisor,
    "container": environment.container,
    "bios.vendor": _text(f"{_DMI}/bios_vendor"),
    "bios.version": _text(f"{_DMI}/bios_version"),
    "bios.date": _text(f"{_DMI}/bios_date"),
}


@dataclass(frozen=True, slots=True)
class _Rule:
    """A warning, when it holds, and the key whose value fills the {} in its text."""

    code: str
    key: str
    holds: Callable[[Mapping[str, Value], Machine], bool]
    text: str


def _several_nodes(machine: Machine) -> bool:
    return len(machine.targets) > 1


def _slow_governor(setting: Mapping[str, Value], _: Machine) -> bool:
    # With these drivers "powersave" only means that the hardware chooses, by its preference.
    self_driven = str(setting.get("cpu.driver")) in ("intel_pstate", "amd-pstate-epp")
    sparing = "power" in str(setting.get("cpu.preference")).split("_")
    return "powersave" in str(setting.get("cpu.governor")) and (sparing or not self_driven)


def _much_swapped(setting: Mapping[str, Value], machine: Machine) -> bool:
    used = setting.get("vm.swap_used")
    total = sum(node.memory or 0 for node in machine.nodes)
    return isinstance(used, int) and used * 20 > total > 0


_RULES = (
    _Rule(
        "autonuma",
        "kernel.numa_balancing",
        lambda setting, machine: (
            setting.get("kernel.numa_balancing") not in (None, 0) and _several_nodes(machine)
        ),
        "AutoNUMA is on (kernel.numa_balancing = {}) and moves unbound pages to their readers: "
        "sysctl kernel.numa_balancing=0 as root for steady figures",
    ),
    _Rule(
        "zone-reclaim",
        "vm.zone_reclaim_mode",
        lambda setting, machine: (
            setting.get("vm.zone_reclaim_mode") not in (None, 0) and _several_nodes(machine)
        ),
        "vm.zone_reclaim_mode is {}, so a filling node drops its page cache first and stalls: "
        "sysctl vm.zone_reclaim_mode=0 as root",
    ),
    _Rule(
        "demotion",
        "vm.demotion",
        lambda setting, _: setting.get("vm.demotion") in ("true", "1"),
        "page demotion is on ({}), so idle pages may move to a slower node: write 0 to "
        "/sys/kernel/mm/numa/demotion_enabled as root",
    ),
    _Rule(
        "damon",
        "vm.damon",
        lambda setting, _: setting.get("vm.damon") == "on",
        "DAMON is {} and samples page accesses, which costs TLB misses: stop it while measuring",
    ),
    _Rule(
        "thp-never",
        "thp.enabled",
        lambda setting, _: setting.get("thp.enabled") == "never",
        "transparent huge pages are off (enabled = {}), so cells with huge pages fall back to "
        "small ones: write madvise to /sys/kernel/mm/transparent_hugepage/enabled as root",
    ),
    _Rule(
        "thp-defrag-never",
        "thp.defrag",
        lambda setting, _: (
            setting.get("thp.defrag") == "never" and setting.get("thp.enabled") != "never"
        ),
        "huge pages are only given where memory is already free in one piece (thp defrag = {}): "
        "write madvise to /sys/kernel/mm/transparent_hugepage/defrag as root",
    ),
    _Rule(
        "governor",
        "cpu.governor",
        _slow_governor,
        "the CPU frequency governor is {}, which keeps clocks low: "
        "cpupower frequency-set -g performance as root",
    ),
    _Rule(
        "swap",
        "vm.swap_used",
        _much_swapped,
        "{} bytes are swapped out, so memory is short and pages may come from a disk: "
        "end other programs first",
    ),
    _Rule(
        "clock",
        "clock.source",
        lambda setting, _: setting.get("clock.source") in ("hpet", "acpi_pm", "jiffies", "pit"),
        "the clock source is {}, which is slow to read and coarse: boot with tsc=reliable if the "
        "machine's TSC is sound",
    ),
)
