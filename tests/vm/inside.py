"""What must hold in the guest: the whole product, each placement asked for a second way.

Run by guests.py inside a guest; TOPOLOGY names what the guest plays.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numamicro import _cpu
from numamicro.case import Place
from numamicro.file import read_matrix
from numamicro.matrix import State
from numamicro.topology import discover
from tests.vm.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numamicro.matrix import CostMatrix, Measurement

MACHINE = discover()
TOPOLOGY = next(each for each in TOPOLOGIES if each.name == os.environ["TOPOLOGY"])
NODES = Path("/sys/devices/system/node")
MIB = 2**20
BUFFER = 64 * MIB  # the least that the product takes for clear of the guest's caches
ARENA = 8 * MIB
PAGE = os.sysconf("SC_PAGE_SIZE")
PLANTED = Path(__file__).parent / "planted"
SHARE = Path(os.environ["SHARE"])


def numamicro(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "numamicro", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | more,
    )


def matrix(
    output: Path, *options: str, only: str = "bandwidth/read", **more: str
) -> subprocess.CompletedProcess[str]:
    size = f"{BUFFER // MIB}M"
    common = ("--quick", "--memory", size, "--time", "10m", "-q", "-o", str(output))
    return numamicro("matrix", *common, "--only", only, *options, **more)


# --- The second way -----------------------------------------------------------------------------


def mappings(process: int | str) -> Iterator[tuple[int, str, Counter[int]]]:
    """Give address, policy and pages by node of each mapping, as numa_maps has them."""
    for line in Path(f"/proc/{process}/numa_maps").read_text().splitlines():
        address, policy, *_ = line.split()
        found = re.findall(r" N(\d+)=(\d+)", line)
        yield int(address, 16), policy, Counter({int(node): int(pages) for node, pages in found})


@dataclass
class Witness:
    """Looks at the workers from outside while they measure.

    Parameters
    ----------
    most : counter
        By initiator and node: most pages that a mapping bound to the node was seen to have there.
    strays : list of str
        Lines for mappings bound to one node that had pages on another.
    """

    most: Counter[tuple[int, int]] = field(default_factory=Counter)
    strays: list[str] = field(default_factory=list)

    def look(self) -> None:
        for folder in Path("/proc").glob("[0-9]*"):
            # A process may end at any time. None but the workers bind memory to a node.
            with suppress(OSError):
                self._look_at(int(folder.name))

    def _look_at(self, process: int) -> None:
        for address, policy, pages in mappings(process):
            if bound := re.fullmatch(r"bind:(\d+)", policy):
                initiator, node = node_of(min(os.sched_getaffinity(process))), int(bound[1])
                self.most[initiator, node] = max(self.most[initiator, node], pages[node])
                if pages.total() > pages[node]:
                    self.strays.append(f"node{initiator}: {address:x} {policy} {dict(pages)}")


def node_of(cpu: int) -> int:
    link = next(Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
    return int(link.name.removeprefix("node"))


def home(row: int) -> int:
    """Give the node of a row's CPUs; with emulated nodes a CPU has several rows, and one home."""
    return node_of(min(MACHINE.usable_cpus(Place("node", row))))


@contextmanager
def witness() -> Iterator[Witness]:
    watching = Witness()
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.4):
            watching.look()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield watching
    finally:
        ended.set()
        thread.join()


def counted(node: int, event: str) -> int:
    """Give how often the kernel counted an event of allocation on a node."""
    found = re.search(rf"^{event} (\d+)$", (NODES / f"node{node}/numastat").read_text(), re.M)
    assert found
    return int(found[1])


# --- The command --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """One run of ``matrix`` and all that was seen of it."""

    done: subprocess.CompletedProcess[str]
    file: Path
    result: CostMatrix
    seen: Witness
    missed: Mapping[int, int]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    file = tmp_path_factory.mktemp("matrix") / "whole.json"
    before = {node: counted(node, "numa_miss") for node in TOPOLOGY.columns}
    with witness() as seen:
        done = matrix(file, *MEASURED, only=TOPOLOGY.only)
    assert done.returncode == 0, done.stdout + done.stderr
    missed = {node: counted(node, "numa_miss") - before[node] for node in TOPOLOGY.columns}
    return Whole(done, file, read_matrix(file), seen, missed)


def route(cell: Measurement) -> tuple[int, int]:
    """Give source and target of a cell between two nodes."""
    source, target = cell.case.route.source, cell.case.route.target
    assert isinstance(source, Place)
    assert isinstance(target, Place)
    assert (source.kind, target.kind) == ("node", "node")
    return int(source.id), int(target.id)


CODES = {code for topology in TOPOLOGIES for code in topology.notes}
MEASURED = ("--nodes", ",".join(map(str, TOPOLOGY.measured))) if TOPOLOGY.measured else ()
ROWS = tuple(row for row in TOPOLOGY.rows if row in (TOPOLOGY.measured or TOPOLOGY.rows))
COLUMNS = tuple(
    column for column in TOPOLOGY.columns if column in (TOPOLOGY.measured or TOPOLOGY.columns)
)
ROUTES = {(row, column) for row in ROWS for column in COLUMNS}


