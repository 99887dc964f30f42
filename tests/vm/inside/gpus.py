"""GPUs of a stand-in driver beside nodes of a kernel: a copy has the rate of the node that the kernel
gave its pages, and of no other."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from numamicro.case import Place, node
from numamicro.matrix import Measurement, State
from numamicro.wire import measurement_from_json
from tests.gpu.cells import BUFFER_BYTES
from tests.standin.machines import MACHINES
from tests.standin.play import staged
from tests.vm.inside.scene import COLUMNS, DEADLINE

ROOT = Path(__file__).parents[3]
SIMULATED = MACHINES["two-without-p2p"]
WITHIN = 0.01

Route = tuple[str, int, int]


@pytest.fixture(scope="module")
def cells() -> dict[Route, Measurement]:
    """Give each copy between a node and a GPU, in the kernel's own account of nodes."""
    with staged(SIMULATED, stage=False) as environment:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tests.gpu.run", str(DEADLINE), "h2d|d2h", "host-copy"],
            env=environment | {"PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    found = [measurement_from_json(cell, "cells") for cell in json.loads(done.stdout)]
    return {route_of(cell): cell for cell in found}


def route_of(cell: Measurement) -> Route:
    """Give direction, node and GPU of a copy."""
    route, operation = cell.case.route, cell.case.operation
    host, gpu = (route.target, route.source) if operation == "d2h" else (route.source, route.target)
    assert isinstance(host, Place)
    assert isinstance(gpu, Place)
    return operation, int(host.id), int(gpu.id)


def seconds(operation: str, host: int, gpu: int) -> float:
    """Give what a copy must take whose pages are on a node."""
    way = SIMULATED.to_node if operation == "d2h" else SIMULATED.from_node
    return SIMULATED.seconds(way(gpu, host), BUFFER_BYTES)


def test_every_node_meets_every_gpu(cells: dict[Route, Measurement]) -> None:
    gpus = range(len(SIMULATED.gpus))
    assert {*cells} == {(way, at, gpu) for way in ("h2d", "d2h") for at in COLUMNS for gpu in gpus}
    assert {cell.state for cell in cells.values()} == {State.OK}, [
        cell.reason for cell in cells.values()
    ]


def test_each_copy_has_its_own_nodes_rate(cells: dict[Route, Measurement]) -> None:
    for (operation, host, gpu), cell in cells.items():
        summary = cell.summary()
        assert summary is not None
        found = BUFFER_BYTES / summary.center
        due = {at: seconds(operation, at, gpu) for at in COLUMNS}
        assert abs(found / due[host] - 1) < WITHIN, (cell.case.key, found, due)
        others = [time for at, time in due.items() if at != host]
        assert all(abs(found / time - 1) > WITHIN for time in others), "the rates tell them apart"


def test_the_kernel_says_that_the_pages_are_there(cells: dict[Route, Measurement]) -> None:
    for (_, host, _), cell in cells.items():
        (run,) = cell.runs
        assert run.placement is not None
        assert (run.placement.by, run.placement.share) == ("move_pages", 1.0), cell.case.key
        assert {*run.placement.pages} == {host}, (cell.case.key, node(host))
