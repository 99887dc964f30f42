"""What a reader must know about a machine: what is hidden or left out, and what would show it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from numamicro.topology.machine import Machine, Note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


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


def notes_of(machine: Machine) -> tuple[Note, ...]:
    """Give every note that the machine's own values call for."""
    return tuple(note for rule in _RULES for note in rule(machine))


def _virtual(machine: Machine) -> Iterator[Note]:
    if machine.wsl:
        yield Note(
            "wsl",
            "Windows shows WSL one node whatever the hardware has: run on Linux itself to see more",
        )
    elif machine.hypervisor:
        hidden = "one node" if len(machine.nodes) == 1 else "nodes and caches"
        yield Note(
            "virtual-machine",
            f"a hypervisor ({machine.hypervisor}) made up the topology shown here ({hidden}): what "
            "it hides is unknown, not equal; measure on the host, or give the guest its real nodes",
        )


def _cpus(machine: Machine) -> Iterator[Note]:
    offline = [cpu.id for cpu in machine.cpus if not cpu.online]
    if offline:
        yield Note(
            "offline-cpus",
            f"{_named('CPU', offline)}: offline and left out; write 1 to "
            "/sys/devices/system/cpu/cpuN/online as root for use",
        )
    barred = [cpu.id for cpu in machine.cpus if cpu.online and not cpu.allowed]
    if barred:
        granted = machine.cgroup.cpus if machine.cgroup else None
        by_cpuset = granted is not None and not set(barred) & set(granted)
        way = (
            "the cpuset of this container or service (docker --cpuset-cpus, AllowedCPUs=)"
            if by_cpuset
            else "the CPU affinity of this process (taskset, numactl, a batch system)"
        )
        yield Note("cpus-not-allowed", f"{_named('CPU', barred)}: barred by {way}; widen it")
    kinds = {cpu.kind for cpu in machine.cpus if cpu.usable} - {None}
    if len(kinds) > 1:
        yield Note(
            "hybrid",
            "performance and efficiency cores are mixed: figures over all CPUs blend two kinds",
        )


def _nodes(machine: Machine) -> Iterator[Note]:
    def note(code: str, ids: list[int], text: str) -> Iterator[Note]:
        if ids:
            yield Note(code, f"{_named('node', ids)}: {text}")

    nodes = machine.nodes
    listed = Counter(node.cpus for node in nodes if node.cpus)
    yield from note(
        "emulated-nodes",
        [n.id for n in nodes if listed[n.cpus] > 1],
        "the same CPUs are listed in each, so the kernel only emulates them (numa=fake); any "
        "difference between them is chance",
    )
    yield from note(
        "nodes-not-allowed",
        # The kernel allows no pages on a node without memory; that is not the cpuset's doing.
        [n.id for n in nodes if not n.allowed and n.memory != 0],
        "visible, but this process may not place pages there; widen the cpuset "
        "(docker --cpuset-mems, AllowedMemoryNodes=)",
    )
    yield from note(
        "no-memory",
        [n.id for n in nodes if n.memory == 0 and n.cpus],
        "CPUs without memory, so no target; populate the memory channels there",
    )
    yield from note(
        "phantom",
        [n.id for n in nodes if n.phantom and not n.offline_memory],
        "online with neither CPU nor memory, so left out; bring its CPUs or memory online if it "
        "has any",
    )
    yield from note(
        "offline-memory",
        [n.id for n in nodes if n.offline_memory],
        "memory there is offline and left out; bring it online with chmem or daxctl as root",
    )
    yield from note(
        "gpu-memory",
        [n.id for n in nodes if n.backing == "gpu"],
        "a GPU's own memory, which the kernel shows as a node",
    )
    yield from note(
        "side-cache",
        [n.id for n in nodes if n.side_cache],
        "a memory-side cache is in front; a buffer smaller than it measures the cache, not the "
        "memory",
    )
    yield from note(
        "distances-unknown",
        [n.id for n in nodes if len(nodes) > 1 and not n.distances],
        "the row of distances is missing or does not match the online nodes",
    )


def _packages(machine: Machine) -> Iterator[Note]:
    if len(machine.initiators) > 1 and any(c.usable and c.package is None for c in machine.cpus):
        yield Note(
            "packages-unknown",
            "the kernel does not tell the package of every CPU: nodes are taken to be in different "
            "packages",
        )


def _caches(machine: Machine) -> Iterator[Note]:
    sizes = {llc.id: llc.bytes for llc in machine.llcs}
    unknown = [c.id for c in machine.cpus if c.usable and (c.llc is None or not sizes[c.llc])]
    if unknown:
        yield Note(
            "llc-unknown",
            f"{_named('CPU', unknown)}: the kernel does not tell the last-level cache, so buffers "
            "are sized by a guess; name a size (--memory) to be sure",
        )


def _limits(machine: Machine) -> Iterator[Note]:
    group = machine.cgroup
    if group and group.memory_limit is not None:
        yield Note(
            "memory-limit",
            f"this process may use {group.memory_limit} bytes of memory in all: raise the limit "
            "(docker --memory, MemoryMax=) for larger buffers",
        )
    if machine.container:
        yield Note(
            "container",
            f"inside a container ({machine.container}): if placement is refused, add "
            "--cap-add SYS_NICE to the container's options",
        )


_RULES: tuple[Callable[[Machine], Iterator[Note]], ...] = (
    _virtual,
    _cpus,
    _nodes,
    _packages,
    _caches,
    _limits,
)
