"""The bench: what peers print, who takes which turn, paired ratios, and the peers of our own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING

import pytest

from bench.__main__ import NAMES
from bench.contests import Contest, Outcome, contests, hold
from bench.pairs import Claim, Ratio, Reading, Turn, order, ratio_of
from bench.peers import Program, compile_native, likwid_load, read_likwid, read_native
from bench.product import Product
from bench.report import Session, to_json, to_markdown
from bench.state import Used
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
    ("flags", "kernel"),
    [
        ({"sse2", "avx", "avx2", "avx512f"}, "load_avx512"),
        ({"sse2", "avx"}, "load_avx"),
        ({"sse2"}, "load_sse"),
        (set(), "load"),
    ],
)
def test_likwid_runs_the_widest_loads_of_the_cpu(flags: set[str], kernel: str) -> None:
    peer = likwid_load(threads=4, node=1, gigabytes=2, passes=64, can=flags)
    assert peer.command == ("likwid-bench", "-t", kernel, "-w", "M1:2GB:4", "-i", "64")
    assert ("no AVX-512" in peer.about) == ("avx512f" not in flags)


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
    turns = list(order(names, 20, seed=5))
    rounds = [[name for number, name in turns if number == each] for each in range(20)]
    assert [number for number, _ in turns] == sorted(number for number, _ in turns)
    assert all(sorted(taken) == list(names) for taken in rounds)
    assert len({tuple(taken) for taken in rounds}) > 3
    assert turns == list(order(names, 20, seed=5))
    assert turns != list(order(names, 20, seed=6))


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
    return hold(contest, 12, 1, lambda _: None)


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
    peer = Program("broken", "", ("false",), lambda text: Reading(float(text)))
    with pytest.raises(NumamicroError, match="the peer broken failed"):
        peer.turn(1)
    absent = Program("absent", "", ("no-such-peer",), lambda text: Reading(float(text)))
    assert absent.missing == "no-such-peer is not installed"


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


@pytest.mark.parametrize("threads", [1, 3])
def test_the_plain_read_counts_what_it_summed(programs: Path, threads: int) -> None:
    cpus = ",".join([a_cpu()] * threads)
    facts = run(programs / "read", cpus, str(3 * MIB), "5", "small")
    assert facts["bytes"] == 5 * 3 * MIB
    assert facts["seconds"] > 0


@pytest.mark.parametrize("program", ["read", "chase"])
def test_a_native_peer_explains_its_arguments(programs: Path, program: str) -> None:
    done = subprocess.run([programs / program], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: {program} CPU")


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


def test_both_sides_of_a_contest_do_the_same_work(machine: Machine, tmp_path: Path) -> None:
    known = contests(machine, tmp_path)
    for name in ("read-1", "read-all"):
        ours, small, likwid, plain = known[name]().contenders
        assert isinstance(ours, Product)
        assert isinstance(small, Product)
        assert isinstance(likwid, Program)
        assert isinstance(plain, Program)
        assert {case.operation for case in ours.cases + small.cases} == {"read"}
        assert {case["pages"] for case in small.cases} == {"small"}
        threads = {case.number("threads") for case in ours.cases + small.cases}
        size = {case.number("bytes") for case in ours.cases + small.cases}
        assert threads == {len(plain.command[1].split(","))}
        assert size == {int(plain.command[2])}
        assert likwid.command[4].split(":")[1:] == [f"{min(size) // 10**9}GB", str(min(threads))]
        assert str(ours.samples) == likwid.command[6] == plain.command[3]


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
    assert peer.command[2:] == (str(case.number("bytes")), str(steps), pages)


def test_every_contest_can_be_asked_for(machine: Machine, tmp_path: Path) -> None:
    known = contests(machine, tmp_path)
    assert tuple(known) == NAMES
    assert [known[name]().name for name in NAMES] == list(NAMES)
