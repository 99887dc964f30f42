"""Faults planted beneath the product in a guest: found, in exactly the cells they spoil."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from numamicro.matrix import State
from tests.vm.inside.scene import MACHINE, ROUTES, SIZE, TOPOLOGY, matrix, route


def fate(fault: str, row: int, column: int) -> State:
    """Say how a cell must end when `fault` is planted: the kernel's truth, and no figure."""
    online = sorted(node.id for node in MACHINE.nodes)
    given = column
    match fault:
        case "unbound":
            return State.OK if row == column else State.VOID
        case "wrong-node":
            given = online[(online.index(column) + 1) % len(online)]
        case "off-by-one":
            given = column + 1
        case "index":
            given = online.index(column)
        case "exhausted":
            return State.OK if column in TOPOLOGY.pools else State.ERROR
        case _:
            raise ValueError(fault)
    if given == column:
        return State.OK
    return State.VOID if given in TOPOLOGY.columns else State.ERROR


ENDS = (TOPOLOGY.columns[0], TOPOLOGY.columns[-1])


@pytest.mark.parametrize("fault", TOPOLOGY.faults)
def test_a_planted_fault_is_found_in_exactly_its_cells(fault: str, tmp_path: Path) -> None:
    # Where a node is filled up or in pieces, even local memory comes from another.
    for what in ("drop_caches", "compact_memory"):
        Path("/proc/sys/vm", what).write_text("1")
    ran = matrix(tmp_path, *SIZE, "--threads", "1", nodes=ENDS, fault=fault)
    assert ran.done.status == 3, ran.failures
    assert {route(cell) for cell in ran.cells} == set(product(ENDS, ENDS)) & ROUTES
    for cell in ran.cells:
        assert cell.state is fate(fault, *route(cell)), f"{cell.case.key}: {cell.reason}"
        assert cell.state is State.OK or cell.summary() is None
    if fault == "exhausted":
        texts = {cell.reason.text for cell in ran.cells if cell.reason}
        assert texts == {
            "the worker was ended by SIGBUS: the reserved huge pages had run out, or the memory is "
            "faulty"
        }
