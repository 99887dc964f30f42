"""The whole product in a guest: every cell there can be and no other, each on its node."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from numamicro.matrix import State
from tests.vm.inside.scene import (
    BUFFER,
    COLUMNS,
    MACHINE,
    NODES,
    PAGE,
    ROUTES,
    ROWS,
    SIZE,
    TOPOLOGY,
    Ran,
    counted,
    home,
    matrix,
    numamicro,
    route,
)
from tests.vm.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Mapping

CODES = {code for topology in TOPOLOGIES for code in topology.notes}


@dataclass(frozen=True)
class Whole(Ran):
    """With what the kernel counted meanwhile: pages that were not had on the node asked for."""

    missed: Mapping[int, int]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    def missed() -> dict[int, int]:
        return {id: counted(f"{NODES}/node{id}/numastat", "numa_miss") for id in COLUMNS}

    before = missed()
    ran = matrix(tmp_path_factory.mktemp("whole"), *SIZE, only=TOPOLOGY.only)
    assert ran.done.status == 0, ran.failures
    after = missed()
    return Whole(ran.done, ran.file, ran.door, {id: after[id] - before[id] for id in COLUMNS})


def test_topology_names_the_nodes_and_their_distances() -> None:
    assert tuple(node.id for node in MACHINE.initiators) == TOPOLOGY.rows
    assert tuple(node.id for node in MACHINE.targets) == TOPOLOGY.columns
    for node in MACHINE.nodes if TOPOLOGY.distances else ():
        stated = {other: TOPOLOGY.distances[node.id][other] for other in node.distances}
        assert node.distances == stated
        assert set(stated) == {other.id for other in MACHINE.nodes}
    told = {note.code for note in MACHINE.notes} & CODES
    assert told == set(TOPOLOGY.notes)
    drawn = numamicro("topology")
    assert drawn.status == 0, drawn.err
    for id in {*TOPOLOGY.rows, *TOPOLOGY.columns}:
        assert re.search(rf"─ node{id} ", drawn.out), drawn.out


def test_matrix_has_every_cell_there_can_be_and_no_other(whole: Whole) -> None:
    for probe in {cell.case.probe for cell in whole.cells}:
        assert {route(cell) for cell in whole.cells if cell.case.probe == probe} == ROUTES
    states = Counter(cell.state for cell in whole.cells)
    assert set(states) == {State.OK}, states


def test_every_cell_is_on_its_target(whole: Whole) -> None:
    for cell in whole.cells:
        for run in cell.runs:
            assert run.placement is not None
            assert run.placement.by == "move_pages"
            assert run.placement.share == 1.0, cell.case.key
            assert set(run.placement.pages) == {route(cell)[1]}


def test_numa_maps_tells_the_same_of_every_cell(whole: Whole) -> None:
    for each in whole.door:
        assert each.asked == each.seen
    # Before and after the timing.
    assert len(whole.door) >= 2 * len(whole.cells)
    bound = {(each.row, each.policy, *each.asked) for each in whole.door}
    assert bound == {(home(row), f"bind:{column}", column) for row, column in ROUTES}


def test_no_allocation_missed_its_node(whole: Whole) -> None:
    assert all(missed * PAGE < 0.01 * BUFFER for missed in whole.missed.values()), whole.missed


def test_tables_have_exactly_the_rows_and_columns(whole: Whole) -> None:
    blocks = [block.splitlines() for block in whole.done.out.split("\n\n")]
    tables = [block[1:] for block in blocks if "from the row's CPUs" in block[0]]
    assert tables
    for header, *rows in tables:
        assert header.split() == [f"node{id}" for id in COLUMNS]
        assert [row.split()[0] for row in rows] == [f"node{id}" for id in ROWS]


def test_show_prints_it_again(whole: Whole) -> None:
    shown = numamicro("show", str(whole.file))
    assert shown.status == 0
    lines, again = whole.done.out.splitlines(), shown.out.splitlines()
    # Of findings beyond the first few each tells how to see the rest: here, or of the file.
    told = [old for old, new in zip(lines, again, strict=False) if old != new]
    assert all(line.startswith("… and ") for line in told), told
    (token,) = filter(None, lines[len(again) :])
    assert "token" in token
