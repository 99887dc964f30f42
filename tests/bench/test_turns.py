"""The bench: who takes which turn, paired ratios, what is claimed of them, and the page."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path

import pytest

from bench.__main__ import main, select
from bench.contests import NAMES, Contest, Outcome, contests, hold
from bench.keep import keep, kept, machine_name
from bench.pairs import Claim, Ratio, Reading, Turn, order, ratio_of
from bench.report import Session, newest, spliced, to_json, to_markdown
from bench.state import Used
from numamicro.errors import NumamicroError
from numamicro.topology import discover


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


def test_the_interval_of_twelve_pairs_is_that_of_printed_tables() -> None:
    """Of twelve signed ranks 13 is critical at 5 % (two-sided): thirteen means lie outside."""
    logs = [0.09, 0.0, 0.03, 0.11, 0.05, 0.01, 0.10, 0.04, 0.02, 0.08, 0.06, 0.23]
    ratio = ratio_of(turns_of(ours=[exp(x) for x in logs], peer=[1.0] * 12), "ours", "peer")
    means = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    assert (log(ratio.low or 1), log(ratio.high or 1)) == pytest.approx((means[13], means[-14]))
    assert log(ratio.center) == pytest.approx((means[38] + means[39]) / 2)


@pytest.mark.parametrize(
    ("n", "error", "critical"),
    [(6, 0.05, 0), (10, 0.05, 8), (20, 0.05, 52), (25, 0.05, 89), (25, 0.02, 76), (50, 0.05, 434)],
)
def test_ranks_are_those_of_printed_tables(n: int, error: float, critical: int) -> None:
    logs = list(map(float, range(n)))
    ratio = ratio_of(turns_of(ours=[exp(x) for x in logs], peer=[1.0] * n), "ours", "peer", error)
    means = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    assert log(ratio.low or 0) == pytest.approx(means[critical])


def test_an_interval_errs_as_often_as_it_says() -> None:
    """Of skewed noise on both sides, whose ratio is symmetric: between 3 and 7 % of 1,000."""
    rng = random.Random(3)
    missed = 0
    for _ in range(1000):
        ours, peer = ([exp(rng.expovariate(8)) for _ in range(15)] for _ in range(2))
        ratio = ratio_of(turns_of(ours=ours, peer=peer), "ours", "peer")
        missed += not (ratio.low or 1) <= 1 <= (ratio.high or 1)
    assert 30 <= missed <= 70


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
    """Of twelve signed ranks 13 is critical at 5 %, and 10 at 2.5 %."""
    logs = [0.09, 0.0, 0.03, 0.11, 0.05, 0.01, 0.10, 0.04, 0.02, 0.08, 0.06, 0.23]
    means = sorted((a + b) / 2 for i, a in enumerate(logs) for b in logs[i:])
    turns = turns_of(ours=[exp(x) for x in logs], peer=[1.0] * 12)
    both = [ratio_of(turns, "ours", "peer", error) for error in (0.05, 0.025)]
    assert [log(each.low or 1) for each in both] == pytest.approx([means[13], means[10]])


MACHINE: dict[str, str | int] = {"cpu": "X", "cores": 2}
SESSION = Session("numamicro 0", "python -m bench", "2026-11-30T00:00:00+00:00", 1, MACHINE)


def summary_of(outcome: Outcome) -> list[str]:
    """Give the cells of the page's one line for a contest."""
    page = to_markdown(SESSION, [outcome])
    (line,) = re.findall(rf"^\| {outcome.contest.name} .*$", page, re.MULTILINE)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_page_shows_figures_ratios_and_verdicts() -> None:
    page = to_markdown(SESSION, [steady_outcome(None)])
    assert "| ours  |           3.0 |" in page
    assert "1.500 to 1.500" in page
    assert "| 1.2 or more | met" in page
    assert "| reported" in page


def test_a_summary_shows_the_missed_before_the_undecided() -> None:
    """Though the interval of the undecided one reaches further below its bound."""
    ours = [1.0, 1.1] * 6
    wide = [0.9, 1.5] * 6
    turns = turns_of(ours=ours, slow=[0.5] * 12, wide=wide, fast=[1.2 * value for value in ours])
    claims = tuple(Claim("ours", peer, at_least=0.97) for peer in ("slow", "wide", "fast"))
    contest = Contest("read-1", "Reading", "B/s", (Steady("ours", 1.0),), claims)
    outcome = Outcome(contest, tuple(turns), {})
    verdicts = [claim.verdict(outcome.ratio(claim)) for claim in claims]
    assert verdicts == ["met", "undecided", "missed"]
    assert summary_of(outcome)[2] == "fast"
    assert (outcome.ratio(claims[1]).low or 1) < (outcome.ratio(claims[2]).low or 0)


