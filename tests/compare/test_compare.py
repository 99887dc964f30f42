"""`compare` as its users run it, on files whose truth is known."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from numamicro.cli import main
from numamicro.comparison import boots
from numamicro.file import read_matrix, write_matrix
from numamicro.matrix import CostMatrix
from tests.compare.truth import boot, figures, scaled, side
from tests.examples import header, machine

if TYPE_CHECKING:
    from pathlib import Path

    from numamicro.case import Case

TRUTH = figures()


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["compare", *map(str, arguments)])
    said = capsys.readouterr()
    return status, said.out, said.err


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    _, out, err = run(capsys, *arguments, "--json")
    assert err == ""
    document: dict[str, Any] = json.loads(out)
    return document


def verdicts(document: dict[str, Any], kind: str) -> dict[str, str]:
    return {each["name"]: each["verdict"] for each in document["figures"] if each["kind"] == kind}


def is_remote(case: Case) -> bool:
    return case.route.source != case.route.target


def test_what_changed_is_told_from_what_did_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 5, TRUTH, 1, step=2)
    side(tmp_path / "b", 5, scaled(TRUTH, 0.85, is_remote), 2, start=1, step=2)
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b")
    assert status == 1
    assert "worse" in out
    document = told(capsys, tmp_path / "a", tmp_path / "b")
    assert verdicts(document, "rollup") == {
        "bandwidth/read local": "no measurable change",
        "bandwidth/read other-package": "worse",
        "latency/load local pages=huge": "no measurable change",
        "latency/load other-package pages=huge": "worse",
    }
    for name, verdict in verdicts(document, "cell").items():
        away = "node0>node1" in name or "node1>node0" in name
        assert verdict == ("worse" if away else "no measurable change")


def test_the_same_setting_is_no_measurable_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 5, TRUTH, 3, step=2)
    side(tmp_path / "b", 5, TRUTH, 4, start=1, step=2)
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b")
    assert status == 0
    assert "no measurable change (could have seen >= " in out
    assert "Setting: nothing that could be read differs" in out
    assert "cpu.governor" in out  # null on both sides is unknown, and said so


def test_a_change_for_the_better_is_status_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 5, TRUTH, 5)
    side(tmp_path / "b", 4, scaled(TRUTH, 1.2), 6)
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b", "--expect", "read=up,latency=down")
    assert status == 0
    assert "Expected read=up: held" in out
    assert "Expected latency=down: held" in out


def test_an_expectation_that_does_not_come_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 5, TRUTH, 5)
    side(tmp_path / "b", 5, scaled(TRUTH, 0.8), 6)
    _, out, _ = run(
        capsys, tmp_path / "a", tmp_path / "b", "--expect", "read=up", "--expect", "latency=same"
    )
    assert "Expected read=up: did not hold" in out
    assert "Expected latency=same: did not hold" in out
    status, _, err = run(capsys, tmp_path / "a", tmp_path / "b", "--expect", "h2d=up")
    assert status == 2
    assert "h2d" in err
    status, _, err = run(capsys, tmp_path / "a", tmp_path / "b", "--expect", "read=sideways")
    assert status == 2
    assert "sideways" in err


def test_one_against_one_is_indicative_whatever_it_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (a,) = side(tmp_path / "a", 1, TRUTH, 1)
    (b,) = side(tmp_path / "b", 1, scaled(TRUTH, 0.1), 2)
    status, out, _ = run(capsys, a, b)
    assert status == 0
    assert "indicative only" in out
    document = told(capsys, a, b)
    assert {each["verdict"] for each in document["figures"]} == {"indicative only"}


def test_two_and_three_boots_ask_for_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 3, TRUTH, 1)
    side(tmp_path / "b", 2, scaled(TRUTH, 2), 2)
    document = told(capsys, tmp_path / "a", tmp_path / "b")
    assert {each["verdict"] for each in document["figures"]} == {"inconclusive"}
    assert all("more boot" in each["text"] for each in document["figures"])


def test_five_against_one_tests_what_was_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 5, TRUTH, 1)
    side(tmp_path / "b", 1, scaled(TRUTH, 1.3), 2)
    document = told(capsys, tmp_path / "a", tmp_path / "b", "--expect", "read.local=up")
    rollups = verdicts(document, "rollup")
    assert rollups.pop("bandwidth/read local") == "better"
    assert set(rollups.values()) == {"indicative only"}
    assert set(verdicts(document, "cell").values()) == {"indicative only"}
    # The other way round, many new against few of the base, is the same test.
    document = told(capsys, tmp_path / "b", tmp_path / "a", "--expect", "read.local=up")
    assert verdicts(document, "rollup")["bandwidth/read local"] == "worse"


# ---- what counts once ----------------------------------------------------------------------------


def test_files_of_one_boot_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = side(tmp_path / "a", 6, TRUTH, 1)
    for path in paths:
        matrix = read_matrix(path)
        write_matrix(CostMatrix(replace(matrix.header, boot_id="one"), matrix.measurements), path)
    side(tmp_path / "b", 6, scaled(TRUTH, 0.5), 2)
    document = told(capsys, tmp_path / "a", tmp_path / "b")
    assert [len(boots) for boots in document["sides"].values()] == [1, 6]
    assert all(each["n"] == [1, 6] for each in document["figures"])


def test_files_that_tell_no_boot_count_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, factor in (("a", 1.0), ("b", 0.5)):
        for path in side(tmp_path / name, 4, scaled(TRUTH, factor), 1):
            matrix = read_matrix(path)
            nameless = CostMatrix(replace(matrix.header, boot_id=None), matrix.measurements)
            write_matrix(nameless, path)
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b")
    assert status == 0
    assert "does not tell its boot" in out
    assert "indicative only" in out


def test_runs_within_a_boot_say_so_in_every_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, factor, seed in (("a", 1.0, 1), ("b", 0.5, 2)):
        for path in side(tmp_path / name, 5, scaled(TRUTH, factor), seed):
            matrix = read_matrix(path)
            write_matrix(
                CostMatrix(replace(matrix.header, boot_id="one"), matrix.measurements), path
            )
    status, out, err = run(capsys, tmp_path / "a", tmp_path / "b")
    assert status == 2
    assert "--unit file" in err
    document = told(capsys, tmp_path / "a", tmp_path / "b", "--unit", "file")
    assert {each["text"] for each in document["figures"]} == {"worse, within one boot"}
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b", "--unit", "file")
    assert status == 1
    assert "what another boot brings is unknown" in out


def test_runs_of_several_boots_are_no_runs_within_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 2, TRUTH, 1)
    side(tmp_path / "b", 2, TRUTH, 2)
    status, _, err = run(capsys, tmp_path / "a", tmp_path / "b", "--unit", "file")
    assert status == 2
    assert "these are of 4" in err


# ---- what is not comparable ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machine_id": "ffffffffffff"}, "machine"),
        ({"origin": "measured"}, "origin"),
        ({"machine": replace(machine(), hypervisor="kvm")}, "a virtual machine, kvm"),
        ({"machine": replace(machine(), cpu_model="Another CPU")}, "Another CPU"),
    ],
)
def test_another_machine_is_not_comparable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], says: str
) -> None:
    side(tmp_path / "a", 5, TRUTH, 1)
    side(tmp_path / "b", 5, TRUTH, 2, head=replace(header(), **changes))
    status, out, err = run(capsys, tmp_path / "a", tmp_path / "b")
    assert (status, err) == (4, "")
    assert says in out
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b", "--json")
    assert status == 4
    assert json.loads(out)["comparable"] is False
    # Within one side it is a slip of the user's.
    status, _, err = run(capsys, "--base", tmp_path / "a", tmp_path / "b", "--new", tmp_path / "b")
    assert status == 2
    assert "the base side mixes" in err
    assert len(err.strip().splitlines()) == 1


def test_files_without_a_cell_in_common_are_not_comparable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = {case: value for case, value in TRUTH.items() if case.probe == "bandwidth"}
    times = {case: value for case, value in TRUTH.items() if case.probe == "latency"}
    side(tmp_path / "a", 4, rates, 1)
    side(tmp_path / "b", 4, times, 2)
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b")
    assert status == 4
    assert "no cell of one" in out


def test_a_cell_that_failed_on_one_side_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from numamicro.matrix import Measurement, State
    from numamicro.topology import Note

    side(tmp_path / "a", 4, TRUTH, 1)
    for path in side(tmp_path / "b", 4, TRUTH, 2):
        matrix = read_matrix(path)
        first, *rest = matrix.measurements
        hung = Measurement(first.case, first.unit, State.HANG, Note("stuck", "it gave no answer"))
        write_matrix(CostMatrix(matrix.header, (hung, *rest)), path)
    document = told(capsys, tmp_path / "a", tmp_path / "b")
    strange = [each for each in document["figures"] if each["verdict"] == "not comparable"]
    assert [each["name"] for each in strange] == ["bandwidth/read node0>node0"]
    assert strange[0]["text"] == "the new side: hang: it gave no answer"


# ---- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("not json", "is not JSON"),
        ('{"schema": 99}', "schema 99"),
        ('{"schema": 1, "tool": "x"', "breaks off"),
        ("[1, 2]", "a list"),
    ],
)
def test_a_bad_file_is_one_sentence_and_harms_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    paths = side(tmp_path / "a", 4, TRUTH, 1)
    before = [path.read_bytes() for path in paths]
    (tmp_path / "a" / "bad.json").write_text(text)
    side(tmp_path / "b", 4, TRUTH, 2)
    status, out, err = run(capsys, tmp_path / "a", tmp_path / "b")
    assert (status, out) == (2, "")
    assert says in err
    assert "bad.json" in err
    assert len(err.strip().splitlines()) == 1
    assert [path.read_bytes() for path in paths] == before


def test_what_names_no_two_sides_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = side(tmp_path / "a", 1, TRUTH, 1)
    (tmp_path / "empty").mkdir()
    for arguments, says in (
        ([path], "two files or folders"),
        (["--base", path], "two files or folders"),
        ([path, path, "--base", path], "two files or folders"),
        (["--base", path, path, "--new", path], "named twice"),
        ([tmp_path / "empty", path], "no result file"),
        ([tmp_path / "absent.json", path], "No such file"),
        ([path, path, "--quant", "Q8_0"], "--model"),
        ([path, path], "stand on both sides"),
    ):
        status, _, err = run(capsys, *arguments)
        assert status == 2, arguments
        assert says in err


# ---- threads and variants ------------------------------------------------------------------------


def test_the_new_side_is_held_to_the_base_sides_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variant that is best on the new side alone must not make the change look larger."""
    (first,) = [case for case in TRUTH if case.probe == "bandwidth"][:1]
    other = first.having(variant="nt")
    side(tmp_path / "a", 4, {first: 40e9, other: 30e9}, 1)
    side(tmp_path / "b", 4, {first: 40e9, other: 60e9}, 2)
    document = told(capsys, tmp_path / "a", tmp_path / "b")
    (cell,) = [each for each in document["figures"] if each["kind"] == "cell"]
    assert cell["held_to"] == "threads 2, variant 4-stream"
    assert cell["verdict"] == "no measurable change"


