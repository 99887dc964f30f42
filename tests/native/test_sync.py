"""Telling each other through the caches: one line handed to and fro, and a team that meets."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from numamicro._cpu import Arena, Team, barrier, fill, ping

from .conftest import KIB, MASK, allowed_cpu, words

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pair() -> Iterator[Team]:
    cpus = sorted(os.sched_getaffinity(0))
    with Team([cpus[0], cpus[-1]]) as threads:
        yield threads


@pytest.mark.parametrize("offset", [0, 64, 128, 4096 + 8, 512 * KIB - 8])
@pytest.mark.parametrize("round_trips", [0, 1, 2, 1000])
def test_the_counter_rises_twice_a_round_trip_and_nothing_else_changes(
    pair: Team, arena: Arena, offset: int, round_trips: int
) -> None:
    fill(pair, arena, arena.size, 5)
    due = words(arena, arena.size)
    due[offset // 8] = (due[offset // 8] + 2 * round_trips) & MASK
    elapsed, made, strays = ping(pair, arena, offset, round_trips)
    assert made == round_trips
    assert words(arena, arena.size) == due
    assert elapsed >= 0
    assert strays >= 0


def test_the_counter_may_pass_its_greatest_value(pair: Team, arena: Arena) -> None:
    with memoryview(arena) as view:
        view[:8] = b"\xff" * 8
    assert ping(pair, arena, 0, 300)[1] == 300
    assert words(arena, 8) == [599]


def test_more_round_trips_take_longer(pair: Team, arena: Arena) -> None:
    few, many = (min(ping(pair, arena, 0, n)[0] for _ in range(5)) for n in (100, 20_000))
    assert many > few


def test_two_threads_on_one_cpu_hand_over_too(arena: Arena) -> None:
    with Team([allowed_cpu()] * 2) as crowd:
        assert ping(crowd, arena, 0, 20)[1] == 20


@pytest.mark.parametrize("offset", [4, 63, 512 * KIB - 4, 512 * KIB, 2**64 - 8])
def test_a_line_outside_the_arena_or_askew_is_refused(
    pair: Team, arena: Arena, offset: int
) -> None:
    with pytest.raises(OSError, match=f"line at {offset}") as caught:
        ping(pair, arena, offset, 1)
    assert caught.value.errno == errno.EINVAL


def test_an_arena_without_a_word_is_refused(pair: Team) -> None:
    with Arena(7, huge=False) as tiny, pytest.raises(OSError, match="line at 0"):
        ping(pair, tiny, 0, 1)


def test_a_hand_over_takes_two_threads(team: Team, arena: Arena) -> None:
    if len(team.cpus) != 2:
        with pytest.raises(OSError, match="handing over") as caught:
            ping(team, arena, 0, 1)
        assert caught.value.errno == errno.EINVAL


@pytest.mark.parametrize("repetitions", [0, 1, 2, 501])
def test_the_team_meets_as_often_as_asked(team: Team, repetitions: int) -> None:
    elapsed, met, strays = barrier(team, repetitions)
    assert met == repetitions
    assert elapsed >= 0
    assert strays >= 0


def test_more_meetings_take_longer(pair: Team) -> None:
    few, many = (min(barrier(pair, n)[0] for _ in range(5)) for n in (100, 20_000))
    assert many > few


def test_a_closed_team_meets_no_more() -> None:
    team = Team([allowed_cpu()])
    team.close()
    with pytest.raises(ValueError, match="closed"):
        barrier(team, 1)
