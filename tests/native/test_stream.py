"""Bandwidth kernels: that every byte is moved, as often as asked, by every instruction set."""

from __future__ import annotations

import errno
import os
import platform
import struct
from pathlib import Path

import pytest

from numamicro._cpu import Arena, Team, expected, fill, kernels, read, store

from .conftest import KIB, MASK, words

NAMES = [name for name, *_ in kernels() if name.startswith("read-")]
WRITERS = [kernel[0] for kernel in kernels() if kernel[4]]
GOLDEN = 0x9E3779B97F4A7C15
SEED = 77
SEEDS = [0, 1, 2**64 - 1]


def splitmix64(seed: int, index: int) -> int:
    """Give output `index` of the published SplitMix64 generator."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


@pytest.mark.parametrize("seed", SEEDS)
def test_fill_writes_the_same_data_whatever_the_team(team: Team, arena: Arena, seed: int) -> None:
    length = 20 * KIB + 8
    data = [splitmix64(seed, index) for index in range(length // 8)]
    assert fill(team, arena, length, seed) == sum(data) & MASK
    assert words(arena, arena.size) == data + [0] * ((arena.size - length) // 8)


@pytest.mark.parametrize("length", [16 * KIB, 16 * KIB + 8, 33 * KIB - 24, 100_000])
@pytest.mark.parametrize("name", NAMES)
def test_a_read_adds_every_word_once_a_repetition(
    team: Team, arena: Arena, name: str, length: int
) -> None:
    fill(team, arena, length, 3)
    with memoryview(arena) as view:
        total = sum(struct.unpack(f"={length // 8}Q", view[:length]))
    for repetitions in (1, 2, 7):
        elapsed, moved, checksum, strays = read(team, arena, length, name, repetitions)
        assert checksum == total * repetitions & MASK
        assert checksum == expected(team, length, name, repetitions, 3)
        assert moved == length * repetitions
        assert elapsed > 0
        assert strays >= 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", range(8, 2600, 56))
def test_short_slices_are_read_whole(single: Team, arena: Arena, name: str, length: int) -> None:
    total = fill(single, arena, length, length)
    assert read(single, arena, length, name, 1)[2] == total


@pytest.mark.parametrize("name", NAMES)
def test_one_changed_bit_anywhere_is_seen(single: Team, arena: Arena, name: str) -> None:
    length = 2 * KIB + 40
    total = fill(single, arena, length, 5)
    with memoryview(arena) as view:
        for at in range(0, length, 8):
            view[at + at % 7] ^= 1 << at // 8 % 8
            assert read(single, arena, length, name, 1)[2] != total
            view[at + at % 7] ^= 1 << at // 8 % 8


def test_no_repetition_moves_nothing(single: Team, arena: Arena) -> None:
    fill(single, arena, 4096, 1)
    assert read(single, arena, 4096, NAMES[0], 0)[1:3] == (0, 0)


@pytest.mark.parametrize("length", [0, 1, 12, 4097, 512 * KIB + 8, 2**62])
def test_lengths_that_do_not_fit_are_refused(single: Team, arena: Arena, length: int) -> None:
    with pytest.raises(OSError, match="filling") as caught:
        fill(single, arena, length, 1)
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="reading"):
        read(single, arena, length, NAMES[0], 1)


def test_a_length_with_no_slice_for_a_thread_is_refused(team: Team, arena: Arena) -> None:
    threads = len(team.cpus)
    fill(team, arena, threads * 4096, 1)
    if threads > 1:
        with pytest.raises(OSError, match="filling"):
            fill(team, arena, threads * 4096 - 8, 1)


def test_an_unknown_kernel_is_refused(single: Team, arena: Arena) -> None:
    with pytest.raises(OSError, match="read-5-abacus") as caught:
        read(single, arena, 4096, "read-5-abacus", 1)
    assert caught.value.errno == errno.ENOTSUP


def slices(count: int, threads: int) -> list[slice]:
    """Give the words of each thread: whole pages, the last takes the rest."""
    share = count // threads // 512 * 512
    return [slice(i * share, (i + 1) * share) for i in range(threads - 1)] + [
        slice((threads - 1) * share, count)
    ]


def changed_part(before: list[int], after: list[int]) -> slice:
    """Give the one range of words that differ."""
    changed = [i for i, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
    assert changed == list(range(changed[0], changed[-1] + 1))
    return slice(changed[0], changed[-1] + 1)


def check_written(kernel: str, before: list[int], written: list[int], start: int) -> None:
    """Compare what a kernel wrote at word `start` with the words that were there before."""
    operation, variant, _ = kernel.split("-")
    count = len(written)
    if operation == "copy":
        assert start == count
        assert written == before[:count]
    elif operation == "triad":
        assert start == 2 * count
        pairs = zip(before[:count], before[count : 2 * count], strict=True)
        assert written == [(first + 2 * second) & MASK for first, second in pairs]
    else:
        assert (start, count) == (0, len(before))
        begins = [index for index, word in enumerate(written) if word == SEED]
        ends = [*begins[1:], count]
        for begin, end in zip(begins, ends, strict=True):
            ramp = [(SEED + index * GOLDEN) & MASK for index in range(end - begin)]
            assert written[begin:end] == ramp
        assert begins[0] == 0
        assert len(begins) <= (5 if variant == "4" else 1)


@pytest.mark.parametrize("length", [16 * KIB, 17 * KIB + 8, 100_000])
@pytest.mark.parametrize("name", WRITERS)
def test_a_store_writes_its_array_and_nothing_else(
    team: Team, arena: Arena, name: str, length: int
) -> None:
    fill(team, arena, length, SEED)
    before = words(arena, arena.size)
    _, moved, checksum, strays = store(team, arena, length, name, 2, SEED)
    after = words(arena, arena.size)
    assert after[length // 8 :] == before[length // 8 :]
    total = size = 0
    for part in slices(length // 8, len(team.cpus)):
        where = changed_part(before[part], after[part])
        written = [
            (word - GOLDEN) & MASK for word in after[part][where]
        ]  # spoiled after the sum was taken
        check_written(name, before[part], written, where.start)
        total += sum(written)
        size += 8 * len(written)
    assert checksum == total & MASK == expected(team, length, name, 2, SEED)
    _, _, _, reads, writes, _ = next(row for row in kernels() if row[0] == name)
    assert moved == 2 * size * (reads + writes)
    assert 0.8 * length < moved / 2 <= length
    assert strays >= 0


@pytest.mark.parametrize("name", WRITERS)
def test_one_filling_serves_many_stores(single: Team, arena: Arena, name: str) -> None:
    length = 96 * KIB
    fill(single, arena, length, SEED)
    for repetitions in (1, 3, 2):
        checksum = store(single, arena, length, name, repetitions, SEED)[2]
        assert checksum == expected(single, length, name, repetitions, SEED)
    for _ in range(3):  # what was not written again was spoiled, and so found out
        assert store(single, arena, length, name, 0, SEED)[1] == 0
        assert store(single, arena, length, name, 0, SEED)[2] != checksum


@pytest.mark.parametrize("name", [name for name in WRITERS if not name.startswith("write")])
def test_wrong_data_in_an_array_read_are_seen(single: Team, arena: Arena, name: str) -> None:
    fill(single, arena, 4096, SEED)
    with memoryview(arena) as view:
        view[40] ^= 1
    assert store(single, arena, 4096, name, 1, SEED)[2] != expected(single, 4096, name, 1, SEED)


def test_readers_and_writers_are_kept_apart(single: Team, arena: Arena) -> None:
    fill(single, arena, 4096, SEED)
    for refused in (
        lambda: read(single, arena, 4096, WRITERS[0], 1),
        lambda: store(single, arena, 4096, NAMES[0], 1, SEED),
        lambda: expected(single, 4096, "none", 1, SEED),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.ENOTSUP)) as caught:
            refused()
        assert caught.value.errno == errno.ENOTSUP


def test_a_slice_too_short_for_the_arrays_is_refused(single: Team, arena: Arena) -> None:
    with pytest.raises(OSError, match="storing") as caught:
        store(single, arena, 128, "copy-1-portable", 1, SEED)
    assert caught.value.errno == errno.EINVAL


def test_the_kernels_are_those_this_cpu_has() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    wanted = {
        "x86_64": {"avx512f": "avx512", "avx2": "avx2", "sse2": "sse2", "erms": "erms"},
        "aarch64": {"asimd": "neon"},
    }.get(platform.machine(), {})
    isas = list(dict.fromkeys(kernel[1] for kernel in kernels()))
    assert isas == [isa for flag, isa in wanted.items() if flag in flags] + ["portable"]
    assert len({name for name, *_ in kernels()}) == len(kernels())


MOVED = {"read": (1, 0), "write": (0, 1), "copy": (1, 1), "triad": (2, 1)}


@pytest.mark.parametrize("row", kernels(), ids=lambda row: row[0])
def test_declared_bytes_are_those_of_the_operation(
    row: tuple[str, str, int, int, int, int],
) -> None:
    name, isa, streams, reads, writes, bus = row
    operation, variant, named_isa = name.split("-")
    assert named_isa == isa
    assert (reads, writes) == MOVED[operation]
    # Copy and triad past the caches read from two places.
    assert streams == {"2": 2, "4": 4, "nt": min(1 + reads, 2)}.get(variant, 1)
    # A plain store fetches the line that it will overwrite; nt and movsb do not.
    assert bus == reads + writes * (2 if variant in ("1", "2", "4") else 1)
