"""Where pages are, by whoever will say: move_pages, numa_maps, or nobody."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from numamicro._cpu import Arena, Team, fill
from numamicro.census import take_census

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = mmap.PAGESIZE
PAGES = 512
SIZE = PAGES * PAGE


@dataclass
class Answer:
    """Real memory; what move_pages says of it is made up."""

    address: int
    pages: dict[int, int] | None

    def census(self, *_: int) -> dict[int, int]:
        if self.pages is None:
            raise PermissionError
        return self.pages


def written(bytes_written: int) -> Iterator[Arena]:
    cpu = min(os.sched_getaffinity(0))
    # A neighbour of the same kind on each side: what it holds must not be counted.
    with (
        Arena(SIZE, huge=False),
        Arena(SIZE, huge=False) as arena,
        Arena(SIZE, huge=False) as next_one,
    ):
        with Team([cpu]) as team:
            for each in (arena, next_one):
                fill(team, each, bytes_written, 1)
        yield arena


@pytest.fixture
def arena() -> Iterator[Arena]:
    yield from written(SIZE)


@pytest.fixture
def half_written() -> Iterator[Arena]:
    yield from written(SIZE // 2)


def test_move_pages_is_believed_where_it_names_every_page(arena: Arena) -> None:
    census = take_census(arena, SIZE, PAGE)
    assert census.by == "move_pages"
    assert sum(census.pages.values()) == PAGES
    assert min(census.pages) >= 0


@pytest.mark.parametrize("pages", [None, {-2: 1, 0: PAGES - 1}, {-14: PAGES}])
def test_numa_maps_is_believed_where_it_finds_what_move_pages_does_not(
    arena: Arena, pages: dict[int, int] | None
) -> None:
    census = take_census(Answer(arena.address, pages), SIZE, PAGE)  # type: ignore[arg-type]
    assert census.by == "numa_maps"
    assert census.bytes == SIZE
    assert census.pages == take_census(arena, SIZE, PAGE).pages


def test_pages_that_nobody_finds_were_never_written(half_written: Arena) -> None:
    census = take_census(half_written, SIZE, PAGE)
    assert census.by == "move_pages"
    assert sum(count for node, count in census.pages.items() if node < 0) == PAGES // 2
