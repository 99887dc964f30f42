"""Lists and masks of ids, and the reader that trusts no file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.errors import NumamicroError
from numamicro.topology.notes import format_ids
from numamicro.topology.sysfs import MAX_ID, Tree, parse_list, parse_mask
from tests.topology.trees import plant

if TYPE_CHECKING:
    from pathlib import Path

ids = st.sets(st.integers(0, 4095), max_size=200)


def mask_of(numbers: set[int]) -> str:
    """Write a mask as the kernel does, in groups of 32 bits."""
    bits = sum(1 << number for number in numbers)
    groups = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, bits.bit_length() or 1, 32)]
    return ",".join(reversed(groups))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("0", (0,)),
        ("0-3,8,10-11\n", (0, 1, 2, 3, 8, 10, 11)),
        ("8,0-1,1", (0, 1, 8)),
        ("0,8,250-255", (0, 8, 250, 251, 252, 253, 254, 255)),
        ("16383", (16383,)),
    ],
)
def test_a_list(text: str, expected: tuple[int, ...]) -> None:
    assert parse_list(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0-4000000000",
        "65536",
        "3-1",
        "-1",
        "0-",
        "a",
        "0,,1",
        "0 1",
        "(null)",
        "1e3",
        "٣",
        "9" * 99,
    ],
)
def test_no_list(text: str) -> None:
    with pytest.raises(NumamicroError, match="no list of ids"):
        parse_list(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000", ()),
        ("f", (0, 1, 2, 3)),
        ("00000000,0000ffff", tuple(range(16))),
        ("1,00000000", (32,)),
        ("000000ff,ff000000,00000000,00000000", tuple(range(88, 104))),
    ],
)
def test_a_mask(text: str, expected: tuple[int, ...]) -> None:
    assert parse_mask(text) == expected


@pytest.mark.parametrize("text", ["", "0x1", "g", "123456789", "1,,2", ",".join(["f"] * 513)])
def test_no_mask(text: str) -> None:
    with pytest.raises(NumamicroError, match="no mask of ids"):
        parse_mask(text)


@given(ids)
def test_lists_and_masks_tell_the_same(numbers: set[int]) -> None:
    expected = tuple(sorted(numbers))
    assert parse_list(format_ids(numbers)) == expected
    assert parse_list(",".join(map(str, numbers))) == expected
    assert parse_mask(mask_of(numbers)) == expected


@given(st.text(max_size=60))
def test_any_text_is_ids_or_an_error(text: str) -> None:
    for parse in (parse_list, parse_mask):
        try:
            numbers = parse(text)
        except NumamicroError:
            continue
        assert list(numbers) == sorted(set(numbers))
        assert all(0 <= number <= MAX_ID for number in numbers)


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    plant(tmp_path, {"word": "many", "empty": "", "long": b"1" * (1 << 20), "bytes": b"\xff\0\xfe"})
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    tree = Tree(str(tmp_path))
    for name in ("word", "empty", "long", "bytes", "folder", "pipe", "missing", "nul\0"):
        assert tree.number(name) is None
    assert tree.garbled == ["/word", "/long", "/bytes"]


def test_a_mask_stands_in_for_a_missing_or_garbled_list(tmp_path: Path) -> None:
    plant(tmp_path, {"mask": "f0", "garbled": "0-4000000000"})
    tree = Tree(str(tmp_path))
    assert tree.ids("missing", "mask") == (4, 5, 6, 7)
    assert tree.ids("garbled", "mask") == (4, 5, 6, 7)
    assert tree.ids("garbled") is None
    assert tree.garbled == ["/garbled", "/garbled"]


def test_absurd_folder_names_are_left_out(tmp_path: Path) -> None:
    names = ["cpu0", "cpu12", "cpu16384", "cpu" + "9" * 40, "cpufreq", "cpu", "cpu-1", "gpu3"]
    plant(tmp_path, {f"{name}/": "" for name in names})
    assert Tree(str(tmp_path)).numbered("", "cpu") == (0, 12)
