"""AutoNUMA in a guest: it moves what is unbound to its readers, and leaves alone what is bound."""

from __future__ import annotations

import time
from pathlib import Path

from numamicro import _cpu
from numamicro.matrix import State
from tests.vm.inside.policies import ARENA, team_of, told_by_numa_maps, touched
from tests.vm.inside.scene import BUFFER, ROUTES, SIZE, matrix, route

BALANCING = Path("/sys/kernel/debug/sched/numa_balancing")


def read_until_moved(row: int, arena: _cpu.Arena, seconds: float) -> dict[int, int]:
    """Read by a node's CPU until there are pages on its node, and give where the pages are.

    Asked of numa_maps: move_pages does not name a page while AutoNUMA waits to see it touched.
    """
    loop = next(name for name, *_, written, _ in _cpu.kernels() if written == 0)
    end = time.monotonic() + seconds
    with team_of(row) as team:
        while row not in told_by_numa_maps(arena) and time.monotonic() < end:
            _cpu.read(team, arena, ARENA, loop, 20)
    return told_by_numa_maps(arena)


def test_unbound_memory_moves_to_its_reader_and_bound_memory_stays() -> None:
    assert Path("/proc/sys/kernel/numa_balancing").read_text() == "1\n"
    for name in ("scan_delay_ms", "scan_period_min_ms", "scan_period_max_ms"):
        (BALANCING / name).write_text("10")
    start = time.monotonic()
    with touched(0) as unbound:
        assert told_by_numa_maps(unbound) == {0: ARENA}
        assert read_until_moved(1, unbound, 60.0).get(1, 0) > 0
    moved_after = time.monotonic() - start
    with touched(0, policy="bind", nodes=[0]) as bound:
        assert read_until_moved(1, bound, 2 * moved_after) == {0: ARENA}


def test_where_binding_is_forbidden_no_moved_page_is_published(tmp_path: Path) -> None:
    ran = matrix(tmp_path, *SIZE, fault="forbidden")
    assert {route(cell) for cell in ran.cells} == ROUTES
    assert "AutoNUMA is on" in ran.done.out
    for cell in ran.cells:
        if cell.state is State.OK:
            assert cell.share is not None
            assert cell.share >= 0.99
        else:
            assert cell.reason is not None
            assert (cell.state, cell.reason.code) == (State.VOID, "misplaced")
    # What is local is where its first writer and its readers are: nothing moves it.
    local = [cell for cell in ran.cells if len(set(route(cell))) == 1]
    assert {cell.state for cell in local} == {State.OK}
    assert {each.policy for each in ran.door} == {"default"}
    assert {sum(each.seen.values()) for each in ran.door} == {BUFFER}
