"""Where pages really are: asked of the kernel, never assumed.

The kernel is asked by move_pages(2), which names the node of every page. Where a container's
seccomp filter forbids that, /proc/self/numa_maps tells the same in sums. Where neither answers,
the share is unknown, which is not the same as wrong. Some kernels (6.1 for one) have move_pages say
of a page that AutoNUMA waits to see touched what it says of a page that is not there; numa_maps
counts such pages, and is believed where it finds all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.matrix import Placement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numamicro._cpu import Arena, Region
    from numamicro.topology import Machine


@dataclass(frozen=True, slots=True)
class Census:
    """How many pages each node holds, who said so, and how large a page was counted.

    A negative key is an errno in place of a node: the page was never written, for example.
    """

    by: str | None
    pages: Mapping[int, int]
    page_bytes: int

    @property
    def bytes(self) -> int:
        """What was counted, there or not."""
        return sum(self.pages.values()) * self.page_bytes


def placement(
    arena: Arena | Region, length: int, nodes: Collection[int], machine: Machine
) -> Placement:
    """Give where the first `length` bytes of an arena are, and what share is on `nodes`."""
    huge_share = huge_page_share(arena.address, length)
    huge = machine.huge_page_bytes if huge_share == 1.0 else None
    counted = take_census(arena, length, huge or machine.page_bytes)
    total = sum(counted.pages.values())
    on_target = sum(counted.pages.get(index, 0) for index in nodes)
    return Placement(
        share=on_target / total if total else None,
        by=counted.by,
        pages=counted.pages,
        page_bytes=counted.page_bytes,
        huge_share=huge_share,
    )


def take_census(arena: Arena | Region, length: int, page_bytes: int) -> Census:
    """Count pages by node: by move_pages, else from numa_maps, else not at all."""
    try:
        named = Census("move_pages", arena.census(0, length, page_bytes), page_bytes)
    except OSError:
        return _numa_maps_census(arena.address)
    if min(named.pages, default=0) >= 0:
        return named
    summed = _numa_maps_census(arena.address)
    return summed if summed.bytes >= named.bytes else named


def _numa_maps_census(start: int) -> Census:
    """Count the pages of the mapping that begins at an arena's address, which holds nothing else."""
    pages: dict[int, int] = {}
    page_bytes = 4096
    try:
        lines = Path("/proc/self/numa_maps").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return Census(None, {}, page_bytes)
    for line in lines:
        if int(line.partition(" ")[0], 16) != start:
            continue
        for index, count in re.findall(r" N(\d+)=(\d+)", line):
            pages[int(index)] = pages.get(int(index), 0) + int(count)
        if size := re.search(r" kernelpagesize_kB=(\d+)", line):
            page_bytes = int(size[1]) * 1024
    return Census("numa_maps" if pages else None, pages, page_bytes)


def huge_page_share(address: int, length: int) -> float | None:
    """Give the share of touched memory in a range that huge pages back; None when not told."""
    try:
        text = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    resident = huge = 0
    inside = False
    for line in text.splitlines():
        if not line[:1].isupper():  # a mapping; the lines of what it holds begin with a name
            start, _, end = line.partition(" ")[0].partition("-")
            inside = int(start, 16) < address + length and address < int(end, 16)
        elif inside and line.startswith("Rss:"):
            resident += int(line.split()[1])
        elif inside and line.startswith(("AnonHugePages:", "Private_Hugetlb:")):
            huge += int(line.split()[1])
    return min(huge / resident, 1.0) if resident else None