def test_a_choice_that_few_boots_tried_is_not_held_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (first,) = [case for case in TRUTH if case.probe == "bandwidth"][:1]
    side(tmp_path / "a", 4, {first: 40e9}, 1)
    side(tmp_path / "b", 4, {first: 40e9}, 2)
    odd = boot({first: 40e9, first.having(variant="nt"): 50e9}, Random(3))
    write_matrix(odd, tmp_path / "a" / "odd.json")
    document = told(capsys, tmp_path / "a", tmp_path / "b")
    (cell,) = [each for each in document["figures"] if each["kind"] == "cell"]
    assert cell["held_to"] == "threads 2, variant 4-stream"
    assert cell["n"] == [5, 4]


def test_a_buffer_of_another_size_is_the_same_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (first,) = [case for case in TRUTH if case.probe == "bandwidth"][:1]
    side(tmp_path / "a", 4, {first: 40e9}, 1)
    side(tmp_path / "b", 4, {first.having(bytes=2**29): 40e9}, 2)
    document = told(capsys, tmp_path / "a", tmp_path / "b")
    assert set(verdicts(document, "cell").values()) == {"no measurable change"}
    # But not where one run measures several sizes: then the size is what they differ in.
    small = first.having(bytes=2**20)
    side(tmp_path / "c", 4, {first: 40e9, small: 80e9}, 1)
    side(tmp_path / "d", 4, {first: 40e9, small: 80e9}, 2)
    document = told(capsys, tmp_path / "c", tmp_path / "d")
    assert len(verdicts(document, "cell")) == 1  # both names leave the size out
    cells = [each for each in document["figures"] if each["kind"] == "cell"]
    assert sorted(round(each["base"] / 1e9, -1) for each in cells) == [40, 80]


