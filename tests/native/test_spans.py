"""Several buffers at once: each thread on its own one, and the same data and bytes as alone."""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numamicro._cpu import (
    Arena,
    Team,
    expected,
    expected_each,
    fill,
    fill_each,
    kernels,
    read,
    read_each,
    store,
    store_each,
)

from .conftest import KIB, MASK, allowed_cpu, words

if TYPE_CHECKING:
    from collections.abc import Iterator

READERS = [name for name, _, _, _, writes, _ in kernels() if not writes]
WRITERS = [name for name, _, _, _, writes, _ in kernels() if writes]
SEED = 8
SHAPES = [
    [(16 * KIB, 1)],
    [(16 * KIB, 2)],
    [(16 * KIB, 1), (20 * KIB + 8, 1)],
    [(4 * KIB, 1), (40 * KIB - 8, 3)],
    [(33 * KIB, 2), (8 * KIB + 40, 1), (16 * KIB, 1)],
]


class Group:
    """A team, its buffers, and for each buffer a team of as many threads as share it."""

    def __init__(self, shape: list[tuple[int, int]], stack: ExitStack) -> None:
        cpus = sorted(os.sched_getaffinity(0))

        def team_of(size: int) -> Team:
            return stack.enter_context(Team([cpus[i % len(cpus)] for i in range(size)]))

        self.team = team_of(sum(threads for _, threads in shape))
        self.spans = [
            (stack.enter_context(Arena(64 * KIB, huge=False)), length, threads)
            for length, threads in shape
        ]
        self.alone = [(team_of(threads), arena, length) for arena, length, threads in self.spans]


@pytest.fixture(params=SHAPES, ids=str)
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    with ExitStack() as stack:
        yield Group(request.param, stack)


def test_each_buffer_is_filled_as_if_alone(group: Group) -> None:
    total = fill_each(group.team, group.spans, SEED)
    together = [words(arena, arena.size) for arena, _, _ in group.spans]
    for _, arena, length in group.alone:
        with memoryview(arena) as view:
            view[:length] = bytes(length)
    assert total == sum(fill(*buffer, SEED) for buffer in group.alone) & MASK
    assert together == [words(arena, arena.size) for arena, _, _ in group.spans]


@pytest.mark.parametrize("name", READERS)
def test_reading_at_once_gives_what_reading_alone_gives(group: Group, name: str) -> None:
    fill_each(group.team, group.spans, SEED)
    _, moved, checksum, strays = read_each(group.team, group.spans, name, 3)
    alone = [read(*buffer, name, 3) for buffer in group.alone]
    assert moved == sum(result[1] for result in alone)
    assert checksum == sum(result[2] for result in alone) & MASK
    assert checksum == expected_each(group.team, group.spans, name, 3, SEED)
    assert strays >= 0


@pytest.mark.parametrize("name", WRITERS)
def test_storing_at_once_gives_what_storing_alone_gives(group: Group, name: str) -> None:
    fill_each(group.team, group.spans, SEED)
    _, moved, checksum, _ = store_each(group.team, group.spans, name, 2, SEED)
    together = [words(arena, arena.size) for arena, _, _ in group.spans]
    fill_each(group.team, group.spans, SEED)
    alone = [store(*buffer, name, 2, SEED) for buffer in group.alone]
    assert together == [words(arena, arena.size) for arena, _, _ in group.spans]
    assert moved == sum(result[1] for result in alone)
    assert checksum == sum(result[2] for result in alone) & MASK
    due = [expected(team, length, name, 2, SEED) for team, _, length in group.alone]
    assert checksum == sum(due) & MASK
    assert checksum == expected_each(group.team, group.spans, name, 2, SEED)


def test_a_changed_bit_in_any_buffer_is_seen(group: Group) -> None:
    due = fill_each(group.team, group.spans, SEED)
    for arena, length, _ in group.spans:
        for at in (0, length - 1):
            with memoryview(arena) as view:
                view[at] ^= 16
                assert read_each(group.team, group.spans, READERS[0], 1)[2] != due
                view[at] ^= 16
    assert read_each(group.team, group.spans, READERS[0], 1)[2] == due


@pytest.mark.parametrize(
    "shape",
    [
        [],
        [(8 * KIB, 1)],
        [(8 * KIB, 3)],
        [(8 * KIB, 1), (8 * KIB, 2)],
        [(8 * KIB, 2), (8 * KIB, 0)],
        [(8 * KIB, 0), (8 * KIB, 2)],
        [(8 * KIB, 2**64 - 1), (8 * KIB, 3)],
        [(8 * KIB, 1), (0, 1)],
        [(8 * KIB, 1), (12, 1)],
        [(8 * KIB - 8, 2)],
        [(8 * KIB, 1), (64 * KIB + 8, 1)],
    ],
    ids=str,
)
def test_spans_that_are_not_the_teams_are_refused(shape: list[tuple[int, int]]) -> None:
    with Team([allowed_cpu()] * 2) as team, Arena(64 * KIB, huge=False) as arena:
        fill(team, arena, arena.size, SEED)
        spans = [(arena, length, threads) for length, threads in shape]
        for refused in (
            lambda: fill_each(team, spans, SEED),
            lambda: read_each(team, spans, READERS[0], 1),
            lambda: store_each(team, spans, WRITERS[0], 1, SEED),
        ):
            with pytest.raises(OSError, match=os.strerror(errno.EINVAL)) as caught:
                refused()
            assert caught.value.errno == errno.EINVAL
        if sum(threads for _, threads in shape) != 2:
            with pytest.raises(OSError, match=os.strerror(errno.EINVAL)):
                expected_each(team, spans, READERS[0], 1, SEED)


def test_a_slice_too_short_for_the_arrays_is_refused_wherever_it_is(arena: Arena) -> None:
    with Team([allowed_cpu()] * 2) as team, pytest.raises(OSError, match=r"4096 \+ 128") as caught:
        store_each(team, [(arena, 4096, 1), (arena, 128, 1)], "copy-1-portable", 1, SEED)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("span", [(None, 4096, 1), ("arena", 4096, 1), (1, 2), 7])
def test_what_is_no_span_is_refused(single: Team, span: Any) -> None:
    for refused in (
        lambda: fill_each(single, [span], SEED),
        lambda: read_each(single, [span], READERS[0], 1),
        lambda: store_each(single, [span], WRITERS[0], 1, SEED),
        lambda: expected_each(single, [span], READERS[0], 1, SEED),
    ):
        with pytest.raises((TypeError, ValueError)):
            refused()


def test_a_closed_arena_is_refused(single: Team) -> None:
    arena = Arena(4096, huge=False)
    arena.close()
    with pytest.raises(OSError, match="reading 4096 bytes"):
        read_each(single, [(arena, 4096, 1)], READERS[0], 1)


def test_no_memory_is_left_over_when_spans_are_refused(single: Team, arena: Arena) -> None:
    def data_bytes() -> int:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmData:\s+(\d+)", status)[1]) * KIB  # type: ignore[index]

    many = [(arena, 4096, 1)] * 2000  # 48 KB as C has them
    before = data_bytes()
    for _ in range(500):
        with pytest.raises(OSError, match="filling"):
            fill_each(single, many, SEED)
        with pytest.raises(OSError, match="the sum"):
            expected_each(single, many, READERS[0], 1, SEED)
        with pytest.raises(TypeError):
            read_each(single, [*many, (arena, 4096, "one")], READERS[0], 1)  # type: ignore[list-item]
    assert data_bytes() - before < 500 * 48_000 // 2
