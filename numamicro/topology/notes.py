"""What a reader must know about a machine: what is hidden or left out, and what would show it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from numamicro.finding import Finding, Severity
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numamicro.topology.machine import Machine

_SPOILS, _LIMITS, _REMARK = Severity.SPOILS, Severity.LIMITS, Severity.REMARK

# So many CPUs are seldom one node.
_BIG = 64


def format_ids(ids: Iterable[int]) -> str:
    """Give ids as a kernel list such as ``0-3,8``; the inverse of :func:`sysfs.parse_list`."""
    runs: list[list[int]] = []
    for id in sorted(set(ids)):
        if runs and id == runs[-1][1] + 1:
            runs[-1][1] = id
        else:
            runs.append([id, id])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _named(kind: str, ids: Iterable[int]) -> str:
    text = format_ids(ids)
    return f"{kind} {text}" if text.isdecimal() else f"{kind}s {text}"


def notes_of(machine: Machine) -> tuple[Finding, ...]:
    """Give every note that the machine's own values call for."""
    return tuple(note for rule in _RULES for note in rule(machine))


def _virtual(machine: Machine) -> Iterator[Finding]:
    if machine.wsl:
        yield Finding(
            "wsl",
            _LIMITS,
            "Windows shows its Linux subsystem (WSL) one node, whatever the hardware has",
            "/proc/sys/kernel/osrelease names Microsoft",
            "other nodes, and where GPUs and drives are, stay unknown",
            "run on Linux itself to see more",
        )
    elif machine.hypervisor:
        single = len(machine.nodes) == 1
        many = f", though {len(machine.cpus)} CPUs are many for one" * (len(machine.cpus) > _BIG)
        yield Finding(
            "virtual-machine",
            _LIMITS,
            f"a hypervisor ({machine.hypervisor}) made up the topology shown here "
            f"({f'one node{many}' if single else 'nodes and caches'})",
            "the CPU flags, the firmware's tables or the clock source name a hypervisor",
            "what it hides is unknown, not equal",
            "measure on the host, or give the guest its real nodes and pin its CPUs (libvirt: "
            "numatune and cputune; QEMU: -numa with host-nodes)",
        )


def _cpus(machine: Machine) -> Iterator[Finding]:
    offline = [cpu.id for cpu in machine.cpus if not cpu.online]
    if offline:
        yield Finding(
            "offline-cpus",
            _LIMITS,
            f"{_named('CPU', offline)}: offline",
            "/sys/devices/system/cpu/online leaves them out",
            "no figure includes them",
            "echo 1 > /sys/devices/system/cpu/cpuN/online as root",
        )
    barred = [cpu.id for cpu in machine.cpus if cpu.online and not cpu.allowed]
    if barred:
        yield _barred(barred, machine)
    kinds = {cpu.kind for cpu in machine.cpus if cpu.usable} - {None}
    if len(kinds) > 1:
        yield Finding(
            "hybrid",
            _REMARK,
            "performance and efficiency cores are mixed",
            "/sys/devices/cpu_core and cpu_atom, or cpu_capacity, or cpuinfo_max_freq of each CPU",
            "figures over all CPUs blend two kinds",
            "taskset -c with the CPUs of one kind measures that kind",
        )


def _barred(barred: list[int], machine: Machine) -> Finding:
    granted = machine.cgroup.cpus if machine.cgroup else None
    if granted is not None and not set(barred) & set(granted):
        why = "the cpuset of this container or service"
        way = "widen it (docker --cpuset-cpus, AllowedCPUs= of systemd)"
        evidence = f"cpuset.cpus of this process' control group is {format_ids(granted)}"
    else:
        why = "the CPU affinity of this process"
        way = "start it without taskset or numactl, or ask the batch system for whole nodes"
        allowed = [cpu.id for cpu in machine.cpus if cpu.allowed]
        evidence = f"Cpus_allowed_list in /proc/self/status is {format_ids(allowed)}"
    return Finding(
        "cpus-not-allowed",
        _LIMITS,
        f"{_named('CPU', barred)}: barred by {why}",
        evidence,
        "no figure includes them, and others may be using them meanwhile",
        way,
    )


