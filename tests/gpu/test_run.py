"""Runs with GPUs: what is planned, what a driver that does not answer costs, and what it holds up."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from numamicro import runner
from numamicro.case import Place, gpus_of
from numamicro.errors import GpuError, NumamicroError
from numamicro.exit import Exit, status_of
from numamicro.journal import Journal
from numamicro.matrix import MATRIX_MESSAGES, CostMatrix, Run, Sample, State, in_matrix
from numamicro.plan import START_SECONDS, Plan, Priority, make_plan
from numamicro.probes import PROBES
from numamicro.probes.gpu import CONTEXT_SECONDS, GpuProbe
from numamicro.runner import Runner
from numamicro.topology import Note
from numamicro.units import MIB
from numamicro.wishes import DEFAULT, LEVELS, QUICK, THOROUGH, Level, Wishes
from tests.examples import header, with_gpus
from tests.examples import machine as example_machine
from tests.gpu.conftest import numamicro
from tests.standin.account import read_account
from tests.standin.machines import MACHINES

if TYPE_CHECKING:
    from pathlib import Path

    from numamicro.case import Case
    from numamicro.topology import Machine

GPU_PROBES = [probe for probe in PROBES if isinstance(probe, GpuProbe)]


def planned(machine: Machine, level: Level) -> Plan:
    return make_plan(machine, Wishes(level=level).on(machine), PROBES)


# --- Plans -------------------------------------------------------------------------------------------


def test_a_quick_look_at_eight_gpus_on_two_nodes_takes_less_than_two_minutes() -> None:
    plan = planned(with_gpus(example_machine((0, 1)), 8), QUICK)
    assert plan.wanted < 120
    assert plan.wanted <= plan.wishes.budget
    assert not any(item.waived for item in plan.planned)


def test_the_matrices_of_eight_gpus_on_two_nodes_fit_the_usual_budget() -> None:
    plan = planned(with_gpus(example_machine((0, 1)), 8), DEFAULT)
    first = [item for item in plan.to_measure if item.priority <= Priority.PAIRS]
    assert {item.probe.name for item in first} >= {"host-copy", "peer-copy", "all-reduce"}
    assert replace(plan, planned=tuple(first)).wanted < plan.wishes.budget


def test_the_start_of_a_worker_is_planned_once_whatever_it_measures() -> None:
    machine = with_gpus(example_machine((0, 1)), 2)
    wishes = Wishes(level=DEFAULT, only=("peer-copy", "all-reduce/peer")).on(machine)
    plan = make_plan(machine, wishes, PROBES)
    assert {str(item.place) for item in plan.to_measure} == {"gpu0+gpu1"}
    phases = 2  # the matrices, then the curves
    starts = phases * (START_SECONDS + 2 * CONTEXT_SECONDS)
    a_process = starts + sum(item.seconds for item in plan.to_measure)
    assert plan.wanted == pytest.approx(DEFAULT.processes * a_process)


@pytest.mark.parametrize("level", LEVELS.values(), ids=lambda level: level.name)
def test_every_node_meets_every_gpu_and_every_gpu_every_other(level: Level) -> None:
    machine = with_gpus(example_machine((0, 1, 4)), 4)
    routes = {
        (item.case.probe, str(item.case.route.source), str(item.case.route.target))
        for item in planned(machine, level).planned
    }
    for gpu in range(4):
        for node in (0, 1, 4):
            assert ("host-copy", f"node{node}", f"gpu{gpu}") in routes
            assert ("host-copy", f"gpu{gpu}", f"node{node}") in routes
        for other in range(4):
            assert (("peer-copy", f"gpu{gpu}", f"gpu{other}") in routes) == (gpu != other)
            assert (("all-reduce", f"gpu{gpu}", f"gpu{other}") in routes) == (gpu < other)


def test_each_level_has_its_probes() -> None:
    machine = with_gpus(example_machine((0, 1)), 2)
    probes = {
        level: {item.probe.name for item in planned(machine, level).planned if item.probe.needs_gpu}
        for level in (QUICK, DEFAULT, THOROUGH)
    }
    assert probes[QUICK] == {"host-copy", "peer-copy", "all-reduce"}
    assert probes[DEFAULT] - probes[QUICK] == {
        "host-latency",
        "peer-latency",
        "launch",
        "gpu-memory",
    }
    assert probes[THOROUGH] == {probe.name for probe in GPU_PROBES if not probe.alone}


def test_all_reduces_of_every_pair_come_before_curves_and_groups() -> None:
    plan = planned(with_gpus(example_machine((0, 1)), 4), DEFAULT)
    items = [item for item in plan.planned if item.case.probe == "all-reduce"]
    late = [item for item in items if item.priority is Priority.SWEEPS]
    assert {in_matrix(item.case) for item in items if item not in late} == {True}
    assert {item.case.number("message") for item in items if item not in late} == {*MATRIX_MESSAGES}
    assert len({item.case["message"] for item in late}) == 8
    assert any(str(item.case.route.source) == "gpu0+gpu1+gpu2+gpu3" for item in late)


def test_a_message_passes_the_nearest_node_and_the_farthest_and_all_if_thorough() -> None:
    machine = with_gpus(example_machine((0, 1, 2)), 2)

    def stages(level: Level) -> set[str]:
        return {
            str(item.case.route.via)
            for item in planned(machine, level).planned
            if item.case.operation == "staged" and str(item.case.route.source) == "gpu0"
        }

    assert len(stages(QUICK)) == 1
    assert stages(QUICK) < stages(DEFAULT)
    assert "node2" in stages(DEFAULT)  # no GPU is next to it
    assert stages(THOROUGH) == {"node0", "node1", "node2"}


def test_without_gpus_no_gpu_is_planned_and_the_budget_is_the_levels() -> None:
    plan = planned(example_machine((0, 1)), DEFAULT)
    assert not any(item.probe.needs_gpu for item in plan.planned)
    assert plan.wishes.budget == DEFAULT.seconds
    named = Wishes(level=DEFAULT, seconds=7.0).on(with_gpus(example_machine((0,)), 1))
    assert named.budget == 7.0


@pytest.mark.parametrize(
    ("only", "gpus"), [("host-copy", 0), ("peer-copy,all-reduce/peer", 1), ("launch", 0)]
)
def test_asked_for_gpus_alone_a_machine_without_them_has_an_empty_plan(
    only: str, gpus: int
) -> None:
    machine = with_gpus(example_machine((0, 1)), gpus)
    plan = make_plan(machine, Wishes(only=tuple(only.split(","))).on(machine), PROBES)
    assert plan.planned == ()
    assert status_of(CostMatrix(header(machine), ())) is Exit.DONE


def test_cells_of_gpus_that_are_all_waived_are_no_failure() -> None:
    machine = with_gpus(example_machine((0, 1)), 2)
    strangers = replace(
        machine, gpu_pairs=tuple(replace(pair, claimed=False) for pair in machine.gpu_pairs)
    )
    plan = make_plan(strangers, Wishes(only=("all-reduce/peer",)), PROBES)
    assert {item.waived.code for item in plan.planned if item.waived} == {"no-peer-access"}
    assert plan.to_measure == ()
    journal = Journal()
    assert Runner(plan, strangers, journal).run()
    assert status_of(CostMatrix(header(strangers), journal.fold())) is Exit.DONE


def test_a_wish_that_leaves_nothing_of_the_gpus_that_are_there_is_refused() -> None:
    machine = with_gpus(example_machine((0, 1)), 1)
    bare = replace(machine.nodes[1], memory=0, free=0)
    lopsided = replace(machine, nodes=(machine.nodes[0], bare))
    with pytest.raises(NumamicroError, match="nothing is left to measure"):
        make_plan(lopsided, Wishes(only=("host-copy",), nodes=(1,)), PROBES)


@pytest.mark.parametrize(
    ("name", "only", "options", "contexts"),
    [
        ("one", "host-copy/h2d,host-copy/d2h", (), 1),
        (
            "four-on-two-sockets",  # less of it, and smaller: what is moved takes real time
            "host-copy/h2d,host-copy/d2h,peer-copy/copy",
            ("--nodes", "0", "--memory", "16M"),
            4,
        ),
    ],
)
def test_most_of_a_gpus_time_is_measured(
    name: str, only: str, options: tuple[str, ...], contexts: int, tmp_path: Path
) -> None:
    """On the simulated machine's account, of what a quick run measures with GPUs: a context for each
    GPU of each worker, once, and of all else less than a fifth."""
    file = tmp_path / "account"
    done = numamicro(
        MACHINES[name],
        *("matrix", "--quick", "-q", "--only", only, *options),
        CUDA_VISIBLE_DEVICES="0,1",
        NUMAMICRO_STANDIN_ACCOUNT=str(file),
    )
    assert done.returncode == 0, done.stderr
    account = read_account(file)
    assert account.timed > 0
    assert account.contexts == contexts
    assert account.harness < 0.2, account.calls
    assert account.outside < 0.55, account.calls


def test_a_worker_pins_its_memory_once(tmp_path: Path) -> None:
    """Whatever a GPU measures with a node: to pin takes longer than all else of setting up."""
    file = tmp_path / "account"
    options = ("--quick", "-q", "--only", "host-copy", "--memory", "2M")
    done = numamicro(MACHINES["one"], "matrix", *options, NUMAMICRO_STANDIN_ACCOUNT=str(file))
    assert done.returncode == 0, done.stderr
    calls = read_account(file).calls
    workers = calls["cuDevicePrimaryCtxRetain"][0]
    # The memory that is measured, that of one more way at once, and what data pass on their way.
    assert calls["cuMemHostRegister_v2"][0] <= 2 * workers + 1
    assert calls["cuMemHostRegister_v2"][0] == calls["cuMemHostUnregister"][0]


# --- Drivers that do not answer ------------------------------------------------------------------------


def fake_driver(folder: Path, what_it_does: str) -> None:
    """Build a driver whose every function does the same."""
    source = f"""
        #include <stdlib.h>
        #include <unistd.h>
        static int function(void) {{ {what_it_does}; return 0; }}
        int cuGetProcAddress_v2(const char *name, void **address, int v, unsigned long f, int *s) {{
            (void)name, (void)v, (void)f, (void)s;
            *address = (void *)function;
            return 0;
        }}
    """
    (folder / "driver.c").write_text(textwrap.dedent(source))
    command = ["cc", "-shared", "-fPIC", "-o", "libcuda.so.1", "driver.c"]
    subprocess.run(command, cwd=folder, check=True)


def ask(folder: Path, deadline: float) -> dict[str, Any]:
    code = (
        "import json, sys; from numamicro.topology.gpu_facts import ask_gpus; "
        "json.dump(ask_gpus(float(sys.argv[1])), sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(deadline)],
        env={"LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_driver_that_hangs_costs_its_deadline(tmp_path: Path) -> None:
    fake_driver(tmp_path, "for (;;) pause()")
    assert ask(tmp_path, 3.0) == {"error": "the NVIDIA driver gave no answer within 3 s"}


def test_a_driver_that_crashes_costs_itself(tmp_path: Path) -> None:
    fake_driver(tmp_path, "abort()")
    assert "ended the process that asked" in ask(tmp_path, 60.0)["error"]


def test_a_library_that_is_not_there_is_named() -> None:
    from numamicro._gpu import Driver

    with pytest.raises(GpuError, match="no NVIDIA driver: libnone") as caught:
        Driver("libnone.so")
    assert caught.value.name is None
    with pytest.raises(GpuError, match="of no use here: it has no cuGetProcAddress"):
        Driver("libc.so.6")


class StuckWorker:
    """A worker that gives no answer, and that a kill does not end."""

    def __init__(self, place: object, *_: object) -> None:
        self.place = place
        self.alive = self.stuck = False

    def measure(self, _: object, case: Any, process: int, *__: object) -> dict[str, Run]:
        if Place("gpu", 0) not in gpus_of(case.route.source, case.route.target):
            return {"": Run(process, state=State.ERROR, reason=Note("planted", "of another GPU"))}
        self.stuck = True
        return {"": Run(process, state=State.HANG, reason=Note("deadline", "no answer"))}

    def kill(self) -> None: ...

    close = kill


def test_no_other_worker_is_sent_to_a_gpu_whose_driver_is_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "Worker", StuckWorker)
    machine = with_gpus(example_machine((0, 1)), 2)
    wishes = Wishes(level=QUICK, only=("host-copy/h2d",), memory=MIB)
    journal = Journal()
    Runner(make_plan(machine, wishes, PROBES), machine, journal).run()
    found = [
        (cell.state, cell.reason.code if cell.reason else None)
        for cell in journal.fold()
        if cell.case.route.target == Place("gpu", 0)
    ]
    assert sorted(found) == [(State.HANG, "deadline"), (State.WAIVED, "gpu-stuck")]
    others = {
        cell.reason.code
        for cell in journal.fold()
        if cell.reason and cell.case.route.target == Place("gpu", 1)
    }
    assert others == {"planted"}


class WatchedWorker:
    """A worker that notes who else lives while it measures; its driver fails where it is told to."""

    started: ClassVar[Counter[str]] = Counter()
    alive_ones: ClassVar[list[WatchedWorker]] = []
    beside: ClassVar[list[tuple[str, list[str]]]] = []
    failing: ClassVar[str] = ""

    def __init__(self, place: object, *_: object) -> None:
        self.place = str(place)
        self.stuck = False
        self.started[self.place] += 1
        self.alive_ones.append(self)

    @property
    def alive(self) -> bool:
        return self in self.alive_ones

    def measure(self, _: object, case: Case, process: int, *__: object) -> dict[str, Run]:
        others = [each.place for each in self.alive_ones if each is not self]
        self.beside.append((case.key, others))
        if case.key == self.failing:
            failure = Note("driver", "planted")
            return {"": Run(process, state=State.ERROR, reason=failure)}
        return {"": Run(process, (Sample(1.0, 1),) * 8)}

    def close(self) -> None:
        if self.alive:
            self.alive_ones.remove(self)

    kill = close


def watched(monkeypatch: pytest.MonkeyPatch, machine: Machine, failing: str = "") -> Journal:
    """Carry out the default plan of everything with workers that are watched."""
    monkeypatch.setattr(runner, "Worker", WatchedWorker)
    monkeypatch.setattr(WatchedWorker, "failing", failing)
    for name in ("started", "alive_ones", "beside"):
        getattr(WatchedWorker, name).clear()
    journal = Journal()
    assert Runner(planned(machine, DEFAULT), machine, journal).run()
    assert not WatchedWorker.alive_ones
    return journal


def test_a_gpus_contexts_are_made_once_in_a_process_of_its_matrices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = with_gpus(example_machine((0, 1)), 4)
    watched(monkeypatch, machine)
    curves = {
        str(item.place)
        for item in planned(machine, DEFAULT).to_measure
        if gpus_of(item.place) and item.priority > Priority.PAIRS
    }
    assert curves == {"gpu0+gpu1", "gpu0+gpu2", "gpu0+gpu1+gpu2+gpu3"}
    for place, starts in WatchedWorker.started.items():
        if place.startswith("gpu"):
            rounds = (place.count("+") < 2) + (place in curves)
            assert starts == DEFAULT.processes * rounds, place


def test_what_waits_beside_a_worker_is_a_gpus_and_no_buffer_of_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched(monkeypatch, with_gpus(example_machine((0, 1)), 4))
    waiting = {place for _, others in WatchedWorker.beside for place in others}
    assert "gpu0+gpu1" in waiting
    assert all(place.startswith("gpu") for place in waiting)


def test_a_gpu_for_one_process_at_a_time_has_one_worker_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = with_gpus(example_machine((0, 1)), 4)
    exclusive = replace(machine.gpus[0], compute_mode="exclusive-process")
    watched(monkeypatch, replace(machine, gpus=(exclusive, *machine.gpus[1:])))
    waiting = {place for _, others in WatchedWorker.beside for place in others}
    assert "gpu1" in waiting
    assert not any("gpu0" in place for place in waiting)


def test_no_worker_goes_on_waiting_when_the_driver_failed_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = with_gpus(example_machine((0, 1)), 4)
    watched(monkeypatch, machine)
    victim = next(
        key
        for (key, others), (_, after) in pairwise(WatchedWorker.beside)
        if key.startswith("host-copy") and others and after
    )
    journal = watched(monkeypatch, machine, failing=victim)
    failed = [cell.case.key for cell in journal.fold() if cell.state is not State.OK]
    assert failed == [victim]
    turn = [key for key, _ in WatchedWorker.beside].index(victim)
    assert WatchedWorker.beside[turn][1]
    assert not WatchedWorker.beside[turn + 1][1]
