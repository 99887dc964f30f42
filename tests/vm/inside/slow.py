"""Latency in a guest whose memory is as slow as its distance: the order must come out."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from numamicro.case import node
from tests.vm.inside.scene import MACHINE, ROUTES, SIZE, TOPOLOGY, matrix

CLASSES = ("local", "same-package", "other-package", "memory-only")
CLEARLY = 1.2
"""Distances that differ by less than this factor may come out either way."""


@pytest.fixture(scope="module")
def latencies(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], float]:
    """Give the seconds of a load by row and column."""
    ran = matrix(tmp_path_factory.mktemp("slow"), *SIZE, only="latency")
    assert ran.done.status == 0, ran.failures
    best = {
        (row, column): ran.result.best("latency", "load", node(row), node(column), pages="huge")
        for row, column in ROUTES
    }
    found = {}
    for route, cell in best.items():
        assert cell is not None, route
        summary = cell.summary()
        assert summary is not None, route
        found[route] = summary.center
    print({route: round(seconds * 1e9) for route, seconds in sorted(found.items())})
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
