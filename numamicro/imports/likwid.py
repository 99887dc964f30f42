"""likwid-topology: hardware threads, cores, packages, caches and nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.imports.found import Found
from numamicro.topology import Cpu, Llc, NumaNode
from numamicro.units import GIB, KIB, MIB

if TYPE_CHECKING:
    from numamicro.imports.text import Output

_HEAD = re.compile(r"HWThread\s+Thread\s+Core\s+(?:Die\s+)?Socket\s+Available")
_MODEL = re.compile(r"CPU name:\s+(.+)")
_LEVEL = re.compile(r"Level:\s+(\d+)")
_SIZE = re.compile(r"Size:\s+(\d+) ([kMG])B")
_GROUPS = re.compile(r"Cache groups:\s+(.*)")
_DOMAIN = re.compile(r"Domain:\s+(\d+)")
_PROCESSORS = re.compile(r"Processors:\s+\(([\d\s]*)\)")
_DISTANCES = re.compile(r"Distances:\s+([\d\s]+)")
_TOTAL = re.compile(r"Total memory:\s+(\S+) MB")
_FREE = re.compile(r"Free memory:\s+(\S+) MB")
_BYTES = {"k": KIB, "M": MIB, "G": GIB}


def has(output: Output) -> bool:
    """Tell whether the output has the head of the table of hardware threads."""
    return any(True for _ in output.matches(_HEAD))


def read(output: Output) -> Found:
    """Read the machine as the tool shows it.

    Raises
    ------
    NumamicroError
        A line is not as the tool writes it.
    """
    nodes = _nodes(output)
    llcs = _llcs(output)
    home = {cpu: node.id for node in nodes for cpu in node.cpus}
    cache = {cpu: llc.id for llc in llcs for cpu in llc.cpus}
    rows = _threads(output)
    cores: dict[tuple[int, int], int] = {}
    for cpu, _, core, socket, _ in rows:
        cores[socket, core] = min(cpu, cores.get((socket, core), cpu))
    cpus = tuple(
        Cpu(
            cpu,
            node=home.get(cpu),
            package=socket,
            core=cores[socket, core],
            llc=cache.get(cpu),
            allowed=allowed,
            smt=thread,
        )
        for cpu, thread, core, socket, allowed in sorted(rows)
    )
    strangers = set(home) - {cpu.id for cpu in cpus}
    if strangers:
        number = next(number for number, _ in output.matches(_HEAD))
        raise output.fault(number, f"this table lacks CPU {min(strangers)}, which a node has")
    model = next((match[1] for _, match in output.matches(_MODEL)), None)
    return Found("likwid-topology", cpu_model=model, cpus=cpus, llcs=llcs, nodes=nodes)


def _threads(output: Output) -> list[tuple[int, int, int, int, bool]]:
    """Give CPU, thread of its core, core, package, and whether it may be used."""
    head, match = next(iter(output.matches(_HEAD)))
    width = len(match[0].split()) - 1
    rows = []
    number = head + 1
    while (words := output.line(number).split()) and words[0].isdecimal():
        if len(words) - ("*" in words) != width:
            raise output.fault(number, f"this row has not the {width} ids of the table's columns")
        ids = [output.index(number, word) for word in words[:width]]
        rows.append((ids[0], ids[1], ids[2], ids[-1], words[width:] == ["*"]))
        number += 1
    if len({row[0] for row in rows}) < max(1, len(rows)):
        raise output.fault(number, "the table of hardware threads is empty, or has one twice")
    return rows


def _llcs(output: Output) -> tuple[Llc, ...]:
    """Give the caches of the highest level: the last that is listed."""
    groups = list(output.matches(_GROUPS))
    if not groups:
        return ()
    number, match = groups[-1]
    sizes = [(line, size) for line, size in output.matches(_SIZE) if line < number]
    size = int(sizes[-1][1][1]) * _BYTES[sizes[-1][1][2]] if sizes else None
    members = re.findall(r"\(([\d\s]*)\)", match[1])
    if not members:
        raise output.fault(number, "no CPUs stand in brackets here")
    return tuple(
        Llc(index, tuple(sorted(output.ids(number, text))), size)
        for index, text in enumerate(members)
    )


def _nodes(output: Output) -> tuple[NumaNode, ...]:
    heads = [(number, output.index(number, match[1])) for number, match in output.matches(_DOMAIN)]
    ids = [id for _, id in heads]
    if len(set(ids)) < max(1, len(ids)):
        raise output.fault(
            heads[-1][0] if heads else 1, "a NUMA domain is listed twice, or none is"
        )
    ends = [number for number, _ in heads[1:]] + [len(output.lines) + 1]
    return tuple(
        _node(output, id, start, end, ids) for (start, id), end in zip(heads, ends, strict=True)
    )


def _node(output: Output, id: int, start: int, end: int, ids: list[int]) -> NumaNode:
    def line(pattern: re.Pattern[str]) -> tuple[int, str] | None:
        return next(
            (
                (number, match[1])
                for number, match in output.matches(pattern)
                if start < number < end
            ),
            None,
        )

    processors = line(_PROCESSORS)
    if processors is None:
        raise output.fault(start, f"the processors of domain {id} are missing")
    distances = line(_DISTANCES)
    values = output.counts(*distances) if distances else ()
    if distances and len(values) != len(ids):
        raise output.fault(distances[0], f"{len(values)} distances stand for {len(ids)} domains")
    total, free = line(_TOTAL), line(_FREE)
    return NumaNode(
        id,
        tuple(sorted(output.ids(*processors))),
        memory=int(output.figure(*total) * MIB) if total else None,
        free=int(output.figure(*free) * MIB) if free else None,
        distances=dict(zip(ids, values, strict=True)) if distances else {},
    )
