"""The machine as a tree of text: packages, nodes, last-level caches, CPUs, and the distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.report.gpus import gpu_line, pair_table
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numamicro.topology import Cpu, Machine, NumaNode


def render_machine(machine: Machine) -> str:
    """Give the machine as people draw it, from the outside in."""
    blocks = [
        "\n".join([_heading(machine), *_tree(machine)]),
        _distances(machine),
        pair_table(machine),
        "\n".join(f"note: {note.text}" for note in machine.notes),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _heading(machine: Machine) -> str:
    online = [cpu for cpu in machine.cpus if cpu.online]
    cores = {cpu.id if cpu.core is None else cpu.core for cpu in online}
    parts = [
        machine.cpu_model or "unknown CPU",
        machine.architecture,
        _count(len(machine.packages), "package"),
        _count(len(machine.nodes), "node"),
        _count(len(cores), "core"),
        _count(len(online), "CPU"),
    ]
    if machine.gpus:
        parts.append(_count(len(machine.gpus), "GPU"))
    if machine.hypervisor:
        parts.append(f"virtual machine ({machine.hypervisor})")
    if machine.container:
        parts.append(f"container ({machine.container})")
    return " · ".join(parts)


def nodes_by_package(machine: Machine) -> dict[int | None, list[NumaNode]]:
    """Give the nodes of each package, in order; under None those without CPUs, of no package."""
    found: dict[int | None, list[NumaNode]] = {}
    packages = {cpu.id: cpu.package for cpu in machine.cpus}
    for node in machine.nodes:
        package = packages.get(node.cpus[0]) if node.cpus else None
        found.setdefault(package, []).append(node)
    return dict(sorted(found.items(), key=lambda item: (item[0] is None, item[0] or 0)))


def _tree(machine: Machine) -> list[str]:
    """Give a line a node below its package."""
    lines = []
    for package, nodes in nodes_by_package(machine).items():
        lines.append("of no package" if package is None else f"package{package}")
        for node, (stem, branch) in zip(nodes, _branches(len(nodes)), strict=True):
            lines.append(f"{branch}{_node(node, machine)}")
            lines += [f"{stem}{line}" for line in _inside(node, machine)]
    lost = [gpu for gpu in machine.gpus if gpu.host_node is None]
    if lost:
        lines.append("next to an unknown node")
        lines += [
            f"{branch}{gpu_line(gpu)}"
            for gpu, (_, branch) in zip(lost, _branches(len(lost)), strict=True)
        ]
    return lines


def _branches(count: int) -> list[tuple[str, str]]:
    """Give what stands before a branch's own lines, and before the branch."""
    return [("│  ", "├─ ")] * (count - 1) + [("   ", "└─ ")] * (count > 0)


def _node(node: NumaNode, machine: Machine) -> str:
    parts = [f"node{node.id}"]
    if node.memory:
        free = machine.available(node.id)
        available = f", {bytes_text(free)} available" if free is not None else ""
        parts.append(f"{bytes_text(node.memory)}{available}")
    else:
        parts.append("no memory" if node.memory == 0 else "memory unknown")
    if node.backing:
        parts.append(node.backing)
    if node.tier is not None:
        parts.append(f"memory tier {node.tier} (lower is faster)")
    if node.side_cache:
        parts.append(f"behind a {bytes_text(node.side_cache)} memory-side cache")
    if not node.cpus:
        parts.append("no CPUs")
    if not node.allowed:
        parts.append("not allowed here")
    return "  ".join(parts)


def _inside(node: NumaNode, machine: Machine) -> list[str]:
    """Give a line for each last-level cache of a node, then for each GPU next to it."""
    members = set(node.cpus)
    groups: dict[int | None, list[Cpu]] = {}
    for cpu in machine.cpus:
        if cpu.id in members:
            groups.setdefault(cpu.llc, []).append(cpu)
    lines = [_cache(llc, cpus, machine) for llc, cpus in groups.items()]
    lines += [gpu_line(gpu) for gpu in machine.gpus if gpu.host_node == node.id]
    return [
        f"{branch}{line}" for line, (_, branch) in zip(lines, _branches(len(lines)), strict=True)
    ]


def _cache(llc: int | None, cpus: Sequence[Cpu], machine: Machine) -> str:
    size = machine.llcs[llc].bytes if llc is not None else None
    cores = {cpu.id if cpu.core is None else cpu.core for cpu in cpus}
    parts = [
        f"llc{llc}" if llc is not None else "no shared cache known",
        bytes_text(size) if size else "",
        _count(len(cores), "core"),
        f"CPUs {id_list(cpu.id for cpu in cpus)}",
    ]
    kinds = {cpu.kind for cpu in cpus} - {None}
    if kinds:
        parts.append(" and ".join(sorted(f"{kind} cores" for kind in kinds)))
    barred = [cpu.id for cpu in cpus if cpu.online and not cpu.allowed]
    if barred:
        parts.append(f"not allowed here: {id_list(barred)}")
    return "  ".join(part for part in parts if part)


def _distances(machine: Machine) -> str:
    from tabulate import tabulate

    ids = [node.id for node in machine.nodes if node.distances]
    if len(ids) < 2:
        return ""
    rows = [
        [f"node{node.id}", *(node.distances.get(index, "") for index in ids)]
        for node in machine.nodes
        if node.distances
    ]
    headers = ["", *(f"node{index}" for index in ids)]
    table = tabulate(rows, headers=headers, tablefmt="plain")
    return f"Distances as the firmware states them (not measured)\n{table}"


def id_list(ids: Iterable[int]) -> str:
    """Give ids as the kernel writes them: ``0-3,8``."""
    return ",".join(_range(run) for run in _runs(sorted(ids)))


def _runs(ids: Sequence[int]) -> list[Collection[int]]:
    runs: list[list[int]] = []
    for index in ids:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [*runs]


def _range(run: Collection[int]) -> str:
    first, last = min(run), max(run)
    return str(first) if first == last else f"{first}-{last}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
