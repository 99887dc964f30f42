"""Rules on GPUs: what hides their nodes, narrows their links, or keeps them from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.finding import Finding, Severity
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.doctor.rule import Rule, Setting
    from numamicro.topology import Gpu, Machine


def simulated(_: Setting, machine: Machine) -> Iterator[Finding]:
    """The driver is a stand-in."""
    driver = machine.gpu_driver
    if driver and driver.simulation:
        yield Finding(
            "simulated",
            Severity.SPOILS,
            "the GPUs are simulated",
            f"libcuda.so.1 says that it simulates '{driver.simulation}'",
            "no figure of a GPU is of a real machine",
            "take the stand-in driver out of LD_LIBRARY_PATH",
        )


def unplaced(_: Setting, machine: Machine) -> Iterator[Finding]:
    """Nobody tells which node a GPU is next to."""
    lost = [gpu for gpu in machine.gpus if gpu.host_node is None]
    if lost and len(machine.nodes) > 1:
        yield Finding(
            "gpu-node-unknown",
            Severity.LIMITS,
            f"the node next to {_names(lost)} is unknown",
            "NVML's memory affinity, numa_node in /sys/bus/pci/devices and the driver say none",
            "near and far cannot be named; the figures from each node tell which is which",
            "give the guest a PCIe bus on each node (QEMU: pxb-pcie with numa_node)"
            if machine.hypervisor
            else "update the firmware",
        )


def instances(_: Setting, machine: Machine) -> Iterator[Finding]:
    """A GPU is cut into instances."""
    cut = [gpu for gpu in machine.gpus if gpu.mig]
    if cut:
        yield Finding(
            "mig",
            Severity.LIMITS,
            f"{_names(cut)} {_is(cut)} cut into instances (MIG)",
            "NVML says that MIG is on",
            "an instance has a part of the processors and of the memory, and no peers",
            f"nvidia-smi -i {_indexes(cut)} -mig 0 as root, when nothing runs there",
        )


def kept(_: Setting, machine: Machine) -> Iterator[Finding]:
    """The compute mode keeps processes away."""
    closed = [gpu for gpu in machine.gpus if gpu.compute_mode != "default"]
    if closed:
        modes = ", ".join(sorted({gpu.compute_mode for gpu in closed}))
        yield Finding(
            "compute-mode",
            Severity.LIMITS,
            f"{_names(closed)} {_is(closed)} in compute mode {modes}",
            "the driver says so",
            "no process may use it where it is prohibited, and one at a time where it is exclusive: "
            "cells end in an error while another program runs there",
            f"nvidia-smi -i {_indexes(closed)} -c DEFAULT as root",
        )


def drawing(_: Setting, machine: Machine) -> Iterator[Finding]:
    """A screen hangs on a GPU."""
    shown = [gpu for gpu in machine.gpus if gpu.display or gpu.time_limit]
    if shown:
        yield Finding(
            "gpu-display",
            Severity.REMARK,
            f"a screen hangs on {_names(shown)}",
            "NVML says so, or the driver ends kernels there that take long",
            "drawing takes part of its time and memory, and its clocks follow the screen",
            "measure from a text console, or with the screen on another GPU",
        )


def small_window(_: Setting, machine: Machine) -> Iterator[Finding]:
    """Only a part of a GPU's memory can be reached over PCIe."""
    small = [gpu for gpu in machine.gpus if gpu.bar1 and gpu.memory and gpu.bar1 < gpu.memory]
    if small:
        least = min(gpu.bar1 or 0 for gpu in small)
        yield Finding(
            "small-bar",
            Severity.LIMITS if len(machine.gpus) > 1 else Severity.REMARK,
            f"{_names(small)} {_show(small)} {bytes_text(least)} of {_their(small)} memory over PCIe",
            "BAR1 of NVML is smaller than the memory",
            "CPUs and other devices reach it through that window alone, so peer access without NVLink "
            "may be refused",
            "enable Resizable BAR and Above 4G Decoding in the BIOS",
        )


def narrow(_: Setting, machine: Machine) -> Iterator[Finding]:
    """A link has fewer lanes than it could. Its generation may only rest; its width does not."""
    for gpu in machine.gpus:
        link = gpu.link
        if link and link.width and link.max_width and link.width < link.max_width:
            yield Finding(
                "link-narrow",
                Severity.LIMITS,
                f"the PCIe link of gpu{gpu.id} has {link.width} lanes of {link.max_width}",
                f"current and greatest link width of {gpu.pci or f'gpu{gpu.id}'}",
                "every copy to and from it takes as much longer",
                "look at slot, riser and how the BIOS splits the lanes (bifurcation)",
            )


def strangers(_: Setting, machine: Machine) -> Iterator[Finding]:
    """The driver claims no peer access between whole GPUs."""
    cut = {gpu.id for gpu in machine.gpus if gpu.mig}
    pairs = [pair for pair in machine.gpu_pairs if pair.claimed is False and not cut & {*pair.gpus}]
    if pairs:
        first = " and ".join(f"gpu{index}" for index in pairs[0].gpus)
        more = f", and {len(pairs) - 1} pairs more" if len(pairs) > 1 else ""
        yield Finding(
            "no-peer-access",
            Severity.REMARK,
            f"the driver claims no peer access between {first}{more}",
            "cuDeviceGetP2PAttribute",
            "what they send each other passes through memory of a node: see the staged all-reduce",
            "if the topology should allow it: full BAR1, ACS off on the switches between them, iommu=pt",
        )


def _names(gpus: Iterable[Gpu]) -> str:
    return ", ".join(f"gpu{gpu.id}" for gpu in gpus)


def _indexes(gpus: Iterable[Gpu]) -> str:
    """Give their numbers in nvidia-smi, which counts in another order."""
    return ",".join("N" if gpu.index is None else str(gpu.index) for gpu in gpus)


def _is(gpus: list[Gpu]) -> str:
    return "is" if len(gpus) == 1 else "are"


def _show(gpus: list[Gpu]) -> str:
    return "shows" if len(gpus) == 1 else "show"


def _their(gpus: list[Gpu]) -> str:
    return "its" if len(gpus) == 1 else "their"


RULES: tuple[Rule, ...] = (
    simulated,
    instances,
    kept,
    narrow,
    small_window,
    unplaced,
    strangers,
    drawing,
)