def test_topology_names_the_nodes_and_their_distances() -> None:
    assert tuple(node.id for node in MACHINE.initiators) == TOPOLOGY.rows
    assert tuple(node.id for node in MACHINE.targets) == TOPOLOGY.columns
    for node in MACHINE.nodes if TOPOLOGY.distances else ():
        stated = {other: TOPOLOGY.distances[node.id][other] for other in node.distances}
        assert node.distances == stated
        assert set(stated) == {other.id for other in MACHINE.nodes}
    told = {note.code for note in MACHINE.notes} & CODES
    assert told == set(TOPOLOGY.notes)
    drawn = numamicro("topology")
    assert drawn.returncode == 0, drawn.stderr
    for id in {*TOPOLOGY.rows, *TOPOLOGY.columns}:
        assert re.search(rf"─ node{id} ", drawn.stdout), drawn.stdout


def test_matrix_has_every_cell_there_can_be_and_no_other(whole: Whole) -> None:
    probes = {cell.case.probe for cell in whole.result.measurements}
    for probe in probes:
        cells = [cell for cell in whole.result.measurements if cell.case.probe == probe]
        assert {route(cell) for cell in cells} == ROUTES
    states = Counter(cell.state for cell in whole.result.measurements)
    assert set(states) == {State.OK}, states


def test_every_cell_is_on_its_target(whole: Whole) -> None:
    for cell in whole.result.measurements:
        assert cell.share is not None
        assert cell.share >= 0.99, cell.case.key
        for run in cell.runs:
            assert run.placement is not None
            assert run.placement.by == "move_pages"


def test_numa_maps_told_the_same_while_it_ran(whole: Whole) -> None:
    assert whole.seen.strays == []
    assert set(whole.seen.most) == {(home(row), column) for row, column in ROUTES}
    assert min(whole.seen.most.values()) > 0


def test_no_allocation_missed_its_node(whole: Whole) -> None:
    assert all(missed * PAGE < 0.01 * BUFFER for missed in whole.missed.values()), whole.missed


def test_tables_have_exactly_the_rows_and_columns(whole: Whole) -> None:
    blocks = [block.splitlines() for block in whole.done.stdout.split("\n\n")]
    tables = [block[1:] for block in blocks if "from the row's CPUs" in block[0]]
    assert tables
    for header, *rows in tables:
        assert header.split() == [f"node{id}" for id in COLUMNS]
        assert [row.split()[0] for row in rows] == [f"node{id}" for id in ROWS]


def test_show_prints_it_again(whole: Whole) -> None:
    shown = numamicro("show", str(whole.file))
    assert shown.returncode == 0
    assert shown.stdout == whole.done.stdout


# --- The native side ----------------------------------------------------------------------------


@contextmanager
def touched(initiator: int, **policy: Any) -> Iterator[_cpu.Arena]:
    """Give small-paged memory, written by the first CPU of a node."""
    cpu = MACHINE.usable_cpus(Place("node", initiator))[0]
    with _cpu.Arena(ARENA, huge=False, **policy) as arena, _cpu.Team([cpu]) as team:
        _cpu.fill(team, arena, ARENA, 1)
        yield arena


def told_by_numa_maps(arena: _cpu.Arena) -> Counter[int]:
    inside = range(arena.address, arena.address + arena.size)
    return sum((pages for at, _, pages in mappings("self") if at in inside), Counter())


def census(arena: _cpu.Arena) -> dict[int, int]:
    return arena.census(0, ARENA, PAGE)


