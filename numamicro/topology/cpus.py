"""The CPUs: which there are, which run, and where each sits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.topology.machine import Cpu
from numamicro.topology.sysfs import parse_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numamicro.topology.sysfs import Tree

CPU = "sys/devices/system/cpu"

# Cores this much slower than the fastest are of another kind; turbo bins differ by less.
_SLOWER = 0.85


def cpu_ids(tree: Tree) -> tuple[tuple[int, ...], frozenset[int]]:
    """Give the ids of all CPUs that are there, and of those that are online."""
    folders = tree.numbered(CPU, "cpu")
    listed = tree.ids(f"{CPU}/online")
    online = listed or tuple(id for id in folders if _runs(tree, id))
    if not online and tree.live:
        # Without /sys the scheduler still tells which CPUs this process may use.
        online = tuple(os.sched_getaffinity(0))
    return tuple(sorted({*folders, *online})), frozenset(online)


def allowed_cpus(tree: Tree, online: frozenset[int]) -> frozenset[int]:
    """Give the CPUs that this process may use; of a copied tree, those its own process might."""
    if tree.live:
        return frozenset(os.sched_getaffinity(0))
    listed = status_ids(tree, "Cpus_allowed_list")
    return online if listed is None else frozenset(listed)


def status_ids(tree: Tree, key: str) -> tuple[int, ...] | None:
    """Give a list of ids that /proc/self/status states; None when it does not."""
    try:
        return parse_list(tree.fields("proc/self/status")[key])
    except (KeyError, NumamicroError):
        return None


def read_cpus(
    tree: Tree,
    ids: Sequence[int],
    online: frozenset[int],
    allowed: frozenset[int],
    node_of: Mapping[int, int],
    llc_of: Mapping[int, int],
) -> tuple[Cpu, ...]:
    """Give every CPU with its place in the machine."""
    kind_of = _kinds(tree, sorted(online))
    return tuple(
        _cpu(tree, id, online, node_of.get(id), llc_of.get(id), kind_of.get(id), id in allowed)
        for id in ids
    )


def _cpu(
    tree: Tree,
    id: int,
    online: frozenset[int],
    node: int | None,
    llc: int | None,
    kind: str | None,
    allowed: bool,
) -> Cpu:
    if id not in online:
        return Cpu(id, node=node, online=False, allowed=allowed)
    topology = f"{CPU}/cpu{id}/topology"
    listed = tree.ids(f"{topology}/thread_siblings_list", f"{topology}/thread_siblings") or ()
    siblings = sorted({id, *listed} & online)
    return Cpu(
        id,
        node=node,
        package=_index(tree.number(f"{topology}/physical_package_id")),
        core=siblings[0],
        llc=llc,
        allowed=allowed,
        die=_index(tree.number(f"{topology}/die_id")),
        smt=siblings.index(id),
        kind=kind,
    )


def _runs(tree: Tree, id: int) -> bool:
    # cpu0 often has no switch; the topology folder of an offline CPU vanishes on newer kernels.
    switch = tree.number(f"{CPU}/cpu{id}/online")
    return switch == 1 if switch is not None else tree.has(f"{CPU}/cpu{id}/topology")


def _index(number: int | None) -> int | None:
    """Kernels write -1 for "unknown"."""
    return None if number is None or number < 0 else number


def _kinds(tree: Tree, online: Sequence[int]) -> dict[int, str]:
    """Give performance or efficiency for every CPU of a hybrid machine; else nothing."""
    sources: tuple[Callable[[], dict[int, str]], ...] = (
        lambda: _kinds_by_pmu(tree, online),
        lambda: _kinds_by_speed(tree, online, "cpu_capacity"),
        lambda: _kinds_by_speed(tree, online, "cpufreq/cpuinfo_max_freq"),
    )
    return next((kinds for kinds in (source() for source in sources) if kinds), {})


def _kinds_by_pmu(tree: Tree, online: Sequence[int]) -> dict[int, str]:
    """Intel's hybrid chips have one performance-counter device for each kind of core."""
    pmus = {"cpu_core": "performance", "cpu_atom": "efficiency", "cpu_lowpower": "efficiency"}
    found = {
        id: kind
        for pmu, kind in pmus.items()
        for id in tree.ids(f"sys/devices/{pmu}/cpus") or ()
        if id in online
    }
    return found if len(set(found.values())) > 1 else {}


def _kinds_by_speed(tree: Tree, online: Sequence[int], file: str) -> dict[int, str]:
    speeds = {id: tree.number(f"{CPU}/cpu{id}/{file}") for id in online}
    known = {id: speed for id, speed in speeds.items() if speed is not None and speed > 0}
    edge = _SLOWER * max(known.values(), default=0)
    if all(speed >= edge for speed in known.values()):
        return {}
    return {id: "performance" if s >= edge else "efficiency" for id, s in known.items()}
