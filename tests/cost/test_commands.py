"""`predict` and `advise` as their users run them, on files of machines that are not here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from numamicro.cli import main
from numamicro.cost.presets import PRESETS, preset
from numamicro.file import matrix_text, write_matrix
from numamicro.matrix import CostMatrix
from numamicro.report.token import closing_line
from tests.cost.rigs import rig

if TYPE_CHECKING:
    from pathlib import Path

MODEL = ("--model", "llama-3.1-8b", "--quant", "Q4_K_M")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_matrix(rig(gpus=2), tmp_path / "rig.json")
    return tmp_path / "rig.json"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


def test_predict_tells_terms_what_binds_and_how_to_launch(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, "predict", str(path), *MODEL, "--nodes", "0", "--threads", "8")
    assert (status, err) == (0, "")
    assert "memory of node0" in out
    assert "bandwidth/read node0>node0" in out
    assert "binds" in out
    assert "launch: numactl --physcpubind=0-7 --membind=0 llama-server" in out
    assert "simulated" in out


def test_json_holds_every_term(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "predict", str(path), *MODEL, "--gpus", "0+1", "--json")
    assert status == 0
    document = json.loads(out)
    assert document["placement"]["stages"] == [[0, 1]]
    assert document["token"]["how"] == "sum"
    assert document["load"] == {"seconds": None, "reason": document["load"]["reason"]}
    assert "simulated" in document["origins"]
    parts = document["token"]["parts"]
    assert sum(part["seconds"] for part in parts) == pytest.approx(document["token"]["seconds"])


@pytest.mark.parametrize("style", ["plain", "github", "latex"])
def test_advise_ranks_and_names_naive_and_worst(
    path: Path, capsys: pytest.CaptureFixture[str], style: str
) -> None:
    status, out, _ = run(capsys, "advise", str(path), *MODEL, "--format", style)
    assert status == 0
    for word in ("naive", "worst", "1.00 x", "launch: CUDA_VISIBLE_DEVICES="):
        assert word in out


def test_predict_without_a_placement_takes_the_best(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, advised, _ = run(capsys, "advise", str(path), *MODEL, "--json")
    _, predicted, _ = run(capsys, "predict", str(path), *MODEL, "--json")
    assert json.loads(predicted) == json.loads(advised)["best"]


def test_a_hypothetical_machine_is_labelled(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("predict", str(path), *MODEL, "--nodes", "1")
    _, before, _ = run(capsys, *arguments, "--json")
    _, after, _ = run(capsys, *arguments, "--what-if", "node1.read*1.5", "--json")
    assert json.loads(after)["token"]["seconds"] < json.loads(before)["token"]["seconds"]
    assert json.loads(after)["hypothetical"]
    _, shown, _ = run(capsys, *arguments, "--what-if", "node1.read*1.5")
    assert shown.startswith("HYPOTHETICAL")


def test_peer_access_that_is_not_there_can_be_asked_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "apart.json"
    write_matrix(rig(gpus=2, peer=False), path)
    arguments = ("predict", str(path), *MODEL, "--gpus", "0+1", "--json")
    status, staged, _ = run(capsys, *arguments)
    assert status == 0
    assert not json.loads(staged)["placement"]["peer"]
    status, direct, _ = run(capsys, *arguments, "--what-if", "p2p=on", "--assume")
    assert status == 0
    assert json.loads(direct)["placement"]["peer"]
    assert json.loads(direct)["hypothetical"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "gpt-9"), "gpt-9"),
        ((*MODEL[:2], "--quant", "Q9"), "Q9"),
        ((*MODEL, "--gpus", "7"), "gpu7"),
        ((*MODEL, "--gpus", "0,0"), "twice"),
        ((*MODEL, "--gpus", "x"), "--gpus"),
        ((*MODEL, "--nodes", "9"), "node9"),
        ((*MODEL, "--threads", "900"), "--threads 900"),
        ((*MODEL, "--memory", "near"), "near"),
        ((*MODEL, "--memory-nodes", "7"), "node7"),
        ((*MODEL, "--cache", "F99"), "F99"),
        ((*MODEL, "--batch", "0"), "at least 1"),
        ((*MODEL, "--engine", "steam"), "steam"),
        ((*MODEL, "--what-if", "h2d"), "h2d"),
        ((*MODEL, "--what-if", "node7.read*2"), "node7"),
        ((*MODEL, "--cpu-experts", "3"), "no routed experts"),
        ((*MODEL, "--cache-node", "9"), "node9"),
        ((*MODEL, "--staged", "9", "--gpus", "0+1"), "node9"),
        (("--model", "deepseek-v3", "--nodes", "0"), "fit"),
        ((), "--model"),
    ],
)
def test_bad_input_is_one_sentence(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    status, out, err = run(capsys, "predict", str(path), *arguments)
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert says in err


def test_a_newer_or_missing_file_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newer = tmp_path / "newer.json"
    newer.write_text(matrix_text(rig()).replace('"schema": 1', '"schema": 99'))
    for path, says in ((newer, "schema 99"), (tmp_path / "none.json", "cannot read")):
        status, _, err = run(capsys, "advise", str(path), *MODEL)
        assert status == 2
        assert says in err


def test_a_matrix_ends_with_a_token_at_its_best_and_its_worst() -> None:
    line = closing_line(rig(remote=10e9), None)
    assert line.startswith("A token of llama-3.1-8b Q8_0 here: ")
    assert "placed best (node0 8T + node1 8T, bound on node0+node1)" in line
    assert "placed worst (node" in line
    assert "defaults" not in line
    one = closing_line(rig(nodes=1, cores=1), None)
    assert "placed" not in one
    assert "\n" not in line


def test_a_machine_without_figures_says_why() -> None:
    empty = CostMatrix(rig().header, ())
    assert "not predicted: the file has no figure of bandwidth/read" in closing_line(empty, None)
    assert "fit" in closing_line(rig(memory=2**30), None)
    assert "kimi-k2" in closing_line(rig(), preset("kimi-k2"))


def test_a_quick_matrix_is_completed_from_defaults() -> None:
    quick = tuple(c for c in rig().measurements if c.case.probe == "bandwidth")
    assert "defaults" in closing_line(CostMatrix(rig().header, quick), None)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_predicted(
    name: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(
        capsys, "advise", str(path), "--model", name, "--ignore-capacity", "--json"
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["best"]["token"]["seconds"] > 0
