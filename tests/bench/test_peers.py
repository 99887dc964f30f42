"""The bench's contenders: what peers print, the peers of our own, and numamicro's turns."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from bench.__main__ import select
from bench.contests import LOOPS, contests
from bench.pairs import TRIALS, Reading, best_in_trial
from bench.peers import (
    Program,
    Work,
    advised,
    compile_native,
    likwid,
    perf_mem,
    read_likwid,
    read_native,
    read_perf,
)
from bench.product import TURN_BYTES, FreeRunning, Product, passes_of
from numamicro.case import Case, Route, node
from numamicro.errors import NumamicroError
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.latency import STEPS, Latency
from numamicro.topology import Machine, discover
from numamicro.units import MIB

if TYPE_CHECKING:
    from pathlib import Path

# likwid-bench 5.2.2 on an AMD EPYC.
LIKWID = """\
Allocate: Process running on hwthread 0 (Domain N) - Vector length 125000000/1000000000 Offset 0 Alignment 512
--------------------------------------------------------------------------------
LIKWID MICRO BENCHMARK
Test: load_avx
--------------------------------------------------------------------------------
Using 1 work groups
Using 1 threads
--------------------------------------------------------------------------------
--------------------------------------------------------------------------------
Group: 0 Thread 0 Global Thread 0 running on hwthread 0 - Vector length 125000000 Offset 0
--------------------------------------------------------------------------------
Cycles:			3083907267
CPU Clock:		2445377811
Cycle Clock:		2445377811
Time:			1.261117e+00 sec
Iterations:		16
Iterations per thread:	16
Inner loop executions:	7812500
Size (Byte):		1000000000
Size per thread:	1000000000
Number of Flops:	0
MFlops/s:		0.00
Data volume (Byte):	16000000000
MByte/s:		12687.17
Cycles per update:	1.541954
Cycles per cacheline:	12.335629
Loads per update:	1
Stores per update:	0
Load bytes per element:	8
Store bytes per elem.:	0
Instructions:		875000016
UOPs:			750000000
--------------------------------------------------------------------------------
"""
# The same where the CPU lacks the instructions: no figure, and the status is 1.
LIKWID_ILLEGAL = """\
Group: 0 Thread 0 Global Thread 0 running on hwthread 0 - Vector length 125000000 Offset 0
ERROR: Illegal instruction
This happens if you want to run a kernel that uses instructions not available on your system.
"""


def test_likwid_counts_megabytes_of_a_million_bytes() -> None:
    reading = read_likwid(LIKWID)
    assert reading.value == pytest.approx(12687.17e6)
    assert reading.facts["bytes"] == 16_000_000_000
    assert reading.value == pytest.approx(16e9 / 1.261117, rel=1e-4)


@pytest.mark.parametrize("text", ["", LIKWID_ILLEGAL])
def test_likwid_output_without_a_figure_is_refused(text: str) -> None:
    with pytest.raises(NumamicroError, match="printed no MByte/s"):
        read_likwid(text)


@pytest.mark.parametrize(
    ("flags", "kernels"),
    [
        ({"sse2", "avx", "avx2", "avx512f"}, ["copy_avx512", "copy_avx", "copy_sse"]),
        ({"sse2", "avx"}, ["copy_avx", "copy_sse"]),
        (set(), ["copy"]),
    ],
)
def test_likwid_runs_every_width_of_the_cpu(flags: set[str], kernels: list[str]) -> None:
    peer = likwid("copy", Work(1, range(4), 600_000_000, 64), flags)
    assert peer.commands == tuple(
        ("likwid-bench", "-t", kernel, "-w", "M1:600MB:4", "-i", "64") for kernel in kernels
    )


def test_perf_copies_count_both_arrays() -> None:
    text = "# function 'default' (Default memcpy() provided by glibc)\n5156635275.025204\n"
    assert read_perf(text, arrays=2).value == pytest.approx(2 * 5156635275.025204)
    peer = perf_mem("memcpy", "default", Work(0, [3], 300, 4))
    assert peer.read(text).value == pytest.approx(2 * 5156635275.025204)
    assert peer.commands[0][peer.commands[0].index("-s") + 1] == "150B"
    assert peer.commands[0][:3] == ("taskset", "-c", "3")
    with pytest.raises(NumamicroError, match="printed no rate"):
        read_perf("Unknown memcpy function", arrays=2)


def test_native_output_is_a_rate_or_a_time() -> None:
    text = '{"bytes": 6000, "steps": 300, "seconds": 1.5, "huge_bytes": 1000}'
    assert read_native(text, "bytes", huge=1000).value == pytest.approx(4000)
    assert read_native(text, "steps", huge=1000).value == pytest.approx(0.005)


@pytest.mark.parametrize("huge", [0, 500, 2000])
def test_native_output_with_other_pages_is_refused(huge: int) -> None:
    text = '{"bytes": 6000, "seconds": 1.5, "huge_bytes": 1000}'
    with pytest.raises(NumamicroError, match="huge pages"):
        read_native(text, "bytes", huge=huge)


@pytest.mark.parametrize("text", ["", "{}", "12", "read: killed"])
def test_native_output_without_a_figure_is_refused(text: str) -> None:
    with pytest.raises(NumamicroError, match="printed no bytes"):
        read_native(text, "bytes", huge=0)


def test_a_peer_that_fails_ends_the_contest_with_a_sentence() -> None:
    peer = Program("broken", "", (("false",),), lambda text: Reading(float(text)))
    with pytest.raises(NumamicroError, match="the peer broken failed"):
        peer.turn(1)
    absent = Program("absent", "", (("no-such-peer",),), lambda text: Reading(float(text)))
    assert absent.missing == "no-such-peer is not installed"
    beneath = Program("sh", "", (("sh",),), lambda text: Reading(float(text)), needs=("no-such",))
    assert beneath.missing == "no-such is not installed"


def test_a_peer_keeps_its_best_kernel() -> None:
    commands = tuple(("echo", text) for text in ("2.5", "7.25", "7"))
    peer = Program("loops", "three", commands, lambda text: Reading(float(text)))
    warm = peer.warmed_up()
    assert warm.commands == (("echo", "7.25"),)
    assert warm.about == "three; here echo 7.25"
    assert warm.turn(1).value == 7.25


def test_a_peer_that_got_small_pages_is_no_figure() -> None:
    touch = "x = bytearray(64 << 20); print(1.0)"
    python = (sys.executable, "-S", "-c", touch)
    peer = Program("small", "", (python,), lambda text: Reading(float(text)), huge=64 << 20)
    with pytest.raises(NumamicroError, match="got no huge pages"):
        peer.turn(1)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc here")
    folder = tmp_path_factory.mktemp("programs")
    compile_native(folder)
    return folder


def run(*command: str | Path) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    facts: dict[str, float] = json.loads(done.stdout)
    return facts


def a_cpu() -> str:
    return str(min(os.sched_getaffinity(0)))


def test_the_chase_visits_every_line(programs: Path) -> None:
    # A walk of 4099 steps that comes back, where one of 1 step does not: as 4099 is prime, the
    # cycle has that length.
    lines = 4099
    whole = run(programs / "chase", a_cpu(), str(lines * 64), str(lines), "small")
    step = run(programs / "chase", a_cpu(), str(lines * 64), "1", "small")
    assert whole["lines"] == lines
    assert whole["end"] == whole["start"]
    assert step["end"] != step["start"]
    assert whole["seconds"] > 0
    assert whole["huge_bytes"] == 0


LISTED = [
    (program, loop)
    for program, loops in {
        "stream": ["read", "write", "copy", "triad", "triad-nt"],
        "string": ["memset", "memcpy", "stosb", "movsb"],
    }.items()
    for loop in loops
    if platform.machine() == "x86_64" or loop not in ("triad-nt", "stosb", "movsb")
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("program", "loop"), LISTED)
def test_a_plain_loop_counts_what_it_moved_and_looks_at_it(
    programs: Path, program: str, loop: str, threads: int
) -> None:
    cpus = ",".join([a_cpu()] * threads)
    facts = run(programs / program, loop, cpus, str(3 * MIB), "5", "small")
    arrays = {"copy": 2, "memcpy": 2, "movsb": 2, "triad": 3, "triad-nt": 3}.get(loop, 1)
    slices = 3 * MIB // arrays // threads // 64 * 64
    assert facts["bytes"] == 5 * slices * arrays * threads
    assert facts["seconds"] > 0


def test_openmp_and_the_turns_count_what_they_did(programs: Path) -> None:
    met = run(programs / "meet", "50")
    assert (met["steps"], met["seconds"] > 0) == (50, True)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("two CPUs are needed")
    handed = run(programs / "turns", f"{cpus[0]},{cpus[1]}", "3", "20")
    assert (handed["steps"], handed["seconds"] > 0) == (60, True)


@pytest.mark.parametrize(
    ("program", "usage"),
    [
        ("stream", "usage: LOOP CPU"),
        ("string", "usage: LOOP CPU"),
        ("chase", "usage: chase CPU"),
        ("turns", "usage: turns CPU"),
        ("meet", "usage: meet MEETINGS"),
    ],
)
def test_a_native_peer_explains_its_arguments(programs: Path, program: str, usage: str) -> None:
    done = subprocess.run([programs / program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(usage)


def test_an_unknown_loop_is_refused(programs: Path) -> None:
    words = [str(programs / "stream"), "swim", a_cpu(), str(3 * MIB), "5", "small"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "loops: read write copy triad" in done.stderr


@pytest.fixture(scope="module")
def machine() -> Machine:
    return discover()


def chase_case(machine: Machine, threads: int) -> Case:
    home = node(machine.initiators[0].id)
    return Case.of(
        "latency", "load", Route(home, home), bytes=8 * MIB, pages="small", threads=threads
    )


def test_numamicro_takes_a_turn_by_its_own_probe_and_worker(machine: Machine) -> None:
    product = Product("ours", "", machine, Latency(), (chase_case(machine, 1),), samples=3)
    reading = product.warmed_up().turn(7)
    assert 0 < reading.value < 1e-3
    assert reading.facts.get("share") in (None, 1.0)
    assert str(reading.facts["case"]).startswith("latency/load node")


def test_all_passes_of_a_turn_are_in_one_window(machine: Machine) -> None:
    case = Case.of(
        "bandwidth",
        "copy",
        chase_case(machine, 1).route,
        bytes=8 * MIB,
        pages="small",
        threads=1,
        variant="1-stream",
    )
    passes = passes_of(8 * MIB, 1)
    assert TURN_BYTES <= passes * 8 * MIB < TURN_BYTES + 8 * MIB
    free = Product("ours", "", machine, FreeRunning(), (case,), samples=1).turn(1)
    assert free.facts["bytes"] == pytest.approx(passes * 8 * MIB, rel=0.01)
    usual = Product("ours", "", machine, Bandwidth(), (case,), samples=1).turn(1)
    assert int(str(usual.facts["bytes"])) < TURN_BYTES / 2


@dataclass(frozen=True)
class Scripted:
    """A choice whose turns have the values given."""

    values: tuple[float, ...]

    def turn(self, number: int) -> Reading:
        return Reading(self.values[number])


def test_the_best_in_a_trial_is_the_one_with_the_best_median() -> None:
    lucky, steady = Scripted((9.0, *[1.0] * (TRIALS - 1))), Scripted((2.0,) * TRIALS)
    assert best_in_trial([lucky, steady], highest=True) == 1
    assert best_in_trial([lucky, steady], highest=False) == 0
    assert best_in_trial([lucky], highest=True) == 0


def test_a_case_that_fails_is_no_figure(machine: Machine) -> None:
    case = Case.of(
        "bandwidth",
        "read",
        chase_case(machine, 1).route,
        bytes=8 * MIB,
        pages="small",
        threads=10_000,
        variant="1-stream",
    )
    with pytest.raises(NumamicroError, match="waived"):
        Product("ours", "", machine, Bandwidth(), (case,), samples=1).turn(1)


def sizes_of(peer: Program) -> set[tuple[int, int, str]]:
    """Give the bytes, the threads and the passes that a bandwidth peer is told."""
    found = set()
    for command in peer.commands:
        if command[0] == "likwid-bench":
            _, size, threads = command[4].split(":")
            found.add((int(size.removesuffix("MB")) * 10**6, int(threads), command[6]))
        elif command[0] == "taskset":
            arrays = 2 if "memcpy" in command else 1
            size, passes = (command[command.index(option) + 1] for option in ("-s", "-l"))
            found.add((int(size.removesuffix("B")) * arrays, 1, passes))
        else:
            found.add((int(command[3]), len(command[2].split(",")), command[4]))
    return found


def test_both_sides_of_a_contest_do_the_same_work(machine: Machine, tmp_path: Path) -> None:
    known = contests(machine, tmp_path)
    for name, loop in LOOPS.items():
        for contest in (known[each]() for each in select([name], tuple(known))):
            ours, *peers = contest.contenders
            assert isinstance(ours, Product)
            assert {case.operation for case in ours.cases} == {loop.operation}
            assert {case["variant"] for case in ours.cases} <= set(loop.variants)
            (size,) = {case.number("bytes") for case in ours.cases}
            (threads,) = {case.number("threads") for case in ours.cases}
            assert contest.name.endswith("-1") == (threads == 1)
            for peer in peers:
                assert isinstance(peer, Program)
                assert sizes_of(peer) == {(size, threads, str(passes_of(size, threads)))}
            assert isinstance(ours.probe, FreeRunning)
            assert ours.samples == 1
            judged = {claim.peer for claim in contest.claims if claim.at_least}
            assert judged == {peer.name for peer in peers if not peer.name.startswith("perf ")}


def test_likwid_in_huge_pages_differs_in_its_pages_alone(tmp_path: Path) -> None:
    work = Work(0, [0], 300_000_000, 4)
    peer = likwid("copy", work, {"sse2"})
    huge = advised(peer, tmp_path, work)
    assert huge.commands == peer.commands
    assert huge.huge == 300_000_000
    assert huge.environment == {"LD_PRELOAD": str(tmp_path / "advise")}


def test_a_preloaded_allocation_is_in_huge_pages(programs: Path) -> None:
    if not discover().huge_page_bytes:
        pytest.skip("this kernel gives no transparent huge pages")
    program = programs / "aligned"
    source = (
        "#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n"
        "int main(void) { void *at; if (posix_memalign(&at, 512, 64 << 20)) return 1;"
        ' memset(at, 1, 64 << 20); puts(*(char *)at == 1 ? "1.0" : ""); return 0; }'
    )
    subprocess.run(["gcc", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    peer = Program("aligned", "", ((str(program),),), lambda text: Reading(float(text)))
    assert int(str(peer.turn(1).facts["faults"])) > 10_000
    assert (
        int(str(advised(peer, programs, Work(0, [0], 64 << 20, 1)).turn(1).facts["faults"])) < 4_000
    )


@pytest.mark.parametrize("pages", ["huge", "small"])
def test_the_two_chases_walk_as_far_through_as_much(
    machine: Machine, tmp_path: Path, pages: str
) -> None:
    ours, peer = contests(machine, tmp_path)[f"latency-{pages}"]().contenders
    assert isinstance(ours, Product)
    assert isinstance(peer, Program)
    (case,) = ours.cases
    assert case["pages"] == pages
    steps = ours.samples * STEPS
    assert peer.commands[0][2:] == (str(case.number("bytes")), str(steps), pages)


def test_every_contest_can_be_set_up(machine: Machine, tmp_path: Path) -> None:
    known = contests(machine, tmp_path)
    assert [known[name]().name for name in known] == list(known)
    assert {f"{loop}-1" for loop in LOOPS if loop != "copy-movsb"} <= known.keys()


@pytest.mark.parametrize(("name", "unit"), [("core-to-core", "s"), ("barrier", "s")])
def test_teams_meet_and_hand_over_on_the_same_cpus(
    machine: Machine, tmp_path: Path, name: str, unit: str
) -> None:
    known = contests(machine, tmp_path)
    if name not in known:
        pytest.skip("two cores are needed")
    contest = known[name]()
    ours, peer = contest.contenders
    assert isinstance(ours, Product)
    assert isinstance(peer, Program)
    assert contest.unit == ours.probe.unit == unit
    assert len(ours.cases) == 1
