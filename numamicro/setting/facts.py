"""What a machine's own shape tells of its setting: NPS, SNC, SMT, switched-off cores, modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numamicro.topology import Machine


def facts_of(machine: Machine) -> dict[str, str | int | None]:
    """Give the parts of a machine that a setting can change, by dotted name.

    Nodes per package is NPS, SNC or L3-as-NUMA as the kernel sees it; memory-only nodes are none of a
    package's.
    """
    online = [cpu for cpu in machine.cpus if cpu.online]
    cores = {cpu.core for cpu in online}
    memory = [node.memory for node in machine.nodes]
    return {
        "machine.cpus": len(online),
        "machine.usable_cpus": sum(cpu.usable for cpu in machine.cpus),
        "machine.cores": len(cores) if None not in cores else None,
        "machine.threads_per_core": 1 + max((cpu.smt for cpu in online), default=0),
        "machine.llcs": len(machine.llcs),
        "machine.nodes": len(machine.nodes),
        "machine.nodes_per_package": _nodes_per_package(machine),
        "machine.memory_nodes": sum(not node.cpus for node in machine.nodes),
        "machine.memory": sum(size or 0 for size in memory) if None not in memory else None,
        "machine.distances": _distances(machine),
    }


def _nodes_per_package(machine: Machine) -> str | None:
    """Give the nodes with CPUs of each package, as ``4``, or ``2, 4`` where packages differ; ``1/2``
    where one node spans two packages (NPS0)."""
    packages = {cpu.id: cpu.package for cpu in machine.cpus if cpu.online}
    spans = [{packages.get(cpu) for cpu in node.cpus} for node in machine.nodes if node.cpus]
    if not spans or any(None in span for span in spans):
        return None
    if any(len(span) > 1 for span in spans):
        return f"1/{max(map(len, spans))}"
    counts = {sum(package in span for span in spans) for package in machine.packages}
    return ", ".join(map(str, sorted(counts)))


def _distances(machine: Machine) -> str:
    """Give the distances that firmware names, each once."""
    named = {distance for node in machine.nodes for distance in node.distances.values()}
    return ", ".join(map(str, sorted(named)))
