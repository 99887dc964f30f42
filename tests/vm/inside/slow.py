"""Latency in a guest whose memory is as slow as its distance: the order must come out."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from numamicro.case import node
from tests.vm.inside.scene import MACHINE, ROUTES, SIZE, TOPOLOGY, matrix, route

CLASSES = ("local", "same-package", "other-package", "memory-only")
CLEARLY = 1.2
"""Distances that differ by less than this factor may come out either way."""


@pytest.fixture(scope="module")
def latencies(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], float]:
    """Give the seconds of a load by row and column: of the sample that other programs disturbed least."""
    ran = matrix(tmp_path_factory.mktemp("slow"), *SIZE, only="latency")
    assert ran.done.status == 0, ran.failures
    found = {
        route(cell): min(sample.value(cell.unit) for run in cell.runs for sample in run.samples)
        for cell in ran.cells
        if cell.case["pages"] == "huge"
    }
    assert set(found) == ROUTES
    print({pair: round(seconds * 1e9) for pair, seconds in sorted(found.items())})
    return found


def distance(row: int, column: int) -> int:
    return TOPOLOGY.distances[row][column]


def test_latencies_are_in_the_order_of_the_distances(
    latencies: dict[tuple[int, int], float],
) -> None:
    for near, far in product(ROUTES, ROUTES):
        if distance(*near) * CLEARLY <= distance(*far):
            assert latencies[near] < latencies[far], (near, far)


def test_there_and_back_are_told_apart(latencies: dict[tuple[int, int], float]) -> None:
    compared = 0
    for row, column in ROUTES:
        if (column, row) in ROUTES and distance(row, column) * CLEARLY <= distance(column, row):
            assert latencies[row, column] < latencies[column, row]
            compared += 1
    assert compared


def test_classes_are_told_apart(latencies: dict[tuple[int, int], float]) -> None:
    of_class = {
        name: [
            latencies[row, column]
            for row, column in ROUTES
            if MACHINE.locality(node(row), node(column)) == name
        ]
        for name in CLASSES
    }
    for nearer, farther in pairwise(CLASSES):
        assert max(of_class[nearer]) < min(of_class[farther]), (nearer, farther)
