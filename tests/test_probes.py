"""Every probe measures for real on this machine, and its data checks are alive."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from numamicro.case import PlaceSet, Route, node
from numamicro.journal import Journal
from numamicro.matrix import Measurement, State
from numamicro.plan import Priority, make_plan
from numamicro.probes import PROBES, Probe
from numamicro.probes.bandwidth import VARIANTS
from numamicro.probes.gpu import GpuProbe
from numamicro.probes.loaded import DELAYS
from numamicro.probes.probe import cache_floor, node_routes
from numamicro.probes.together import PAIRINGS, Together
from numamicro.runner import Runner
from numamicro.topology import Machine, discover
from numamicro.units import KIB, MIB
from numamicro.wishes import DEFAULT, QUICK, THOROUGH, Level, Wishes
from numamicro.worker.__main__ import measure
from numamicro.worker.lab import Lab
from tests.examples import with_gpus
from tests.topology import trees

if TYPE_CHECKING:
    from pathlib import Path

ONCE = Level("test", processes=1, fewest=3, samples=3, seconds=120.0)
NAMES = [probe.name for probe in PROBES]
GPU_NAMES = {probe.name for probe in PROBES if isinstance(probe, GpuProbe)}


@pytest.fixture(scope="module")
def machine() -> Machine:
    return discover()


@pytest.fixture(scope="module")
def smallest(machine: Machine) -> int:
    return max(cache_floor(route, machine) for route in node_routes(machine, Wishes()))


def probe(name: str) -> Probe:
    return next(each for each in PROBES if each.name == name)


def measured(name: str, machine: Machine, wishes: Wishes) -> list[Measurement]:
    journal = Journal()
    Runner(make_plan(machine, wishes, [probe(name)]), machine, journal).run()
    return list(journal.fold())


@pytest.mark.parametrize("name", sorted({*NAMES} - GPU_NAMES - {"together"}))
def test_a_probe_measures_on_this_machine(name: str, machine: Machine, smallest: int) -> None:
    if name in ("barrier", "core-to-core", "loaded") and len(machine.usable_cpus(node(0))) < 2:
        pytest.skip("needs two usable CPUs on node0")
    cells = measured(name, machine, Wishes(level=ONCE, only=(name,), memory=smallest))
    assert cells
    for cell in cells:
        assert cell.state in (State.OK, State.WAIVED), (cell.case.key, cell.reason)
        if cell.state is State.OK:
            summary = cell.summary()
            assert summary is not None
            assert summary.center > 0
            assert cell.share in (None, 1.0)


def test_all_nodes_together_measure_with_their_own_threads_and_memory(
    machine: Machine, smallest: int
) -> None:
    """One node stands for two here: its threads twice, with a buffer for each."""
    first = node(machine.initiators[0].id)
    twice = PlaceSet((first, first))
    template = Together().cases(two_nodes(machine), Wishes())
    for case in template:
        here = replace(case, route=Route(twice, twice)).having(bytes=2 * smallest)
        with Lab(twice, machine, seed=1) as lab:
            (run,) = measure(Together(), here, lab, 0, (3, 3)).values()
        assert run.state is State.OK, run.reason
        assert all(sample.amount >= 2 * (smallest // MIB - 2) * MIB for sample in run.samples)


def two_nodes(machine: Machine) -> Machine:
    first = machine.nodes[0]
    return replace(machine, nodes=(first, replace(first, id=first.id + 1)))


@pytest.mark.parametrize("name", NAMES)
def test_a_probe_can_be_asked_for_alone_and_by_operation(name: str, tmp_path: Path) -> None:
    facts = trees.uniform(2, 8, threads=2)
    big = tuple(replace(each, memory=64 * 2**20, free=60 * 2**20) for each in facts.nodes)
    two = with_gpus(discover(trees.plant(tmp_path, trees.files_of(replace(facts, nodes=big)))))
    for level in (QUICK, DEFAULT, THOROUGH):
        plan = make_plan(two, Wishes(level=level, only=(name,)), PROBES)
        assert {item.case.probe for item in plan.planned} == {name}
        operation = plan.planned[0].case.operation
        narrow = make_plan(two, Wishes(level=level, only=(f"{name}/{operation}",)), PROBES)
        assert {item.case.operation for item in narrow.planned} == {operation}


def test_the_default_level_has_every_probe_and_quick_the_matrix_alone(tmp_path: Path) -> None:
    facts = trees.uniform(2, 8, threads=2)
    big = tuple(replace(each, memory=64 * 2**20, free=60 * 2**20) for each in facts.nodes)
    two = discover(trees.plant(tmp_path, trees.files_of(replace(facts, nodes=big))))
    default = make_plan(two, Wishes(), PROBES)
    assert {item.case.probe for item in default.planned} == {*NAMES} - GPU_NAMES
    quick = make_plan(two, Wishes(level=QUICK), PROBES)
    assert {item.case.probe for item in quick.planned} == {"bandwidth", "latency"}
    late = {item.case.probe for item in default.planned if item.priority is Priority.SWEEPS}
    assert {"barrier", "core-to-core", "loaded", "cache-bandwidth", "cache-latency"} <= late


def test_every_operation_is_tried_in_every_variant(machine: Machine) -> None:
    plan = make_plan(machine, Wishes(only=("bandwidth",)), PROBES)
    tried = {(item.case.operation, item.case["variant"]) for item in plan.to_measure}
    assert tried == {(name, variant) for name in VARIANTS for variant in VARIANTS[name]}


def test_curves_have_their_points(tmp_path: Path) -> None:
    two = discover(trees.plant(tmp_path, trees.files_of(trees.uniform(2, 8))))
    loaded = make_plan(two, Wishes(only=("loaded",)), PROBES).planned
    assert {item.case["delay"] for item in loaded} == {*DELAYS}
    caches = make_plan(two, Wishes(only=("cache-latency",)), PROBES).planned
    sizes = sorted(item.case.number("working_set") for item in caches)
    assert sizes[0] == 16 * KIB
    assert sizes[-1] >= 4 * 2 * 32 * MIB - 4 * KIB
    assert all(size >= 4 * KIB and size % (4 * KIB) == 0 for size in sizes)
    together = make_plan(two, Wishes(only=("together",)), PROBES).planned
    assert {item.case["pairing"] for item in together} == {*PAIRINGS}
