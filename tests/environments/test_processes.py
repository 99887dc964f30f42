"""The commands where less is allowed than on a bare machine: what is measured, what is said.

Real processes: each is hindered before it starts, in the way that a container or a batch system does
it, and is told nothing of that.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numamicro.case import node
from numamicro.matrix import Placement
from numamicro.probes.probe import cache_floor, node_routes
from numamicro.topology import discover
from numamicro.wishes import Wishes
from numamicro.worker.lab import Held, misplaced
from tests.environments import jail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MACHINE = discover()
SMALLEST = max(cache_floor(route, MACHINE) for route in node_routes(MACHINE, Wishes()))
SINGLE = len(MACHINE.nodes) == 1
MATRIX = ("matrix", "-q", "--quick", "--only", "bandwidth/read", "--threads", "1", "--memory")
MEASURE = (*MATRIX, str(SMALLEST), "--json")
# For a process that shall not see /sys: the same program, told that nothing is there.
BLIND = """
import os, sys
real_open, real_list, real_exists = os.open, os.listdir, os.path.lexists
hidden = lambda path: str(path).startswith("/sys")
def blind(call):
    def tried(path, *rest, **named):
        if hidden(path):
            raise FileNotFoundError(2, "No such file or directory", path)
        return call(path, *rest, **named)
    return tried
os.open, os.listdir = blind(real_open), blind(real_list)
os.path.lexists = lambda path: not hidden(path) and real_exists(path)
from numamicro.cli import main
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        assert self.out, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.document["measurements"]
        assert found
        return found

    @property
    def codes(self) -> set[str]:
        return {each["code"] for each in self.document["findings"]}


def numamicro(
    *arguments: str, after: Callable[[], object] | None = None, start: tuple[str, ...] = ()
) -> Answer:
    """Run a command in a child that has first done `after`."""
    command = [sys.executable, *(start or ("-m", "numamicro")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, preexec_fn=after)
    return Answer(done.returncode, done.stdout, done.stderr)


def placements(answer: Answer) -> Iterator[dict[str, Any]]:
    """Give the placement of every run, of cells that must all be ok."""
    for cell in answer.cells:
        assert cell["state"] == "ok", cell
        yield from (run["placement"] for run in cell["runs"])


def policies(answer: Answer) -> set[str]:
    return {run["outcome"]["policy"] for cell in answer.cells for run in cell["runs"]}


# ---- seccomp -------------------------------------------------------------------------------------


def test_dockers_filter_costs_binding_but_no_proof() -> None:
    docker = jail.filtered(jail.DOCKER)
    measured = numamicro(*MEASURE, after=docker)
    assert measured.status == 0
    for placement in placements(measured):
        assert placement["by"] == "numa_maps"
        assert placement["share"] >= 0.99
    assert policies(measured) == {"first-touch"}
    told = numamicro("doctor", after=docker)
    assert told.status == 0
    assert "mbind or get_mempolicy gives EPERM, under a seccomp filter" in told.out
    assert "--cap-add SYS_NICE" in told.out
    assert "move_pages gives EPERM" in told.out
    assert "--cap-add PERFMON" in told.out


def test_dockers_filter_with_the_capability_costs_nothing() -> None:
    docker = jail.filtered(jail.DOCKER_NICE)
    measured = numamicro(*MEASURE, after=docker)
    assert measured.status == 0
    assert {placement["by"] for placement in placements(measured)} == {"numa_maps"}
    assert policies(measured) == {"bind"}
    codes = numamicro("doctor", "--json", after=docker).codes
    assert "bind-forbidden" not in codes
    assert "asking-forbidden" in codes


@pytest.mark.parametrize("code", [errno.EACCES, errno.EINVAL, errno.ENOSYS])
def test_first_touch_serves_whatever_stands_against_binding(code: int) -> None:
    refusing = jail.filtered({"mbind": code})
    measured = numamicro(*MEASURE, after=refusing)
    assert measured.status == 0
    assert all(placement["share"] >= 0.99 for placement in placements(measured))
    assert policies(measured) == {"first-touch"}
    codes = numamicro("doctor", "--json", after=refusing).codes
    assert len(codes & {"bind-forbidden", "bind-fails"}) == 1


def test_pages_that_nobody_will_place_are_proven_by_nothing() -> None:
    refusing = jail.steps(permitted(jail.without("/proc")), jail.filtered(jail.DOCKER))
    measured = numamicro(*MEASURE, after=refusing)
    for cell in measured.cells:
        if SINGLE:
            # There is no other node on which they could be.
            assert cell["state"] == "ok"
            assert cell["runs"][0]["placement"]["share"] is None
            assert "unverified" in {each["code"] for each in cell["runs"][0]["warnings"]}
        else:
            assert cell["state"] == "void"
            assert cell["reason"]["code"] == "placement-unknown"


def test_memory_that_is_neither_bound_nor_asked_about_has_no_figure() -> None:
    unasked = Placement(share=None, by=None)
    reason = misplaced(Held(node(0), "auto", unasked, sure=False))
    assert reason is not None
    assert reason.code == "placement-unknown"
    assert "--cap-add SYS_NICE" in reason.text
    assert misplaced(Held(node(0), "auto", unasked, sure=True)) is None


def test_threads_that_may_not_be_pinned_give_no_figure_but_the_way_out() -> None:
    refusing = jail.filtered({"sched_setaffinity": errno.EPERM})
    measured = numamicro(*MEASURE, after=refusing)
    assert measured.status == 3
    for cell in measured.cells:
        assert cell["state"] == "error"
        assert "no thread can be pinned to CPUs" in cell["reason"]["text"]
        assert "sched_setaffinity" in cell["reason"]["text"]
    assert "pinning-forbidden" in numamicro("doctor", "--json", after=refusing).codes


# ---- no /sys -------------------------------------------------------------------------------------


def permitted(step: Callable[[], object]) -> Callable[[], object]:
    """Give a step back if a child may do it, else skip and say what is missing."""
    try:
        subprocess.run([sys.executable, "-c", ""], check=True, preexec_fn=step)
    except subprocess.SubprocessError:
        pytest.skip("this user may not mount in a namespace of its own (unshare -Urm): run as root")
    return step


def without_sys(way: str) -> dict[str, Any]:
    if way == "mounts":
        return {"after": permitted(jail.without("/sys"))}
    return {"start": ("-c", BLIND)}


# The second way needs no permission, so that something always runs.
@pytest.mark.parametrize("way", ["mounts", "blind"])
def test_without_sys_one_class_is_measured(way: str) -> None:
    measured = numamicro(*MEASURE, **without_sys(way))
    assert measured.status == 0, measured.err
    assert {placement["share"] for placement in placements(measured)} == {1.0}
    machine = measured.document["machine"]
    assert {"no-sysfs", "llc-unknown"} <= {note["code"] for note in machine["notes"]}
    assert len(machine["nodes"]) == 1
    cpus = [cpu["id"] for cpu in machine["cpus"]]
    assert cpus == sorted(os.sched_getaffinity(0))
    told = numamicro("doctor", **without_sys(way))
    assert told.status == 0
    assert "docker -v /sys:/sys:ro" in told.out
    assert "thp.enabled" in told.out.partition("Not told here")[2]


# ---- an unprivileged user ------------------------------------------------------------------------


def test_nobody_needs_no_right_to_measure() -> None:
    nobody = as_nobody()
    measured = numamicro(*MEASURE, after=nobody)
    assert measured.status == 0
    for placement in placements(measured):
        assert placement["by"] == "move_pages"
        assert placement["share"] >= 0.99
    assert policies(measured) == {"bind"}
    told = numamicro("doctor", "--json", after=nobody)
    assert told.status == 0
    assert told.codes.isdisjoint({"bind-forbidden", "asking-forbidden", "pinning-forbidden"})


def as_nobody() -> Callable[[], object]:
    """Give the step that makes a child unprivileged, and yet lets it find its program."""
    program = (Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2])
    ways = (jail.as_nobody, jail.steps(jail.showing(*program), jail.as_nobody))
    for way in ways:
        if can_start(way):
            return way
    pytest.skip(f"{sys.executable} lies where only its owner may read: use one that all can")