def test_of_those_met_a_summary_shows_the_one_nearest_to_its_bound() -> None:
    ours = [1.0, 1.1] * 6
    turns = turns_of(ours=ours, slow=[0.5] * 12, near=ours)
    claims = tuple(Claim("ours", peer, at_least=0.97) for peer in ("slow", "near"))
    contest = Contest("read-1", "Reading", "B/s", (Steady("ours", 1.0),), claims)
    outcome = Outcome(contest, tuple(turns), {})
    assert {claim.verdict(outcome.ratio(claim)) for claim in claims} == {"met"}
    assert summary_of(outcome)[2] == "near"


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
    assert summary_of(steady_outcome(None)) == [
        *("read-1", "3.0 GB/s", "peer", "1.500", "1.500 to 1.500", "1.2 or more", "met")
    ]
    assert "none judged" in summary_of(steady_outcome("it is not installed"))


def of_value(value: float, *names: str) -> list[Outcome]:
    """Give contests of those names in which one took six turns of that value."""
    turns = tuple(turns_of(ours=[value] * 6))
    return [
        Outcome(Contest(name, name, "B/s", (Steady("ours", value),), ()), turns, {})
        for name in names
    ]


def test_of_each_contest_the_newest_result_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest by its date, whatever its name; not of other machines."""
    monkeypatch.setattr("bench.keep.RESULTS", tmp_path)
    elsewhere = replace(
        SESSION, created="2027-01-01T00:00:00+00:00", machine={"cpu": "Y", "cores": 2}
    )
    later = replace(SESSION, created="2026-12-01T00:00:00+00:00")
    for name, session, outcomes in (
        ("x-2-cores", SESSION, of_value(1e9, "write-1", "read-1", "barrier")),
        ("a-later-page", later, of_value(2e9, "read-1", "triad-all")),
        ("y-2-cores", elsewhere, of_value(3e9, "read-1")),
    ):
        keep(name, "", to_json(session, outcomes))
    keep("llama", "", {"machine": MACHINE, "results": []})
    lines = newest(kept(machine_name(MACHINE))).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [(row[0], row[1], row[-1]) for row in cells] == [
        ("read-1", "2.0 GB/s", "[a-later-page](bench/results/a-later-page.md)"),
        ("write-1", "1.0 GB/s", "[x-2-cores](bench/results/x-2-cores.md)"),
        ("triad-all", "2.0 GB/s", "[a-later-page](bench/results/a-later-page.md)"),
        ("barrier", "1.0 GB/s", "[x-2-cores](bench/results/x-2-cores.md)"),
    ]


@pytest.mark.parametrize("name", ["no/such", "../x", "Upper", "a b", "-"])
def test_a_name_that_no_file_should_have_is_refused_before_the_first_turn(name: str) -> None:
    with pytest.raises(NumamicroError, match="small letters, digits"):
        main(["barrier", f"--name={name}"])


def test_a_cut_result_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.keep.RESULTS", tmp_path)
    (tmp_path / "x-2-cores.json").write_text('{"contests": [')
    with pytest.raises(NumamicroError, match=r"x-2-cores\.json is no result of the bench"):
        kept(machine_name(MACHINE))


def test_every_contest_has_its_place(tmp_path: Path) -> None:
    known = tuple(contests(discover(), tmp_path))
    assert [name for name in NAMES if name in known] == list(known)


def test_a_block_is_spliced_between_its_own_marks() -> None:
    text = "a\n<!-- x -->\nold\n<!-- end -->\nb\n<!-- y -->\n<!-- end -->\n"
    new = spliced(text, "x", r"n\1w")
    assert new == text.replace("old", r"n\1w")
    assert spliced(new, "z", "never") == new


def test_the_readme_shows_what_the_results_say() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    ((machine, block),) = re.findall(r"<!-- (\S+-cores) -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert newest(kept(machine)) == block


def test_other_programs_are_told_from_our_own() -> None:
    cpus = os.cpu_count() or 1
    before = Used(at=10.0, own=1.0, busy=100.0, stolen=5.0)
    after = Used(at=20.0, own=4.0, busy=103.0 + 5.0 * cpus, stolen=5.0 + cpus)
    foreign, stolen = after.since(before)
    assert foreign == pytest.approx(0.5)
    assert stolen == pytest.approx(0.1)
