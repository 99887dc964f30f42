"""Units: what people write is read as they mean it, and what is shown can be read back."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.errors import NumamicroError
from numamicro.units import GIB, KIB, MIB, bytes_text, is_rate, parse_bytes, parse_seconds, scale


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("512", 512),
        ("512B", 512),
        ("64k", 64 * KIB),
        ("512M", 512 * MIB),
        ("1G", GIB),
        ("1GiB", GIB),
        ("1gib", GIB),
        ("1GB", 10**9),
        ("2T", 2048 * GIB),
        ("1.5K", 1536),
        ("0.5MB", 500_000),
        (" 1G ", GIB),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text",
    [
        *("", "0", "0.1", "-1", "+1", "G", "1 G", "1X", "1BG", "1e3", "1_0", "nan", "inf", "٣"),
        *("1G\n1", "9" * 19, "9999999T", "9" * 400, "9" * 400 + "G"),
    ],
    ids=lambda text: text[:8].encode("ascii", "backslashreplace").decode(),
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(NumamicroError, match="is no size; write for example 512M, 1G or 1GB"):
        parse_bytes(text)


@given(st.integers(1, 1023), st.sampled_from((1, KIB, MIB, GIB, 1024 * GIB)))
def test_a_size_shown_reads_back(count: int, unit: int) -> None:
    assert parse_bytes(bytes_text(count * unit).replace(" ", "")) == count * unit


@given(st.integers(1, 2**50))
def test_a_size_is_shown_in_the_largest_unit_that_keeps_it_above_one(count: int) -> None:
    number, label = bytes_text(count).split(" ")
    assert float(number) >= 1
    # Four digits are shown.
    assert parse_bytes(number + label) == pytest.approx(count, rel=1e-3)
    assert label == "TiB" or float(number) <= 1024


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("2m", 120), ("2min", 120), ("1h", 3600), ("0.5h", 1800), ("1S", 1)],
)
def test_times(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1d", "1 m", "m", "1e9s", "9" * 400])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(NumamicroError, match="is no time; write for example 90, 90s, 2m or 1h"):
        parse_seconds(text)


@given(st.text())
def test_any_other_text_is_a_value_or_refused(text: str) -> None:
    for parse in (parse_bytes, parse_seconds):
        with suppress(NumamicroError):
            assert parse(text) > 0


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("B/s", 38.44e9, "38.4 GB/s"),
        ("s", 101.26e-9, "101.3 ns"),
        ("op/s", 2.5e9, "2.5 G op/s"),
        ("word/s", 2.5, "2.500 word/s"),
    ],
)
def test_scales(unit: str, value: float, text: str) -> None:
    assert f"{scale(unit).text(value)} {scale(unit).label}" == text


def test_only_a_rate_is_better_when_higher() -> None:
    assert is_rate("B/s")
    assert is_rate("token/s")
    assert not is_rate("s")
