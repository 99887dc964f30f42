"""Nodes that are not what they were: NPS, SNC, and GPUs under other numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from numamicro.case import Case, Place, PlaceSet, Route, node
from numamicro.comparison.boots import Boot, Side, value_of
from numamicro.comparison.pairing import Item, Name, called, pair
from numamicro.comparison.places import Meanings, renumbered, same_gpus
from numamicro.topology import discover
from tests.compare.truth import boot
from tests.examples import header
from tests.topology.trees import Facts, Node, files_of, plant, uniform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numamicro.topology import Machine


ALL_EIGHT = "+".join(f"node{index}" for index in range(8))


def machine_of(folder: Path, facts: Facts) -> Machine:
    return discover(plant(folder, files_of(facts)))


@pytest.fixture
def nps1(tmp_path: Path) -> Machine:
    """Two packages of eight cores, a node each."""
    return machine_of(tmp_path / "nps1", uniform(2, 8, packages={0: 0, 1: 1}, llc=2))


@pytest.fixture
def nps4(tmp_path: Path) -> Machine:
    """The same cut into four nodes a package."""
    packages = {index: index // 4 for index in range(8)}
    return machine_of(tmp_path / "nps4", uniform(8, 2, packages=packages, llc=2))


@pytest.fixture
def nps0(tmp_path: Path) -> Machine:
    """The same as one node over both packages."""
    files = files_of(uniform(1, 16, llc=2))
    for cpu in range(8, 16):
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"] = "1"
    return discover(plant(tmp_path / "nps0", files))


def cases_of(machine: Machine) -> dict[Case, float]:
    """Give what the program measures there, as far as nodes matter, with made-up figures."""
    found: dict[Case, float] = {}
    nodes = [each.id for each in machine.nodes]
    cores = machine.cores(node(nodes[0]))

    def read(route: Route, threads: int, rate: float) -> None:
        for variant in ("1-stream", "4-stream"):
            case = Case.of(
                "bandwidth", "read", route, threads=threads, variant=variant, bytes=2**28
            )
            found[case] = rate

    for source in nodes:
        for target in nodes:
            route = Route(node(source), node(target))
            read(route, 1, 10e9)
            read(route, cores, 10e9 * cores)
            found[Case.of("latency", "load", route, threads=1, pages="huge", bytes=2**28)] = 1e-7
    if len(nodes) > len(machine.packages):
        for source in machine.packages:
            for target in machine.packages:
                route = Route(Place("package", source), Place("package", target))
                read(route, 1, 10e9)
                read(route, machine.cores(Place("package", source)), 80e9)
    if len(nodes) > 1:
        everywhere = PlaceSet(tuple(map(node, nodes)))
        for pairing in ("own", "interleave"):
            case = Case.of(
                "together",
                "read",
                Route(everywhere, everywhere),
                pairing=pairing,
                threads=16,
                variant="4-stream",
                bytes=2**28,
            )
            found[case] = 150e9
    return found


def side(name: str, machine: Machine, truth: Mapping[Case, float] | None = None) -> Side:
    draw = Random(1)
    boots = []
    for _ in range(2):
        matrix = boot(truth or cases_of(machine), draw, head=header(machine))
        values = {cell.case: value_of(cell) for cell in matrix.measurements}
        boots.append(Boot(("x",), matrix.header, values))
    return Side(name, tuple(boots))


def held(items: list[Item]) -> dict[str, Item]:
    return {str(item.name): item for item in items if item.kind == "cell" and item.why is None}


def test_no_node_is_compared_with_a_node_of_another_meaning(nps1: Machine, nps4: Machine) -> None:
    items = pair(side("base", nps1), side("new", nps4))
    cells = held(items)
    assert cells
    for item in cells.values():
        assert "package" in item.other or item.other == f"{ALL_EIGHT}>{ALL_EIGHT}", item
    # All four package routes, for nodes of NPS1 are packages.
    assert {(item.name.where, item.other) for item in cells.values()} == {
        ("node0>node0", "package0>package0"),
        ("node0>node1", "package0>package1"),
        ("node1>node0", "package1>package0"),
        ("node1>node1", "package1>package1"),
        # and all cores over all nodes' memory
        ("node0+node1>node0+node1", f"{ALL_EIGHT}>{ALL_EIGHT}"),
    }
    strangers = [item for item in items if item.kind == "cell" and item.why]
    assert strangers
    assert all("of that meaning" in str(item.why) for item in strangers)


def test_classes_of_one_core_are_compared_where_nodes_are_not(nps1: Machine, nps4: Machine) -> None:
    items = pair(side("base", nps1), side("new", nps4))
    single = {str(item.name): item for item in items if "(one core)" in str(item.name)}
    assert "latency/load local (one core) pages=huge" in single
    assert "latency/load other-package (one core) pages=huge" in single
    # NPS1 has no other node within a package, and no team of a node is one core.
    assert not any("same-package" in name for name in single)
    reads = single["bandwidth/read local (one core)"]
    assert "threads 1" in reads.held


def test_the_way_back_compares_the_same(nps1: Machine, nps4: Machine) -> None:
    there = pair(side("base", nps1), side("new", nps4))
    back = pair(side("base", nps4), side("new", nps1))
    assert len(held(there)) == len(held(back))
    assert all("package" in name or "+" in name for name in held(back))


def test_nps0_is_held_against_the_interleave(nps0: Machine, nps1: Machine) -> None:
    (cell,) = held(pair(side("base", nps0), side("new", nps1))).values()
    assert cell.name.where == "node0>node0"
    assert cell.other == "node0+node1>node0+node1"
    assert cell.held == "threads 16, variant 4-stream"


def test_the_same_nodes_are_compared_one_by_one(nps4: Machine) -> None:
    items = pair(side("base", nps4), side("new", nps4))
    assert not [item for item in items if item.why]
    assert all(not item.other for item in items)
    assert "bandwidth/read node3>node5" in held(items)


def test_nodes_that_are_only_numbered_otherwise_are_found(tmp_path: Path) -> None:
    """Sparse ids: the second package's node is 8 on one side and 1 on the other."""
    plain = machine_of(tmp_path / "a", uniform(2, 4, packages={0: 0, 1: 1}))
    sparse = machine_of(
        tmp_path / "b",
        Facts(
            nodes=(Node(0, (0, 1, 2, 3)), Node(8, (4, 5, 6, 7))),
            packages={0: 0, 8: 1},
            distances=((10, 20), (20, 10)),
        ),
    )
    cells = held(pair(side("base", plain), side("new", sparse)))
    assert cells["bandwidth/read node0>node1"].other == "node0>node8"


