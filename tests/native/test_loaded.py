"""Latency under load: the chase arrives, the load is real, counted honestly and checked."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from numamicro._cpu import Arena, Team, fill, kernels, link, loaded, position

from .conftest import KIB, MASK, allowed_cpu, words

if TYPE_CHECKING:
    from collections.abc import Iterator

LENGTH, LINE, SEED = 256 * KIB, 64, 6
BLOCK, SHORT_BLOCK = 64 * KIB, 16 * KIB  # without and with a delay
GOLDEN = 0x9E3779B97F4A7C15
ONE_ARRAY = [name for name, _, _, reads, writes, _ in kernels() if reads + writes == 1]
READER = next(name for name in ONE_ARRAY if name.startswith("read"))
WRITER = next(name for name in ONE_ARRAY if name.startswith("write-1"))


@pytest.fixture(params=[2, 3, 4])
def company(request: pytest.FixtureRequest) -> Iterator[Team]:
    """A thread that chases and one to three that stream, spread over the CPUs there are."""
    cpus = sorted(os.sched_getaffinity(0))
    with Team([cpus[i % len(cpus)] for i in range(request.param)]) as threads:
        yield threads


@pytest.fixture
def chased(single: Team) -> Iterator[Arena]:
    with Arena(LENGTH, huge=False) as memory:
        link(single, memory, LENGTH, LINE, SEED)
        yield memory


def run(
    team: Team,
    chased: Arena,
    streamed: Arena,
    kernel: str,
    *,
    chase_length: int = LENGTH,
    line: int = LINE,
    length: int = 300 * KIB + 8,
    start: int = 3,
    steps: int = 20_000,
    delay: int = 0,
) -> tuple[int, int, int, int, int]:
    return loaded(
        team, chased, chase_length, line, SEED, start, steps, streamed, length, kernel, delay
    )


@pytest.mark.parametrize("kernel", ONE_ARRAY)
def test_the_chase_arrives_and_the_streams_are_right(
    company: Team, single: Team, chased: Arena, arena: Arena, kernel: str
) -> None:
    fill(single, arena, arena.size, SEED)
    elapsed, offset, moved, wrong, strays = run(company, chased, arena, kernel)
    assert offset == position(LENGTH, LINE, SEED, 20_003)
    assert wrong == 0
    assert elapsed > 0
    assert strays >= 0
    assert moved % BLOCK == 0


def test_what_is_streamed_during_the_chase_is_counted(
    company: Team, chased: Arena, arena: Arena
) -> None:
    fill(company, arena, arena.size, SEED)
    lengthening = (100_000, 1_000_000, 10_000_000, 100_000_000)
    assert any(run(company, chased, arena, READER, steps=steps)[2] for steps in lengthening)


def test_no_chase_counts_no_load(company: Team, chased: Arena, arena: Arena) -> None:
    fill(company, arena, arena.size, SEED)
    runs = [run(company, chased, arena, READER, steps=0) for _ in range(5)]
    assert {offset for _, offset, *_ in runs} == {position(LENGTH, LINE, SEED, 3)}
    # The chaser may lose its CPU within these nanoseconds, but not every time.
    assert min(moved for _, _, moved, *_ in runs) == 0


def test_a_delay_makes_the_load_less(company: Team, chased: Arena, arena: Arena) -> None:
    fill(company, arena, arena.size, SEED)

    def best_rate(delay: int) -> float:
        runs = [run(company, chased, arena, READER, steps=1_000_000, delay=delay) for _ in range(4)]
        return max(moved / elapsed for elapsed, _, moved, *_ in runs)

    assert best_rate(0) > best_rate(10_000) > best_rate(1_000_000)


def test_every_thread_whose_words_are_wrong_is_counted(
    company: Team, chased: Arena, arena: Arena
) -> None:
    threads = len(company.cpus) - 1
    length = threads * 2 * BLOCK
    fill(company, arena, arena.size, SEED)
    for spoilt in range(threads):
        with memoryview(arena) as view:
            view[spoilt * 2 * BLOCK + 77] ^= 4
        assert run(company, chased, arena, READER, length=length)[3] == spoilt + 1
    fill(company, arena, arena.size, SEED + 1)
    assert run(company, chased, arena, READER, length=length)[3] == threads


@pytest.mark.parametrize(("delay", "block"), [(0, BLOCK), (1, SHORT_BLOCK)])
def test_whole_blocks_are_written_and_nothing_else(
    single: Team, chased: Arena, delay: int, block: int
) -> None:
    cpus = sorted(os.sched_getaffinity(0))
    length = 2 * BLOCK + 24
    moved = wrong = 0
    with Team([cpus[0], cpus[-1]]) as pair, Arena(4 * BLOCK, huge=False) as arena:
        fill(single, arena, arena.size, SEED)
        before = words(arena, arena.size)
        for steps in (100_000, 1_000_000, 10_000_000, 100_000_000):
            _, _, moved, wrong, _ = run(
                pair, chased, arena, WRITER, length=length, steps=steps, delay=delay
            )
            if moved >= 2 * BLOCK:  # then every block at least once
                break
        after = words(arena, arena.size)
    assert wrong == 0
    assert moved % block == 0
    # The kernel's ramp from the seed in each block, spoiled by one more step once it was summed.
    ramp = [(SEED + (index + 1) * GOLDEN) & MASK for index in range(block // 8)]
    assert after == 2 * BLOCK // block * ramp + before[2 * BLOCK // 8 :]


@pytest.mark.parametrize(
    "changed",
    [
        {"length": BLOCK - 8},
        {"length": 512 * KIB + 8},
        {"chase_length": 2 * LENGTH},
        {"line": 12},
    ],
    ids=str,
)
def test_lengths_that_do_not_fit_are_refused(
    company: Team, chased: Arena, arena: Arena, changed: dict[str, int]
) -> None:
    with pytest.raises(OSError, match="chasing through") as caught:
        run(company, chased, arena, READER, **changed)
    assert caught.value.errno == errno.EINVAL


def test_a_thread_that_only_chases_is_no_load(single: Team, chased: Arena, arena: Arena) -> None:
    with pytest.raises(OSError, match="chasing through") as caught:
        run(single, chased, arena, READER)
    assert caught.value.errno == errno.EINVAL


def test_streaming_over_the_links_is_refused(company: Team, chased: Arena) -> None:
    with pytest.raises(OSError, match="chasing through") as caught:
        run(company, chased, chased, WRITER)
    assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("kernel", ["copy-1-portable", "triad-1-portable", "none"])
def test_a_kernel_of_several_arrays_is_no_load(
    company: Team, chased: Arena, arena: Arena, kernel: str
) -> None:
    with pytest.raises(OSError, match=kernel) as caught:
        run(company, chased, arena, kernel)
    assert caught.value.errno == errno.ENOTSUP


def test_it_ends_where_all_threads_share_a_cpu(chased: Arena, arena: Arena) -> None:
    with Team([allowed_cpu()] * 3) as crowd:
        fill(crowd, arena, arena.size, SEED)
        _, offset, _, wrong, _ = run(crowd, chased, arena, READER)
    assert offset == position(LENGTH, LINE, SEED, 20_003)
    assert wrong == 0
