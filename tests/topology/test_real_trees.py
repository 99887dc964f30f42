"""Copies of real machines' files: what is seen must be what a person reads in them.

Needs a folder of NAME.tar.xz, each with sys/ (and mostly proc/) of one machine; the variable
NUMAMICRO_MACHINES names it.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from numamicro.case import Place, node
from numamicro.cli import main
from numamicro.export.hwloc import bitmap
from numamicro.matrix import CostMatrix
from numamicro.setting import read_setting
from numamicro.topology import Machine, discover
from numamicro.topology.sysfs import parse_list
from tests.examples import cell, header, load_case
from tests.exchange.test_hwloc import CALC, attributes, needs_hwloc, said, written

FOLDER = os.environ.get("NUMAMICRO_MACHINES")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="NUMAMICRO_MACHINES names no folder of machines' trees (NAME.tar.xz)"
)


@dataclass(frozen=True)
class Expected:
    """What the files of a machine say, read by hand.

    `initiators` and `targets` are as in `nodes` where not given; `memory` is (node, kB), `distance`
    (from, to, value), `locality` (from, to, class), `first` the first CPUs to use of a node.
    """

    nodes: str
    cpus: int
    cores: int
    packages: int
    llcs: int
    llc_kib: int | None
    memory: tuple[int, int | None]
    distance: tuple[int, int, int] | None
    locality: tuple[int, int, str]
    first: tuple[int, tuple[int, ...]]
    architecture: str
    initiators: str | None = None
    targets: str | None = None
    notes: frozenset[str] = frozenset()
    hypervisor: str | None = None


SAME, OTHER, ONLY = "same-package", "other-package", "memory-only"
INTEL_OR_AMD = "x86_64"

# fmt: off
MACHINES = {
    "altix-64n": Expected(
        "0-63", 256, 256, 128, 0, None, (1, 8077312), (0, 12, 30), (0, 1, OTHER),
        (63, (252, 253, 254, 255)), "ia64", notes=frozenset({"llc-unknown"})),
    "cascadelake-2lm": Expected(
        "0-3", 80, 40, 2, 2, 28160, (3, 390162812), (0, 2, 11), (0, 2, SAME),
        (1, (1, 5, 9)), INTEL_OR_AMD, notes=frozenset({"side-cache"})),
    "cgroup-v1": Expected(
        "0-7", 32, 32, 4, 8, 5118, (0, 16775084), (0, 3, 22), (0, 7, OTHER),
        (7, (28, 29, 30, 31)), INTEL_OR_AMD),
    "epyc7451-8n": Expected(
        "0-7", 96, 48, 2, 16, 8192, (0, None), None, (0, 3, SAME),
        (0, (0, 3, 1, 4, 2, 5, 48, 51)), INTEL_OR_AMD, notes=frozenset({"distances-unknown"})),
    "fake-numa": Expected(
        "0-7", 8, 8, 2, 4, 6144, (0, 2096684), (0, 7, 10), (0, 7, SAME),
        (7, (0, 1, 4, 5)), INTEL_OR_AMD, notes=frozenset({"emulated-nodes"})),
    "haswell-cod": Expected(
        "0-3", 28, 28, 2, 4, 17920, (0, 16503516), (0, 2, 31), (2, 3, SAME),
        (3, (21, 22, 23, 24, 25, 26, 27)), INTEL_OR_AMD),
    "hetero-mem-tiers": Expected(
        "0-2,4,6,8-9", 6, 6, 1, 1, 16384, (6, 393216), (0, 9, 20), (0, 9, ONLY),
        (2, (4, 5)), INTEL_OR_AMD, initiators="0-2", notes=frozenset({"virtual-machine"}),
        hypervisor="qemu"),
    "hybrid-raptorlake": Expected(
        "0", 20, 14, 1, 1, 24576, (0, 32489496), (0, 0, 10), (0, 0, "local"),
        (0, (0, 2, 4, 6, 8, 10, 12, 13, 14, 15, 16, 17, 18, 19, 1)), INTEL_OR_AMD,
        notes=frozenset({"hybrid"})),
    "ia64-17n-cpuless": Expected(
        "0-16", 128, 128, 64, 0, None, (16, 1020176), (0, 16, 14), (0, 16, ONLY),
        (15, (120, 121)), "ia64", initiators="0-15", notes=frozenset({"llc-unknown"})),
    "kunpeng920": Expected(
        "0-3", 128, 128, 2, 4, 32768, (3, 131062408), (0, 3, 33), (1, 2, OTHER),
        (2, (64, 65, 66)), "aarch64"),
    "offline-cpus": Expected(
        "0", 12, 7, 4, 4, 4096, (0, 16772456), (0, 0, 10), (0, 0, "local"),
        (0, (0, 1, 3, 6, 4, 7, 10, 8, 9, 11, 12, 15)), INTEL_OR_AMD,
        notes=frozenset({"offline-cpus"})),
    "opteron-8s": Expected(
        "0-7", 16, 16, 8, 16, 1024, (0, 8386704), (0, 7, 20), (0, 7, OTHER),
        (7, (14, 15)), INTEL_OR_AMD),
    "power9-gpu-nodes": Expected(
        "0,8,250-255", 32, 8, 2, 4, 10240, (255, 15728640), (0, 8, 40), (0, 8, OTHER),
        (8, (88, 96, 92, 100)), "ppc64le", initiators="0,8", notes=frozenset({"gpu-memory"})),
    "qemu-16n": Expected(
        "0-15", 64, 32, 4, 8, 16384, (15, 256336), (0, 15, 20), (0, 3, SAME),
        (0, (0, 2, 1, 3)), INTEL_OR_AMD, notes=frozenset({"virtual-machine"}), hypervisor="qemu"),
    "qemu-initiators": Expected(
        "0-5", 4, 4, 2, 2, 16384, (4, 450264), (4, 5, 60), (0, 1, SAME),
        (3, (3,)), INTEL_OR_AMD, initiators="0-3",
        notes=frozenset({"virtual-machine", "side-cache"}), hypervisor="qemu"),
    "s390-no-nodes": Expected(
        "0", 20, 20, 0, 0, None, (0, 2053992), (0, 0, 10), (0, 0, "local"),
        (0, (0, 1, 2)), "s390x", notes=frozenset({"llc-unknown", "no-nodes"})),
    "snb-2s-pci": Expected(
        "0-1", 16, 16, 2, 2, 20480, (0, 16747124), (0, 1, 21), (0, 1, OTHER),
        (1, (8, 9, 10)), INTEL_OR_AMD),
    "sparse-opteron": Expected(
        "0-2,33-34,45,72-73", 48, 48, 4, 8, 5118, (73, 16777216), (0, 33, 22), (72, 73, SAME),
        (45, (30, 31, 32)), INTEL_OR_AMD),
    "westmere-4s-pci": Expected(
        "0-3", 40, 40, 4, 4, 30720, (0, 134204252), (0, 3, 20), (0, 3, OTHER),
        (1, (1, 5, 9)), INTEL_OR_AMD),
    "xeon-2s-2pmem": Expected(
        "0-5", 112, 56, 2, 2, 39424, (5, 130023424), (0, 4, 17), (0, 2, SAME),
        (1, (1, 5, 9)), "unknown", initiators="0-3"),
    "xeon-2s-8ve": Expected(
        "0-1", 32, 16, 2, 2, 11264, (1, 49519964), (0, 1, 21), (0, 1, OTHER),
        (0, (0, 1, 2, 3, 4, 5, 6, 7, 16)), INTEL_OR_AMD),
    "xeon-4s": Expected(
        "0-3", 144, 72, 4, 4, 25344, (2, 198137748), (0, 3, 21), (0, 3, OTHER),
        (1, (18, 19, 20)), "unknown"),
}
# fmt: on


# Most of the files: nothing reads them, and writing them takes the time.
UNREAD = re.compile(
    r"^sys/devices/(pci|LNXSYSTM)(?!.*/target_node$)|/memory/memory[0-9]+/(?!state$)|"
    r"/(cpuidle|power|thermal_throttle|microcode|hotplug)(/|$)|"
    r"/(cpu|policy)[0-9]+/(stats|driver|subsystem|firmware_node)(/|$)|"
    r"/cache/index[0-9]+/id$|"
    r"/(uevent|number_of_sets|ways_of_associativity|physical_line_partition|core_id|"
    r"(core|book|drawer|cluster|die|package)_(siblings|cpus)\w*|crash_notes\w*|"
    r"(scaling|cpuinfo|related|affected)_(?!governor|driver|max_freq)\w+)$"
)


def _unpack(archive: Path, root: Path) -> None:
    with tarfile.open(archive) as packed:
        # Whoever runs the tests named the folder, so the usual checks of each path are spared, and
        # without mode, time and owner so are three system calls for each file. An attribute, for
        # the first Pythons 3.11 know no argument for it.
        packed.extraction_filter = lambda member, _: member
        for member in packed:
            if not UNREAD.search(member.name):
                packed.extract(member, root, set_attrs=False)


@pytest.fixture(scope="module", params=MACHINES)
def tree(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Expected]:
    """Unpack one machine's tree."""
    archive = Path(str(FOLDER)) / f"{request.param}.tar.xz"
    if not archive.exists():
        pytest.skip(f"{archive.name} is not in the folder that NUMAMICRO_MACHINES names")
    root = tmp_path_factory.mktemp(request.param)
    _unpack(archive, root)
    return root, MACHINES[request.param]


