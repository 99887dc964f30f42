"""Rules on the memory that there is, and on the way of devices to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.case import Route, node
from numamicro.doctor.rule import counted, number, word
from numamicro.finding import Finding, Severity
from numamicro.probes.probe import MEMORY_SHARE, cache_floor
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.doctor.rule import Rule, Setting
    from numamicro.topology import Machine


def too_little(_: Setting, machine: Machine) -> Iterator[Finding]:
    """A node has too little free memory for a buffer that no cache holds."""
    homes = [node(source.id) for source in machine.initiators]
    floor = max((cache_floor(Route(home, home), machine) for home in homes), default=0)
    needed = int(floor / MEMORY_SHARE)
    for target in machine.targets:
        available = machine.available(target.id)
        if available is not None and available < needed:
            yield Finding(
                "little-memory",
                Severity.LIMITS,
                f"node {target.id} has {bytes_text(available)} available, and a buffer that no "
                f"cache holds needs {bytes_text(needed)}",
                f"/sys/devices/system/node/node{target.id}/meminfo, the control group's limit, and "
                "the size of the last-level caches",
                "cells with this memory are waived",
                "end other programs; sync; echo 1 > /proc/sys/vm/drop_caches as root",
            )


def single_channel(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """Each package has one populated memory channel at most."""
    packages = max(len(machine.packages), 1)
    for key, what, evidence in (
        ("memory.channels", "channel", "dimm_location below /sys/devices/system/edac/mc names {}"),
        ("memory.modules", "module", "/run/udev/data/+dmi:id lists {}"),
    ):
        count = number(setting, key)
        # A guest's tables are the hypervisor's invention.
        if count and count <= packages and not machine.hypervisor:
            memory = counted(count, f"memory {what}")
            yield Finding(
                "single-channel",
                Severity.LIMITS,
                f"only {memory} for {counted(packages, 'package')}",
                evidence.format(memory),
                "bandwidth is a fraction of what the CPU can do with all channels",
                "populate every channel alike",
            )
            return


def translation(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """Devices reach memory through the IOMMU's tables."""
    domains = word(setting, "iommu.domains")
    translated = [part for part in domains.split(", ") if part.startswith("DMA")]
    if translated:
        yield Finding(
            "iommu-translation",
            Severity.LIMITS if len(machine.gpus) > 1 else Severity.REMARK,
            f"the IOMMU translates what devices address ({', '.join(translated)} groups)",
            f"type in /sys/kernel/iommu_groups/*: {domains}",
            "copies to and between GPUs may be slower, or pass through the CPU; CPU figures are the same",
            "boot with iommu=pt for a comparison",
        )


def unplaced(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """The firmware does not tell which node a device is at."""
    count = number(setting, "pci.unplaced")
    if count and (len(machine.nodes) > 1 or machine.hypervisor):
        hidden = "the hypervisor hides" if machine.hypervisor else "the firmware does not tell"
        yield Finding(
            "devices-unplaced",
            Severity.LIMITS if len(machine.nodes) > 1 else Severity.REMARK,
            f"{hidden} the node of {counted(count, 'device')} (GPUs, network cards, drives)",
            f"numa_node of {counted(count, 'device')} in /sys/bus/pci/devices is -1",
            "which node they are nearest to is unknown, not equal",
            "give the guest a PCIe bus on each node (QEMU: pxb-pcie with numa_node)"
            if machine.hypervisor
            else "update the firmware",
        )


RULES: tuple[Rule, ...] = (too_little, single_channel, translation, unplaced)