@pytest.mark.parametrize("column", TOPOLOGY.columns)
@pytest.mark.parametrize("row", TOPOLOGY.rows)
def test_bound_memory_is_on_its_node_by_three_accounts(row: int, column: int) -> None:
    before = counted(column, "numa_hit")
    with touched(row, policy="bind", nodes=[column]) as arena:
        allocated = counted(column, "numa_hit") - before
        assert census(arena) == {column: ARENA // PAGE}
        assert told_by_numa_maps(arena) == {column: ARENA // PAGE}
        assert allocated >= ARENA // PAGE


def test_interleaved_memory_is_spread_evenly() -> None:
    with touched(TOPOLOGY.rows[0], policy="interleave", nodes=TOPOLOGY.columns) as arena:
        even = ARENA // PAGE / len(TOPOLOGY.columns)
        assert set(census(arena)) == set(TOPOLOGY.columns)
        assert all(abs(pages - even) <= 1 for pages in census(arena).values())
        assert told_by_numa_maps(arena) == census(arena)


@pytest.mark.parametrize("row", TOPOLOGY.rows)
def test_first_touch_is_local_or_on_the_nearest(row: int) -> None:
    here = home(row)
    distances = MACHINE.node(here).distances
    nearest = min(TOPOLOGY.columns, key=lambda column: distances[column])
    with touched(row) as arena:
        assert census(arena) == {here if here in TOPOLOGY.columns else nearest: ARENA // PAGE}
        assert told_by_numa_maps(arena) == census(arena)


def test_reserved_huge_pages_are_seen_and_left_alone() -> None:
    for node in discover().nodes:
        pages = TOPOLOGY.pools.get(node.id, 0)
        pools = {pool.page_bytes: (pool.total, pool.free) for pool in node.huge_pools}
        assert pools.get(2 * MIB, (0, 0)) == (pages, pages)


def test_nodes_that_hold_nothing_cannot_be_bound_to() -> None:
    for node in set(range(max(TOPOLOGY.columns) + 2)) - set(TOPOLOGY.columns):
        with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
            _cpu.Arena(ARENA, huge=False, policy="bind", nodes=[node])


def test_every_loop_of_this_cpu_reads_what_was_written() -> None:
    loops = _cpu.kernels()
    with touched(TOPOLOGY.rows[0]) as arena, _cpu.Team([os.sched_getaffinity(0).pop()]) as team:
        for name, *_, written, _ in loops:
            if written == 0:
                _, _, total, _ = _cpu.read(team, arena, ARENA, name, 1)
                assert total == _cpu.expected(team, ARENA, name, 1, 1), name
    (SHARE / "loops").write_text("\n".join(name for name, *_ in loops))


# --- Faults -------------------------------------------------------------------------------------


def fate(fault: str, row: int, column: int) -> State:
    """Say how a cell must end when `fault` is planted: the kernel's truth, and no figure."""
    online = sorted({*TOPOLOGY.rows, *TOPOLOGY.columns})
    match fault:
        case "unbound":
            return State.OK if row == column else State.VOID
        case "wrong-node":
            return State.VOID
        case "off-by-one":
            return State.VOID if column + 1 in TOPOLOGY.columns else State.ERROR
        case "index":
            given = online.index(column)
            if given == column:
                return State.OK
            return State.VOID if given in TOPOLOGY.columns else State.ERROR
        case _:
            raise ValueError(fault)


@pytest.mark.parametrize("fault", TOPOLOGY.faults)
def test_a_planted_fault_is_found_in_exactly_its_cells(fault: str, tmp_path: Path) -> None:
    # Where a node is filled up or in pieces, even local memory comes from another.
    for what in ("drop_caches", "compact_memory"):
        Path("/proc/sys/vm", what).write_text("1")
    broken = {"PYTHONPATH": str(PLANTED), "PLANTED_FAULT": fault}
    done = matrix(tmp_path / "broken.json", "--threads", "1", **broken)
    assert done.returncode == 3, done.stdout + done.stderr
    cells = read_matrix(tmp_path / "broken.json").measurements
    assert {route(cell) for cell in cells} == ROUTES
    for cell in cells:
        assert cell.state is fate(fault, *route(cell)), f"{cell.case.key}: {cell.reason}"
        assert cell.state is State.OK or cell.summary() is None


# --- Memory that comes and goes -------------------------------------------------------------------


class Monitor:
    """The emulator's own monitor (QMP), on a port of the guest."""

    def __init__(self) -> None:
        port = next(Path("/dev").glob("vport*p1"))
        self._port = port.open("r+b", buffering=0)  # closed by __exit__
        json.loads(self._line())
        self.execute("qmp_capabilities")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._port.close()

    def execute(self, command: str, **arguments: str | int) -> None:
        """Give a command and wait until it was taken; what it sets off may end later."""
        self._port.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while "return" not in (answer := json.loads(self._line())):
            assert "error" not in answer, answer

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            line += self._port.read(1)
        return line


def until_targets_are(*expected: int) -> None:
    end = time.monotonic() + 30
    while (found := tuple(node.id for node in discover().targets)) != expected:
        assert time.monotonic() < end, found
        time.sleep(0.2)


@pytest.mark.skipif(not TOPOLOGY.plugged, reason="this topology has no memory to plug in")
def test_plugged_memory_gets_a_column_and_loses_it(tmp_path: Path) -> None:
    new = len(TOPOLOGY.nodes) - 1
    with Monitor() as monitor:
        monitor.execute("device_add", driver="pc-dimm", id="dimm", memdev="module", node=new)
        until_targets_are(*TOPOLOGY.columns, new)
        done = matrix(tmp_path / "plugged.json")
        assert done.returncode == 0, done.stdout + done.stderr
        cells = read_matrix(tmp_path / "plugged.json").measurements
        assert {route(cell) for cell in cells} == ROUTES | {(row, new) for row in TOPOLOGY.rows}
        assert all(cell.share == 1.0 for cell in cells)
        monitor.execute("device_del", id="dimm")
        until_targets_are(*TOPOLOGY.columns)
