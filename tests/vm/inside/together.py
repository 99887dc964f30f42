"""All nodes at work at once in a guest: each thread on the pages of its pairing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from numamicro.matrix import State
from numamicro.topology.notes import format_ids
from tests.vm.inside.scene import BUFFER, MACHINE, ROWS, SIZE, ids, matrix

if TYPE_CHECKING:
    from pathlib import Path

HUGE_PAGE = 2**21


def test_all_nodes_read_at_once_what_their_pairing_says(tmp_path: Path) -> None:
    ran = matrix(tmp_path, *SIZE, only="together")
    assert ran.done.status == 0, ran.failures
    pairings = Counter(str(cell.case["pairing"]) for cell in ran.cells)
    assert pairings == {"own": 2, "opposite": 2, "interleave": 2}
    for cell in ran.cells:
        assert cell.state is State.OK, cell.reason
        assert ids(cell.case.route.source) == ids(cell.case.route.target) == ROWS
        assert cell.share == 1.0
        (run,) = cell.runs
        used = {int(cpu) for cpu in str(run.outcome["cpus"]).split(",")}
        assert used == {cpu.id for cpu in MACHINE.cpus if cpu.node in ROWS}
    spread = f"interleave:{format_ids(ROWS)}"
    assert {each.policy for each in ran.door} == {spread} | {f"bind:{row}" for row in ROWS}
    for each in ran.door:
        assert each.asked == each.seen
        if each.policy == spread:
            assert max(each.asked.values()) - min(each.asked.values()) <= HUGE_PAGE
            assert set(each.asked) == set(ROWS)
        else:
            assert f"bind:{min(each.asked)}" == each.policy
            assert len(each.asked) == 1
        assert sum(each.asked.values()) == BUFFER
