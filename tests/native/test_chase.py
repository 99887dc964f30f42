"""Latency: one cycle through every line, in an order that can be recomputed and not guessed."""

from __future__ import annotations

import errno
from collections import Counter
from itertools import pairwise

import pytest

from numamicro._cpu import Arena, Team, chase, fill, link, position

from .conftest import KIB, words

LINES = [1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 100, 513, 1000]


def walk(arena: Arena, length: int, line: int, start: int) -> list[int]:
    """Follow the links in Python until they come back, and give the offsets in order."""
    table = words(arena, arena.size)
    offsets = [start]
    while (offset := table[offsets[-1] // 8] - arena.address) != start:
        offsets.append(offset)
        assert len(offsets) <= length // line
    return offsets


@pytest.mark.parametrize("line", [64, 128])
@pytest.mark.parametrize("count", LINES)
def test_the_links_are_one_cycle_over_every_line(
    team: Team, arena: Arena, count: int, line: int
) -> None:
    length = count * line + (8 if count % 2 else 0)
    link(team, arena, length, line, 9)
    visited = walk(arena, length, line, position(length, line, 9, 0))
    assert sorted(visited) == [index * line for index in range(count)]
    assert visited == [position(length, line, 9, step) for step in range(count)]


def test_links_touch_only_the_first_word_of_a_line(single: Team, arena: Arena) -> None:
    fill(single, arena, arena.size, 1)
    before = words(arena, arena.size)
    link(single, arena, 16 * KIB, 64, 1)
    after = words(arena, arena.size)
    changed = [
        index for index, (old, new) in enumerate(zip(before, after, strict=True)) if old != new
    ]
    assert changed == list(range(0, 2 * KIB, 8))


@pytest.mark.parametrize("start", [0, 1, 776, 777, 778, 2**40])
@pytest.mark.parametrize("steps", [0, 1, 15, 16, 17, 776, 777, 10_000])
def test_a_chase_ends_where_that_many_steps_lead(
    single: Team, arena: Arena, start: int, steps: int
) -> None:
    length = 777 * 64
    link(single, arena, length, 64, 4)
    elapsed, offset, strays = chase(single, arena, length, 64, 4, start, steps)
    assert offset == position(length, 64, 4, start + steps)
    assert elapsed >= 0
    assert strays >= 0


def test_a_broken_link_is_seen(single: Team, arena: Arena) -> None:
    length = 1000 * 64
    link(single, arena, length, 64, 4)
    here, there = position(length, 64, 4, 500), position(length, 64, 4, 700)
    with memoryview(arena) as view, view.cast("Q") as table:
        table[here // 8] = arena.address + there
    assert chase(single, arena, length, 64, 4, 0, 400)[1] == position(length, 64, 4, 400)
    assert chase(single, arena, length, 64, 4, 0, 600)[1] != position(length, 64, 4, 600)


def test_seeds_give_different_orders() -> None:
    orders = {
        tuple(position(1000 * 64, 64, seed, step) for step in range(1000)) for seed in range(50)
    }
    assert len(orders) == 50


@pytest.mark.parametrize("count", [4096, 5000])
@pytest.mark.parametrize("seed", range(8))
def test_no_stride_comes_back_often_enough_to_be_prefetched(count: int, seed: int) -> None:
    order = [position(count * 64, 64, seed, step) // 64 for step in range(count)]
    strides = Counter((after - before) % count for before, after in pairwise(order))
    # A random cycle repeats its commonest stride 6 to 9 times at these sizes.
    assert max(strides.values()) <= 40
    assert len(strides) > count / 3
    # Neighbours are no more frequent than chance: within one 4 KiB page 64 / count of the steps.
    near = sum(before // 64 == after // 64 for before, after in pairwise(order))
    assert near < 4 * 64


@pytest.mark.parametrize(("length", "line"), [(64, 0), (64, 12), (63, 64), (2**20, 64), (0, 64)])
def test_lines_that_do_not_fit_are_refused(
    single: Team, arena: Arena, length: int, line: int
) -> None:
    with pytest.raises(OSError, match="linking") as caught:
        link(single, arena, length, line, 1)
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="chasing"):
        chase(single, arena, length, line, 1, 0, 1)


def test_a_chase_takes_one_thread(arena: Arena, team: Team) -> None:
    link(team, arena, 4096, 64, 1)
    if len(team.cpus) > 1:
        with pytest.raises(OSError, match="chasing"):
            chase(team, arena, 4096, 64, 1, 0, 10)
