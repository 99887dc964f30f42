"""QEMU and libvirt: an HMAT for a guest, so that its kernel and hwloc know what its nodes cost.

QEMU wants bandwidth in whole MiB/s and packs a table's entries into 16 bits with one unit for all
(qapi/machine.json, NumaHmatLBOptions; hw/core/numa.c); latency in nanoseconds. A guest's nodes count
from 0 without gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.export.values import bandwidths, latencies, need
from numamicro.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.export.values import Pairs
    from numamicro.matrix import CostMatrix

_ENTRY = 0xFFFF
"""An entry of the table, which is full of ones where nothing is known, stays below this."""

_NANOSECOND = 1e-9


def qemu_arguments(matrix: CostMatrix) -> str:
    """Give the arguments that tell a guest latency and bandwidth of its nodes.

    Raises
    ------
    NumamicroError
        The file has neither latency nor read bandwidth of nodes.
    """
    guest = _Guest.of(matrix, "qemu-hmat")
    lines = [f"# {line}" for line in guest.about()]
    lines.append("-machine hmat=on")
    for kind, value, source, target in guest.entries():
        text = f"latency={value}" if kind == "latency" else f"bandwidth={value // MIB}M"
        lines.append(
            f"-numa hmat-lb,initiator={source},target={target},hierarchy=memory,"
            f"data-type=access-{kind},{text}"
        )
    return "\n".join(lines) + "\n"


def libvirt_xml(matrix: CostMatrix) -> str:
    """Give the element `interconnects`, which stands in `cpu/numa` of a domain.

    Raises
    ------
    NumamicroError
        The file has neither latency nor read bandwidth of nodes.
    """
    guest = _Guest.of(matrix, "libvirt-hmat")
    lines = [f"<!-- {line} -->" for line in guest.about()]
    lines.append("<interconnects>")
    for kind, value, source, target in guest.entries():
        ends = f"initiator='{source}' target='{target}' type='access'"
        if kind == "latency":
            lines.append(f"  <latency {ends} value='{value}'/>")
        else:
            lines.append(f"  <bandwidth {ends} value='{value // KIB}' unit='KiB'/>")
    lines.append("</interconnects>")
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Guest:
    """What is known of the nodes, which a guest numbers from 0."""

    numbers: dict[int, int]
    loads: Pairs
    reads: Pairs

    @classmethod
    def of(cls, matrix: CostMatrix, format: str) -> _Guest:
        loads, reads = latencies(matrix), bandwidths(matrix)
        known = need(loads | reads, format, "latency or read bandwidth of nodes")
        nodes = sorted({end for pair in known for end in pair})
        return cls({node: number for number, node in enumerate(nodes)}, loads, reads)

    def about(self) -> Iterator[str]:
        """Say what the guest must be like."""
        for node, number in self.numbers.items():
            yield f"guest node {number} is node{node}: give it CPUs and memory of that node"
        homeless = set(self.numbers) - {source for source, _ in (self.loads | self.reads)}
        for node in sorted(homeless):
            yield f"guest node {self.numbers[node]} has no CPUs: name its initiator"

    def entries(self) -> Iterator[tuple[str, int, int, int]]:
        """Give kind, value (nanoseconds or bytes a second), initiator and target."""
        for (source, target), seconds in self.loads.items():
            value = max(1, min(_ENTRY - 1, round(seconds / _NANOSECOND)))
            yield "latency", value, self.numbers[source], self.numbers[target]
        unit = bandwidth_unit(max(self.reads.values(), default=0.0))
        for (source, target), rate in self.reads.items():
            value = max(1, round(rate / unit)) * unit
            yield "bandwidth", value, self.numbers[source], self.numbers[target]


def bandwidth_unit(most: float) -> int:
    """Give the smallest power of two from a MiB on, in which 16 bits hold a bandwidth."""
    unit = MIB
    while round(most / unit) >= _ENTRY:
        unit *= 2
    return unit
