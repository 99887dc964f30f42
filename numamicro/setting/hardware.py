"""Keys of CPUs, memory modules, firmware, devices and their driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.setting.key import Key
from numamicro.setting.words import (
    LONGEST,
    Reader,
    Value,
    alike,
    choice,
    counted,
    found,
    over_cpus,
    text,
)
from numamicro.topology.cpus import CPU
from numamicro.topology.dimms import peak_of, read_dimms, slots_of, summary_of
from numamicro.topology.environment import cpu_facts
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.topology.sysfs import Tree

_DMI = "sys/class/dmi/id"
_EDAC = "sys/devices/system/edac/mc"
_UDEV = "run/udev/data/+dmi:id"
_PCI = "sys/bus/pci/devices"
_GROUPS = "sys/kernel/iommu_groups"
_UNCORE = f"{CPU}/intel_uncore_frequency"
_IDLE = f"{CPU}/cpu0/cpuidle"
_NVIDIA = "proc/driver/nvidia"
_PARAMS = f"{_NVIDIA}/params"

# Displays and accelerators; with network cards and NVMe drives, what moves much memory. By the
# first digits of their PCI class.
_GPUS = ("0x03", "0x12")
_FAR_REACHING = (*_GPUS, "0x02", "0x0108")


# ---- CPUs ----------------------------------------------------------------------------------------


def _turbo(tree: Tree) -> Value:
    off = tree.number(f"{CPU}/intel_pstate/no_turbo")
    on = tree.number(f"{CPU}/cpufreq/boost")
    known = on if off is None else 1 - off
    return None if known is None else "on" if known else "off"


def _idle_states(tree: Tree) -> Value:
    """Read the states in which a CPU can sleep, as in ``POLL, C1, C2 (off)``."""
    states = []
    for index in tree.numbered(_IDLE, "state"):
        name = tree.text(f"{_IDLE}/state{index}/name")
        if name:
            off = tree.number(f"{_IDLE}/state{index}/disable")
            states.append(f"{name[:20]} (off)" if off else name[:20])
    return ", ".join(states)[:LONGEST] or None


def _frequencies(tree: Tree) -> Value:
    """Read the limits of the clock that software set, in MHz, as in ``1500-3700``."""
    cpus = tree.numbered(CPU, "cpu")
    files = ("scaling_min_freq", "scaling_max_freq")
    pairs = [[tree.size(f"{CPU}/cpu{i}/cpufreq/{file}") for file in files] for i in cpus]
    return alike(f"{low // 1000}-{high // 1000}" for low, high in pairs if low and high)


def _uncore(tree: Tree) -> Value:
    """Read the limits of the mesh's clock, in MHz."""
    folders = [f"{_UNCORE}/{name}" for name in tree.names(_UNCORE)]
    pairs = [[tree.size(f"{f}/{end}_freq_khz") for end in ("min", "max")] for f in folders]
    return alike(f"{low // 1000}-{high // 1000}" for low, high in pairs if low and high)


def _microcode(tree: Tree) -> Value:
    # The file of its own is for root alone.
    return cpu_facts(tree).get("microcode", "")[:LONGEST] or None


def _pstate(tree: Tree) -> Value:
    for name in ("amd_pstate", "intel_pstate"):
        if status := tree.text(f"{CPU}/{name}/status"):
            return f"{name} {status}"[:LONGEST]
    return None


# ---- memory --------------------------------------------------------------------------------------


def _channels(tree: Tree) -> Value:
    """Count the memory channels that hold a module, where a driver for error correction tells."""
    known = {
        (controller, channel[1])
        for controller in tree.numbered(_EDAC, "mc")
        for kind in ("dimm", "rank")
        for module in tree.numbered(f"{_EDAC}/mc{controller}", kind)
        if tree.size(f"{_EDAC}/mc{controller}/{kind}{module}/size")
        and (where := tree.text(f"{_EDAC}/mc{controller}/{kind}{module}/dimm_location"))
        and (channel := re.search(r"\bchannel (\d+)", where))
    }
    return len(known) or None


