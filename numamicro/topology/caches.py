"""The caches: every sort there is, and who shares which last-level cache."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.topology.cpus import CPU
from numamicro.topology.machine import Cache, Llc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numamicro.topology.sysfs import Tree

_SIZE = re.compile(r"([0-9]{1,9})([KMG]?)", re.ASCII)
_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Shared:
    """One cache and the online CPUs below it."""

    level: int
    kind: str
    bytes: int | None
    line_bytes: int | None
    cpus: tuple[int, ...]


def read_caches(tree: Tree, online: frozenset[int]) -> tuple[Shared, ...]:
    """Give every cache of the online CPUs once."""
    found: list[Shared] = []
    seen: set[tuple[int, int, str]] = set()
    for cpu in sorted(online):
        for index in tree.numbered(f"{CPU}/cpu{cpu}/cache", "index"):
            folder = f"{CPU}/cpu{cpu}/cache/index{index}"
            level = tree.number(f"{folder}/level")
            kind = (tree.text(f"{folder}/type") or "unified").lower()[:20]
            # The files of those that share it would tell the same again.
            if level is not None and (cpu, level, kind) not in seen:
                cache = _cache(tree, folder, level, kind, cpu, online)
                seen.update((sharer, level, kind) for sharer in cache.cpus)
                found.append(cache)
    return tuple(found)


def llcs_of(caches: Iterable[Shared]) -> tuple[Llc, ...]:
    """Give the last-level caches: of each CPU the highest one that holds data."""
    last: dict[int, Shared] = {}
    for cache in caches:
        for cpu in cache.cpus if cache.kind != "instruction" else ():
            if cpu not in last or cache.level > last[cpu].level:
                last[cpu] = cache
    groups: dict[Shared, list[int]] = {}
    for cpu in sorted(last):
        groups.setdefault(last[cpu], []).append(cpu)
    return tuple(Llc(i, tuple(cpus), c.bytes) for i, (c, cpus) in enumerate(groups.items()))


def sorts_of(caches: Sequence[Shared]) -> tuple[Cache, ...]:
    """Give each sort of cache with the number of its instances, nearest level first."""
    counts = Counter((c.level, c.kind, c.bytes, c.line_bytes, len(c.cpus)) for c in caches)
    order = sorted(counts, key=lambda sort: tuple(str(part).rjust(20) for part in sort))
    return tuple(Cache(*sort, counts[sort]) for sort in order)


def _cache(
    tree: Tree, folder: str, level: int, kind: str, cpu: int, online: frozenset[int]
) -> Shared:
    sharers = tree.ids(f"{folder}/shared_cpu_list", f"{folder}/shared_cpu_map") or ()
    return Shared(
        level=level,
        kind=kind,
        bytes=_bytes(tree.text(f"{folder}/size")),
        line_bytes=tree.size(f"{folder}/coherency_line_size"),
        cpus=tuple(sorted({cpu, *sharers} & online)),
    )


def _bytes(text: str | None) -> int | None:
    found = _SIZE.fullmatch(text or "")
    # Some firmware leaves the size out, which the kernel writes as 0.
    return (int(found[1]) * _UNIT[found[2]] or None) if found else None
