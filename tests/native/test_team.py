"""Threads: where they are pinned, that they finish, and that none is left over."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from numamicro._cpu import Arena, Displaced, Team, fill, kernels, read

from .conftest import KIB, allowed_cpu

TASKS = Path("/proc/self/task")
TEAM_ON_ONE_CPU = """
import os, sys
from numamicro._cpu import Arena, Displaced, Team, fill, read, kernels
cpu = min(os.sched_getaffinity(0))
os.sched_setaffinity(0, {cpu})
if sys.argv[1] == "fifo":
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
with Arena(1 << 20, huge=False) as arena, Team([cpu] * 8) as team:
    expected = fill(team, arena, arena.size, 1)
    for _ in range(20):
        assert read(team, arena, arena.size, kernels()[0][0], 1)[2] == expected
"""


def task_ids() -> set[str]:
    return {task.name for task in TASKS.iterdir()}


def come_down_to(tasks: set[str]) -> bool:
    """Wait for the kernel to bury threads: a join returns a moment before they leave the list."""
    deadline = time.monotonic() + 10
    while task_ids() != tasks and time.monotonic() < deadline:
        time.sleep(0.01)
    return task_ids() == tasks


def status_of(task: str, key: str) -> str:
    return re.search(rf"{key}:\s+(\S+)", (TASKS / task / "status").read_text())[1]  # type: ignore[index]


def test_each_thread_is_pinned_to_its_cpu_and_takes_no_signals() -> None:
    cpus = sorted(os.sched_getaffinity(0))
    before = task_ids()
    with Team(cpus) as team:
        assert team.cpus == tuple(cpus)
        started = task_ids() - before
        assert sorted(int(status_of(task, "Cpus_allowed_list")) for task in started) == cpus
        blocked = {int(status_of(task, "SigBlk"), 16) for task in started}
        assert all(mask & (1 << 2 - 1) for mask in blocked)  # SIGINT is the caller's


@pytest.mark.parametrize("cpu", [-1, 1023, 1024, 5000, 1 << 20])
def test_a_cpu_that_does_not_exist_is_refused_and_no_thread_stays(cpu: int) -> None:
    before = task_ids()
    if cpu >= 0 and Path(f"/sys/devices/system/cpu/cpu{cpu}").exists():
        pytest.skip(f"this machine has a CPU {cpu}")
    with pytest.raises(OSError, match=f"CPUs.*{cpu}") as caught:
        Team([allowed_cpu(), cpu])
    assert caught.value.errno == errno.EINVAL
    assert come_down_to(before)


def test_an_empty_team_is_refused() -> None:
    with pytest.raises(OSError, match="CPUs") as caught:
        Team([])
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("cpus", [["0"], [1.5], [2**40]])
def test_what_is_no_cpu_is_refused(cpus: list[int]) -> None:
    with pytest.raises((TypeError, OverflowError)):
        Team(cpus)


@pytest.mark.parametrize("scheduling", ["other", "fifo"])
def test_more_threads_than_cpus_finish(scheduling: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", TEAM_ON_ONE_CPU, scheduling],
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    if "PermissionError" in run.stderr:
        pytest.skip("SCHED_FIFO needs CAP_SYS_NICE")
    assert run.returncode == 0, run.stderr


def test_threads_that_share_a_cpu_are_reported_as_disturbed(arena: Arena) -> None:
    with Team([allowed_cpu()] * 2) as team:
        fill(team, arena, arena.size, 1)
        elapsed, repetitions, strays = 0, 1000, 0
        while elapsed < 200_000_000:  # many time slices
            elapsed, _, _, strays = read(team, arena, arena.size, kernels()[0][0], repetitions)
            repetitions *= 2
    assert strays > 0


def test_a_thread_that_was_moved_is_reported(arena: Arena) -> None:
    here, *others = sorted(os.sched_getaffinity(0))
    if not others:
        pytest.skip("a thread can be moved only where there are two CPUs")
    before = task_ids()
    with Team([here]) as team:
        (task,) = task_ids() - before
        fill(team, arena, arena.size, 1)
        os.sched_setaffinity(int(task), others)
        with pytest.raises(Displaced):
            fill(team, arena, arena.size, 1)


def test_no_thread_and_no_mapping_is_left_over() -> None:
    def cycle() -> tuple[int, int]:
        with Team([allowed_cpu()] * 3) as team, Arena(64 * KIB, huge=False) as arena:
            fill(team, arena, arena.size, 1)
        mapped_kib = int(status_of(str(os.getpid()), "VmSize"))
        return len(Path("/proc/self/maps").read_text().splitlines()), mapped_kib

    cycles = 200
    tasks = task_ids()
    before = cycle()
    for _ in range(cycles):
        after = cycle()
    assert come_down_to(tasks)
    # The interpreter maps a little now and then; a leak is at least one mapping a cycle.
    assert after[0] < before[0] + cycles // 2
    assert after[1] < before[1] + cycles // 2 * 256


def test_a_team_forgotten_ends_its_threads() -> None:
    before = task_ids()
    Team([allowed_cpu()])
    assert come_down_to(before)


def test_threads_sleep_between_jobs(single: Team, arena: Arena) -> None:
    fill(single, arena, arena.size, 1)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.1


def test_a_closed_team_is_refused(arena: Arena) -> None:
    team = Team([allowed_cpu()])
    team.close()
    team.close()
    with pytest.raises(ValueError, match="closed"):
        fill(team, arena, arena.size, 1)


def test_a_fork_has_no_team_and_says_so(single: Team, arena: Arena) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: on purpose
        child = os.fork()
    if child == 0:
        try:
            fill(single, arena, arena.size, 1)
        except OSError as error:
            single.close()
            os._exit(error.errno or 0)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == errno.ECHILD