# ---- tails and tokens ----------------------------------------------------------------------------


def test_a_tail_says_on_how_little_it_rests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side(tmp_path / "a", 4, TRUTH, 1)
    side(tmp_path / "b", 4, TRUTH, 2)
    status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b", "--at", "p99")
    assert status == 0
    assert "base: p99 of n=15, no interval (that takes 368)" in out


def test_a_token_is_compared_on_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.cost.rigs import rig

    for name, factor, seed in (("a", 1.0, 1), ("b", 0.7, 2)):
        draw = Random(seed)
        for index in range(5):
            whole = rig()
            truth = {
                cell.case: summary.center
                for cell in whole.measurements
                if cell.unit == "B/s" and (summary := cell.summary())
            }
            rates = boot(scaled(truth, factor), draw, head=whole.header)
            times = tuple(cell for cell in whole.measurements if cell.unit != "B/s")
            matrix = CostMatrix(rates.header, rates.measurements + times)
            (tmp_path / name).mkdir(exist_ok=True)
            write_matrix(matrix, tmp_path / name / f"{index}.json")
    arguments = (tmp_path / "a", tmp_path / "b", "--model", "llama-3.1-8b", "--quant", "Q4_K_M")
    document = told(capsys, *arguments)
    (token,) = [each for each in document["figures"] if each["kind"] == "token"]
    assert token["verdict"] == "worse"
    assert 1.2 < token["ratio"] < 1.5
    _, out, _ = run(capsys, *arguments)
    assert "A token, as predicted from each file" in out


