"""Plans for machines that are not at hand: what comes first, what follows what, what is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from numamicro.case import Case, Place, Route, node
from numamicro.errors import NumamicroError
from numamicro.matrix import Measurement, Run, Sample, State
from numamicro.plan import BEST, Planned, Priority, make_plan
from numamicro.probes import PROBES
from numamicro.probes.attention import Attention
from numamicro.probes.probe import CACHE_FACTOR, MEMORY_SHARE
from numamicro.topology import Machine, discover
from numamicro.units import GIB, MIB
from numamicro.wishes import DEFAULT, QUICK, THOROUGH, Level, Wishes
from tests.topology import trees

if TYPE_CHECKING:
    from pathlib import Path

GIB_KB = 2**20


def machine(root: Path, facts: trees.Facts) -> Machine:
    return discover(trees.plant(root, trees.files_of(facts)))


@pytest.fixture(scope="module")
def epyc(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """Give 2 packages of 4 nodes, 384 CPUs in 192 cores: what a large plan has to cope with."""
    facts = trees.uniform(
        8, 48, threads=2, llc=16, packages={index: index // 4 for index in range(8)}
    )
    large = tuple(trees.Node(each.id, each.cpus, 64 * GIB_KB, 60 * GIB_KB) for each in facts.nodes)
    return machine(tmp_path_factory.mktemp("epyc"), replace(facts, nodes=large))


def routes(planned: tuple[Planned, ...]) -> set[str]:
    return {str(item.case.route) for item in planned}


def is_node_pair(item: Planned) -> bool:
    places = (item.case.route.source, item.case.route.target)
    return item.case.probe == "bandwidth" and {getattr(each, "kind", "") for each in places} == {
        "node"
    }


@pytest.mark.parametrize("level", [QUICK, DEFAULT, THOROUGH], ids=lambda level: level.name)
def test_64_node_pairs_are_not_64_sweeps(epyc: Machine, level: Level) -> None:
    plan = make_plan(epyc, Wishes(level=level), PROBES)
    reads = [item for item in plan.planned if is_node_pair(item) and item.case.operation == "read"]
    assert len(routes(tuple(reads))) == 64
    by_priority = Counter(item.priority for item in reads)
    swept = {str(item.case.route) for item in reads if item.priority is Priority.CLASSES}
    assert swept == {"node0>node0", "node0>node1", "node0>node4"}
    assert by_priority[Priority.PAIRS] == 64 - 3
    followers = [item for item in reads if item.priority is Priority.PAIRS]
    assert all(item.case["threads"] == BEST for item in followers)
    assert plan.seconds <= level.seconds


@pytest.mark.parametrize(("level", "most"), [(QUICK, 60.0), (DEFAULT, 300.0)])
def test_the_essential_matrices_of_64_pairs_fit_the_budget(
    epyc: Machine, level: Level, most: float
) -> None:
    plan = make_plan(replace(epyc, huge_page_bytes=2 * MIB), Wishes(level=level), PROBES)
    essential = [item for item in plan.to_measure if item.priority <= Priority.PAIRS]
    routes_of = {
        probe: {str(item.case.route) for item in essential if item.case.probe == probe}
        for probe in ("bandwidth", "latency")
    }
    assert {len(found) for found in routes_of.values()} == {64}
    assert replace(plan, planned=tuple(essential)).wanted < most


def test_classes_come_before_pairs_before_sweeps(epyc: Machine) -> None:
    order = [item.priority for item in make_plan(epyc, Wishes(), PROBES).planned]
    assert order == sorted(order)
    assert set(order) == set(Priority)


def test_what_lies_above_and_below_the_node_is_planned_where_it_differs(
    epyc: Machine, tmp_path: Path
) -> None:
    planned = routes(make_plan(epyc, Wishes(only=("bandwidth/read",)), PROBES).planned)
    everywhere = "+".join(f"node{index}" for index in range(8))
    assert f"node3>{everywhere}" in planned
    assert {"package0>package0", "package0>package1", "package1>package0"} <= planned
    assert {"llc0>node0", "llc2>node0", "llc3>node1"} <= planned
    assert "llc0>node1" not in planned
    plain = machine(tmp_path, trees.uniform(2, 4))
    assert routes(make_plan(plain, Wishes(only=("bandwidth/read",)), PROBES).planned) == {
        *(f"node{source}>node{target}" for source in (0, 1) for target in (0, 1)),
        "node0>node0+node1",
        "node1>node0+node1",
    }


def test_a_follower_takes_what_won_on_its_class(epyc: Machine) -> None:
    plan = make_plan(epyc, Wishes(), PROBES)
    route = Route(node(2), node(5))
    follower = next(
        item for item in plan.planned if item.case.route == route and item.case.probe == "bandwidth"
    )
    rates = {(1, "4-stream"): 5.0, (24, "1-stream"): 9.0, (24, "4-stream"): 7.0}

    def look_up(case: Case) -> Measurement | None:
        assert str(case.route) == "node0>node4"
        rate = rates.get((case.number("threads"), str(case["variant"])))
        if rate is None:
            return None
        run = Run(0, (Sample(1.0, int(rate * 1e9)),))
        return Measurement.of_runs(case, "B/s", (run,))

    resolved = follower.resolve(look_up, 48)
    assert (resolved.route, resolved["threads"], resolved["variant"]) == (route, 24, "1-stream")
    assert follower.resolve(look_up, 4)["threads"] == 4
    fallback = follower.resolve(lambda case: None, 48)
    assert BEST not in dict(fallback.params).values()


def test_a_failed_rival_never_wins(epyc: Machine) -> None:
    plan = make_plan(epyc, Wishes(), PROBES)
    follower = next(item for item in plan.planned if item.rivals)

    def look_up(case: Case) -> Measurement:
        good = case["threads"] == 1
        run = Run(0, (Sample(1.0, 1 if good else 10**12),), state=State.OK if good else State.WRONG)
        return Measurement.of_runs(case, "B/s", (run,))

    assert follower.resolve(look_up, 48)["threads"] == 1


def test_memory_only_nodes_are_targets_and_cpu_only_nodes_initiators(tmp_path: Path) -> None:
    facts = trees.Facts(
        nodes=(
            trees.Node(0, (0, 1)),
            trees.Node(3, (2, 3), memory=0, free=0),
            trees.Node(8, ()),
        )
    )
    plan = make_plan(machine(tmp_path, facts), Wishes(level=QUICK), PROBES)
    assert routes(plan.planned) == {"node0>node0", "node0>node8", "node3>node0", "node3>node8"}


def test_buffers_are_clear_of_the_caches_and_within_the_memory(tmp_path: Path) -> None:
    facts = trees.Facts(nodes=(trees.Node(0, tuple(range(8)), memory=GIB_KB, free=GIB_KB),), llc=4)
    plan = make_plan(machine(tmp_path, facts), Wishes(), PROBES)
    cached = {"dot", "gemm"}  # of arithmetic, not of memory
    cases = [item.case for item in plan.to_measure if item.case.probe not in cached]
    sizes = {case.number("bytes") for case in cases if case.get("bytes")}
    assert sizes
    assert min(sizes) >= CACHE_FACTOR * 2 * 32 * MIB
    assert max(sizes) <= MEMORY_SHARE * GIB


@pytest.mark.parametrize(("positions", "fits"), [(8192, True), (32768, False)])
def test_a_layer_that_its_buffer_cannot_hold_is_waived(
    tmp_path: Path, positions: int, fits: bool
) -> None:
    home, size = Route(node(0), node(0)), 64 * MIB
    case = Case.of("attention", "decode", home, bytes=size, heads=8, positions=positions, threads=1)
    waived = Attention().waived(case, machine(tmp_path, trees.uniform(1, 2)))
    assert waived
    assert (waived.text == "one layer is 128 MiB, more than a buffer of 64 MiB") is not fits


def test_a_node_too_small_is_waived_with_its_numbers(tmp_path: Path) -> None:
    facts = trees.Facts(
        nodes=(trees.Node(0, (0, 1)), trees.Node(1, (2, 3), memory=GIB_KB // 8, free=GIB_KB // 16))
    )
    plan = make_plan(machine(tmp_path, facts), Wishes(level=QUICK), PROBES)
    waived = [
        item
        for item in plan.planned
        if item.waived and (item.case.probe, item.case.get("pages")) != ("latency", "huge")
    ]
    assert {item.case.route.target for item in waived} == {Place("node", 1)}
    assert {item.waived.code for item in waived if item.waived} == {"too-little-memory"}
    assert all("MiB" in item.waived.text for item in waived if item.waived)


@pytest.mark.parametrize(
    ("wishes", "says"),
    [
        (Wishes(nodes=(5,)), "node5"),
        (Wishes(only=("nonsense",)), "bandwidth"),
        (Wishes(only=("bandwidth/nonsense",)), "bandwidth has read, write, copy, triad"),
        (Wishes(threads=(64,)), "--threads 64"),
        (Wishes(threads=(0,)), "--threads 0"),
        (Wishes(memory=MIB), "last-level cache"),
        (Wishes(memory=2**45), "may be used"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_leaves_nothing_to_measure_is_refused(
    tmp_path: Path, wishes: Wishes, says: str
) -> None:
    two_nodes = machine(tmp_path, trees.uniform(2, 4))
    with pytest.raises(NumamicroError, match=says):
        make_plan(two_nodes, wishes, PROBES)


def test_wishes_narrow_the_plan(tmp_path: Path) -> None:
    four_nodes = machine(tmp_path, trees.uniform(4, 4))
    wishes = Wishes(level=QUICK, nodes=(1, 3), only=("bandwidth/read",), threads=(2,), memory=GIB)
    plan = make_plan(four_nodes, wishes, PROBES)
    assert routes(plan.planned) == {"node1>node1", "node1>node3", "node3>node1", "node3>node3"}
    assert {item.case["bytes"] for item in plan.planned} == {GIB}
    swept = [item.case["threads"] for item in plan.planned if item.case["threads"] != BEST]
    assert set(swept) == {2}
