"""The hwloc export, read by hwloc's own tools."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.errors import NumamicroError
from numamicro.export.hwloc import bitmap, hwloc_xml
from numamicro.matrix import CostMatrix
from numamicro.topology import Cache, Cpu, Llc, Machine, NumaNode
from numamicro.units import GIB, MIB
from tests.examples import cell, header, load_case, machine, matrix, read_case

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LSTOPO, CALC = "lstopo-no-graphics", "hwloc-calc"
needs_hwloc = pytest.mark.skipif(
    shutil.which(LSTOPO) is None, reason="hwloc is missing: apt-get install hwloc-nox"
)

VALUE = re.compile(r"  NUMANode L#(\d+) = (\d+) from cpuset (\S+)(?: \(.*\))?")


def said(path: Path, *arguments: str) -> str:
    done = subprocess.run(
        [arguments[0], "-i", str(path), *arguments[1:]], capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout


def ids_of(text: str) -> set[int]:
    """Give the ids in a set as hwloc writes it."""
    words = [int(word or "0", 16) for word in text.split(",")]  # hwloc leaves out words of zeros
    bits = sum(word << 32 * rank for rank, word in enumerate(reversed(words)))
    return {bit for bit in range(bits.bit_length()) if bits >> bit & 1}


def attributes(path: Path) -> dict[str, dict[tuple[int, str], int]]:
    """Give hwloc's memory attributes: by name, the value for a node's place in order and a CPU set."""
    found: dict[str, dict[tuple[int, str], int]] = {}
    name = ""
    for line in said(path, LSTOPO, "--memattrs").splitlines():
        if title := re.match(r"Memory attribute #\d+ name `(\w+)'", line):
            name = title[1]
        elif value := VALUE.fullmatch(line):
            found.setdefault(name, {})[int(value[1]), bitmap(ids_of(value[3]))] = int(value[2])
    return found


def distances(path: Path) -> dict[str, list[list[int]]]:
    found: dict[str, list[list[int]]] = {}
    name = ""
    for line in said(path, LSTOPO, "--distances").splitlines():
        if title := re.search(r"\(name (\S+) kind", line):
            name = title[1]
        elif not line.startswith(" index"):
            found.setdefault(name, []).append([int(word) for word in line.split()[1:]])
    return found


def written(to: Path, of: CostMatrix) -> Path:
    path = to / "machine.xml"
    path.write_text(hwloc_xml(of))
    return path


def nps4() -> Machine:
    """Give one package of four nodes with two caches each, and a node without CPUs."""
    cpus = tuple(
        Cpu(id, node=id // 4, package=0, core=id - id % 2, llc=id // 2, smt=id % 2)
        for id in range(16)
    )
    ids = range(4)
    nodes = tuple(NumaNode(i, tuple(range(4 * i, 4 * i + 4)), memory=GIB) for i in ids)
    return Machine(
        "x86_64",
        None,
        cpus,
        (*nodes, NumaNode(8, memory=2 * GIB)),
        tuple(Llc(i, (2 * i, 2 * i + 1), 32 * MIB) for i in range(8)),
        caches=(Cache(3, "unified", 32 * MIB, 64, 2, 8),),
    )


def of_nps4(initiators: Iterable[int] = range(4)) -> CostMatrix:
    """Give a matrix in which every pair differs, and its latency from its bandwidth."""
    cells = []
    for source in initiators:
        for target in (0, 1, 2, 3, 8):
            cells.append(cell(read_case(source, target), (50 - 5 * source - target) * 1e9))
            cells.append(cell(load_case(source, target), (100 + 10 * source + target) * 1e-9))
    return CostMatrix(header(nps4()), tuple(cells))


@needs_hwloc
def test_hwloc_gives_back_every_value_in_its_own_units(tmp_path: Path) -> None:
    path = written(tmp_path, of_nps4())
    found = attributes(path)
    order = (0, 1, 2, 3, 8)
    for source in range(4):
        cpus = bitmap(range(4 * source, 4 * source + 4))
        for rank, target in enumerate(order):
            rate, time = (50 - 5 * source - target) * 1e9, 100 + 10 * source + target
            assert found["Bandwidth"][rank, cpus] == round(rate / MIB)
            assert found["ReadBandwidth"][rank, cpus] == round(rate / MIB)
            assert found["Latency"][rank, cpus] == time
            assert found["ReadLatency"][rank, cpus] == time
    # The package has what its worst node has.
    whole = bitmap(range(16))
    assert found["Bandwidth"][4, whole] == round((50 - 15 - 8) * 1e9 / MIB)
    assert found["Latency"][0, whole] == 130
    assert "WriteBandwidth" not in found


@needs_hwloc
def test_distances_are_those_of_nodes_with_cpus_and_memory(tmp_path: Path) -> None:
    found = distances(written(tmp_path, of_nps4()))
    assert found["numamicro-latency"] == [[100 + 10 * s + t for t in range(4)] for s in range(4)]
    rates = [[round((50 - 5 * s - t) * 1e9 / MIB) for t in range(4)] for s in range(4)]
    assert found["numamicro-read-bandwidth"] == rates
    assert "NUMALatency" not in found  # the firmware told none
    path = written(tmp_path, matrix((0, 8)))
    assert distances(path)["NUMALatency"] == [[10, 20], [20, 10]]


@needs_hwloc
def test_hwloc_sees_the_machine(tmp_path: Path) -> None:
    path = written(tmp_path, of_nps4())
    for kind, count in (("package", 1), ("numanode", 5), ("l3", 8), ("core", 8), ("pu", 16)):
        assert said(path, CALC, "--number-of", kind, "all").strip() == str(count), kind
    assert said(path, CALC, "-p", "--intersect", "pu", "numa:2").strip() == "8,9,10,11"
    nodes = said(path, CALC, "-p", "--local-memory", "--best-memattr", "bandwidth", "pu:5")
    assert nodes.strip() == "1"


@needs_hwloc
@pytest.mark.parametrize("nodes", [(0,), (0, 1), (0, 8, 250)])
def test_every_machine_loads(tmp_path: Path, nodes: tuple[int, ...]) -> None:
    path = written(tmp_path, matrix(nodes))
    found = attributes(path)["Latency"]
    assert sorted(found.values()) == sorted(
        100 if source == target else 200 for source in nodes for target in nodes
    )


@needs_hwloc
def test_offline_and_barred_cpus_are_not_offered(tmp_path: Path) -> None:
    whole = machine((0, 1), cores=4)
    cpus = tuple(replace(cpu, online=cpu.id != 1, allowed=cpu.id != 2) for cpu in whole.cpus)
    shrunk = replace(whole, cpus=cpus)
    path = written(tmp_path, CostMatrix(header(shrunk), matrix().measurements))
    assert said(path, CALC, "-p", "--intersect", "pu", "all").strip() == "0,3,4,5,6,7"


def test_what_is_lacking_is_named() -> None:
    with pytest.raises(NumamicroError, match="bandwidth or latency between nodes"):
        hwloc_xml(CostMatrix(header(), ()))
    bare = Machine("unknown", None, (), (NumaNode(0),), ())
    with pytest.raises(NumamicroError, match="likwid-topology or numactl -H"):
        hwloc_xml(CostMatrix(header(bare), (cell(read_case(0, 0), 1e9),)))


@given(st.sets(st.integers(0, 200)))
def test_a_bitmap_holds_its_bits(ids: set[int]) -> None:
    assert ids_of(bitmap(ids)) == ids


def test_objects_that_straddle_are_left_out_and_all_cpus_kept() -> None:
    cpus = tuple(Cpu(id, node=0, package=id // 2, core=id) for id in range(4))
    odd = Machine("x", None, cpus, (NumaNode(0, (0, 1, 2, 3)),), (Llc(0, (1, 2), None),))
    text = hwloc_xml(CostMatrix(header(odd), (cell(read_case(0, 0), 1e9),)))
    assert text.count('type="PU"') == 4
    assert "L3Cache" not in text