def can_start(after: Callable[[], object]) -> bool:
    """Whether the program can be loaded at all after that step."""
    command = [sys.executable, "-c", "import numamicro._cpu"]
    try:
        return subprocess.run(command, capture_output=True, preexec_fn=after).returncode == 0
    except (PermissionError, subprocess.SubprocessError):
        return False


# ---- a cpuset ------------------------------------------------------------------------------------


def barred_by(after: Callable[[], object]) -> dict[str, Any]:
    """Give the finding on CPUs that are not allowed."""
    findings = numamicro("doctor", "--json", after=after).document["findings"]
    (found,) = [each for each in findings if each["code"] == "cpus-not-allowed"]
    assert isinstance(found, dict)
    return found


def two_cpus() -> tuple[int, int]:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("only one CPU may be used, so that none can be barred: needs two")
    return cpus[0], cpus[-1]


def test_an_affinity_narrows_what_is_measured() -> None:
    first, last = two_cpus()

    def narrow() -> None:
        os.sched_setaffinity(0, {last})

    measured = numamicro(*MEASURE, after=narrow)
    assert measured.status == 0
    cpus = {run["outcome"]["cpus"] for cell in measured.cells for run in cell["runs"]}
    assert cpus == {str(last)}
    found = barred_by(narrow)
    assert f"{first}" in found["what"]
    assert "taskset" in found["remedy"]
    assert "Cpus_allowed_list" in found["evidence"]


@pytest.fixture
def cpuset() -> Iterator[tuple[Path, int]]:
    """Give a control group that grants one CPU, and that CPU."""
    _, last = two_cpus()
    for top in ("/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"):
        group = Path(top) / f"numamicro-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "cpuset.mems").write_text(str(MACHINE.targets[0].id))
            (group / "cpuset.cpus").write_text(str(last))
        except OSError:
            group.rmdir()
            continue
        yield group, last
        group.rmdir()
        return
    pytest.skip("no cpuset can be made below /sys/fs/cgroup: run as root where it can be written")


def test_a_control_group_narrows_what_is_measured(cpuset: tuple[Path, int]) -> None:
    group, last = cpuset
    measured = numamicro(*MEASURE, after=jail.joining(group))
    assert measured.status == 0
    assert measured.document["machine"]["cgroup"]["cpus"] == [last]
    cpus = {run["outcome"]["cpus"] for cell in measured.cells for run in cell["runs"]}
    assert cpus == {str(last)}
    found = barred_by(jail.joining(group))
    assert "--cpuset-cpus" in found["remedy"]
    assert found["evidence"].endswith(f" is {last}")
