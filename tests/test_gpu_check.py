"""The parts of the GPU check that need no GPU: its numbers, its page, what it hears of peers."""

from __future__ import annotations

import json
import math
import struct
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.gpu.checks import Check
from bench.gpu.figures import Figure, tell
from bench.gpu.loopback import NUMBER_BYTES, Vectors, pack, unpack
from bench.gpu.page import Outcome, to_json, to_markdown
from numamicro.case import Case, Place, Route, node
from numamicro.matrix import Measurement, Run, Sample, State
from numamicro.topology import Note

if TYPE_CHECKING:
    from collections.abc import Iterator

GPU = Place("gpu", 0)
H2D = Case.of(
    "host-copy", "h2d", Route(node(0), GPU, mover="copy-engine"), bytes=64, memory="pinned"
)


def an_outcome(*, passed: bool = True, torch: float | None = 20e9) -> Outcome:
    run = Run(0, (Sample(1.0, 25_000_000_000),))
    lost = Measurement(H2D.having(memory="pageable"), "B/s", State.WRONG, Note("data", "lost"))
    return Outcome(
        tool="numamicro 0",
        created="2026-01-02T03:04:05+00:00",
        origin="measured",
        seconds=12.0,
        machine={"cpu": "any", "kernel": None},
        gpus=["A", "A"],
        checks=[Check("gpu0", "copy kernel", passed, "0 words wrong", 1e12, "B/s")],
        cells=[Measurement.of_runs(H2D, "B/s", (run,)), *([] if passed else [lost])],
        peers={"PyTorch": [Figure("h2d", torch, "B/s"), Figure("", None, "", "and no more")]},
    )


# --- Numbers ----------------------------------------------------------------------------------------


@given(st.floats(-60000, 60000), st.sampled_from(sorted(NUMBER_BYTES)))
def test_a_value_becomes_the_nearest_number(value: float, number: str) -> None:
    (found,) = unpack(number, pack(number, [value]))
    fraction = {"f32": 24, "f16": 11, "bf16": 8}[number]
    least = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}[number]
    exponent = math.frexp(value)[1]
    assert abs(found - value) <= max(2.0 ** (exponent - fraction - 1), least / 2)
    assert pack(number, [found]) == pack(number, [value])


def test_a_tie_goes_to_the_even_number() -> None:
    between = [1 + 2.0**-8, 1 + 3 * 2.0**-8]
    assert unpack("bf16", pack("bf16", between)) == (1.0, 1 + 2.0**-6)


@pytest.mark.parametrize("number", sorted(NUMBER_BYTES))
def test_vectors_sum_up_and_are_repeatable(number: str) -> None:
    vectors = Vectors.random(number, 100, seed=3)
    assert vectors == Vectors.random(number, 100, seed=3)
    assert vectors != Vectors.random(number, 100, seed=4)
    one, other, total = (unpack(number, part) for part in (*vectors.inputs, vectors.sum))
    assert pack(number, (a + b for a, b in zip(one, other, strict=True))) == vectors.sum
    assert all(map(math.isfinite, total))
    assert len({struct.pack("d", value) for value in total}) > 50


# --- The page ---------------------------------------------------------------------------------------


def test_the_page_sets_a_peer_beside_numamicro() -> None:
    page = to_markdown(an_outcome())
    assert "**1 of 1 checks hold.**" in page
    assert "2 x A" in page
    row = next(line for line in page.splitlines() if "PyTorch: h2d" in line)
    assert [cell.strip() for cell in row.split("|")[2:6]] == [
        "25.0 GB/s",
        "PyTorch: h2d",
        "20.0 GB/s",
        "1.25",
    ]
    assert "and no more" in page
    assert "Cells: 1 ok" in page


def test_a_figure_that_is_missing_leaves_no_ratio() -> None:
    row = next(x for x in to_markdown(an_outcome(torch=None)).splitlines() if ": h2d" in x)
    assert row.split("|")[5].strip() == ""


def test_what_failed_stands_on_top() -> None:
    outcome = an_outcome(passed=False)
    assert outcome.failures == ["gpu0: copy kernel: 0 words wrong", f"{_lost_key()}: wrong: lost"]
    page = to_markdown(outcome)
    assert page.index("- FAILED gpu0: copy kernel") < page.index("| on gpu0")


def _lost_key() -> str:
    return H2D.having(memory="pageable").key


def test_the_document_is_plain_json() -> None:
    document = to_json(an_outcome(passed=False))
    assert json.loads(json.dumps(document)) == document
    assert document["cells"][0]["value"] == 25e9
    assert document["cells"][1]["reason"] == "lost"


# --- Peers ------------------------------------------------------------------------------------------


def test_a_peer_that_fails_keeps_what_it_told(capsys: pytest.CaptureFixture[str]) -> None:
    def figures() -> Iterator[Figure]:
        yield Figure("h2d", 1.0, "B/s")
        raise RuntimeError("no room\nmore")

    tell("It", figures)
    first, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["value"] == 1.0
    assert last["said"] == "It failed: RuntimeError: no room"


def test_a_peer_that_is_not_there_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    def figures() -> Iterator[Figure]:
        import_module("nothing_of_that_name")

        yield Figure("never", None, "")

    tell("It", figures)
    assert "It is not installed" in json.loads(capsys.readouterr().out)["said"]
