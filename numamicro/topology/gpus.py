"""The GPUs: what libcuda, NVML and sysfs say of them, joined on UUID and PCI address.

The driver's order is not NVML's, and CUDA_VISIBLE_DEVICES may hide, reorder or cut them: nothing
is ever joined on a number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from numamicro.finding import Finding, Severity
from numamicro.identity import hashed
from numamicro.topology.gpu import Gpu, GpuDriver, GpuPair, PcieLink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numamicro.topology.sysfs import Tree

Facts = dict[str, Any]

PCI = "sys/bus/pci/devices"
_NVIDIA = "0x10de"
_DISPLAY_CLASSES = ("0x0300", "0x0302")  # a card with a screen's plugs, and one without

_COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive-process"}
_LEVELS = {0: "INT", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}  # by GT/s
_BUS_ID = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.ASCII)
_MASK_BITS = 64


@dataclass(frozen=True, slots=True)
class Gpus:
    """All that is known of the GPUs of a machine."""

    gpus: tuple[Gpu, ...] = ()
    pairs: tuple[GpuPair, ...] = ()
    driver: GpuDriver | None = None
    notes: tuple[Finding, ...] = ()


def read_gpus(tree: Tree, nodes: Iterable[int], facts: Facts) -> Gpus:
    """Give the GPUs that `facts` (see :func:`gpu_facts.gather`) and the tree show.

    Parameters
    ----------
    nodes : iterable of int
        The nodes that there are: a GPU is next to none but these.
    """
    if "error" in facts or not facts["gpus"]:
        return Gpus(notes=(_absence(tree, facts),))
    nvml: Facts = facts["nvml"]
    twins = [_twin(gpu, nvml.get("gpus", ())) for gpu in facts["gpus"]]
    gpus = tuple(
        _gpu(tree, ordinal, gpu, twin, frozenset(nodes))
        for ordinal, (gpu, twin) in enumerate(zip(facts["gpus"], twins, strict=True))
    )
    driver = GpuDriver(nvml.get("version"), _cuda(facts["cuda"]), facts["simulation"])
    return Gpus(gpus, tuple(_pairs(gpus, twins, facts)), driver, tuple(_notes(nvml)))


def bus_id(text: str | None) -> str | None:
    """Give a PCI address as sysfs writes it; NVML pads the domain to eight digits."""
    found = _BUS_ID.fullmatch(text.strip().lower()) if text else None
    return f"{int(found[1], 16):04x}:{found[2]}" if found else None


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"


def _absence(tree: Tree, facts: Facts) -> Finding:
    """Say why there is no GPU, and what would show one."""
    cards = [device for device in tree.names(PCI) if _is_card(tree, device)]
    why = facts.get("error") or "the NVIDIA driver shows none"
    hidden = facts.get("code") == "CUDA_ERROR_NO_DEVICE" or "gpus" in facts
    ways = ["CUDA_VISIBLE_DEVICES may hide them"] if hidden else []
    if cards:
        count = f"{len(cards)} NVIDIA GPU{'s are' if len(cards) > 1 else ' is'}"
        why += f"; {count} on the PCI bus ({cards[0]})"
        ways.append("load the driver, or give the container its GPUs (docker --gpus all)")
    return Finding(
        "no-gpu",
        Severity.LIMITS if cards else Severity.REMARK,
        f"no GPU can be used ({why})",
        f"cuInit and {tree.root}/{PCI}",
        "what GPUs cost is left out",
        "; ".join(ways),
    )


def _is_card(tree: Tree, device: str) -> bool:
    kind = tree.text(f"{PCI}/{device}/class") or ""
    return tree.text(f"{PCI}/{device}/vendor") == _NVIDIA and kind.startswith(_DISPLAY_CLASSES)


def _twin(gpu: Facts, others: Iterable[Facts]) -> Facts:
    """Give what NVML says of the same GPU: by its UUID, or that of the GPU it is an instance of."""
    for other in others:
        if _digits(other["uuid"]) == gpu["uuid"]:
            return other
    address = bus_id(gpu["pci"])
    return next((other for other in others if address and bus_id(other["pci"]) == address), {})


def _digits(uuid: str | None) -> str:
    return (uuid or "").removeprefix("GPU-").replace("-", "").lower()


def _gpu(tree: Tree, ordinal: int, said: Facts, twin: Facts, nodes: frozenset[int]) -> Gpu:
    address = bus_id(said["pci"])
    folder = f"{PCI}/{address}"
    group = tree.link(f"{folder}/iommu_group") if address else None
    return Gpu(
        id=ordinal,
        name=said["name"],
        memory=said["memory"],
        capability=tuple(said["capability"]),
        index=twin.get("index"),
        identity=hashed(said["uuid"]),
        pci=address,
        host_node=_host_node(tree, folder, said, twin, nodes),
        memory_node=_known(twin.get("memory_node"), nodes),
        link=_link(tree, folder, twin),
        bar1=twin.get("bar1"),
        l2_bytes=said["l2_bytes"] or None,
        processors=said["processors"] or None,
        copy_engines=said["copy_engines"] or None,
        mig=twin.get("mig"),
        compute_mode=_COMPUTE_MODES.get(said["compute_mode"], "default"),
        display=twin.get("display"),
        time_limit=said["time_limit"],
        iommu_group=int(name) if group and (name := group.rpartition("/")[2]).isdecimal() else None,
    )


def _known(node: int | None, nodes: frozenset[int]) -> int | None:
    return node if node in nodes else None


def _host_node(
    tree: Tree, folder: str, said: Facts, twin: Facts, nodes: frozenset[int]
) -> int | None:
    """Give the node next to a GPU by the first who knows: NVML, sysfs, libcuda.

    Each says -1, or nothing, where the firmware did not tell.
    """
    near = _bits(twin.get("affinity") or ())
    candidates = (
        near[0] if len(near) == 1 else None,
        tree.number(f"{folder}/numa_node"),
        said["host_node"],
    )
    return next((node for node in candidates if _known(node, nodes) is not None), None)


def _bits(words: Iterable[int]) -> list[int]:
    return [
        place * _MASK_BITS + bit
        for place, word in enumerate(words)
        for bit in range(_MASK_BITS)
        if word >> bit & 1
    ]


def _link(tree: Tree, folder: str, twin: Facts) -> PcieLink:
    """Give the PCIe link by NVML, where that is silent by sysfs."""

    def generation(name: str) -> int | None:
        return _GENERATIONS.get((tree.text(f"{folder}/{name}") or "").partition(" ")[0])

    return PcieLink(
        generation=twin.get("generation") or generation("current_link_speed"),
        width=twin.get("width") or tree.size(f"{folder}/current_link_width"),
        max_generation=twin.get("max_generation") or generation("max_link_speed"),
        max_width=twin.get("max_width") or tree.size(f"{folder}/max_link_width"),
    )


def _pairs(gpus: tuple[Gpu, ...], twins: list[Facts], facts: Facts) -> Iterator[GpuPair]:
    claims = {(peer["source"], peer["target"]): peer for peer in facts["peers"]}
    levels = {
        frozenset(pair["gpus"]): _LEVELS.get(pair["level"])
        for pair in facts["nvml"].get("pairs", ())
    }
    for a, b in combinations(range(len(gpus)), 2):
        both = (claims[a, b], claims[b, a])
        known = [twin["index"] for twin in (twins[a], twins[b]) if twin]
        yield GpuPair(
            gpus=(a, b),
            level=levels.get(frozenset(known)),
            nvlinks=_nvlinks(twins[a], twins[b]),
            claimed=all(claim["access"] for claim in both),
            atomics=all(claim["atomics"] for claim in both),
        )


def _nvlinks(here: Mapping[str, Any], there: Mapping[str, Any]) -> int:
    """Count the NVLinks that lead to the other GPU, or else to a switch that both hang on.

    Where a switch does not give its address, as in a fabric of many, the end is None.
    """
    addresses = {bus_id(here.get("pci")), bus_id(there.get("pci"))}
    ends = [[bus_id(end) for end in side.get("nvlinks", ())] for side in (here, there)]
    direct = sum(end in addresses for end in ends[0])
    shared = set(ends[0]) & set(ends[1]) - addresses
    return direct or min(sum(end in shared for end in side) for side in ends)


def _notes(nvml: Facts) -> Iterator[Finding]:
    if "error" in nvml:
        yield Finding(
            "nvml",
            Severity.LIMITS,
            "NVML does not answer",
            f"nvmlInit: {nvml['error']}",
            "PCIe links, NVLinks and what lies between GPUs are not all known, and no link is seen "
            "under load",
            "install nvidia-ml-py, and the NVML (libnvidia-ml.so.1) of the driver that runs",
        )
