"""Settings that people change, and what else moves with each: what shows it, and what follows.

The table behind ``--changed``: docs/BIOS.md tells of each what it is expected to move.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that can be changed.

    Parameters
    ----------
    name : str
    words : str
        A pattern of what people write for it.
    shows : tuple of str
        Keys, as patterns, that tell how it is set. None: nothing readable here tells.
    follows : tuple of str
        Keys that may move with it.
    """

    name: str
    words: str
    shows: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()


_NODES = (
    *("machine.*nodes*", "machine.distances", "machine.memory", "memory.side_cache"),
    *("vm.huge_pages", "vm.weighted_interleave", "pci.unplaced", "kernel.numa_balancing"),
)
_CLOCKS = ("cpu.driver", "cpu.frequency*", "cpu.preference")
_CPUS = ("machine.cpus", "machine.cores", "machine.threads_per_core", "machine.llcs")

CHANGES = (
    Change("NPS", r"nps[0124]?|nodes[ -]?per[ -]?socket", ("machine.nodes_per_package",), _NODES),
    Change(
        "SNC",
        r"snc-?[1-6]?|sub-?numa|cluster[ -]on[ -]die|cod|hemi\w*|quad\w*",
        ("machine.nodes_per_package",),
        _NODES,
    ),
    Change(
        "L3 as NUMA",
        r"l3[ -]?as[ -]?numa|ccx as numa|llc as numa|(acpi )?srat l3\w*",
        ("machine.nodes_per_package",),
        _NODES,
    ),
    Change(
        "IOMMU",
        r"iommu|vt-?d|amd-?vi",
        ("iommu.*", "kernel.flag.*iommu*"),
        ("pci.unplaced", "kernel.flag.pci"),
    ),
    Change("ACS", r"acs", ("iommu.groups", "iommu.shared"), ("iommu.domains",)),
    Change("xGMI", r"xgmi|gmi[ -]?width|inter-?socket|dlwm"),
    Change("DF P-states", r"df|apbdis|fabric|fclk|df[ -]?p-?states?|df[ -]?c-?states?"),
    Change("UPI", r"upi"),
    Change(
        "ReBAR", r"re-?bar|resiz\w+ bar|above[ -]?4g\w*|large bar", ("pci.bar1",), ("nvidia.*",)
    ),
    Change(
        "PCIe",
        r"pci-?e?|gen ?[3-6]|bifurcation|aspm|relaxed ordering|x(?:4|8|16)",
        ("pci.links", "pci.aspm", "kernel.flag.pci*"),
        ("pci.*",),
    ),
    Change(
        "C-states",
        r"c-?states?|c[126]e?|idle states?|global c-?state\w*",
        ("cpu.idle_states", "kernel.flag.*cstate", "kernel.flag.idle"),
        ("cpu.idle_driver",),
    ),
    Change(
        "SMT",
        r"smt|hyper-?threading|ht",
        ("cpu.smt", "machine.threads_per_core", "kernel.flag.nosmt"),
        (*_CPUS, "kernel.mitigations"),
    ),
    Change("cores", r"cores?|ccds?|downcor\w+", ("machine.cores",), (*_CPUS, *_NODES)),
    Change("turbo", r"turbo|boost|cpb|pbo", ("cpu.turbo",), _CLOCKS),
    Change(
        "governor",
        r"governor|performance|powersave|schedutil|ondemand|epp|energy\w*|pstate|p-states?|cppc",
        ("cpu.governor", "cpu.preference", "cpu.driver", "kernel.flag.*pstate"),
        (*_CLOCKS, "cpu.turbo"),
    ),
    Change("uncore", r"uncore", ("cpu.uncore",)),
    Change("power", r"power\w*|determinism|tdp|ppt|workload profile|eco", (), _CLOCKS),
    Change("prefetcher", r"prefetch\w*"),
    Change(
        "memory",
        r"memory|dimms?|ram|xmp|expo|ddr[345]?\S*|mt/?s|channels?|interleav\w+|speed",
        ("memory.*",),
        ("machine.memory", "machine.nodes", "machine.memory_nodes", "machine.distances"),
    ),
    Change("TSME", r"tsme|sme|memory encryption", ("amd.tsme", "kernel.flag.mem_encrypt")),
    Change("THP", r"thp|transparent[ -_]?huge\w*", ("thp.*", "kernel.flag.transparent_hugepage")),
    Change("huge pages", r"huge ?pages|hugetlb", ("vm.huge_pages", "kernel.flag.*huge*")),
    Change("AutoNUMA", r"auto-?numa|numa[ _-]?balancing", ("kernel.numa_balancing",)),
    Change("mitigations", r"mitigations?", ("kernel.mitigations", "kernel.flag.mitigations")),
    Change("demotion", r"demotion|tiering", ("vm.demotion", "kernel.numa_balancing")),
    Change("weighted interleave", r"weighted\w*", ("vm.weighted_interleave",)),
    Change(
        "isolated CPUs",
        r"isol\w*|nohz\w*",
        ("kernel.isolated", "kernel.flag.isolcpus"),
        ("kernel.flag.nohz_full",),
    ),
    Change("kernel", r"kernel|linux", ("kernel.release",), ("kernel.mitigations", "kernel.flag.*")),
    Change("microcode", r"microcode", ("cpu.microcode",), ("kernel.mitigations",)),
    Change(
        "BIOS update",
        r"bios|firmware|agesa|uefi",
        ("bios.*", "amd.bootloader"),
        ("cpu.microcode", "kernel.mitigations", "amd.*", "memory.*"),
    ),
    Change("GPU driver", r"driver|nvidia|cuda|gsp", ("nvidia.*",), ("pci.bar1",)),
    Change("container", r"container|docker|podman", ("container",), ("rights.*", "machine.*")),
)
"""What is known by name. A key of the setting, written out, names itself."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the user says was changed.

    Parameters
    ----------
    text : str
        In the user's words.
    before, after : str
        The words on both sides of the arrow; empty without one.
    changes : tuple of Change
        What of it is known.
    """

    text: str
    before: str = ""
    after: str = ""
    changes: tuple[Change, ...] = ()

    def shows(self, key: str) -> bool:
        """Tell whether a key is what was to be changed."""
        return _among(key, (p for change in self.changes for p in change.shows)) or any(
            self._names_attribute(key, change) for change in self.changes
        )

    def follows(self, key: str) -> bool:
        """Tell whether a key moves with what was changed."""
        return _among(key, (p for change in self.changes for p in change.follows))

    @staticmethod
    def _names_attribute(key: str, change: Change) -> bool:
        """Tell whether a vendor's attribute is named as people name the change."""
        if not key.startswith("bios.attribute."):
            return False
        name = re.sub(
            r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])",
            " ",
            key.removeprefix("bios.attribute."),
        )
        return re.search(rf"(?:\b|_)(?:{change.words})(?:\b|_)", name, re.IGNORECASE) is not None


def parse_changed(text: str) -> Asked:
    """Read ``NPS1 -> NPS4``, ``IOMMU off``, ``thp.enabled`` or several, with commas between.

    What is not known by name is kept as words: then nothing is taken for intended.
    """
    before, arrow, after = text.replace("→", "->").partition("->")
    found = [
        change for change in CHANGES if re.search(rf"\b(?:{change.words})\b", text, re.IGNORECASE)
    ]
    keys = re.findall(r"\b[a-z]+\.[a-z_.*]+[a-z_*]", text)
    found += [Change(key, re.escape(key), (key,)) for key in keys]
    if not arrow:
        before = ""
    return Asked(text, before.strip(), after.strip(), tuple(found))


def _among(key: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
