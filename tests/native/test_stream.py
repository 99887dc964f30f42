"""Bandwidth kernels: that every byte is moved, as often as asked, by every instruction set."""

from __future__ import annotations

import errno
import platform
import struct
from pathlib import Path

import pytest

from numamicro._cpu import Arena, Team, fill, kernels, read

from .conftest import KIB, MASK, words

NAMES = [kernel[0] for kernel in kernels()]
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
    expected = [splitmix64(seed, index) for index in range(length // 8)]
    assert fill(team, arena, length, seed) == sum(expected) & MASK
    assert words(arena, arena.size) == expected + [0] * ((arena.size - length) // 8)


@pytest.mark.parametrize("length", [16 * KIB, 16 * KIB + 8, 33 * KIB - 24, 100_000])
@pytest.mark.parametrize("name", NAMES)
def test_a_read_adds_every_word_once_a_repetition(
    team: Team, arena: Arena, name: str, length: int
) -> None:
    fill(team, arena, length, 3)
    with memoryview(arena) as view:
        expected = sum(struct.unpack(f"<{length // 8}Q", view[:length]))
    for repetitions in (1, 2, 7):
        elapsed, moved, checksum, strays = read(team, arena, length, name, repetitions)
        assert checksum == expected * repetitions & MASK
        assert moved == length * repetitions
        assert elapsed > 0
        assert strays >= 0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", range(8, 2600, 56))
def test_short_slices_are_read_whole(single: Team, arena: Arena, name: str, length: int) -> None:
    expected = fill(single, arena, length, length)
    assert read(single, arena, length, name, 1)[2] == expected


@pytest.mark.parametrize("name", NAMES)
def test_one_changed_bit_anywhere_is_seen(single: Team, arena: Arena, name: str) -> None:
    length = 2 * KIB + 40
    expected = fill(single, arena, length, 5)
    with memoryview(arena) as view:
        for at in range(0, length, 8):
            view[at + at % 7] ^= 1 << at // 8 % 8
            assert read(single, arena, length, name, 1)[2] != expected
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


def test_the_kernels_are_those_this_cpu_has() -> None:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    wanted = {
        "x86_64": {"avx512f": "avx512", "avx2": "avx2", "sse2": "sse2"},
        "aarch64": {"asimd": "neon"},
    }.get(platform.machine(), {})
    isas = list(dict.fromkeys(kernel[1] for kernel in kernels()))
    assert isas == [isa for flag, isa in wanted.items() if flag in flags] + ["portable"]
    for name, isa, streams, reads, writes in kernels():
        assert name == f"read-{streams}-{isa}"
        assert streams in (1, 4)
        assert (reads, writes) == (1, 0)
    assert len(set(NAMES)) == len(NAMES)
