"""Each way a figure can be false or a worker can fail ends in its own state, and costs one cell."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from numamicro.case import Case, Place, Route, node
from numamicro.journal import Journal
from numamicro.matrix import Measurement, State
from numamicro.plan import make_plan
from numamicro.probes import Probe
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.probe import cache_floor, node_routes
from numamicro.runner import Runner
from numamicro.topology import Machine, NumaNode, discover
from numamicro.units import MIB
from numamicro.wishes import Level, Wishes
from numamicro.worker import __main__ as worker
from numamicro.worker.lab import Lab
from tests import faulty

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVEL = Level("test", processes=1, fewest=3, samples=3, seconds=60.0)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return discover()


def measured(
    machine: Machine, *probes: Probe, level: Level = LEVEL, deadline: float = 30.0
) -> list[Measurement]:
    # The smallest buffer clear of the caches: what is tested is what happens, not a figure.
    smallest = max(cache_floor(route, machine) for route in node_routes(machine, Wishes()))
    wishes = Wishes(level=level, memory=smallest)
    journal = Journal()
    for probe in probes:
        type(probe).name = type(probe).__name__.lower()
    Runner(make_plan(machine, wishes, probes), machine, journal, deadline=deadline).run()
    return list(journal.fold())


@pytest.mark.parametrize(
    ("probe", "state", "code"),
    [
        (faulty.NeverWritten(), State.VOID, "never-written"),
        (faulty.ZeroFilled(), State.WRONG, "checksum"),
        (faulty.OptimisedAway(), State.WRONG, "checksum"),
        (faulty.ChaseOptimisedAway(), State.WRONG, "chase"),
        (faulty.CpuGone(), State.ERROR, "cpus-gone"),
        (faulty.Crash(), State.ERROR, "worker-ended"),
        (faulty.Bus(), State.ERROR, "worker-ended"),
        (faulty.Exit(), State.ERROR, "worker-ended"),
        (faulty.Raises(), State.ERROR, "exception"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Probe) else None,
)
def test_a_fault_is_caught_and_the_next_case_goes_on(
    machine: Machine, probe: Probe, state: State, code: str
) -> None:
    cells = {cell.case.probe: cell for cell in measured(machine, probe, faulty.Good())}
    broken = cells[probe.name]
    assert broken.state is state
    assert broken.reason is not None
    assert broken.reason.code == code
    assert "\n" not in broken.reason.text
    assert broken.summary() is None
    assert cells["good"].state is State.OK


def test_a_thread_on_another_cpu_voids_its_cell_and_no_other(machine: Machine) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("a thread can be moved only where there are two CPUs")
    cells = measured(machine, faulty.Displaced(), faulty.OneBandwidth())
    moved, whole = sorted(cells, key=lambda cell: cell.case.probe)
    assert moved.reason is not None
    assert (moved.state, moved.reason.code) == (State.VOID, "displaced")
    assert moved.summary() is None
    assert whole.state is State.OK


def test_the_same_probes_without_a_fault_are_ok(machine: Machine) -> None:
    cells = measured(machine, faulty.OneBandwidth(), faulty.OneLatency())
    assert [cell.state for cell in cells] == [State.OK, State.OK]
    for cell in cells:
        assert cell.share == 1.0
        assert len(cell.runs[0].samples) == LEVEL.samples


def test_samples_end_when_the_median_is_known(machine: Machine) -> None:
    level = replace(LEVEL, fewest=6, samples=12)
    cells = measured(machine, faulty.Steady(), faulty.Restless(), level=level)
    assert {cell.case.probe: len(cell.runs[0].samples) for cell in cells} == {
        "steady": 6,
        "restless": 12,
    }


def test_what_is_left_of_the_budget_goes_to_wide_intervals(machine: Machine) -> None:
    level = replace(LEVEL, fewest=6, samples=6, seconds=4.0, refines=True)
    cells = {
        cell.case.probe: cell
        for cell in measured(machine, faulty.Steady(), faulty.Restless(), level=level)
    }
    assert [run.process for run in cells["steady"].runs] == [0]
    further = [run.process for run in cells["restless"].runs]
    assert further == list(range(len(further)))
    assert len(further) > 1


def test_a_variant_that_did_not_win_is_not_refined(machine: Machine) -> None:
    level = replace(LEVEL, fewest=6, samples=6, seconds=4.0, refines=True)
    cells = {cell.case["variant"]: cell for cell in measured(machine, faulty.Rivals(), level=level)}
    assert len(cells["slow"].runs) == 1
    assert len(cells["fast"].runs) > 1


def test_pages_on_another_node_void_the_cell(machine: Machine) -> None:
    elsewhere = max(node.id for node in machine.nodes) + 1
    phantom = NumaNode(elsewhere, memory=2**40, free=2**40)
    two_nodes = replace(machine, nodes=(*machine.nodes, phantom))
    (cell,) = measured(two_nodes, faulty.Misplaced())
    assert cell.state is State.VOID
    assert cell.reason is not None
    assert cell.reason.code == "misplaced"
    assert f"node{elsewhere}" in cell.reason.text


def test_a_node_that_is_not_there_is_an_error_of_its_cell(machine: Machine) -> None:
    elsewhere = max(node.id for node in machine.nodes) + 1
    phantom = NumaNode(elsewhere, memory=2**40, free=2**40)
    two_nodes = replace(machine, nodes=(*machine.nodes, phantom))
    cells = measured(two_nodes, Bandwidth())
    remote = [cell for cell in cells if f"node{elsewhere}" in str(cell.case.route.target)]
    assert Place("node", elsewhere) in {cell.case.route.target for cell in remote}
    assert {cell.state for cell in remote} == {State.ERROR}
    assert {cell.reason.code for cell in remote if cell.reason} == {"bind"}
    assert all(cell.state is State.OK for cell in cells if cell not in remote)


def test_a_hang_costs_its_deadline_and_no_more(machine: Machine) -> None:
    probes = (faulty.Hang(), faulty.Stuck(), faulty.Good())
    cells = {cell.case.probe: cell.state for cell in measured(machine, *probes, deadline=3.0)}
    assert cells == {"hang": State.HANG, "stuck": State.HANG, "good": State.OK}
    assert not [pid for pid in children() if "numamicro.worker" in command(pid)]


def test_a_failed_case_is_not_tried_in_the_next_process(machine: Machine) -> None:
    level = replace(LEVEL, processes=3)
    cells = {
        cell.case.probe: cell
        for cell in measured(machine, faulty.Crash(), faulty.Good(), level=level)
    }
    assert len(cells["crash"].runs) == 1
    assert [run.process for run in cells["good"].runs] == [0, 1, 2]


def test_what_a_probe_prints_neither_blocks_nor_garbles(machine: Machine) -> None:
    (cell,) = measured(machine, faulty.Chatty())
    assert cell.state is State.OK


def test_what_does_not_fit_the_budget_is_skipped(machine: Machine) -> None:
    level = replace(LEVEL, seconds=1e-6)
    cells = measured(machine, faulty.Good(), level=level)
    assert [cell.state for cell in cells] == [State.SKIPPED]
    assert cells[0].reason
    assert "--time" in cells[0].reason.text


def test_nothing_is_left_after_a_run(machine: Machine) -> None:
    before = set(os.listdir("/proc/self/fd"))
    measured(machine, faulty.Good(), faulty.Crash())
    end = time.monotonic() + 5
    while children() and time.monotonic() < end:
        time.sleep(0.01)
    assert children() == []
    assert set(os.listdir("/proc/self/fd")) == before


def test_two_hundred_cases_leave_no_mapping_and_no_thread(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = machine.initiators[0].id
    route = Route(node(home), node(machine.targets[0].id))
    case = Case.of("bandwidth", "copy", route, bytes=2 * MIB, pages="auto", threads=2, variant="nt")
    mappings, threads = [], []
    monkeypatch.setattr("numamicro.probes.probe.WARM_UP_SECONDS", 0.0)
    for _ in range(200):
        with Lab(route.source, machine, seed=1) as lab:
            (run,) = worker.measure(Bandwidth(), case, lab, 0, (1, 1)).values()
        assert run.state is State.OK
        mappings.append(lines("/proc/self/maps"))
        threads.append(len(os.listdir("/proc/self/task")))
    # The allocator may take a region for itself now and then; a leak would be hundreds.
    assert mappings[-1] <= mappings[9] + 5
    assert set(threads) == {threads[0]}


def test_two_hundred_runs_leave_no_child_and_no_descriptor(machine: Machine) -> None:
    before = set(os.listdir("/proc/self/fd"))
    level = replace(LEVEL, processes=10, fewest=1, samples=1)
    cells = measured(machine, faulty.Twenty(), level=level)
    assert sum(len(cell.runs) for cell in cells) == 200
    assert children() == []
    assert set(os.listdir("/proc/self/fd")) == before


def lines(path: str) -> int:
    with open(path) as file:
        return sum(1 for _ in file)


def children() -> Sequence[int]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def command(pid: int) -> str:
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read().replace("\0", " ")