def test_memory_without_cpus_is_not_a_package(tmp_path: Path) -> None:
    machine = machine_of(tmp_path, Facts(nodes=(Node(0, (0, 1)), Node(1)), packages={0: 0}))
    names = Meanings(machine)
    assert names.node(0) == "package0"
    assert names.node(1).startswith("memory without CPUs")
    assert names.of(PlaceSet((node(0), node(1)))) == "+".join(
        sorted((names.node(0), names.node(1)))
    )


def test_where_no_package_is_told_nodes_are_parts_of_the_machine(tmp_path: Path) -> None:
    files = files_of(uniform(2, 2))
    files = {path: text for path, text in files.items() if "physical_package_id" not in path}
    names = Meanings(discover(plant(tmp_path, files)))
    assert names.node(1) == "part 2 of 2 of the machine"


# ---- GPUs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpu:
    id: int
    identity: str | None = None
    pci: str | None = None


def test_a_gpu_is_found_by_identity_then_by_address() -> None:
    base = [
        Gpu(0, "aa", "0000:01:00.0"),
        Gpu(1, "bb", "0000:02:00.0"),
        Gpu(2, None, "0000:03:00.0"),
    ]
    swapped = [
        Gpu(0, "bb", "0000:01:00.0"),
        Gpu(1, "aa", "0000:02:00.0"),
        Gpu(2, None, "0000:03:00.0"),
    ]
    assert same_gpus(base, swapped) == {0: 1, 1: 0, 2: 2}
    assert same_gpus(base, [Gpu(0, "cc", "0000:09:00.0")]) == {}
    assert same_gpus([Gpu(0), Gpu(1)], [Gpu(1), Gpu(0)]) == {0: 0, 1: 1}


