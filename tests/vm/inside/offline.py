"""A node's CPUs go offline in a guest in the middle of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.matrix import State
from tests.vm.inside.scene import ROUTES, SIZE, matrix, route

if TYPE_CHECKING:
    from pathlib import Path


def test_cpus_that_go_offline_cost_their_own_cells_alone(tmp_path: Path) -> None:
    ran = matrix(tmp_path, *SIZE, "--threads", "1", fault="offline")
    assert ran.done.status == 3, ran.failures
    assert {route(cell) for cell in ran.cells} == ROUTES
    ended = {(route(cell)[0], cell.state) for cell in ran.cells}
    codes = {cell.reason.code for cell in ran.cells if cell.reason}
    assert ended == {(0, State.OK), (1, State.VOID), (1, State.ERROR)}, codes
    assert codes == {"displaced", "cpus-gone"}
