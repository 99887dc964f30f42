"""The native side in a guest: every policy it offers, each asked for a second way."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from numamicro import _cpu
from numamicro.case import Place
from numamicro.topology import discover
from tests.vm.door.numa_maps import mapping_of, read_mappings
from tests.vm.inside.scene import (
    COLUMNS,
    MACHINE,
    MIB,
    NODES,
    PAGE,
    ROWS,
    SHARE,
    TOPOLOGY,
    counted,
    home,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

ARENA = 8 * MIB


@contextmanager
def touched(initiator: int, **policy: Any) -> Iterator[_cpu.Arena]:
    """Give small-paged memory, written by the first CPU of a node."""
    with _cpu.Arena(ARENA, huge=False, **policy) as arena, team_of(initiator) as team:
        _cpu.fill(team, arena, ARENA, 1)
        yield arena


def team_of(row: int) -> _cpu.Team:
    return _cpu.Team(MACHINE.usable_cpus(Place("node", row))[:1])


def census(arena: _cpu.Arena) -> dict[int, int]:
    return {node: pages * PAGE for node, pages in arena.census(0, ARENA, PAGE).items()}


def told_by_numa_maps(arena: _cpu.Arena) -> dict[int, int]:
    return mapping_of(arena.address, read_mappings()).held


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS)
def test_bound_memory_is_on_its_node_by_three_accounts(row: int, column: int) -> None:
    before = counted(f"{NODES}/node{column}/numastat", "numa_hit")
    with touched(row, policy="bind", nodes=[column]) as arena:
        allocated = counted(f"{NODES}/node{column}/numastat", "numa_hit") - before
        assert census(arena) == {column: ARENA}
        assert told_by_numa_maps(arena) == {column: ARENA}
        assert allocated >= ARENA // PAGE


def test_interleaved_memory_is_spread_evenly() -> None:
    with touched(TOPOLOGY.rows[0], policy="interleave", nodes=TOPOLOGY.columns) as arena:
        even = ARENA / len(TOPOLOGY.columns)
        assert set(census(arena)) == set(TOPOLOGY.columns)
        assert all(abs(held - even) <= PAGE for held in census(arena).values())
        assert told_by_numa_maps(arena) == census(arena)


@pytest.mark.parametrize("row", TOPOLOGY.rows)
def test_first_touch_is_local_or_on_the_nearest(row: int) -> None:
    here = home(row)
    distances = MACHINE.node(here).distances
    nearest = min(TOPOLOGY.columns, key=lambda column: distances[column])
    with touched(row) as arena:
        assert census(arena) == {here if here in TOPOLOGY.columns else nearest: ARENA}
        assert told_by_numa_maps(arena) == census(arena)


def test_reserved_huge_pages_are_seen_and_left_alone() -> None:
    for node in discover().nodes:
        pages = TOPOLOGY.pools.get(node.id, 0)
        pools = {pool.page_bytes: (pool.total, pool.free) for pool in node.huge_pools}
        assert pools.get(2 * MIB, (0, 0)) == (pages, pages)


def test_nodes_that_hold_nothing_cannot_be_bound_to() -> None:
    for node in set(range(max(TOPOLOGY.columns) + 2)) - set(TOPOLOGY.columns):
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            _cpu.Arena(ARENA, huge=False, policy="bind", nodes=[node])


def test_every_loop_of_this_cpu_reads_what_was_written() -> None:
    loops = _cpu.kernels()
    with touched(TOPOLOGY.rows[0]) as arena, team_of(TOPOLOGY.rows[0]) as team:
        for name, *_, written, _ in loops:
            if written == 0:
                _, _, total, _ = _cpu.read(team, arena, ARENA, name, 1)
                assert total == _cpu.expected(team, ARENA, name, 1, 1), name
    (SHARE / "loops").write_text("\n".join(name for name, *_ in loops))
