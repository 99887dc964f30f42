"""The NUMA nodes: their CPUs, memory, distances, and what the firmware tells about each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.topology.cpus import status_ids
from numamicro.topology.machine import Access, HugePool, NumaNode
from numamicro.topology.sysfs import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.topology.sysfs import Tree

NODE = "sys/devices/system/node"
_MEMORY = "sys/devices/system/memory"

# The firmware speaks of megabytes per second and nanoseconds.
_BANDWIDTH = 1e6
_LATENCY = 1e-9

# One folder for every memory block; a terabyte in small blocks stays below this.
_MAX_BLOCKS = 16384

# In kB: beyond what any architecture has.
_LARGEST_PAGE = 1 << 30

_HEX = re.compile(r"[0-9a-fA-F]{1,10}", re.ASCII)

# Where the driver of a node's memory sits in the device tree tells what the memory is.
_BACKINGS = {"/hmem.": "special-purpose", "/ndbus": "pmem", "/cxl": "cxl"}


def read_nodes(tree: Tree, online: frozenset[int]) -> tuple[NumaNode, ...]:
    """Give the online nodes; one implied node 0 where the kernel knows of none."""
    allowed = status_ids(tree, "Mems_allowed_list")
    ids = node_ids(tree)
    if not ids:
        return (_implied(tree, online, allowed),)
    memories = {id: tree.meminfo(f"{NODE}/node{id}/meminfo") for id in ids}
    has_memory = tree.ids(f"{NODE}/has_memory") or tree.ids(f"{NODE}/has_normal_memory")
    sizes = {
        id: memories[id].get("MemTotal", 0 if has_memory and id not in has_memory else None)
        for id in ids
    }
    free = {id: _free(memories[id]) for id in ids}
    inhabited = [id for id in ids if sizes[id] != 0]
    if len(inhabited) == 1:
        # A kernel that initialises memory lazily counts only what it has touched as the node's,
        # but the whole as the machine's.
        only = inhabited[0]
        whole_machine = tree.meminfo("proc/meminfo")
        sizes[only] = whole_machine.get("MemTotal", sizes[only])
        free[only] = whole_machine.get("MemAvailable", free[only])
    backings = _backings(tree)
    tiers = _tiers(tree)
    return tuple(
        NumaNode(
            id=id,
            cpus=_cpus(tree, id, online),
            memory=sizes[id],
            free=free[id],
            distances=_distances(tree, id, ids),
            allowed=allowed is None or id in allowed,
            offline_memory=_offline_memory(tree, id),
            tier=tiers.get(id),
            backing=backings.get(id),
            side_cache=_side_cache(tree, id),
            access=_accesses(tree, id),
            huge_pools=_huge_pools(tree, id),
        )
        for id in ids
    )


def node_ids(tree: Tree) -> tuple[int, ...]:
    """Give the ids of the online nodes."""
    folders = tree.numbered(NODE, "node")
    online = tree.ids(f"{NODE}/online")
    return tuple(id for id in folders if not online or id in online)


def home_nodes(tree: Tree, nodes: tuple[NumaNode, ...]) -> dict[int, int]:
    """Give the node of each CPU, offline ones too.

    With emulated nodes every node lists every CPU; only the kernel's links then name one home.
    """
    listed = {cpu: node.id for node in reversed(nodes) for cpu in node.cpus}
    linked = {
        cpu: node.id
        for node in reversed(nodes)
        for cpu in tree.numbered(f"{NODE}/node{node.id}", "cpu")
    }
    return listed | linked


def _implied(tree: Tree, online: frozenset[int], allowed: tuple[int, ...] | None) -> NumaNode:
    whole_machine = tree.meminfo("proc/meminfo")
    id = allowed[0] if allowed else 0
    return NumaNode(
        id=id,
        cpus=tuple(sorted(online)),
        memory=whole_machine.get("MemTotal"),
        free=whole_machine.get("MemAvailable", whole_machine.get("MemFree")),
        distances={id: 10},
    )


def _cpus(tree: Tree, id: int, online: frozenset[int]) -> tuple[int, ...]:
    folder = f"{NODE}/node{id}"
    listed = tree.ids(f"{folder}/cpulist", f"{folder}/cpumap")
    members = tree.numbered(folder, "cpu") if listed is None else listed
    return tuple(cpu for cpu in members if cpu in online)


def _distances(tree: Tree, id: int, ids: tuple[int, ...]) -> dict[int, int]:
    """The columns stand for the online nodes in order; another count cannot be attributed."""
    columns = (tree.text(f"{NODE}/node{id}/distance") or "").split()
    numbers = [number for number in map(whole, columns) if number is not None and number >= 0]
    if len(numbers) == len(columns) == len(ids):
        return dict(zip(ids, numbers, strict=True))
    return {}


def _free(memory: Mapping[str, int]) -> int | None:
    """What can be had without swapping: free pages, and caches that need no writing first."""
    if "MemFree" not in memory:
        return None
    busy = sum(memory.get(key, 0) for key in ("Shmem", "Dirty", "Writeback", "Mlocked"))
    files = max(0, memory.get("FilePages", 0) - busy)
    # Half of the slabs: they are often pinned by a single object in use.
    return memory["MemFree"] + files + memory.get("SReclaimable", 0) // 2


def _offline_memory(tree: Tree, id: int) -> int:
    blocks = tree.numbered(f"{NODE}/node{id}", "memory")[:_MAX_BLOCKS]
    offline = sum(tree.text(f"{_MEMORY}/memory{b}/state") == "offline" for b in blocks)
    size = tree.text(f"{_MEMORY}/block_size_bytes") if offline else None
    return offline * int(size, 16) if size and _HEX.fullmatch(size) else 0


def _side_cache(tree: Tree, id: int) -> int | None:
    folder = f"{NODE}/node{id}/memory_side_cache"
    levels = tree.numbered(folder, "index")
    sizes = [tree.size(f"{folder}/index{level}/size") for level in levels]
    return max((size for size in sizes if size), default=None)


def _accesses(tree: Tree, id: int) -> tuple[Access, ...]:
    folders = {level: f"{NODE}/node{id}/access{level}/initiators" for level in (0, 1)}
    return tuple(
        _access(tree, level, folder) for level, folder in folders.items() if tree.has(folder)
    )


def _access(tree: Tree, level: int, folder: str) -> Access:
    def rate(name: str, unit: float) -> float | None:
        number = tree.size(f"{folder}/{name}")
        return None if number is None else number * unit

    return Access(
        level=level,
        initiators=tree.numbered(folder, "node"),
        read_bandwidth=rate("read_bandwidth", _BANDWIDTH),
        write_bandwidth=rate("write_bandwidth", _BANDWIDTH),
        read_latency=rate("read_latency", _LATENCY),
        write_latency=rate("write_latency", _LATENCY),
    )


def _huge_pools(tree: Tree, id: int) -> tuple[HugePool, ...]:
    folder = f"{NODE}/node{id}/hugepages"
    names = [name for name in tree.names(folder) if name.startswith("hugepages-")]
    sizes = [whole(name.removeprefix("hugepages-").removesuffix("kB")) for name in names]
    pools = (
        HugePool(
            page_bytes=size * 1024,
            total=tree.size(f"{folder}/{name}/nr_hugepages") or 0,
            free=tree.size(f"{folder}/{name}/free_hugepages") or 0,
        )
        for size, name in zip(sizes, names, strict=True)
        if size is not None and 0 < size <= _LARGEST_PAGE
    )
    return tuple(sorted(pools, key=lambda pool: pool.page_bytes))


def _tiers(tree: Tree) -> dict[int, int]:
    folder = "sys/devices/virtual/memory_tiering"
    return {
        node: tier
        for tier in tree.numbered(folder, "memory_tier")
        for node in tree.ids(f"{folder}/memory_tier{tier}/nodelist") or ()
    }


def _backings(tree: Tree) -> dict[int, str]:
    """Give what the memory of a node is, where a driver tells: a dax device, or a GPU."""
    found: dict[int, str] = {}
    for device in tree.names("sys/bus/dax/drivers/kmem"):
        path = f"sys/bus/dax/devices/{device}"
        node = tree.number(f"{path}/target_node") if device.startswith("dax") else None
        target = tree.link(path) or ""
        if node is not None:
            found.update((node, kind) for part, kind in _BACKINGS.items() if part in target)
    return found | dict.fromkeys(_gpu_nodes(tree), "gpu")


def _gpu_nodes(tree: Tree) -> list[int]:
    folder = "proc/driver/nvidia/gpus"
    states = (tree.fields(f"{folder}/{gpu}/numa_status") for gpu in tree.names(folder))
    nodes = (whole(state.get("Node")) for state in states)
    return [node for node in nodes if node is not None]