def test_a_gpu_that_is_not_found_meets_no_other() -> None:
    gpu = Place("gpu", 0)
    assert renumbered(gpu, {0: 3}) == Place("gpu", 3)
    lost = renumbered(PlaceSet((gpu, node(1))), {1: 0})
    assert lost not in (PlaceSet((gpu, node(1))), PlaceSet((Place("gpu", 1), node(1))))


def test_host_copies_are_rolled_up_at_the_best_and_the_worst_node(
    nps1: Machine, nps4: Machine
) -> None:
    def copies(machine: Machine) -> dict[Case, float]:
        return {
            Case.of("host-copy", "h2d", Route(node(n.id), Place("gpu", 0)), memory="pinned", bytes=2**28):
            (50e9 if n.id == machine.nodes[-1].id else 25e9)
            for n in machine.nodes
        }  # fmt: skip

    items = pair(side("base", nps1, copies(nps1)), side("new", nps4, copies(nps4)))
    rollups = {item.name.where: item for item in items if item.kind == "rollup"}
    assert set(rollups) == {"best-node", "worst-node"}
    best = [value for value in rollups["best-node"].base + rollups["best-node"].new if value]
    worst = [value for value in rollups["worst-node"].base + rollups["worst-node"].new if value]
    assert min(best) > 40e9
    assert max(worst) < 30e9
    assert not held(items)


def test_a_boot_that_lacks_a_cell_has_no_mean() -> None:
    head = header()
    truth = {
        Case.of("bandwidth", "read", Route(node(a), node(a)), threads=1, variant="x"): 40e9
        for a in (0, 1)
    }
    whole = side("base", head.machine, truth)
    values = dict(whole.boots[0].values)
    del values[next(iter(truth))]
    holed = replace(whole, boots=(replace(whole.boots[0], values=values), whole.boots[1]))
    (rollup,) = [item for item in pair(holed, whole) if item.kind == "rollup"]
    # The cell that all boots have is left, and the mean is of it alone on both sides.
    assert all(value is not None for value in rollup.base + rollup.new)
    (cell,) = [i for i in pair(whole, whole) if i.kind == "cell" and "node1>" in i.name.where]
    assert rollup.new == pytest.approx(cell.new)


def test_a_copy_that_is_named_is_its_rate() -> None:
    def item(probe: str, unit: str) -> Item:
        return Item("rollup", Name(probe, "h2d", (), "best-node"), unit)

    rate, time = item("host-copy", "B/s"), item("host-latency", "s")
    assert called([rate, time], "h2d") == [rate]
    assert called([rate, time], "h2d.best-node") == [rate]
    assert called([rate, time], "host-latency") == [time]
    assert called([rate, time], "host-latency/h2d") == [time]
    assert called([time], "h2d") == [time]
    assert called([rate, time], "d2h") == []


def test_snc_cuts_one_package_and_leaves_it_comparable(tmp_path: Path) -> None:
    """A single socket: with SNC off its node is the package, with SNC on there are package rows."""
    off = machine_of(tmp_path / "off", uniform(1, 8, packages={0: 0}, llc=8))
    on = machine_of(tmp_path / "on", uniform(2, 4, packages={0: 0, 1: 0}, llc=8))
    items = pair(side("base", off), side("new", on))
    cells = held(items)
    # With one package all of the machine is the package: the interleave over its nodes is one of two
    # names for it, and the package's own row the other.
    assert {item.name.where for item in cells.values()} == {"node0>node0"}
    assert all("node0>node0" not in item.other for item in cells.values())
    assert any("latency/load local (one core)" in str(item.name) for item in items)
