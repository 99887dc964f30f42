"""Keys of the kernel, its memory management, this process' rights, and what goes on right now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro import rights
from numamicro.setting.key import Key
from numamicro.setting.words import LONGEST, Reader, Value, choice, found, number, text
from numamicro.topology import environment
from numamicro.topology.cpus import CPU
from numamicro.topology.nodes import NODE

if TYPE_CHECKING:
    from numamicro.topology.sysfs import Tree

_THP = "sys/kernel/mm/transparent_hugepage"
_DAMON = "sys/kernel/mm/damon/admin/kdamonds"
_VULNERABILITIES = f"{CPU}/vulnerabilities"
_CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
_WEIGHTS = "sys/kernel/mm/mempolicy/weighted_interleave"

# Words of the kernel's command line that move memory, CPUs or clocks. The rest may be private.
_FLAG = re.compile(
    r"numa\w*|isolcpus|nohz_full|maxcpus|nr_cpus|nosmt|mem|memmap|movable\w*|kernelcore|"
    r"(default_)?hugepage\w*|hugetlb_cma|transparent_hugepage|mitigations|(\w+_)?iommu(\.\w+)?|"
    r"(intel|amd)_pstate|(intel_idle|processor)\.max_cstate|idle|clocksource|tsc|pci|pcie_aspm|"
    r"pcie_acs_override|mem_encrypt|"
    r"init_on_(alloc|free)|efi_fake_mem|page_reporting\.\w+|deferred_init|preempt"
)


def _flags(tree: Tree) -> Value:
    line = tree.text("proc/cmdline")
    if line is None:
        return None
    # What follows a lone -- is for the first process, not for the kernel.
    words = line.split(" -- ")[0].split()
    return " ".join(w for w in words if _FLAG.fullmatch(w.partition("=")[0]))[:LONGEST]


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


def _swap_used(tree: Tree) -> Value:
    memory = tree.meminfo("proc/meminfo")
    if "SwapTotal" not in memory or "SwapFree" not in memory:
        return None
    return max(0, memory["SwapTotal"] - memory["SwapFree"])


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
    return ", ".join(pools)[:LONGEST] or "none"


def _weights(tree: Tree) -> Value:
    """Read the weights of weighted interleaving, as in ``node0: 3, node1: 1``."""
    known = {
        node: tree.number(f"{_WEIGHTS}/node{node}") for node in tree.numbered(_WEIGHTS, "node")
    }
    told = [f"node{node}: {weight}" for node, weight in known.items() if weight is not None]
    return ", ".join(told)[:LONGEST] or None


def _isolated(tree: Tree) -> Value:
    """Read the CPUs that the scheduler leaves alone; ``none`` where the file is empty."""
    line = tree.text(f"{CPU}/isolated")
    return line[:LONGEST] or "none" if line is not None else None


def _pressure(resource: str) -> Reader:
    """Read the share of the last 10 s in which some process waited, in per cent."""
    return found(f"proc/pressure/{resource}", r"^some avg10=([0-9.]{1,6})")


def _uptime(tree: Tree) -> Value:
    started = re.match(r"([0-9]{1,10})\.", tree.text("proc/uptime") or "")
    return int(started[1]) if started else None


def _steal(tree: Tree) -> Value:
    """Read the share of the CPUs' time since the start that the hypervisor took, in per cent."""
    line = re.match(r"cpu +([0-9 ]{1,300})", tree.text("proc/stat") or "")
    fields = [int(word) for word in line[1].split()] if line else []
    total = sum(fields[:8])
    return f"{100 * fields[7] / total:.2f}" if len(fields) >= 8 and total else None


def _temperature(tree: Tree) -> Value:
    """Read the hottest of the sensors in and at the CPUs, in degrees Celsius."""
    sensors = [f"sys/class/hwmon/hwmon{i}" for i in tree.numbered("sys/class/hwmon", "hwmon")]
    names = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
    folders = [sensor for sensor in sensors if tree.text(f"{sensor}/name") in names]
    inputs = [
        tree.number(f"{folder}/{name}")
        for folder in folders
        for name in tree.names(folder)
        if re.fullmatch(r"temp\d+_input", name)
    ]
    known = [each for each in inputs if each is not None]
    return round(max(known) / 1000) if known else None


