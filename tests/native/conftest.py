"""What the tests of the native side share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from numamicro._cpu import Arena, Team

if TYPE_CHECKING:
    from collections.abc import Iterator

KIB = 1024
MASK = 2**64 - 1


def allowed_cpu() -> int:
    return min(os.sched_getaffinity(0))


def words(arena: Arena, length: int) -> list[int]:
    with memoryview(arena) as view, view[:length].cast("Q") as row:
        return row.tolist()


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(512 * KIB, huge=False) as memory:
        yield memory


@pytest.fixture(params=[1, 2, 3, 4])
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    """One to four threads, spread over the CPUs there are."""
    cpus = sorted(os.sched_getaffinity(0))
    with Team([cpus[i % len(cpus)] for i in range(request.param)]) as threads:
        yield threads


@pytest.fixture
def single() -> Iterator[Team]:
    with Team([allowed_cpu()]) as threads:
        yield threads


@pytest.fixture
def binding() -> int:
    """The first node that memory may be bound to; skips where binding is forbidden."""
    allowed = next(
        line.split()[1]
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("Mems_allowed_list")
    )
    node = int(allowed.replace("-", ",").split(",")[0])
    try:
        Arena(KIB, huge=False, policy="bind", nodes=[node]).close()
    except OSError as error:
        pytest.skip(f"mbind is not to be had here ({error}); in a container add CAP_SYS_NICE")
    return node
