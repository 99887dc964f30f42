"""hwloc: a topology in XML with measured distances and memory attributes.

The XML is that of hwloc 2, which versions 2 and 3 read. Its memory attributes count in MiB/s and
nanoseconds, as whole numbers (include/hwloc/memattrs.h).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from numamicro.errors import NumamicroError
from numamicro.export.values import bandwidths, latencies, need
from numamicro.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.export.values import Pairs
    from numamicro.matrix import CostMatrix
    from numamicro.topology import Machine, NumaNode

_HEAD = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
"""

# hwloc_memattr_flag_e: 1 higher is better, 2 lower is better, 4 the value depends on who accesses.
_HIGHER, _LOWER = 5, 6

# hwloc_distances_kind_e: 1 from the system, 2 from the user, 4 means latency, 8 means bandwidth.
_FIRMWARE, _MEASURED_LATENCY, _MEASURED_BANDWIDTH = 5, 6, 10

_NANOSECOND = 1e-9
_WORD_BITS = 32
_MOST = 1 << 16
"""Beyond the ids of any machine: a set of them is written as one bit for each."""


def hwloc_xml(matrix: CostMatrix) -> str:
    """Give the machine as hwloc reads it, each node's memory with what it costs from each initiator.

    Raises
    ------
    NumamicroError
        The file has no bandwidth and no latency of nodes, or its machine has no CPUs.
    """
    machine = matrix.header.machine
    if not _online(machine):
        raise NumamicroError(
            "--to hwloc needs the machine's CPUs, and the file has none: import the output of "
            "likwid-topology or numactl -H together with it"
        )
    ids = [cpu.id for cpu in machine.cpus] + [node.id for node in machine.nodes]
    if max(ids) > _MOST:
        raise NumamicroError(f"--to hwloc needs ids of CPUs and nodes of at most {_MOST}")
    reads, writes = bandwidths(matrix), bandwidths(matrix, "write")
    loads = latencies(matrix)
    need(reads or loads, "hwloc", "bandwidth or latency between nodes")
    tree = _Tree(machine)
    lines = [
        *tree.root.lines(1),
        *_distances("NUMALatency", _FIRMWARE, _slit(machine), 1),
        *_distances("numamicro-latency", _MEASURED_LATENCY, loads, _NANOSECOND),
        *_distances("numamicro-read-bandwidth", _MEASURED_BANDWIDTH, reads, MIB),
        *tree.attribute("Bandwidth", _HIGHER, reads, MIB),
        *tree.attribute("Latency", _LOWER, loads, _NANOSECOND),
        *tree.attribute("ReadBandwidth", _HIGHER, reads, MIB),
        *tree.attribute("WriteBandwidth", _HIGHER, writes, MIB),
        *tree.attribute("ReadLatency", _LOWER, loads, _NANOSECOND),
    ]
    return _HEAD + "\n".join(['<topology version="2.0">', *lines, "</topology>"]) + "\n"


