"""numactl -H: nodes with their CPUs, memory and distances. It tells neither cores nor packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.imports.found import Found
from numamicro.imports.text import read_grid
from numamicro.topology import Cpu, NumaNode
from numamicro.units import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.imports.text import Output

_HEAD = re.compile(r"available: (\d+) nodes? \((.*)\)")
_CPUS = re.compile(r"node (\d+) cpus:(.*)")
_SIZE = re.compile(r"node (\d+) size: (\S+) MB")
_FREE = re.compile(r"node (\d+) free: (\S+) MB")
_DISTANCES = re.compile(r"node distances:")


def has(output: Output) -> bool:
    """Tell whether the output has the line that counts the nodes."""
    return any(True for _ in output.matches(_HEAD))


def read(output: Output) -> Found:
    """Read nodes, their CPUs, memory and distances.

    Raises
    ------
    NumamicroError
        A line is not as the tool writes it, or a node's lines are missing.
    """
    head, match = next(iter(output.matches(_HEAD)))
    cpus = {
        output.index(number, found[1]): output.ids(number, found[2])
        for number, found in output.matches(_CPUS)
    }
    if len(cpus) != output.index(head, match[1]):
        raise output.fault(head, f"{match[1]} nodes are announced, and {len(cpus)} have CPU lines")
    sizes, free = _megabytes(output, _SIZE), _megabytes(output, _FREE)
    distances = _distances(output)
    nodes = tuple(
        NumaNode(
            id,
            cpus[id],
            memory=sizes.get(id),
            free=free.get(id),
            distances=distances.get(id, {}),
        )
        for id in sorted(cpus)
    )
    return Found("numactl", cpus=_all(cpus), nodes=nodes)


def _all(cpus: Mapping[int, tuple[int, ...]]) -> tuple[Cpu, ...]:
    return tuple(
        Cpu(cpu, node=node, core=cpu)
        for cpu, node in sorted((cpu, node) for node, members in cpus.items() for cpu in members)
    )


def _megabytes(output: Output, pattern: re.Pattern[str]) -> dict[int, int]:
    """Give bytes by node: what the tool calls MB are MiB."""
    return {
        output.index(number, match[1]): output.index(number, match[2]) * MIB
        for number, match in output.matches(pattern)
    }


def _distances(output: Output) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for number, _ in output.matches(_DISTANCES):
        for entry in read_grid(output, number + 1, "node", square=True):
            found.setdefault(entry.row, {})[entry.column] = int(entry.figure)
    return found
