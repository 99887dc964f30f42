"""What the checks in a guest share: the machine, the topology it plays, and the product's commands."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import patch

from numamicro import runner
from numamicro.case import Place, PlaceSet
from numamicro.cli import main
from numamicro.file import read_matrix
from numamicro.matrix import State
from numamicro.topology import discover
from numamicro.wishes import Wishes
from numamicro.worker import __main__ as worker
from numamicro.worker import handle
from tests.vm.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.case import AnyPlace
    from numamicro.matrix import CostMatrix, Measurement

MACHINE = discover()
TOPOLOGY = next(each for each in TOPOLOGIES if each.name == os.environ["TOPOLOGY"])
SHARE = Path(os.environ["SHARE"])
NODES = Path("/sys/devices/system/node")
DOOR = Path(__file__).parents[1] / "door"
MIB = 2**20
BUFFER = 64 * MIB  # the least that the product takes for clear of the guest's caches
BUDGET = 1800.0  # seconds, as the next: what is emulated is slow, and may share its CPUs
DEADLINE = 180.0
PAGE = os.sysconf("SC_PAGE_SIZE")
ROWS = tuple(row for row in TOPOLOGY.rows if row in (TOPOLOGY.measured or TOPOLOGY.rows))
COLUMNS = tuple(
    column for column in TOPOLOGY.columns if column in (TOPOLOGY.measured or TOPOLOGY.columns)
)
ROUTES = {(row, column) for row in ROWS for column in COLUMNS}


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


def numamicro(*arguments: str) -> Done:
    """Run a command of the product, in this process: to start Python takes seconds here."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            status = int(main(arguments))
        except SystemExit as end:
            status = int(end.code or 0)
    return Done(status, out.getvalue(), err.getvalue())


def _work() -> None:
    """Be a worker, forked from this process with the door before it and pipes as standard streams.

    A new Python takes six seconds here to load what this one has.
    """
    os.closerange(3, 1024)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    status = 0
    try:
        sys.path.insert(0, str(DOOR))
        runpy.run_path(str(DOOR / "sitecustomize.py"))
        worker.main()
    except BaseException:
        status = 1
        traceback.print_exc()
    os._exit(status)


@dataclass(frozen=True)
class Seen:
    """What the door wrote down when the product asked where its pages were; bytes by node.

    Parameters
    ----------
    row : int
        The node of the CPUs that measured.
    policy : str
        Of the memory, as numa_maps writes it.
    asked, seen : dict of int to int
        By move_pages, which the product asks, and by numa_maps. A negative key is an errno.
    """

    row: int
    policy: str
    asked: dict[int, int]
    seen: dict[int, int]


@dataclass(frozen=True)
class Ran:
    """One run of ``matrix``: how it ended, its file, and what the door saw of it."""

    done: Done
    file: Path
    door: tuple[Seen, ...]

    @property
    def result(self) -> CostMatrix:
        assert self.file.exists(), self.done
        return read_matrix(self.file)

    @property
    def failures(self) -> str:
        """Say all that went wrong, for a test that wants nothing to."""
        states = (State.OK, State.WAIVED)
        failed = [cell for cell in self.cells if cell.state not in states]
        return "\n".join([*(f"{cell.case.key}: {cell.reason}" for cell in failed), self.done.err])

    @property
    def cells(self) -> tuple[Measurement, ...]:
        return self.result.measurements


def matrix(
    folder: Path,
    *options: str,
    only: str = "bandwidth/read",
    nodes: Sequence[int] = TOPOLOGY.measured,
    fault: str = "none",
) -> Ran:
    """Run ``matrix`` on some nodes, or all, with the door before its native side."""
    file, record = folder / f"{fault}.json", folder / f"{fault}.door"
    wishes = ("--quick", "-q", "--only", only)
    named = ("--nodes", ",".join(map(str, nodes))) if nodes else ()
    door = {"DOOR_RECORD": str(record), "DOOR_FAULT": fault}
    forking = SimpleNamespace(
        **vars(subprocess) | {"Popen": partial(subprocess.Popen, preexec_fn=_work)}
    )
    # A budget that --time names would be spent whole, to narrow what is known.
    patient = partial(runner.Runner, deadline=DEADLINE)
    with (
        patch.dict(os.environ, door),
        patch.object(Wishes, "budget", BUDGET),
        patch.object(runner, "Runner", patient),
        patch.object(handle, "subprocess", forking),
        patch.object(handle, "END_SECONDS", DEADLINE),
    ):
        done = numamicro("matrix", *wishes, *named, *options, "-o", str(file))
    lines = record.read_text().splitlines() if record.exists() else []
    return Ran(done, file, tuple(_seen(json.loads(line)) for line in lines))


SIZE = ("--memory", f"{BUFFER // MIB}M")


def _seen(line: dict[str, object]) -> Seen:
    def by_node(key: str) -> dict[int, int]:
        counts = line[key]
        assert isinstance(counts, dict)
        return {int(node): count for node, count in counts.items()}

    cpus, policy = line["cpus"], line["policy"]
    assert isinstance(cpus, list)
    assert isinstance(policy, str)
    return Seen(node_of(cpus[0]), policy, by_node("asked"), by_node("seen"))


def node_of(cpu: int) -> int:
    link = next(Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*"))
    return int(link.name.removeprefix("node"))


def home(row: int) -> int:
    """Give the node of a row's CPUs; with emulated nodes a CPU has several rows, and one home."""
    return node_of(min(MACHINE.usable_cpus(Place("node", row))))


def ids(place: AnyPlace) -> tuple[int, ...]:
    """Give the nodes that a place is."""
    parts = place.places if isinstance(place, PlaceSet) else (place,)
    assert all(part.kind == "node" for part in parts), place
    return tuple(int(part.id) for part in parts)


def route(cell: Measurement) -> tuple[int, int]:
    """Give source and target of a cell between two nodes."""
    (source,), (target,) = ids(cell.case.route.source), ids(cell.case.route.target)
    return source, target


def counted(file: str, event: str) -> int:
    """Give how often the kernel counted an event: in vmstat, or in a node's numastat."""
    found = re.search(rf"^{event} (\d+)$", Path(file).read_text(), re.MULTILINE)
    assert found, f"{file} does not count {event}"
    return int(found[1])
