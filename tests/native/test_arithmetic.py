"""Products in an engine's formats, its attention and its small operations."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from numamicro._cpu import Arena, Team, attend, attend_fill, dot, dot_fill, dot_kernels, step
from numamicro.probes.attention import POSITION_BYTES

from .conftest import KIB, MASK

if TYPE_CHECKING:
    from collections.abc import Iterator

# Bytes of 2048 weights, as ggml defines its formats.
ROW_BYTES = {"F16": 4096, "BF16": 4096, "Q8_0": 64 * 34, "Q4_0": 64 * 18, "Q4_K": 8 * 144}
MIB = 1024 * KIB


@pytest.mark.parametrize("name", ROW_BYTES)
@pytest.mark.parametrize("seed", [0, 7, MASK])
def test_products_are_what_the_format_makes_them(
    team: Team, arena: Arena, name: str, seed: int
) -> None:
    assert dot_fill(team, arena, arena.size, name, seed) == 0


@pytest.mark.parametrize("name", ROW_BYTES)
@pytest.mark.parametrize(("many", "tokens"), [(False, 1), (True, 48)])
def test_bytes_and_operations_are_those_of_whole_rows(
    team: Team, arena: Arena, name: str, many: bool, tokens: int
) -> None:
    dot_fill(team, arena, arena.size, name, 3)
    elapsed, moved, operations, total, strays = dot(team, arena, arena.size, name, many, 0, 2)
    rows, rest = divmod(moved, 2 * ROW_BYTES[name])
    assert rest == 0
    assert rows * ROW_BYTES[name] > arena.size // 2
    assert operations == 2 * rows * 2 * 2048 * tokens
    assert dot(team, arena, arena.size, name, many, 0, 6)[3] == 3 * total & MASK
    assert elapsed > 0
    assert strays >= 0


@pytest.mark.parametrize("name", ROW_BYTES)
def test_where_threads_meet_changes_no_result(team: Team, arena: Arena, name: str) -> None:
    dot_fill(team, arena, arena.size, name, 9)
    _, moved, operations, total, _ = dot(team, arena, arena.size, name, False, 0, 3)
    rows = moved // ROW_BYTES[name]
    for matrices in (1, 2, 7, rows):  # the last leaves some without a row
        met = dot(team, arena, arena.size, name, False, matrices, 3)
        assert met[1:4] == (moved, operations, total)


def test_other_weights_give_other_results(single: Team, arena: Arena) -> None:
    sums = set()
    for seed in range(4):
        dot_fill(single, arena, arena.size, "Q8_0", seed)
        sums.add(dot(single, arena, arena.size, "Q8_0", False, 0, 1)[3])
    assert len(sums) == 4


def test_a_damaged_weight_changes_the_results(single: Team, arena: Arena) -> None:
    dot_fill(single, arena, arena.size, "Q4_K", 5)
    before = dot(single, arena, arena.size, "Q4_K", False, 0, 1)[3]
    with memoryview(arena) as view:
        view[200:264] = bytes(64)
    assert dot(single, arena, arena.size, "Q4_K", False, 0, 1)[3] != before


@pytest.mark.parametrize(
    ("name", "length", "code"),
    [
        ("Q9_9", 512 * KIB, errno.ENOTSUP),
        ("Q8_0", 513 * KIB, errno.EINVAL),
        ("F16", 4096, errno.EINVAL),
        ("Q4_0", 0, errno.EINVAL),
    ],
)
def test_what_cannot_be_filled_is_refused(
    single: Team, arena: Arena, name: str, length: int, code: int
) -> None:
    with pytest.raises(OSError, match="weights") as caught:
        dot_fill(single, arena, length, name, 1)
    assert caught.value.errno == code


def test_every_format_has_a_loop() -> None:
    assert {name for name, _ in dot_kernels()} == set(ROW_BYTES)


@pytest.fixture
def layers() -> Iterator[Arena]:
    with Arena(8 * MIB, huge=False) as memory:
        yield memory


@pytest.mark.parametrize(("positions", "heads"), [(2048, 4), (8192, 1), (1024, 8), (100, 3)])
def test_attention_is_that_of_plain_arithmetic(layers: Arena, positions: int, heads: int) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    for workers in ([cpus[0]], [cpus[0], cpus[-1]]):
        layer = positions * heads * POSITION_BYTES
        whole = layers.size // layer * layer
        with Team(workers) as team:
            assert attend_fill(team, layers, 0, layers.size, positions, heads, 9) == 0
            elapsed, taken, total, _ = attend(team, layers, 0, layers.size, positions, heads, 1)
            assert taken == 4 * whole
            assert attend(team, layers, 0, layers.size, positions, heads, 2)[2] == 2 * total & MASK
            assert elapsed > 0


@pytest.mark.parametrize(
    ("positions", "heads"), [(8192, 4), (0, 4), (2048, 0), ((1 << 54) + 1, 8), (1, 1 << 57)]
)
def test_a_part_of_a_layer_is_refused(
    single: Team, layers: Arena, positions: int, heads: int
) -> None:
    with pytest.raises(OSError, match="keys and values") as caught:
        attend_fill(single, layers, 0, 8 * MIB, positions, heads, 1)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize(("offset", "length"), [(2, 4 * MIB), (64, 8 * MIB), (MASK - 63, 4 * MIB)])
def test_layers_begin_on_a_line_and_end_in_the_arena(
    single: Team, layers: Arena, offset: int, length: int
) -> None:
    with pytest.raises(OSError, match="keys and values") as caught:
        attend_fill(single, layers, offset, length, 2048, 2, 1)
    assert caught.value.errno == errno.EINVAL
    assert attend_fill(single, layers, 64, 8 * MIB - 64, 2048, 2, 1) == 0


def test_every_thread_has_as_many_query_heads(layers: Arena) -> None:
    """Seven threads share out fourteen query heads of two cached ones."""
    cpu = min(os.sched_getaffinity(0))
    sums = set()
    for threads, group in ((1, 4), (7, 7), (8, 4), (16, 8)):
        with Team([cpu] * threads) as team:
            assert attend_fill(team, layers, 0, layers.size, 512, 2, 9) == 0
            _, taken, total, _ = attend(team, layers, 0, layers.size, 512, 2, 1)
            assert taken == group * layers.size
            sums.add((group, total))
    assert len(sums) == 3  # the same query heads, however many threads share them out


def test_a_norm_makes_the_mean_square_one(team: Team) -> None:
    elapsed, values, squares, _ = step(team, "norm", 512, 4)
    assert values == 4 * 512
    assert squares == pytest.approx(512, rel=0.01)
    assert elapsed > 0


def test_a_rotation_keeps_the_squares(team: Team) -> None:
    once = step(team, "rotate", 128, 1)[2]
    assert step(team, "rotate", 128, 100)[2] == pytest.approx(once, rel=1e-3)


def test_quants_stand_for_what_they_were(team: Team) -> None:
    elapsed, values, squares, _ = step(team, "quantize", 1792, 3)
    assert values == 3 * 1792
    assert squares == pytest.approx(1792 * 4, rel=0.005)
    assert elapsed > 0


def test_a_part_of_a_block_is_refused(single: Team) -> None:
    with pytest.raises(OSError, match="step quantize"):
        step(single, "quantize", 128, 1)


def test_a_step_of_no_or_odd_length_is_refused(single: Team) -> None:
    for values in (0, 3, 2**63):
        with pytest.raises(OSError, match="step norm"):
            step(single, "norm", values, 1)
    with pytest.raises(KeyError):
        step(single, "leap", 128, 1)