def _modules(tree: Tree) -> Value:
    return len(read_dimms(tree)) or None


def _dimms(tree: Tree) -> Value:
    summary = summary_of(read_dimms(tree))
    return summary[:LONGEST] if summary else None


def _slots(tree: Tree) -> Value:
    """Read where modules are, as in ``DIMM_A1, DIMM_B1``."""
    return ", ".join(slots_of(tree))[:LONGEST] or None


# ---- devices -------------------------------------------------------------------------------------


def _devices(tree: Tree, classes: tuple[str, ...]) -> list[str]:
    return [
        f"{_PCI}/{device}"
        for device in tree.names(_PCI)
        if (tree.text(f"{_PCI}/{device}/class") or "").startswith(classes)
    ]


def _unplaced(tree: Tree) -> Value:
    """Count devices that move much memory and whose node the firmware does not tell."""
    devices = _devices(tree, _FAR_REACHING)
    nodes = [tree.number(f"{device}/numa_node") for device in devices]
    return sum(node is not None and node < 0 for node in nodes) if devices else None


def _link(state: str) -> Reader:
    """Read the PCIe links of GPUs, as in ``32.0 GT/s x16 x 2``."""

    def read(tree: Tree) -> Value:
        return counted(
            f"{speed.removesuffix(' PCIe')} x{width}"
            for device in _devices(tree, _GPUS)
            if (speed := tree.text(f"{device}/{state}_link_speed"))
            and (width := tree.size(f"{device}/{state}_link_width"))
        )

    return read


def _bar1(tree: Tree) -> Value:
    """Read the windows through which others reach the memory of GPUs, as in ``32 GiB x 2``.

    It is the largest window of the device: NVIDIA's is the second, others have it elsewhere.
    """
    sizes = (max(_windows(tree, device), default=0) for device in _devices(tree, _GPUS))
    return counted(bytes_text(size) for size in sizes if size)


def _windows(tree: Tree, device: str) -> Iterator[int]:
    for line in (tree.text(f"{device}/resource") or "").splitlines()[:6]:
        match = re.match(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) ", line)
        if match and (end := int(match[2], 16)):
            yield end - int(match[1], 16) + 1


def _errors(tree: Tree) -> Value:
    """Count the errors that PCIe links of GPUs corrected."""
    counts = []
    for device in _devices(tree, _FAR_REACHING):
        match = re.search(
            r"^TOTAL_ERR_COR (\d{1,18})", tree.text(f"{device}/aer_dev_correctable") or "", re.M
        )
        counts += [int(match[1])] if match else []
    return sum(counts) if counts else None


def _iommu(tree: Tree) -> Value:
    """Read how devices' addresses are translated: the kinds of domain with their number."""
    return counted(tree.text(f"{_GROUPS}/{group}/type") for group in tree.numbered(_GROUPS, ""))


def _groups(tree: Tree) -> Value:
    return len(tree.numbered(_GROUPS, "")) or None


def _shared(tree: Tree) -> Value:
    """Count the devices that share their group with another's function: ACS parts them."""
    groups = [tree.names(f"{_GROUPS}/{group}/devices") for group in tree.numbered(_GROUPS, "")]
    # Functions of one device share their group in any case.
    crowded = [devices for devices in groups if len({d.rpartition(".")[0] for d in devices}) > 1]
    return sum(map(len, crowded)) if groups else None


def _ccp(file: str) -> Reader:
    """Read what AMD's security processor tells."""

    def read(tree: Tree) -> Value:
        return alike(tree.text(f"{_PCI}/{device}/{file}") for device in tree.names(_PCI))

    return read


# ---- NVIDIA's driver -----------------------------------------------------------------------------


def _param(name: str) -> Reader:
    """Read a parameter of the driver, however its name is cased."""
    return found(_PARAMS, rf"(?i)^{name}: *(.*\S)")


def _vbios(tree: Tree) -> Value:
    folder = f"{_NVIDIA}/gpus"
    return counted(
        tree.fields(f"{folder}/{name}/information").get("Video BIOS") for name in tree.names(folder)
    )


