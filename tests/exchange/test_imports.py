"""Outputs of other tools become cells: every value as printed, in base units, on its own route."""

from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numamicro.case import PlaceSet, node
from numamicro.cost.advise import advise
from numamicro.cost.rates import Rates
from numamicro.errors import NumamicroError
from numamicro.export.hwloc import hwloc_xml
from numamicro.imports import import_outputs
from numamicro.imports.text import Output
from numamicro.matrix import State
from numamicro.report.table import render
from numamicro.units import MIB
from tests.cost.rigs import gpu, predictor, sentence_of
from tests.exchange.outputs import (
    LIKWID,
    NUMACTL,
    TWO_NODES,
    between,
    imported,
    mlc,
    nccl,
    nvbandwidth,
    nvbandwidth_json,
    p2p,
    topo,
    values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numamicro.case import AnyPlace
    from numamicro.matrix import CostMatrix
    from tests.exchange.outputs import Grid


def near(expected: Mapping[Any, float]) -> object:
    return pytest.approx(expected, rel=1e-12)


# ---- nvbandwidth ---------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [nvbandwidth, nvbandwidth_json])
def test_nvbandwidth_says_who_sends_to_whom(written: Callable[..., str]) -> None:
    # Row r reads from column c in the tests of reading, and writes to it in those of writing.
    tests = {
        "host_to_device_memcpy_ce": [[20.5, 21.5, 22.5]],
        "device_to_host_memcpy_ce": [[30.5, 31.5, 32.5]],
        "device_to_device_memcpy_read_ce": between(3, 100, 1),
        "device_to_device_memcpy_write_ce": between(3, 200, 1),
        "device_to_device_memcpy_read_sm": between(3, 300, 1),
        "device_to_device_memcpy_write_sm": between(3, 400, 1),
        "device_to_device_latency_sm": between(3, 800, 1),
        "device_to_device_bidirectional_memcpy_read_ce": between(3, 900, 1),
    }
    found = imported(written(tests), TWO_NODES)
    matrix = found.matrix
    homes = (node(0), node(0), node(1))
    assert values(matrix, "host-copy", "h2d", memory="pinned") == near(
        {(homes[i], gpu(i)): (20.5 + i) * 1e9 for i in range(3)}
    )
    assert values(matrix, "host-copy", "d2h") == near(
        {(gpu(i), homes[i]): (30.5 + i) * 1e9 for i in range(3)}
    )
    pairs = list(permutations(range(3), 2))
    reads = {(gpu(c), gpu(r)): (100 + 3 * r + c) * 1e9 for r, c in pairs}
    assert values(matrix, "peer-copy", "copy", engine="target") == near(reads)
    for operation, base in (("read", 300), ("write", 400)):
        flow = [(c, r) if operation == "read" else (r, c) for r, c in pairs]
        due = {
            (gpu(a), gpu(b)): (base + 3 * r + c) * 1e9
            for (a, b), (r, c) in zip(flow, pairs, strict=True)
        }
        assert values(matrix, "peer-copy", operation, path="direct") == near(due)
    assert values(matrix, "peer-latency", "load") == near(
        {(gpu(r), gpu(c)): (800 + 3 * r + c) * 1e-9 for r, c in pairs}
    )
    assert "device_to_device_bidirectional_memcpy_read_ce" in found.passed
    assert len(found.passed) == 2


def test_copies_without_a_known_node_are_left_out_and_said_to_be() -> None:
    text = nvbandwidth(
        {
            "host_to_device_memcpy_ce": [[20.0, 21.0]],
            "device_to_device_memcpy_write_ce": between(2, 1, 1),
        }
    )
    two = imported(text, NUMACTL).matrix
    assert not values(two, "host-copy", "h2d")
    assert values(two, "peer-copy", "copy")
    assert "gpu-home-unknown" in {note.code for note in two.header.machine.notes}
    one = imported(text).matrix  # the host is all that is known: one node
    assert values(one, "host-copy", "h2d") == {(node(0), gpu(i)): (20 + i) * 1e9 for i in range(2)}


def test_a_copy_of_unknown_size_is_not_taken_for_a_small_one() -> None:
    tests: dict[str, Grid] = {
        "host_to_device_memcpy_ce": [[20.0, 21.0, 22.0]],
        "device_to_device_memcpy_write_ce": between(3, 100, 1),
    }
    rates = Rates(imported(nvbandwidth(tests), TWO_NODES).matrix)
    assert "a small copy between node0 and gpu0" in sentence_of(lambda: rates.host_hop(0, 0))
    assert "a small peer copy" in sentence_of(lambda: rates.peer_hop(0, 1))


# ---- p2pBandwidthLatencyTest ---------------------------------------------------------------------


def test_p2p_tells_direct_from_detour() -> None:
    linked = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    text = p2p(between(3, 10, 1), between(3, 50, 1), between(3, 2, 0.25), linked)
    matrix = imported(text).matrix
    pairs = list(permutations(range(3), 2))
    assert values(matrix, "peer-copy", "copy", path="detour") == near(
        {(gpu(r), gpu(c)): (10 + 3 * r + c) * 1e9 for r, c in pairs}
    )
    # Without peer access the second table shows the detour again, and no cell repeats it.
    assert values(matrix, "peer-copy", "copy", path="direct") == near(
        {(gpu(0), gpu(1)): 51e9, (gpu(1), gpu(0)): 53e9}
    )
    assert values(matrix, "peer-copy-latency", "copy", path="direct") == near(
        {(gpu(0), gpu(1)): 2.25e-6, (gpu(1), gpu(0)): 2.75e-6}
    )
    assert Rates(matrix).peer_hop(0, 1).value == pytest.approx(2.25e-6)
    assert not any(cell.warnings for cell in matrix.measurements)


def test_p2p_without_its_connectivity_is_warned_of() -> None:
    text = p2p(between(2, 10, 1), between(2, 50, 1), between(2, 2, 1), None)
    direct = [c for c in imported(text).matrix.measurements if c.case["path"] == "direct"]
    assert len(direct) == 4
    assert {warning.code for cell in direct for warning in cell.warnings} == {"unproven"}


# ---- Intel MLC -----------------------------------------------------------------------------------


def test_mlc_with_memory_only_nodes_and_the_threads_of_each() -> None:
    latency = [[90.5, 140.0, 300.0], [141.0, 91.0, 310.0]]
    bandwidth = [[100000.5, 50000.0, 9000.0], [50001.0, 100001.0, 9001.0]]
    matrix = imported(mlc(latency, bandwidth), LIKWID).matrix
    pairs = [(r, c) for r in range(2) for c in range(3)]
    assert values(matrix, "latency", "load") == near(
        {(node(r), node(c)): latency[r][c] * 1e-9 for r, c in pairs}
    )
    found = values(matrix, "bandwidth", "read")
    assert found == near({(node(r), node(c)): bandwidth[r][c] * 1e6 for r, c in pairs})
    # node 1 has a CPU that may not be used
    assert {c.case["threads"] for c in matrix.cells("bandwidth", source=node(0))} == {4}
    assert {c.case["threads"] for c in matrix.cells("bandwidth", source=node(1))} == {3}
    assert [each.id for each in matrix.header.machine.nodes] == [0, 1, 2]
    assert imported(mlc(latency, bandwidth)).passed == (
        "Measuring Peak Injection Memory Bandwidths",
    )


def test_without_cpus_it_is_said_what_cannot_be_done() -> None:
    matrix = imported(mlc([[90.0]], [[1000.0]])).matrix
    assert "cpus-unknown" in {note.code for note in matrix.header.machine.notes}
    assert "likwid-topology" in sentence_of(lambda: hwloc_xml(matrix))
    with pytest.raises(NumamicroError, match="no node with CPUs and memory, and of no GPU"):
        advise(predictor(matrix, assume=True))


# ---- nccl-tests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4])
def test_nccl_all_reduces_by_message(ranks: int) -> None:
    times = {1024: 13.25, 1048576: 21.5, 67108864: 900.0}
    matrix = imported(nccl(times, ranks)).matrix
    group = PlaceSet(tuple(gpu(i) for i in range(ranks)))
    ends: tuple[AnyPlace, AnyPlace] = (gpu(0), gpu(1)) if ranks == 2 else (group, group)
    for size, time in times.items():
        assert values(matrix, "all-reduce", "nccl", message=size) == near({ends: time * 1e-6})
    assert Rates(matrix).all_reduce(range(ranks), 1024).value == pytest.approx(13.25e-6)


def test_nccl_behind_mpi_with_wrong_sums_and_other_collectives() -> None:
    text = "\n".join(f"   [1,0]<stdout>:{line}" for line in nccl({1024: 10.0}).splitlines())
    (cell,) = imported(
        text.replace("-1    10.00    0.10    0.10      0", "-1    10.00    0.10    0.10      7")
    ).matrix.measurements
    assert cell.state is State.WRONG
    assert cell.reason
    assert "7 values" in cell.reason.text
    both = imported(nccl({1024: 10.0}) + nccl({1024: 5.0}, test="sendrecv_perf"))
    assert both.passed == ("sendrecv_perf",)
    assert len(both.matrix.measurements) == 1


def test_the_same_told_twice_is_two_processes_of_one_cell() -> None:
    (cell,) = imported(nccl({1024: 10.0}), nccl({1024: 14.0})).matrix.measurements
    assert [run.process for run in cell.runs] == [0, 1]
    summary = cell.summary()
    assert summary
    assert summary.center == pytest.approx(12e-6)


# ---- topologies ----------------------------------------------------------------------------------


def some_figures() -> str:
    return mlc([[90.0, 140.0], [140.0, 90.0]], [[1e5, 5e4], [5e4, 1e5]])


def test_numactl_gives_nodes_memory_and_distances() -> None:
    machine = imported(some_figures(), NUMACTL).matrix.header.machine
    assert [each.id for each in machine.nodes] == [0, 1, 4]
    assert [each.cpus for each in machine.nodes] == [(0, 1, 4, 5), (2, 3, 6, 7), ()]
    assert [each.memory for each in machine.nodes] == [s * MIB for s in (1000, 2000, 4000)]
    assert machine.node(4).distances == {0: 31, 1: 32, 4: 10}


def test_likwid_gives_packages_cores_and_caches() -> None:
    machine = imported(some_figures(), LIKWID).matrix.header.machine
    assert machine.cpu_model == "Example CPU 9000"
    assert machine.packages == (0, 1)
    assert machine.cores(node(0)) == 2
    assert machine.usable_cpus(node(1)) == (2, 3, 6)
    assert [(llc.cpus, llc.bytes) for llc in machine.llcs] == [
        ((0, 1, 4, 5), 16 * MIB),
        ((2, 3, 6, 7), 16 * MIB),
    ]
    assert machine.node(1).distances == {0: 21, 1: 10}


def test_the_fuller_topology_wins_in_any_order() -> None:
    one, other = (
        imported(some_figures(), NUMACTL, LIKWID),
        imported(LIKWID, NUMACTL, some_figures()),
    )
    assert one.matrix.header.machine == other.matrix.header.machine


def test_topo_gives_the_node_next_to_each_gpu() -> None:
    text = nvbandwidth({"host_to_device_memcpy_ce": [[1.0, 2.0, 3.0]]})
    for astray in (TWO_NODES, TWO_NODES.replace("\t", "     "), TWO_NODES.replace("\t", " ")):
        matrix = imported(text, astray).matrix
        assert list(values(matrix, "host-copy", "h2d")) == [
            (node(0), gpu(0)),
            (node(0), gpu(1)),
            (node(1), gpu(2)),
        ]
        assert matrix.header.machine.node(0).cpus == (0, 1, 4, 5)


def test_gpus_are_joined_by_their_address_and_not_by_number() -> None:
    # nvidia-smi counts by PCI address: its last GPU, on node 1, is CUDA's first.
    text = nvbandwidth({"host_to_device_memcpy_ce": [[1.0, 2.0, 3.0]]}, ("c1", "01", "41"))
    assert list(values(imported(text, TWO_NODES).matrix, "host-copy", "h2d")) == [
        (node(1), gpu(0)),
        (node(0), gpu(1)),
        (node(0), gpu(2)),
    ]


def test_gpus_are_not_joined_where_some_are_hidden() -> None:
    text = nvbandwidth(
        {
            "host_to_device_memcpy_ce": [[1.0, 2.0]],
            "device_to_device_memcpy_write_ce": between(2, 1, 1),
        }
    )
    matrix = imported(text, TWO_NODES).matrix
    assert not values(matrix, "host-copy", "h2d")
    assert "gpu-home-unknown" in {note.code for note in matrix.header.machine.notes}


def test_gpus_and_what_joins_them_are_part_of_the_machine() -> None:
    linked = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    text = p2p(between(3, 10, 1), between(3, 50, 1), between(3, 2, 0.25), linked)
    machine = imported(text, TWO_NODES).matrix.header.machine
    assert [(each.id, each.name, each.pci, each.host_node) for each in machine.gpus] == [
        (0, "NVIDIA Example", "0000:01:00.0", 0),
        (1, "NVIDIA Example", "0000:11:00.0", 0),
        (2, "NVIDIA Example", "0000:21:00.0", 1),
    ]
    assert [(pair.gpus, pair.kind, pair.claimed) for pair in machine.gpu_pairs] == [
        ((0, 1), "NV4", True),
        ((0, 2), "SYS", False),
        ((1, 2), "SYS", False),
    ]
    told_nothing = imported(nccl({1024: 10.0}), topo([["X", "PIX"], ["PIX", "X"]], (0, 0), "00"))
    (pair,) = told_nothing.matrix.header.machine.gpu_pairs
    assert (pair.kind, pair.claimed) == ("PIX", None)


# ---- real outputs --------------------------------------------------------------------------------

published = pytest.mark.skipif(
    "NUMAMICRO_PUBLISHED" not in os.environ,
    reason="published outputs are not part of the project: name their folder in NUMAMICRO_PUBLISHED",
)


def of_published(start: str) -> CostMatrix:
    folder = Path(os.environ["NUMAMICRO_PUBLISHED"], "gpu")
    (path,) = folder.glob(f"{start}*")
    return import_outputs([Output.of(path.name, path.read_text(errors="replace"))]).matrix


def all_figures(matrix: CostMatrix) -> list[tuple[str, str]]:
    """Give each figure as the tool printed it, and the line where it was found."""
    scales = {"B/s": 1e9, "s": 1e-6}
    return [
        (f"{summary.center / scales[cell.unit]:.2f}", str(cell.runs[0].outcome["text"]))
        for cell in matrix.measurements
        if (summary := cell.summary())
    ]


@published
@pytest.mark.parametrize(("start", "count"), [("01", 76), ("09", 136), ("11", 56)])
def test_published_figures_are_on_their_lines(start: str, count: int) -> None:
    matrix = of_published(start)
    figures = all_figures(matrix)
    assert len(figures) == count
    for figure, line in figures:
        assert figure in line.split()
    assert render(matrix)


@published
def test_published_routes() -> None:
    ada, h100 = of_published("01"), of_published("09")
    assert values(ada, "peer-copy", "copy", path="direct")[gpu(0), gpu(1)] == 26.33e9
    assert values(ada, "peer-copy", "copy", path="detour")[gpu(1), gpu(0)] == 22.32e9
    assert values(ada, "peer-copy-latency", "copy", path="direct")[gpu(2), gpu(0)] == 1.42e-6
    assert [each.cpus[0] for each in ada.header.machine.nodes] == [0, 32]
    assert values(h100, "host-copy", "h2d")[node(0), gpu(7)] == 55.33e9
    assert values(h100, "host-copy", "d2h")[gpu(4), node(0)] == 55.25e9
    with pytest.raises(NumamicroError, match="no figure to import"):
        of_published("06")