def bitmap(ids: Iterable[int]) -> str:
    """Write a set of ids as hwloc does: 32 bits a word, the highest first."""
    bits = sum(1 << each for each in set(ids))
    words = max(1, -(-bits.bit_length() // _WORD_BITS))
    low = (1 << _WORD_BITS) - 1
    return ",".join(f"0x{bits >> _WORD_BITS * word & low:08x}" for word in reversed(range(words)))


def _online(machine: Machine) -> frozenset[int]:
    return frozenset(cpu.id for cpu in machine.cpus if cpu.online)


@dataclass(slots=True)
class _Object:
    """An object of the tree: hwloc nests them by the CPUs they hold."""

    type: str
    id: int | None
    cpus: frozenset[int]
    more: dict[str, object] = field(default_factory=dict)
    index: int = 0
    nodes: frozenset[int] = frozenset()
    memory: list[_Object] = field(default_factory=list)
    children: list[_Object] = field(default_factory=list)

    def insert(self, other: _Object) -> bool:
        """Put another object where its CPUs belong; False where it would straddle one that is there."""
        for child in self.children:
            if other.cpus <= child.cpus:
                return child.insert(other)
        inside = [child for child in self.children if child.cpus <= other.cpus]
        if any(child.cpus & other.cpus for child in self.children if child not in inside):
            return False
        other.children = inside
        self.children = [child for child in self.children if child not in inside] + [other]
        return True

    def holder(self, cpus: frozenset[int]) -> _Object:
        """Give the smallest object that holds these CPUs; the outermost of several that are as small."""
        for child in self.children:
            if cpus and cpus <= child.cpus and self.cpus != cpus:
                return child.holder(cpus)
        return self

    def all(self) -> Iterator[_Object]:
        """Give this object and all below it."""
        yield self
        for child in (*self.memory, *self.children):
            yield from child.all()

    def lines(self, depth: int) -> Iterator[str]:
        """Give the object's XML; siblings stand in the order of their lowest CPU."""
        sets = {"cpuset": bitmap(self.cpus), "nodeset": bitmap(self.nodes)}
        known = {"type": self.type, "os_index": self.id}
        full = {f"complete_{name}": text for name, text in sets.items()}
        attributes = known | sets | full | self.more | {"gp_index": self.index}
        words = [
            f"{name}={quoteattr(str(value))}"
            for name, value in attributes.items()
            if value is not None
        ]
        indent = "  " * depth
        inner = [*self.memory, *sorted(self.children, key=lambda child: min(child.cpus))]
        yield f"{indent}<object {' '.join(words)}{'' if inner else '/'}>"
        for child in inner:
            yield from child.lines(depth + 1)
        if inner:
            yield f"{indent}</object>"


class _Tree:
    """The objects of a machine, and the values that its memory has for its CPUs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._online = _online(machine)
        usable = {cpu.id for cpu in machine.cpus if cpu.usable}
        allowed = {node.id for node in machine.nodes if node.allowed}
        more = {"allowed_cpuset": bitmap(usable), "allowed_nodeset": bitmap(allowed)}
        self.root = _Object("Machine", 0, self._online, dict(more))
        for each in sorted(self._objects(), key=lambda each: -len(each.cpus)):
            if each.cpus:
                self.root.insert(each)
        self._memory = {node.id: self._attach(node) for node in machine.nodes}
        for each, index in zip(self.root.all(), count(1)):
            each.index = index
            if each.type != "NUMANode":
                each.nodes = frozenset(self._local(each.cpus))

    def _objects(self) -> Iterator[_Object]:
        """Give what holds CPUs, by rank: of those that hold the same, the first is outside."""
        machine = self._machine
        for package in machine.packages:
            yield _Object("Package", package, self._members("package", package))
        same = {self._online} | {self._members("package", each) for each in machine.packages}
        for node in machine.nodes:
            if (cpus := self._own(node)) not in same:
                yield _Object("Group", None, cpus, {"kind": 0, "subkind": 0})
        level = max((cache.level for cache in machine.caches), default=3)
        for llc in machine.llcs:
            cpus = frozenset(llc.cpus) & self._online
            yield _Object(f"L{level}Cache", llc.id, cpus, _cache(level, llc.bytes))
        for core in sorted({cpu.core for cpu in machine.cpus if cpu.core is not None}):
            yield _Object("Core", core, self._members("core", core))
        for cpu in sorted(self._online):
            yield _Object("PU", cpu, frozenset({cpu}))

    def _members(self, label: str, id: int) -> frozenset[int]:
        return frozenset(
            cpu.id for cpu in self._machine.cpus if cpu.online and getattr(cpu, label) == id
        )

    def _own(self, node: NumaNode) -> frozenset[int]:
        return frozenset(node.cpus) & self._online

    def _attach(self, node: NumaNode) -> _Object:
        """Hang a node's memory on the object of its CPUs; on the machine where it has none."""
        own = self._own(node)
        holder = self.root.holder(own)
        memory = _Object(
            "NUMANode",
            node.id,
            own or holder.cpus,
            {"local_memory": node.memory},
            nodes=frozenset({node.id}),
        )
        holder.memory.append(memory)
        return memory

    def _local(self, cpus: frozenset[int]) -> Iterator[int]:
        for node in self._machine.nodes:
            own = self._own(node)
            if not own or own & cpus:
                yield node.id

    def attribute(self, name: str, flags: int, values: Pairs, unit: float) -> Iterator[str]:
        """Give a memory attribute: a value for each node's memory and each initiator."""
        if not values:
            return
        yield f'  <memattr name="{name}" flags="{flags}">'
        for target, memory in self._memory.items():
            for cpus, value in self._seen(target, values, higher=flags == _HIGHER):
                yield (
                    f'    <memattr_value target_obj_type="NUMANode" '
                    f'target_obj_gp_index="{memory.index}" value="{round(value / unit)}" '
                    f'initiator_cpuset="{bitmap(cpus)}"/>'
                )
        yield "  </memattr>"

    def _seen(
        self, target: int, values: Pairs, *, higher: bool
    ) -> Iterator[tuple[frozenset[int], float]]:
        """Give what each node's CPUs, and each package's, have of a node's memory.

        hwloc answers a question about a package only where a value of the whole package stands: a
        package of several nodes has that of the node that is worst off.
        """
        found: dict[frozenset[int], float] = {}
        for node in self._machine.nodes:
            cpus = self._own(node)
            if cpus and (node.id, target) in values:
                # Emulated nodes share CPUs, and hwloc keeps one value of a set of them.
                found.setdefault(cpus, values[node.id, target])
        yield from found.items()
        for package in self._machine.packages:
            cpus = self._members("package", package)
            inside = [n.id for n in self._machine.nodes if n.cpus and set(n.cpus) <= cpus]
            known = [values[node, target] for node in inside if (node, target) in values]
            if len(inside) > 1 and len(known) == len(inside):
                yield cpus, min(known) if higher else max(known)


def _cache(level: int, size: int | None) -> dict[str, object]:
    return {
        "cache_size": size or 0,
        "depth": level,
        "cache_linesize": 64,
        "cache_associativity": 0,
        "cache_type": 0,
    }


def _slit(machine: Machine) -> Pairs:
    return {
        (node.id, other): float(distance)
        for node in machine.nodes
        for other, distance in node.distances.items()
    }


def _distances(name: str, kind: int, values: Pairs, unit: float) -> Iterator[str]:
    """Give a square matrix of the nodes between which every value is known; nothing for one node."""
    nodes = _square(values)
    if len(nodes) < 2:
        return
    indexes = " ".join(map(str, nodes)) + " "
    yield (
        f'  <distances2 type="NUMANode" nbobjs="{len(nodes)}" kind="{kind}" name="{name}" '
        f'indexing="os">'
    )
    yield f'    <indexes length="{len(indexes)}">{indexes}</indexes>'
    for source in nodes:
        row = " ".join(str(round(values[source, target] / unit)) for target in nodes) + " "
        yield f'    <u64values length="{len(row)}">{row}</u64values>'
    yield "  </distances2>"


def _square(values: Pairs) -> list[int]:
    """Give nodes, as many as a simple search finds, between all of which there is a value."""
    nodes = sorted({end for pair in values for end in pair})
    while nodes:
        gaps = {
            node: sum(((node, o) not in values) + ((o, node) not in values) for o in nodes)
            for node in nodes
        }
        worst = max(nodes, key=lambda node: gaps[node])
        if not gaps[worst]:
            break
        nodes.remove(worst)
    return nodes