def _kernel_module(tree: Tree) -> Value:
    line = tree.text(f"{_NVIDIA}/version")
    return None if line is None else "open" if "Open Kernel Module" in line else "proprietary"


def _dmi(name: str) -> Key:
    # Serial numbers and UUIDs stand beside these, readable by root alone, and are never read.
    return Key(text(f"{_DMI}/{name}"), f"{_DMI}/{name}")


def _nvidia(name: str) -> Key:
    return Key(_param(name), _PARAMS)


def _cpu(file: str) -> Key:
    return Key(over_cpus(file), f"{CPU}/cpu0/{file}")


KEYS: dict[str, Key] = {
    "cpu.driver": _cpu("cpufreq/scaling_driver"),
    "cpu.pstate": Key(_pstate, f"{CPU}/amd_pstate/status"),
    "cpu.governor": _cpu("cpufreq/scaling_governor"),
    "cpu.preference": _cpu("cpufreq/energy_performance_preference"),
    "cpu.frequency_limits": Key(_frequencies, f"{CPU}/cpu0/cpufreq/scaling_max_freq"),
    "cpu.turbo": Key(_turbo, f"{CPU}/cpufreq/boost"),
    "cpu.smt": Key(text(f"{CPU}/smt/control"), f"{CPU}/smt/control"),
    "cpu.idle_driver": Key(text(f"{CPU}/cpuidle/current_driver"), f"{CPU}/cpuidle/current_driver"),
    "cpu.idle_states": Key(_idle_states, _IDLE),
    "cpu.uncore": Key(_uncore, _UNCORE),
    "cpu.microcode": Key(_microcode, "proc/cpuinfo"),
    "memory.dimms": Key(_dimms, _UDEV),
    "memory.slots": Key(_slots, _UDEV),
    "memory.peak": Key(lambda tree: peak_of(read_dimms(tree)), _UDEV, int),
    "memory.channels": Key(_channels, _EDAC, int),
    "memory.modules": Key(_modules, _UDEV, int),
    "pci.unplaced": Key(_unplaced, _PCI, int),
    "pci.links": Key(_link("max"), _PCI),
    "pci.bar1": Key(_bar1, _PCI),
    "pci.aspm": Key(
        choice("sys/module/pcie_aspm/parameters/policy"), "sys/module/pcie_aspm/parameters/policy"
    ),
    "now.links": Key(_link("current"), _PCI, volatile=True),
    "now.link_errors": Key(_errors, _PCI, int, volatile=True),
    "iommu.domains": Key(_iommu, _GROUPS),
    "iommu.groups": Key(_groups, _GROUPS, int),
    "iommu.shared": Key(_shared, _GROUPS, int),
    "amd.tsme": Key(_ccp("tsme_status"), _PCI),
    "amd.bootloader": Key(_ccp("bootloader_version"), _PCI),
    "nvidia.driver": Key(
        found(f"{_NVIDIA}/version", r"\b(\d{3}\.\d{1,4}(?:\.\d{1,4})?)\b"), f"{_NVIDIA}/version"
    ),
    "nvidia.module": Key(_kernel_module, f"{_NVIDIA}/version"),
    "nvidia.vbios": Key(_vbios, f"{_NVIDIA}/gpus"),
    "nvidia.relaxed_ordering": _nvidia("EnablePCIERelaxedOrderingMode"),
    "nvidia.topology_override": _nvidia("GrdmaPciTopoCheckOverride"),
    "nvidia.resizable_bar": _nvidia("EnableResizableBar"),
    "nvidia.gpu_firmware": _nvidia("EnableGpuFirmware"),
    "nvidia.registry": _nvidia("RegistryDwords"),
    "bios.vendor": _dmi("bios_vendor"),
    "bios.version": _dmi("bios_version"),
    "bios.date": _dmi("bios_date"),
    "bios.release": _dmi("bios_release"),
    "board.vendor": _dmi("board_vendor"),
    "board.name": _dmi("board_name"),
    "product.vendor": _dmi("sys_vendor"),
    "product.name": _dmi("product_name"),
}
"""What hardware and firmware tell of how they are set."""