@pytest.fixture(scope="module")
def machine(tree: tuple[Path, Expected]) -> Machine:
    return discover(tree[0])


def test_it_is_seen_as_it_is(tree: tuple[Path, Expected], machine: Machine) -> None:
    _, expected = tree
    nodes = parse_list(expected.nodes)
    assert tuple(n.id for n in machine.nodes) == nodes
    assert tuple(n.id for n in machine.initiators) == parse_list(
        expected.initiators or expected.nodes
    )
    assert tuple(n.id for n in machine.targets) == nodes
    online = [c for c in machine.cpus if c.online]
    assert len(online) == expected.cpus
    assert all(c.node in nodes for c in machine.cpus)
    assert len({c.core for c in online}) == expected.cores
    assert len(machine.packages) == expected.packages
    sizes = [llc.bytes for llc in machine.llcs]
    assert sizes == [(expected.llc_kib or 0) * 1024] * expected.llcs
    place, kilobytes = expected.memory
    memory = machine.node(place).memory
    assert memory == (None if kilobytes is None else kilobytes * 1024)
    assert machine.architecture == expected.architecture
    assert machine.hypervisor == expected.hypervisor
    assert {note.code for note in machine.notes} == expected.notes


def test_its_places(tree: tuple[Path, Expected], machine: Machine) -> None:
    _, expected = tree
    if expected.distance:
        source, target, distance = expected.distance
        assert machine.node(source).distances[target] == distance
    source, target, locality = expected.locality
    assert machine.locality(node(source), node(target)) == locality
    place, first = expected.first
    assert machine.usable_cpus(node(place))[: len(first)] == first


