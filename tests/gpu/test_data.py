"""What GPUs are given: data that tell when they did not arrive, and kernels for each GPU."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro import _gpu_data
from numamicro.worker.gpu_lab import image_for

WORDS = 512
SIZE = 8 * WORDS
seeds = st.integers(0, 2**63 - 1)
places = st.integers(0, WORDS - 1)


def buffer() -> np.ndarray:
    return np.zeros(WORDS, np.uint64)


@given(seeds, seeds, places, st.integers(0, 63))
def test_a_pattern_is_known_again_and_a_bit_of_another_is_seen(
    seed: int, other: int, place: int, bit: int
) -> None:
    words = buffer()
    _gpu_data.pattern_write(words.ctypes.data, SIZE, 0, seed=seed)
    assert _gpu_data.pattern_wrong(words.ctypes.data, SIZE, 0, seed=seed) == 0
    assert len(set(words)) == WORDS
    if other != seed:
        assert _gpu_data.pattern_wrong(words.ctypes.data, SIZE, 0, seed=other) == WORDS
    words[place] ^= np.uint64(1 << bit)
    assert _gpu_data.pattern_wrong(words.ctypes.data, SIZE, 0, seed=seed) == 1
    assert _gpu_data.pattern_wrong(buffer().ctypes.data, SIZE, 0, seed=seed) >= WORDS - 1


def as_floats(words: np.ndarray) -> np.ndarray:
    """Give the bfloat16 in some words as float64."""
    halves = words.view(np.uint16).astype(np.uint32) << 16
    return halves.view(np.float32).astype(np.float64)


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """Give whole numbers as words of bfloat16; all of them are exact."""
    halves = values.astype(np.float32).view(np.uint32)
    assert not (halves & 0xFFFF).any()
    return (halves >> 16).astype(np.uint16).view(np.uint64)


@given(seeds, st.integers(1, 16), places)
def test_the_sum_of_all_ranks_is_exact_and_an_addend_left_out_is_seen(
    seed: int, ranks: int, place: int
) -> None:
    parts = []
    for rank in range(ranks):
        words = buffer()
        _gpu_data.addend_write(words.ctypes.data, SIZE, 0, seed=seed, rank=rank)
        parts.append(as_floats(words))
        assert set(parts[-1]) <= set(range(16))
    total = as_bfloat16(sum(parts, np.zeros(4 * WORDS)))
    assert _gpu_data.sum_wrong(total.ctypes.data, SIZE, 0, seed=seed, ranks=ranks) == 0
    short = as_bfloat16(sum(parts[1:], np.zeros(4 * WORDS)))
    assert _gpu_data.sum_wrong(short.ctypes.data, SIZE, 0, seed=seed, ranks=ranks) > WORDS // 2
    total[place] ^= np.uint64(1 << 40)
    assert _gpu_data.sum_wrong(total.ctypes.data, SIZE, 0, seed=seed, ranks=ranks) == 1


@given(seeds, places)
def test_data_are_written_and_looked_at_part_by_part(seed: int, cut: int) -> None:
    whole, parts = buffer(), buffer()
    bounds = ((0, 8 * cut), (8 * cut, SIZE - 8 * cut))
    writers = (
        partial(_gpu_data.pattern_write, seed=seed),
        partial(_gpu_data.addend_write, seed=seed, rank=0),
    )
    counters = (
        partial(_gpu_data.pattern_wrong, seed=seed),
        partial(_gpu_data.sum_wrong, seed=seed, ranks=1),
    )
    for write, wrong in zip(writers, counters, strict=True):
        write(whole.ctypes.data, SIZE, 0)
        for begin, size in bounds:
            write(parts.ctypes.data + begin, size, begin)
            assert wrong(whole.ctypes.data + begin, size, begin) == 0
        assert (whole == parts).all()
        assert wrong(whole.ctypes.data, SIZE, 8) > WORDS // 2


@pytest.mark.parametrize("lines", [1, 2, 64, 1024])
def test_a_chain_is_one_cycle_and_the_end_of_a_walk_is_known(lines: int) -> None:
    words = np.zeros(lines * 16, np.uint64)
    half = lines // 2 * 128
    for begin, size in ((0, half), (half, words.nbytes - half)):
        _gpu_data.chain_write(words.ctypes.data + begin, size, begin, whole=words.nbytes)
    at, seen = 0, []
    for step in range(lines + 3):
        assert _gpu_data.chain_position(words.nbytes, step) == at
        seen.append(at)
        at = int(words[at])
    assert sorted(seen[:lines]) == [16 * line for line in range(lines)]


def test_a_chain_has_no_stride_that_a_prefetcher_could_learn() -> None:
    words = np.zeros(4096 * 16, np.uint64)
    _gpu_data.chain_write(words.ctypes.data, words.nbytes, 0, whole=words.nbytes)
    targets = words[::16].astype(np.int64)
    strides = np.diff(targets, prepend=0)
    assert np.unique(strides).size > 1
    walk = [_gpu_data.chain_position(words.nbytes, step) for step in range(200)]
    assert np.unique(np.diff(walk)).size > 100


def test_more_ranks_than_the_kernels_know_are_refused() -> None:
    many = list(range(17))
    with pytest.raises(ValueError, match="17 ranks"):
        _gpu_data.all_reduce_arguments(
            rank=0,
            source=0,
            target=0,
            size=16,
            sets=1,
            repetitions=1,
            send=[0],
            receive=many,
            signal=many,
            watch=many,
            generation=0,
            abort=0,
            status=0,
            timeout_ns=1,
        )


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((6, 1), None),
        ((7, 0), "sm_70"),
        ((7, 2), "sm_70"),
        ((7, 5), "sm_75"),
        ((8, 0), "sm_80"),
        ((8, 7), "sm_86"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90"),
        ((10, 3), "sm_100"),
        ((11, 0), "compute_70"),
        ((12, 1), "sm_120"),
    ],
)
def test_a_gpu_gets_the_kernels_of_its_own_major_version(
    capability: tuple[int, int], arch: str | None
) -> None:
    names = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_70")
    images = {name: name.encode() for name in names}
    assert image_for(capability, images) == (arch.encode() if arch else None)
    assert image_for(capability, {}) is None
