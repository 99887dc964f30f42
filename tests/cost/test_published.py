"""The cost model against tables that others published; NUMAMICRO_PUBLISHED names their folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.imported import Score, error
from bench.kernel_sums import score_tp
from bench.placed_tokens import in_order, quant_of, score_tokens
from bench.published import main

pytestmark = pytest.mark.skipif(
    "NUMAMICRO_PUBLISHED" not in os.environ,
    reason="published tables are not part of the project: name their folder in NUMAMICRO_PUBLISHED",
)


@pytest.fixture(scope="module")
def folder() -> Path:
    return Path(os.environ["NUMAMICRO_PUBLISHED"])


def test_sums_of_kernels_agree_with_two_constants_a_gpu_type(folder: Path) -> None:
    _, by_type = score_tp(folder)
    assert by_type
    assert error([score for _, scores in by_type.values() for score in scores]) <= 0.06


def test_published_tokens_lie_within_their_bounds(folder: Path) -> None:
    values, groups = score_tokens(folder)
    assert values
    assert groups
    for score in values:
        assert 0.7 <= score.ratio <= 1.4, score
    for name, scores in groups.items():
        assert len(scores) > 1
        assert in_order(scores), name


def test_an_order_can_break() -> None:
    slow, fast = Score("slow", 2.0, 1.0), Score("fast", 1.0, 2.0)
    assert not in_order([slow, fast])
    assert in_order([Score("slow", 2.0, 3.0), fast])


@pytest.mark.parametrize(
    ("quant", "note", "expected"),
    [
        ("Q8_0", "", "Q8_0"),
        ("FP16", "", "F16"),
        ("IQ2_KL (2.892 bpw)", "non-expert bpw assumed 5.5", "5.5bpw,experts=2.892bpw"),
        ("IQ4_XS experts/Q5_K attn", "", "Q5_K,experts=IQ4_XS"),
        ("UD-Q2_K_XL", "", "Q8_0,experts=Q2_K"),
        ("Q4_K_M 16.49 GiB", "", "Q4_K_M"),
        ("QAT Q4_0", "", "Q4_0"),
    ],
)
def test_quantisations_are_read_from_words(quant: str, note: str, expected: str) -> None:
    assert quant_of({"quant": quant, "note": note}) == expected


def test_the_command_prints_every_row(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder)]) == 0
    out = capsys.readouterr().out
    assert "agreement with aiconfigurator's model" in out
    assert "BROKEN" not in out