def test_every_format_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    side(tmp_path / "a", 4, figures((0, 1, 2, 3)), 1)
    side(tmp_path / "b", 4, figures((0, 1, 2, 3)), 2)
    for style in ("plain", "github", "html"):
        status, out, _ = run(capsys, tmp_path / "a", tmp_path / "b", "--format", style)
        assert status == 0
        assert "Verdict: of the roll-ups" in out
        assert "--all lists them" in out
    _, out, _ = run(capsys, tmp_path / "a", tmp_path / "b", "--all")
    assert "node3>node3" in out


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_many_large_files_are_read_by_several_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    side(tmp_path / "a", 4, TRUTH, 1)
    side(tmp_path / "b", 4, scaled(TRUTH, 0.5), 2)
    alone = told(capsys, tmp_path / "a", tmp_path / "b", "--model", "llama-3.1-8b")
    monkeypatch.setattr(boots, "_WORTH_A_POOL", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert told(capsys, tmp_path / "a", tmp_path / "b", "--model", "llama-3.1-8b") == alone
    (tmp_path / "a" / "bad.json").write_text("{")
    status, _, err = run(capsys, tmp_path / "a", tmp_path / "b")
    assert status == 2
    assert "bad.json" in err
    assert len(err.strip().splitlines()) == 1
