"""NCCL: a topology for NCCL_TOPO_FILE, with each GPU's PCIe link as it is trained under load.

NCCL reads no XML prolog, and fills in what an element leaves out from the machine it runs on
(src/graph/xml.cc): the family of the CPUs, NVLinks, network cards.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

from numamicro.case import gpus_of
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.matrix import CostMatrix, Measurement
    from numamicro.topology import Gpu, Machine

_SPEEDS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
"""Giga-transfers per second of a lane, by generation of PCIe."""

_ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "ppc64le": "ppc64"}
_VENDORS = {"AMD": "AuthenticAMD", "Intel": "GenuineIntel"}
_UNKNOWN_NODE = -1
_WORD_BITS = 32
_MOST_CPUS = 1 << 16
_GPU_CLASS = "0x030200"


def nccl_xml(matrix: CostMatrix) -> str:
    """Give the nodes with the GPUs next to each.

    Raises
    ------
    NumamicroError
        The file tells of no GPU with its PCI address.
    """
    machine = matrix.header.machine
    at: dict[int, list[Gpu]] = defaultdict(list)
    for gpu in machine.gpus:
        if gpu.pci:
            at[_UNKNOWN_NODE if gpu.host_node is None else gpu.host_node].append(gpu)
    if not at:
        raise NumamicroError("--to nccl needs GPUs with their PCI addresses, and the file has none")
    if max((cpu.id for cpu in machine.cpus), default=0) > _MOST_CPUS:
        raise NumamicroError(f"--to nccl needs CPUs with ids of at most {_MOST_CPUS}")
    trained = _trained(matrix)
    lines = ['<system version="1">']
    for node, gpus in sorted(at.items()):
        lines.append(f"  <cpu{_attributes(_cpu(machine, node))}>")
        for gpu in sorted(gpus, key=lambda gpu: gpu.pci or ""):
            lines.append(f"    <pci{_attributes(_link(gpu, trained))}/>")
        lines.append("  </cpu>")
    return "\n".join([*lines, "</system>"]) + "\n"


def _attributes(values: dict[str, str | None]) -> str:
    return "".join(f" {name}={quoteattr(text)}" for name, text in values.items() if text)


def _cpu(machine: Machine, node: int) -> dict[str, str | None]:
    cpus = machine.node(node).cpus if node != _UNKNOWN_NODE else ()
    model = machine.cpu_model or ""
    return {
        "numaid": str(node),
        "affinity": _mask(machine, cpus) if cpus else None,
        "arch": _ARCHITECTURES.get(machine.architecture),
        "vendor": next((vendor for name, vendor in _VENDORS.items() if name in model), None),
    }


def _mask(machine: Machine, cpus: tuple[int, ...]) -> str:
    """Write CPUs as the kernel does: as many words of 32 bits as the machine's CPUs take."""
    bits = sum(1 << cpu for cpu in cpus)
    words = max(cpu.id for cpu in machine.cpus) // _WORD_BITS + 1
    low = (1 << _WORD_BITS) - 1
    return ",".join(f"{bits >> _WORD_BITS * word & low:08x}" for word in reversed(range(words)))


def _link(gpu: Gpu, trained: dict[int, tuple[int, int]]) -> dict[str, str | None]:
    link = gpu.link
    rest = (link.max_generation, link.width) if link else (None, None)
    generation, width = trained.get(gpu.id, rest)
    speed = _SPEEDS.get(generation) if generation is not None else None
    return {
        "busid": gpu.pci,
        "class": _GPU_CLASS,
        "link_speed": f"{speed} GT/s PCIe" if speed else None,
        "link_width": str(width) if width else None,
    }


def _trained(matrix: CostMatrix) -> dict[int, tuple[int, int]]:
    """Give generation and width of each GPU's link as copies from or to the host found it."""
    return {index: link for cell in matrix.cells("host-copy") for index, link in _seen(cell)}


def _seen(cell: Measurement) -> Iterator[tuple[int, tuple[int, int]]]:
    for run in cell.runs:
        generation, width = run.outcome.get("pcie_generation"), run.outcome.get("pcie_width")
        if isinstance(generation, int) and isinstance(width, int):
            for gpu in gpus_of(cell.case.route.source, cell.case.route.target):
                if isinstance(gpu.id, int):
                    yield gpu.id, (generation, width)
