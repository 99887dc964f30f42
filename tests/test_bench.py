"""The bench: what peers print, who takes which turn, paired ratios, and the peers of our own."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from math import log
from pathlib import Path

import pytest

from bench.__main__ import select
from bench.contests import LOOPS, Contest, Outcome, contests, hold
from bench.pairs import Claim, Ratio, Reading, Turn, order, ratio_of
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
from bench.product import Product
from bench.report import Session, spliced, to_block, to_json, to_markdown
from bench.state import Used
from numamicro.case import Case, Route, node
from numamicro.errors import NumamicroError
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.latency import STEPS, Latency
from numamicro.topology import Machine, discover
from numamicro.units import MIB

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


def test_everyone_takes_one_turn_a_round_in_changing_order() -> None:
    names = ("a", "b", "c")
    turns = list(order(names, range(20), seed=5))
    rounds = [[name for number, name in turns if number == each] for each in range(20)]
    assert [number for number, _ in turns] == sorted(number for number, _ in turns)
    assert all(sorted(taken) == list(names) for taken in rounds)
    assert len({tuple(taken) for taken in rounds}) > 3
    assert turns == list(order(names, range(20), seed=5))
    assert turns != list(order(names, range(20), seed=6))


def turns_of(**values: list[float]) -> list[Turn]:
    return [
        Turn(number, name, Reading(value), foreign=0.0, stolen=0.0)
        for name, row in values.items()
        for number, value in enumerate(row)
    ]


def test_a_ratio_is_paired_so_that_a_slow_round_cancels() -> None:
    peer = [10.0, 3.0, 8.0, 1.0, 20.0, 5.0, 7.0]
    ratio = ratio_of(turns_of(ours=[1.25 * value for value in peer], peer=peer), "ours", "peer")
    assert ratio.n == 7
    assert (ratio.center, ratio.low, ratio.high) == pytest.approx((1.25, 1.25, 1.25))


def test_the_interval_of_twelve_pairs_leaves_out_two_at_each_end() -> None:
    # The median lies outside [x(3), x(10)] with probability 2 (1 + 12 + 66) / 4096 = 3.9 %;
    # one order statistic further in it would be 14.6 %.
    ratios = [1.09, 1.0, 1.03, 1.11, 1.05, 1.01, 1.10, 1.04, 1.02, 1.08, 1.06, 1.07]
    ratio = ratio_of(turns_of(ours=ratios, peer=[1.0] * 12), "ours", "peer")
    assert (ratio.low, ratio.high) == pytest.approx((1.02, 1.09))
    assert log(ratio.center) == pytest.approx((log(1.05) + log(1.06)) / 2)


def test_a_turn_without_its_partner_does_not_count() -> None:
    ratio = ratio_of(turns_of(ours=[2.0] * 6, peer=[1.0] * 5), "ours", "peer")
    assert ratio.center == pytest.approx(2.0)
    assert (ratio.low, ratio.high, ratio.n) == (None, None, 5)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.2, 1.4, "met"),
        (1.1, 1.3, "undecided"),
        (1.0, 1.1, "missed"),
        (None, None, "undecided"),
    ],
)
def test_a_lower_bound_is_judged_by_the_interval(
    low: float | None, high: float | None, verdict: str
) -> None:
    assert Claim("ours", "peer", at_least=1.2).verdict(Ratio(1.2, low, high, 12)) == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.96, 1.04, "met"),
        (0.94, 1.0, "undecided"),
        (1.0, 1.06, "undecided"),
        (1.06, 1.1, "missed"),
        (0.8, 0.9, "missed"),
    ],
)
def test_two_bounds_are_judged_by_the_interval(low: float, high: float, verdict: str) -> None:
    claim = Claim("ours", "peer", at_least=0.95, at_most=1.05)
    assert claim.verdict(Ratio(1.0, low, high, 12)) == verdict


def test_a_claim_without_bounds_only_reports() -> None:
    assert Claim("ours", "peer").verdict(Ratio(1.0, 0.9, 1.1, 12)) == "reported"


@dataclass(frozen=True)
class Steady:
    """A contender that always brings the same."""

    name: str
    value: float
    missing: str | None = None
    about: str = "steady"

    def warmed_up(self) -> Steady:
        return self

    def turn(self, number: int) -> Reading:
        return Reading(self.value, {"number": number})


def steady_outcome(missing: str | None) -> Outcome:
    contest = Contest(
        "read-1",
        "Reading",
        "B/s",
        (Steady("ours", 3e9), Steady("peer", 2e9, missing), Steady("plain", 1e9)),
        (Claim("ours", "peer", at_least=1.2), Claim("ours", "plain")),
    )
    return hold(contest, 12, 12, 1, lambda _: None)


@dataclass(frozen=True)
class Uneven(Steady):
    """One that is a tenth faster in every other round."""

    def turn(self, number: int) -> Reading:
        return Reading(self.value * (1.1 if number % 2 else 1.0))


def test_only_those_who_are_close_go_on() -> None:
    contest = Contest(
        "read-1",
        "Reading",
        "B/s",
        (Uneven("ours", 1e9), Steady("close", 1.05e9), Steady("far", 5e8), Steady("shown", 1e9)),
        (
            Claim("ours", "close", at_least=1.0),
            Claim("ours", "far", at_least=1.0),
            Claim("ours", "shown"),
        ),
    )
    outcome = hold(contest, 12, 20, 1, lambda _: None)
    rounds = Counter(turn.contender for turn in outcome.turns)
    assert rounds == {"ours": 20, "close": 20, "far": 12, "shown": 12}
    assert len({(turn.round, turn.contender) for turn in outcome.turns}) == len(outcome.turns)
    ratios = {claim.peer: outcome.ratio(claim) for claim in outcome.claims}
    assert {name: ratio.n for name, ratio in ratios.items()} == {
        "close": 20,
        "far": 12,
        "shown": 12,
    }
    assert [claim.peer for claim in outcome.undecided] == ["close"]
    assert "| 97.5 % interval |" in re.sub(" +", " ", to_markdown(SESSION, [outcome]))


def test_two_looks_share_the_error() -> None:
    """Of twelve pairs the interval at 2.5 % leaves out one at each end, and two at 5 %."""
    ratios = [1.09, 1.0, 1.03, 1.11, 1.05, 1.01, 1.10, 1.04, 1.02, 1.08, 1.06, 1.07]
    turns = turns_of(ours=ratios, peer=[1.0] * 12)
    both = [ratio_of(turns, "ours", "peer", error) for error in (0.05, 0.025)]
    assert [(each.low, each.high) for each in both] == [
        pytest.approx((1.02, 1.09)),
        pytest.approx((1.01, 1.10)),
    ]


SESSION = Session("numamicro 0", "python -m bench", "2026-11-30T00:00:00+00:00", 1, {"cpu": "X"})


def test_a_page_shows_figures_ratios_and_verdicts() -> None:
    page = to_markdown(SESSION, [steady_outcome(None)])
    assert "| ours  |           3.0 |" in page
    assert "1.500 to 1.500" in page
    assert "| 1.2 or more | met" in page
    assert "| reported" in page


def test_a_peer_that_is_not_installed_is_waived_with_the_reason() -> None:
    outcome = steady_outcome("likwid-bench is not installed")
    assert {turn.contender for turn in outcome.turns} == {"ours", "plain"}
    assert [claim.peer for claim in outcome.claims] == ["plain"]
    assert "Took no part: likwid-bench is not installed" in to_markdown(SESSION, [outcome])


def test_the_document_keeps_every_turn() -> None:
    document = json.loads(json.dumps(to_json(SESSION, [steady_outcome(None)])))
    (contest,) = document["contests"]
    assert len(contest["turns"]) == 36
    assert contest["claims"][0]["verdict"] == "met"
    assert contest["claims"][0]["ratio"]["center"] == pytest.approx(1.5)


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


def test_contests_are_asked_for_by_name_or_by_operation() -> None:
    known = ("copy-1", "copy-all", "copy-nt-1", "copy-nt-all", "latency-huge", "barrier")
    assert select([], known) == list(known)
    assert select(["copy"], known) == ["copy-1", "copy-all"]
    assert select(["barrier", "copy-nt-1", "latency"], known) == [
        "copy-nt-1",
        "latency-huge",
        "barrier",
    ]
    with pytest.raises(NumamicroError, match="no contest swim here"):
        select(["copy", "swim"], known)


def test_the_summary_names_the_peer_nearest_to_its_bound() -> None:
    block = to_block(SESSION, [steady_outcome(None)])
    assert block.startswith("`python -m bench`")
    line = block.splitlines()[-1]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        *("read-1", "3.0 GB/s", "peer", "1.500", "1.500 to 1.500", "1.2 or more", "met")
    ]
    lone = to_block(SESSION, [steady_outcome("it is not installed")])
    assert "none judged" in lone


def test_a_block_is_spliced_between_its_own_marks() -> None:
    text = "a\n<!-- bench/results/x.md -->\nold\n<!-- end -->\nb\n<!-- bench/results/y.md -->\n<!-- end -->\n"
    new = spliced(text, "x", r"n\1w")
    assert new == text.replace("old", r"n\1w")
    assert spliced(new, "z", "never") == new


def test_the_readme_shows_what_the_result_says() -> None:
    root = Path(__file__).parents[1]
    text = (root / "README.md").read_text("utf-8")
    shown = re.findall(r"<!-- (bench/results/\S+) -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert shown
    for name, block in shown:
        assert block in (root / name).read_text("utf-8")


def test_other_programs_are_told_from_our_own() -> None:
    cpus = os.cpu_count() or 1
    before = Used(at=10.0, own=1.0, busy=100.0, stolen=5.0)
    after = Used(at=20.0, own=4.0, busy=103.0 + 5.0 * cpus, stolen=5.0 + cpus)
    foreign, stolen = after.since(before)
    assert foreign == pytest.approx(0.5)
    assert stolen == pytest.approx(0.1)


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
                assert sizes_of(peer) == {(size, threads, str(ours.samples))}
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