def _throttles(tree: Tree) -> Value:
    """Read how often packages were slowed since the start because they were hot."""
    ids = tree.numbered(CPU, "cpu")
    counts = [tree.number(f"{CPU}/cpu{i}/thermal_throttle/package_throttle_count") for i in ids]
    # Every CPU tells its package's count.
    return max((count for count in counts if count is not None), default=None)


KEYS: dict[str, Key] = {
    "kernel.release": Key(text("proc/sys/kernel/osrelease"), "proc/sys/kernel/osrelease"),
    "kernel.flags": Key(_flags, "proc/cmdline"),
    "kernel.isolated": Key(_isolated, f"{CPU}/isolated"),
    "kernel.mitigations": Key(_mitigations, _VULNERABILITIES),
    "kernel.numa_balancing": Key(
        number("proc/sys/kernel/numa_balancing"), "proc/sys/kernel/numa_balancing", int
    ),
    "kernel.perf_event_paranoid": Key(
        number("proc/sys/kernel/perf_event_paranoid"), "proc/sys/kernel/perf_event_paranoid", int
    ),
    "vm.zone_reclaim_mode": Key(
        number("proc/sys/vm/zone_reclaim_mode"), "proc/sys/vm/zone_reclaim_mode", int
    ),
    "vm.overcommit_memory": Key(
        number("proc/sys/vm/overcommit_memory"), "proc/sys/vm/overcommit_memory", int
    ),
    "vm.demotion": Key(
        text("sys/kernel/mm/numa/demotion_enabled"), "sys/kernel/mm/numa/demotion_enabled"
    ),
    "vm.damon": Key(_damon, _DAMON, root=True),
    "vm.ksm": Key(number("sys/kernel/mm/ksm/run"), "sys/kernel/mm/ksm/run", int),
    "vm.swap_used": Key(_swap_used, "proc/meminfo", int, volatile=True),
    "vm.huge_pages": Key(_huge_pages, NODE),
    "vm.weighted_interleave": Key(_weights, _WEIGHTS),
    "thp.enabled": Key(choice(f"{_THP}/enabled"), f"{_THP}/enabled"),
    "thp.defrag": Key(choice(f"{_THP}/defrag"), f"{_THP}/defrag"),
    "thp.khugepaged_defrag": Key(
        number(f"{_THP}/khugepaged/defrag"), f"{_THP}/khugepaged/defrag", int
    ),
    "clock.source": Key(text(_CLOCK), _CLOCK),
    "rights.affinity": Key(rights.affinity, ""),
    "rights.mbind": Key(rights.mbind, ""),
    "rights.move_pages": Key(rights.move_pages, ""),
    "rights.perf": Key(rights.perf, ""),
    "rights.seccomp": Key(rights.seccomp, "proc/self/status"),
    "now.load": Key(found("proc/loadavg", r"^([0-9.]{1,10}) "), "proc/loadavg", volatile=True),
    "now.cpu_pressure": Key(_pressure("cpu"), "proc/pressure/cpu", volatile=True),
    "now.memory_pressure": Key(_pressure("memory"), "proc/pressure/memory", volatile=True),
    "now.uptime": Key(_uptime, "proc/uptime", int, volatile=True),
    "now.steal": Key(_steal, "proc/stat", volatile=True),
    "now.temperature": Key(_temperature, "sys/class/hwmon", int, volatile=True),
    "now.throttles": Key(
        _throttles, f"{CPU}/cpu0/thermal_throttle/package_throttle_count", int, volatile=True
    ),
    "hypervisor": Key(environment.hypervisor, "proc/cpuinfo", or_none=True),
    "container": Key(environment.container, "run/systemd/container", or_none=True),
}
"""All but what hardware and firmware tell."""
