"""nvidia-smi topo -m: what lies between GPUs, and the node next to each.

The table is aligned with tabs or blanks, or not at all; a terminal's underlining may be in it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.imports.found import Found, Seen
from numamicro.topology import Cpu, NumaNode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.imports.text import Output

_HEAD = re.compile(r"GPU\d+(?:\s+\S+)*?(?:\s+CPU Affinity.*)?")
_GPU = re.compile(r"GPU(\d+)")
_LEVEL = re.compile(r"NV\d+|X|PIX|PXB|PHB|NODE|SYS")
_IDS = re.compile(r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*")


def has(output: Output) -> bool:
    """Tell whether the output has the table: a line of devices above a line of its first GPU."""
    return _head(output) is not None


def read(output: Output) -> Found:
    """Read the rows of the GPUs.

    Raises
    ------
    NumamicroError
        A row is not as the tool writes it, or one is missing.
    """
    head = _head(output) or 1
    devices = _devices(output, head)
    gpus = [output.index(head, match[1]) for name in devices if (match := _GPU.fullmatch(name))]
    pairs: dict[tuple[int, int], str] = {}
    seen: dict[int, Seen] = {}
    affinity: dict[int, tuple[int, ...]] = {}
    for offset, index in enumerate(gpus, start=1):
        number = head + offset
        words = output.line(number).split()
        if not words or words[0] != f"GPU{index}" or len(words) <= len(devices):
            raise output.fault(
                number, f"the row of GPU{index}, with {len(devices)} entries, is due"
            )
        for name, level in zip(devices, words[1:], strict=False):
            if not _LEVEL.fullmatch(level):
                raise output.fault(number, f"{level!r:.40} is no connection of GPU{index}")
            other = _GPU.fullmatch(name)
            if other and int(other[1]) > index:
                pairs[index, int(other[1])] = level
        cpus, node = _nearest(output, number, words[1 + len(devices) :])
        seen[index] = Seen(node=node)
        if node is not None and cpus:
            affinity[node] = cpus
    return Found(
        "nvidia-smi topo",
        cpus=_cpus(affinity),
        nodes=_nodes(affinity),
        gpus=seen,
        pairs=pairs,
        by_bus=True,
    )


def _head(output: Output) -> int | None:
    for number, match in output.matches(_HEAD):
        below = output.line(number + 1).split()
        if below[:1] == [match[0].split()[0]] and len(below) > 1 and _LEVEL.fullmatch(below[1]):
            return number
    return None


def _devices(output: Output, head: int) -> list[str]:
    words = output.line(head).split()
    return words[: words.index("CPU")] if "CPU" in words else words


def _nearest(output: Output, number: int, rest: list[str]) -> tuple[tuple[int, ...], int | None]:
    """Give CPUs and node from what follows a row's connections; nothing where several nodes stand."""
    known = [word for word in rest[:2] if _IDS.fullmatch(word)]
    if len(known) < 2:
        return (), None
    cpus, nodes = output.ids(number, known[0]), output.ids(number, known[1])
    return (cpus, nodes[0]) if len(nodes) == 1 else ((), None)


def _cpus(affinity: Mapping[int, tuple[int, ...]]) -> tuple[Cpu, ...]:
    homes = {cpu: node for node, cpus in affinity.items() for cpu in cpus}
    return tuple(Cpu(cpu, node=node, core=cpu) for cpu, node in sorted(homes.items()))


def _nodes(affinity: Mapping[int, tuple[int, ...]]) -> tuple[NumaNode, ...]:
    return tuple(NumaNode(node, cpus) for node, cpus in sorted(affinity.items()))
