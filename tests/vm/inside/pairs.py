"""Threads that meet, in a guest: a line between cores, a barrier, a chase beside streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.matrix import State
from tests.vm.inside.scene import ROUTES, SIZE, matrix, node_of, route

if TYPE_CHECKING:
    from pathlib import Path


def cpus_of(outcome: object) -> list[int]:
    return [int(cpu) for cpu in str(outcome).split(",")]


def test_a_line_goes_between_cores_of_the_nodes_that_were_named(tmp_path: Path) -> None:
    ran = matrix(tmp_path, only="core-to-core")
    # Two emulated CPUs that wait for each other need two real ones at once: on a machine that does
    # much else some may not get them in time.
    ended = [cell for cell in ran.cells if cell.state is not State.HANG]
    assert ended, ran.done
    between = set()
    for cell in ended:
        assert cell.state is State.OK, cell.reason
        assert cell.share == 1.0
        (run,) = cell.runs
        first, second = (node_of(cpu) for cpu in cpus_of(run.outcome["cpus"]))
        assert set(run.placement.pages if run.placement else ()) == {first}
        between.add((first, second))
    assert len(ran.cells) == 3
    assert between <= {(0, 0), (0, 1), (1, 1)}


def test_a_team_meets(tmp_path: Path) -> None:
    ran = matrix(tmp_path, nodes=(0,), only="barrier")
    ((team, state),) = {(cell.case["team"], cell.state) for cell in ran.cells}
    assert team == 2
    assert state in (State.OK, State.HANG)  # as above


def test_latency_under_load_is_of_the_target(tmp_path: Path) -> None:
    ran = matrix(tmp_path, *SIZE, only="loaded")
    assert ran.done.status == 0, ran.failures
    assert {route(cell) for cell in ran.cells} < ROUTES  # one of each locality class
    assert {row == column for row, column in map(route, ran.cells)} == {True, False}
    for cell in ran.cells:
        assert cell.state is State.OK, cell.reason
        assert cell.share == 1.0
        (run,) = cell.runs
        assert {node_of(cpu) for cpu in cpus_of(run.outcome["cpus"])} == {route(cell)[0]}
        assert set(run.placement.pages if run.placement else ()) == {route(cell)[1]}
    assert all(each.asked == each.seen for each in ran.door)