def test_every_cpu_is_used_once(machine: Machine) -> None:
    for place in [node(n.id) for n in machine.nodes] + [Place("llc", c.id) for c in machine.llcs]:
        cpus = machine.usable_cpus(place)
        assert len(set(cpus)) == len(cpus)
        core_of = {c.id: c.core for c in machine.cpus}
        firsts = [core_of[cpu] for cpu in cpus[: machine.cores(place)]]
        assert len(set(firsts)) == len(firsts)


def test_it_survives_json(machine: Machine) -> None:
    assert Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine


def test_its_setting_can_be_read(tree: tuple[Path, Expected]) -> None:
    setting = read_setting(tree[0])
    assert all(value is None or isinstance(value, str | int) for value in setting.values())


def test_its_doctor(
    tree: tuple[Path, Expected], machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--root", str(tree[0])]) == 0
    told = capsys.readouterr()
    assert told.err == ""
    for note in machine.notes:
        assert f"{note.severity}: {note.what}\n" in told.out


@needs_hwloc
def test_hwloc_sees_its_cpus_and_every_cost_of_its_nodes(machine: Machine, tmp_path: Path) -> None:
    homes = [each.id for each in machine.nodes if each.cpus]
    # A cell's way into the file is one for all: of many nodes a few, the first and the last too.
    homes = [*homes[:-1][:: 1 + len(homes) // 8], homes[-1]]
    pairs = [(source, each.id) for source in homes for each in machine.nodes]
    cells = tuple(cell(load_case(*pair), (100 + rank) * 1e-9) for rank, pair in enumerate(pairs))
    xml = written(tmp_path, CostMatrix(header(machine), cells))
    online = sum(cpu.online for cpu in machine.cpus)
    assert said(xml, CALC, "--disallowed", "--number-of", "pu", "all").strip() == str(online)
    # hwloc counts nodes in the order of its tree, and keeps one value of CPUs that nodes share.
    order = [int(index) for index in said(xml, CALC, "--po", "-I", "numa", "all").split(",")]
    due: dict[tuple[int, str], int] = {}
    for rank, (source, target) in enumerate(pairs):
        cpus = {cpu.id for cpu in machine.cpus if cpu.online} & set(machine.node(source).cpus)
        due.setdefault((order.index(target), bitmap(cpus)), 100 + rank)
    assert due.items() <= attributes(xml)["Latency"].items()
