"""Every figure of a GPU is the simulated machine's closed form: orientation, pairing and units hold."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import pytest

from numamicro.matrix import State
from numamicro.probes.host_copy import KINDS, SMALL_BYTES
from numamicro.probes.peer import STEPS
from numamicro.units import is_rate
from tests.gpu.cells import BUFFER_BYTES
from tests.gpu.conftest import cells, each_of
from tests.standin.machines import LAUNCH, MACHINES, PAGEABLE, Machine

if TYPE_CHECKING:
    from numamicro.case import AnyPlace, Route
    from numamicro.matrix import Measurement

WITHIN = 0.01
ONE, APART = "one", "two-without-p2p"
PCIE, SWITCH, SWITCHES = "four-on-two-sockets", "eight-nvswitch", "eight-behind-switches"

# What is measured on each machine, in one process: to start one takes longer than to measure.
HOST = ("host-copy", "default", "h2d", "d2h", "both.*gpu0")
KINDS_OF_MEMORY = ("host-copy", "thorough", "gpu1")
SIZES = ("host-copy-size", "thorough", "node1>gpu0.*transfer=(4096|65536|1048576)$")
SMALL = ("host-latency", "default", "gpu0")
TOGETHER = ("host-copy-together", "thorough", "h2d.*>gpu0.gpu1@")
BESIDE = ("host-copy-beside", "default", "h2d")
LAUNCHES = ("launch", "default", "gpu0")
LOADS = ("peer-latency", "default", "load")
OWN = ("gpu-memory", "default", "gpu[03]")
PEERS = {
    PCIE: ("peer-copy", "default", "/copy", "/(read|write) gpu[01]>"),
    SWITCH: ("peer-copy", "default", "/copy gpu[07]>"),
    SWITCHES: ("peer-copy", "default", "/copy gpu[03]>", "/(read|write) gpu0>gpu[15]"),
}
SUMS = (
    *("all-reduce", "thorough"),
    "gpu[01]>(node.>)?gpu[12]@.*message=16384,.*timing=kernel",
)
QUERIES = {
    ONE: (HOST, BESIDE),
    APART: (HOST, KINDS_OF_MEMORY, SIZES, SMALL, TOGETHER, LAUNCHES),
    PCIE: (HOST, PEERS[PCIE], LOADS, SUMS, OWN),
    SWITCH: (HOST, PEERS[SWITCH], SUMS),
    SWITCHES: (HOST, PEERS[SWITCHES], TOGETHER),
    "superchip": (HOST,),
    "pascal-pair": (HOST,),
}


@cache
def figures(name: str) -> dict[tuple[str, ...], list[Measurement]]:
    """Give what each query of a machine found."""
    queries = QUERIES[name]
    return dict(zip(queries, each_of(MACHINES[name], *queries), strict=True))


def index(place: AnyPlace) -> int:
    number = getattr(place, "id", None)
    assert isinstance(number, int)
    return number


def center(cell: Measurement) -> float:
    """Give the figure of a cell, which is ok."""
    assert cell.state is State.OK, (cell.case.key, cell.reason)
    summary = cell.summary()
    assert summary is not None
    return summary.center


def assert_takes(cell: Measurement, expected: float) -> None:
    """Hold what one repetition took against what it must take, in seconds."""
    found = center(cell)
    if is_rate(cell.unit):
        sample = cell.runs[0].samples[0]
        found = sample.amount / sample.repetitions / found
    assert abs(found / expected - 1) < WITHIN, (cell.case.key, found, expected)


def host_seconds(
    machine: Machine, operation: str, route: Route, size: int, share: float = 1.0
) -> float:
    """Give what a copy between a node and a GPU must take."""
    source, target = index(route.source), index(route.target)
    if operation == "d2h":
        return machine.seconds(machine.to_node(source, target), size, share)
    down = machine.seconds(machine.from_node(target, source), size, share)
    up = machine.seconds(machine.to_node(target, source), size, share)
    return max(down, up) if operation == "both" else down


@pytest.mark.parametrize("name", QUERIES)
def test_copies_between_each_node_and_each_gpu(name: str) -> None:
    machine = MACHINES[name]
    found = figures(name)[HOST]
    assert len(found) == (2 * len(machine.gpus) + 1) * len(machine.packages)
    for cell in found:
        expected = host_seconds(machine, cell.case.operation, cell.case.route, BUFFER_BYTES)
        assert_takes(cell, expected)
        assert cell.share == 1.0


def test_every_kind_of_host_memory() -> None:
    machine = MACHINES[APART]
    found = figures(APART)[KINDS_OF_MEMORY]
    assert {cell.case["memory"] for cell in found} == {*KINDS}
    for cell in found:
        share = PAGEABLE if cell.case["memory"] == "pageable" else 1.0
        operation, route = cell.case.operation, cell.case.route
        assert_takes(cell, host_seconds(machine, operation, route, BUFFER_BYTES, share))
        assert cell.share == 1.0


def test_copies_of_every_size_and_the_smallest() -> None:
    machine = MACHINES[APART]
    found = figures(APART)[SIZES]
    assert len(found) == 3
    for cell in found:
        size = cell.case.number("transfer")
        assert_takes(cell, host_seconds(machine, "h2d", cell.case.route, size))
    for cell in figures(APART)[SMALL]:
        operation, route = cell.case.operation, cell.case.route
        assert_takes(cell, host_seconds(machine, operation, route, SMALL_BYTES))


def test_gpus_behind_one_switch_share_it() -> None:
    machine = MACHINES[SWITCHES]
    (pair,) = figures(SWITCHES)[TOGETHER]
    way = machine.from_node(1, 0)
    share = machine.resources["switch0.down"] / 2 / machine.rate(way)
    assert_takes(pair, machine.seconds(way, BUFFER_BYTES, share))
    apart = MACHINES[APART]
    (both,) = figures(APART)[TOGETHER]
    ways = [apart.seconds(apart.from_node(gpu, gpu), BUFFER_BYTES) for gpu in (0, 1)]
    assert_takes(both, max(ways))


def test_the_cpus_read_beside_a_copy() -> None:
    machine = MACHINES[ONE]
    found = {cell.case["value"]: cell for cell in figures(ONE)[BESIDE]}
    route = found["gpu"].case.route
    assert_takes(found["gpu"], host_seconds(machine, "h2d", route, BUFFER_BYTES))
    assert center(found["cpu"]) > 0


def kernel_seconds(cell: Measurement, latency: float, rate: float) -> float:
    """Give what one of the passes of a kernel must take: they overlap but for the first access."""
    return BUFFER_BYTES / rate + (LAUNCH + latency) / cell.runs[0].samples[0].repetitions


@pytest.mark.parametrize("name", PEERS)
def test_copies_between_gpus(name: str) -> None:
    machine = MACHINES[name]
    found = figures(name)[PEERS[name]]
    assert len(found) >= 2 * (len(machine.gpus) - 1)
    for cell in found:
        source, target = index(cell.case.route.source), index(cell.case.route.target)
        way = (
            machine.read_peer(target, source)
            if cell.case.operation == "read"
            else machine.write_peer(source, target)
        )
        if cell.case["path"] == "detour":
            assert way is None
            assert_takes(cell, machine.staged_copy_seconds(source, target, BUFFER_BYTES))
            continue
        assert way is not None
        if cell.case.operation == "copy":
            assert_takes(cell, machine.seconds(way, BUFFER_BYTES))
        else:
            assert_takes(cell, kernel_seconds(cell, way.latency, machine.rate(way)))


def test_loads_from_peer_memory() -> None:
    machine = MACHINES[PCIE]
    for cell in figures(PCIE)[LOADS]:
        way = machine.read_peer(index(cell.case.route.source), index(cell.case.route.target))
        assert way is not None
        assert_takes(cell, way.latency + LAUNCH / STEPS)


@pytest.mark.parametrize("name", [PCIE, SWITCH])
def test_all_reduce_of_pairs(name: str) -> None:
    machine = MACHINES[name]
    found = figures(name)[SUMS]
    assert {cell.case.operation for cell in found} == {"peer", "staged"}
    for cell in found:
        a, b = index(cell.case.route.source), index(cell.case.route.target)
        via = cell.case.route.via
        variant = str(cell.case.get("variant", "staged"))
        size = cell.case.number("message")
        expected = machine.allreduce_seconds(variant, (a, b), size, index(via) if via else None)
        assert_takes(cell, expected)


def test_a_gpus_own_memory() -> None:
    machine = MACHINES[PCIE]
    for cell in figures(PCIE)[OWN]:
        gpu = index(cell.case.route.source)
        assert_takes(cell, kernel_seconds(cell, 0.5e-6, machine.resources[f"gpu{gpu}.memory"]))


def test_launches_are_timed_by_the_host() -> None:
    found = figures(APART)[LAUNCHES]
    assert {cell.case.operation for cell in found} == {"queue", "round-trip", "event"}
    for cell in found:
        assert 0 < center(cell) < 1
        assert cell.runs[0].outcome["clock"] == "CLOCK_MONOTONIC_RAW"


# --- Slips that would go unseen without a model ----------------------------------------------------


def wrong_figures(found: list[Measurement], machine: Machine) -> int:
    """Count the copies that do not take what they must on the machine."""
    wrong = 0
    for cell in found:
        route = cell.case.route
        way = machine.write_peer(index(route.source), index(route.target))
        expected = (
            machine.seconds(way, BUFFER_BYTES)
            if cell.case.probe == "peer-copy" and way
            else host_seconds(machine, "h2d", route, BUFFER_BYTES)
        )
        try:
            assert_takes(cell, expected)
        except AssertionError:
            wrong += 1
    return wrong


@pytest.mark.parametrize(
    ("plant", "probe", "pattern"),
    [
        ("plant_node", "host-copy", "h2d.*gpu3"),
        ("plant_pair", "peer-copy", "/copy.*path=direct"),
        ("plant_gib", "host-copy", "h2d.*gpu3"),
        ("plant_sync", "host-copy", "h2d.*gpu3"),
    ],
)
def test_a_slip_is_seen(plant: str, probe: str, pattern: str) -> None:
    """The stand-in does as a product with that slip would: then figures are not the model's."""
    machine = MACHINES[PCIE]
    sound = [
        cell
        for each in (HOST, PEERS[PCIE])
        for cell in figures(PCIE)[each]
        if cell.case.probe == probe and re.search(pattern, cell.case.key)
    ]
    assert sound
    assert not wrong_figures(sound, machine)
    assert wrong_figures(cells(machine.having(plant), probe, pattern), machine)