def _nodes(machine: Machine) -> Iterator[Finding]:
    nodes = machine.nodes
    listed = Counter(node.cpus for node in nodes if node.cpus)
    yield from _on(
        [n.id for n in nodes if listed[n.cpus] > 1],
        "emulated-nodes",
        _SPOILS,
        "only emulated by the kernel",
        "cpulist below /sys/devices/system/node is the same in each (numa=fake)",
        "any difference between them is chance",
        "boot without numa=fake",
    )
    yield from _on(
        # The kernel allows no pages on a node without memory; that is not the cpuset's doing.
        [n.id for n in nodes if not n.allowed and n.memory != 0],
        "nodes-not-allowed",
        _LIMITS,
        "visible, but this process may not place pages there",
        "Mems_allowed_list in /proc/self/status leaves them out",
        "they are no targets: not allowed, which is not absent",
        "widen the cpuset (docker --cpuset-mems, AllowedMemoryNodes= of systemd)",
    )
    yield from _on(
        [n.id for n in nodes if n.memory == 0 and n.cpus],
        "no-memory",
        _LIMITS,
        "CPUs without memory",
        "MemTotal in /sys/devices/system/node/nodeN/meminfo is 0",
        "no target, and all that these CPUs read is on another node",
        "populate the memory channels there",
    )
    yield from _on(
        [n.id for n in nodes if n.phantom and not n.offline_memory],
        "phantom",
        _REMARK,
        "online with neither CPU nor memory",
        "cpulist is empty and MemTotal is 0 in /sys/devices/system/node/nodeN",
        "left out",
        "bring its CPUs or memory online if it has any",
    )
    yield from _on(
        [n.id for n in nodes if n.offline_memory],
        "offline-memory",
        _LIMITS,
        "holds memory that is offline",
        "state of a memory block below /sys/devices/system/node/nodeN is offline",
        "that memory is left out",
        "bring it online with chmem or daxctl as root",
    )
    yield from _on(
        [n.id for n in nodes if n.backing == "gpu"],
        "gpu-memory",
        _REMARK,
        "a GPU's own memory, which the kernel shows as a node",
        "numa_status below /proc/driver/nvidia/gpus names it",
        "its figures are of the link to that GPU",
    )
    yield from _on(
        [n.id for n in nodes if n.side_cache],
        "side-cache",
        _LIMITS,
        "a memory-side cache is in front",
        "memory_side_cache below /sys/devices/system/node/nodeN",
        "a buffer smaller than it measures the cache, not the memory",
        "name a larger buffer (--memory)",
    )
    yield from _on(
        [n.id for n in nodes if len(nodes) > 1 and not n.distances],
        "distances-unknown",
        _REMARK,
        "no row of distances that matches the online nodes",
        "/sys/devices/system/node/nodeN/distance",
        "figures cannot be held against what the firmware states",
    )


def _on(
    nodes: list[int], code: str, severity: Severity, what: str, *rest: str
) -> Iterator[Finding]:
    """Give a finding on some nodes, if there are any."""
    if nodes:
        yield Finding(code, severity, f"{_named('node', nodes)}: {what}", *rest)


def _packages(machine: Machine) -> Iterator[Finding]:
    if len(machine.initiators) > 1 and any(c.usable and c.package is None for c in machine.cpus):
        yield Finding(
            "packages-unknown",
            _REMARK,
            "the kernel does not tell the package of every CPU",
            "/sys/devices/system/cpu/cpuN/topology/physical_package_id is missing or -1",
            "nodes are taken to be in different packages",
        )


def _caches(machine: Machine) -> Iterator[Finding]:
    sizes = {llc.id: llc.bytes for llc in machine.llcs}
    unknown = [c.id for c in machine.cpus if c.usable and (c.llc is None or not sizes[c.llc])]
    if unknown:
        yield Finding(
            "llc-unknown",
            _LIMITS,
            f"{_named('CPU', unknown)}: the kernel does not tell the last-level cache",
            "/sys/devices/system/cpu/cpuN/cache is missing or incomplete",
            "buffers are sized by a guess, and may fit the cache",
            "name a size (--memory) to be sure",
        )


def _limits(machine: Machine) -> Iterator[Finding]:
    group = machine.cgroup
    if group and group.memory_limit is not None:
        left = "" if group.memory_left is None else f", {bytes_text(group.memory_left)} are left"
        name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
        yield Finding(
            "memory-limit",
            _REMARK,
            f"this process may use {bytes_text(group.memory_limit)} of memory in all",
            f"{name} of its control group or a parent is {group.memory_limit}{left}",
            "buffers are kept within it",
            "raise it for larger ones (docker --memory, MemoryMax= of systemd)",
        )
    if machine.container:
        yield Finding(
            "container",
            _REMARK,
            f"inside a container ({machine.container})",
            "/.dockerenv, /run/.containerenv, /run/systemd/container or /proc/self/cgroup",
            "only what the container may use is measured",
        )


_RULES: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    _virtual,
    _cpus,
    _nodes,
    _packages,
    _caches,
    _limits,
)
