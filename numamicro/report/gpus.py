"""GPUs as people look at them: a line each, and what joins every two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.case import Place
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from numamicro.topology import Gpu, Machine


def gpu_line(gpu: Gpu) -> str:
    """Give what a GPU is: ``gpu0  Example  24 GiB  PCIe 4 x16  0000:17:00.0``."""
    link = gpu.link
    parts = [
        f"gpu{gpu.id}",
        gpu.name,
        bytes_text(gpu.memory) if gpu.memory else "",
        f"PCIe {link.max_generation} x{link.max_width}"
        if link and link.max_generation and link.max_width
        else "",
        gpu.pci or "",
        f"{bytes_text(gpu.bar1)} BAR1" if gpu.bar1 and gpu.memory and gpu.bar1 < gpu.memory else "",
        f"its memory is node{gpu.memory_node}" if gpu.memory_node is not None else "",
        "cut into instances (MIG)" if gpu.mig else "",
        "display attached" if gpu.display else "",
        f"compute mode {gpu.compute_mode}" if gpu.compute_mode != "default" else "",
    ]
    return "  ".join(part for part in parts if part)


def pair_table(machine: Machine) -> str:
    """Give what joins every two GPUs, and whether peer access is claimed; nothing for fewer."""
    from tabulate import tabulate

    places = [Place("gpu", gpu.id) for gpu in machine.gpus]
    if len(places) < 2:
        return ""
    rows = [[str(here), *(_joined(machine, here, there) for there in places)] for here in places]
    table = tabulate(rows, headers=["", *map(str, places)], tablefmt="plain")
    return f"What joins the GPUs, as the driver states (+: it claims peer access)\n{table}"


def _joined(machine: Machine, here: Place, there: Place) -> str:
    pair = machine.gpu_pair(here, there) if here != there else None
    return f"{pair.kind}{'+' if pair.claimed else ''}" if pair else ""
