"""Rules on what the kernel does to pages behind a measurement's back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.doctor.rule import number, word
from numamicro.finding import Finding, Severity
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.doctor.rule import Rule, Setting
    from numamicro.topology import Machine

_THP = "/sys/kernel/mm/transparent_hugepage"

# What an older kernel lacks, by the version that brought it.
_BROUGHT = {
    (4, 10): "the size of transparent huge pages",
    (5, 2): "what the firmware states of each node's speed (HMAT)",
    (6, 1): "memory tiers",
}


def autonuma(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """AutoNUMA moves pages between nodes."""
    mode = number(setting, "kernel.numa_balancing")
    if mode and len(machine.targets) > 1:
        yield Finding(
            "autonuma",
            Severity.SPOILS,
            "AutoNUMA is on",
            f"/proc/sys/kernel/numa_balancing is {mode:g}",
            "it takes page faults to see who reads, and moves unbound pages there",
            "sysctl kernel.numa_balancing=0 as root",
        )


def zone_reclaim(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """A filling node reclaims its own pages before it borrows."""
    mode = number(setting, "vm.zone_reclaim_mode")
    if mode and len(machine.targets) > 1:
        yield Finding(
            "zone-reclaim",
            Severity.SPOILS,
            "zone reclaim is on",
            f"/proc/sys/vm/zone_reclaim_mode is {mode:g}",
            "a filling node drops its page cache first, and stalls meanwhile",
            "sysctl vm.zone_reclaim_mode=0 as root",
        )


def demotion(setting: Setting, _: Machine) -> Iterator[Finding]:
    """Idle pages move to a slower node."""
    state = word(setting, "vm.demotion")
    if state in ("true", "1"):
        yield Finding(
            "demotion",
            Severity.SPOILS,
            "page demotion is on",
            f"/sys/kernel/mm/numa/demotion_enabled is {state}",
            "idle pages may move to a slower node",
            "echo 0 > /sys/kernel/mm/numa/demotion_enabled as root",
        )


def watchers(setting: Setting, _: Machine) -> Iterator[Finding]:
    """DAMON or KSM look through memory."""
    if word(setting, "vm.damon") == "on":
        yield Finding(
            "damon",
            Severity.SPOILS,
            "DAMON is on",
            "state of a kdamond below /sys/kernel/mm/damon/admin/kdamonds is on, or damon_reclaim or "
            "damon_lru_sort is enabled in /sys/module",
            "it samples page accesses, which costs TLB misses",
            "echo off > /sys/kernel/mm/damon/admin/kdamonds/N/state as root while measuring",
        )
    if number(setting, "vm.ksm") == 1:
        yield Finding(
            "ksm",
            Severity.SPOILS,
            "KSM merges equal pages",
            "/sys/kernel/mm/ksm/run is 1",
            "its thread reads through memory and takes bandwidth",
            "echo 0 > /sys/kernel/mm/ksm/run as root",
        )


def huge_pages(setting: Setting, _: Machine) -> Iterator[Finding]:
    """Transparent huge pages are off, or only given where that is free."""
    if word(setting, "thp.enabled") == "never":
        yield Finding(
            "thp-never",
            Severity.LIMITS,
            "transparent huge pages are off",
            f"{_THP}/enabled is never",
            "cells with huge pages fall back to small ones, whose figures hold TLB misses",
            f"echo madvise > {_THP}/enabled as root",
        )
    elif word(setting, "thp.defrag") == "never":
        yield Finding(
            "thp-defrag-never",
            Severity.LIMITS,
            "huge pages are only given where memory is already free in one piece",
            f"{_THP}/defrag is never",
            "a buffer may get a part of them, and another run another part",
            f"echo madvise > {_THP}/defrag as root",
        )


def swapped(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """Much is swapped out."""
    used = number(setting, "vm.swap_used")
    total = sum(node.memory or 0 for node in machine.nodes)
    if used and used * 20 > total > 0:
        yield Finding(
            "swap",
            Severity.SPOILS,
            f"{bytes_text(used)} are swapped out",
            f"SwapTotal less SwapFree in /proc/meminfo is {used:.0f} bytes, of {total} of memory",
            "memory is short, and pages may come from a disk",
            "end other programs first; then swapoff -a && swapon -a as root",
        )


def old_kernel(setting: Setting, _: Machine) -> Iterator[Finding]:
    """The kernel is older than files that are read."""
    release = word(setting, "kernel.release")
    version = re.match(r"(\d{1,3})\.(\d{1,4})", release)
    if version is None:
        return
    number = (int(version[1]), int(version[2]))
    missing = [what for since, what in _BROUGHT.items() if number < since]
    if missing:
        yield Finding(
            "old-kernel",
            Severity.REMARK,
            f"Linux {version[0]} is older than some of what is read",
            f"/proc/sys/kernel/osrelease is {release}",
            f"unknown here, which is not absent: {', '.join(missing)}",
            "boot a newer kernel to see it",
        )


RULES: tuple[Rule, ...] = (
    autonuma,
    zone_reclaim,
    demotion,
    watchers,
    swapped,
    huge_pages,
    old_kernel,
)
