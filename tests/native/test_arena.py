"""Memory: where it is put, what the kernel says of it, and that it is given back."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from numamicro._cpu import Arena, Region, Team, bind_thread, fill
from numamicro.topology import discover

from .conftest import KIB

MIB = KIB * KIB
PAGE = os.sysconf("SC_PAGESIZE")
UNTOUCHED = {-errno.ENOENT, -errno.EFAULT}


def smaps_of(arena: Arena) -> str:
    """Give the kernel's account of the mapping that holds the arena."""
    blocks = re.split(
        r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.M
    )
    for block in blocks:
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", block):
            start, end = (int(edge, 16) for edge in found.groups())
            if start <= arena.address < end:
                return block
    raise AssertionError("the arena is not mapped")


def policy_of(arena: Arena) -> str:
    mappings = map(str.split, Path("/proc/self/numa_maps").read_text().splitlines())
    return next(fields[1] for fields in mappings if int(fields[0], 16) == arena.address)


@pytest.mark.parametrize("size", [1, 4096, 2 * MIB, 3 * MIB + 1])
def test_is_aligned_zeroed_and_writable_to_its_last_byte(size: int) -> None:
    with Arena(size, huge=False) as arena, memoryview(arena) as view:
        assert arena.address % (2 * MIB) == 0
        assert (arena.size, len(view), view[size - 1]) == (size, size, 0)
        view[size - 1] = 7
        assert view[size - 1] == 7


def test_census_tells_touched_pages_from_untouched() -> None:
    with Arena(64 * PAGE, huge=False) as arena:
        with memoryview(arena) as view:
            for page in (0, 5, 6, 63):
                view[page * PAGE] = 1
        census = arena.census(0, arena.size, PAGE)
        assert sum(pages for node, pages in census.items() if node >= 0) == 4
        assert sum(pages for node, pages in census.items() if node in UNTOUCHED) == 60
        assert sum(arena.census(5 * PAGE, 2 * PAGE, PAGE).values()) == 2
        assert all(node >= 0 for node in arena.census(5 * PAGE, 2 * PAGE, PAGE))


def test_census_looks_at_every_page_once_however_many_there_are() -> None:
    pages = 3 * 512 + 17
    with Arena(pages * PAGE, huge=False) as arena:
        with memoryview(arena) as view:
            for page in range(0, pages, 7):
                view[page * PAGE] = 1
        census = arena.census(0, arena.size, PAGE)
        assert sum(census.values()) == pages
        assert sum(count for node, count in census.items() if node >= 0) == -(-pages // 7)
        every_seventh = arena.census(0, arena.size, 7 * PAGE)
        assert sum(every_seventh.values()) == -(-pages // 7)
        assert min(every_seventh) >= 0
        assert max(arena.census(PAGE, arena.size - PAGE, 7 * PAGE)) < 0


def test_census_of_nothing_is_empty(arena: Arena) -> None:
    assert arena.census(0, 0, PAGE) == {}


@pytest.mark.parametrize(
    ("offset", "length", "step"), [(0, 8192, 0), (4096, 2**19, 4096), (2**60, 1, 1)]
)
def test_census_outside_the_arena_is_refused(
    arena: Arena, offset: int, length: int, step: int
) -> None:
    with pytest.raises(OSError, match="where pages are") as caught:
        arena.census(offset, length, step)
    assert caught.value.errno == errno.EINVAL


def test_bound_pages_are_on_their_node_and_nowhere_else(binding: int, single: Team) -> None:
    with Arena(2 * MIB, huge=False, policy="bind", nodes=[binding]) as arena:
        assert arena.bound
        assert set(arena.census(0, arena.size, PAGE)) <= UNTOUCHED
        fill(single, arena, arena.size, 1)
        assert arena.census(0, arena.size, PAGE) == {binding: arena.size // PAGE}
        assert policy_of(arena) == f"bind:{binding}"


def test_every_arena_is_a_mapping_of_its_own(binding: int) -> None:
    arenas = [Arena(2 * MIB, huge=True, policy="bind", nodes=[binding]) for _ in range(4)]
    mapped = Path("/proc/self/maps").read_text()
    for arena in arenas:
        assert f"{arena.address:x}-{arena.address + arena.size:x} rw-p" in mapped
        arena.close()


def test_interleaving_over_one_node_is_that_policy(binding: int) -> None:
    with Arena(PAGE, huge=False, policy="interleave", nodes=[binding]) as arena:
        assert policy_of(arena) == f"interleave:{binding}"


@pytest.mark.parametrize("policy", ["bind", "interleave"])
@pytest.mark.parametrize("absent", ["next", 63, 64, 1000, 4095, 4096, -1])
@pytest.mark.parametrize("company", [True, False])
def test_a_node_that_does_not_exist_is_refused_even_in_company(
    binding: int, policy: str, absent: int | str, company: bool
) -> None:
    if absent == "next":
        possible = Path("/sys/devices/system/node/online").read_text()
        absent = max(int(number) for number in re.findall(r"\d+", possible)) + 1
    nodes = [binding, int(absent)] if company else [int(absent)]
    with pytest.raises(OSError, match="nodes") as caught:
        Arena(4096, huge=False, policy=policy, nodes=nodes)  # type: ignore[arg-type]
    assert caught.value.errno == errno.EINVAL


def test_policy_and_nodes_must_agree() -> None:
    with pytest.raises(OSError, match="nodes"):
        Arena(4096, huge=False, nodes=[0])
    with pytest.raises(OSError, match="nodes"):
        Arena(4096, huge=False, policy="bind")
    with pytest.raises(ValueError, match="'best'"):
        Arena(4096, huge=False, policy="best")  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 2**63, 2**64 - 1])
def test_impossible_sizes_are_refused(size: int) -> None:
    with pytest.raises(OSError, match="mapping"):
        Arena(size, huge=False)


def test_page_size_follows_the_wish(single: Team) -> None:
    mode = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not mode.exists() or "[never]" in mode.read_text():
        pytest.skip("transparent huge pages are off; see /sys/kernel/mm/transparent_hugepage")
    for huge, flag in ((True, "hg"), (False, "nh")):
        with Arena(8 * MIB, huge=huge) as arena:
            fill(single, arena, arena.size, 1)
            account = smaps_of(arena)
            assert flag in re.search(r"VmFlags:(.*)", account)[1].split()  # type: ignore[index]
            obtained = int(re.search(r"AnonHugePages: +(\d+)", account)[1])  # type: ignore[index]
            assert obtained == 0 or huge


def test_closing_gives_the_memory_back_once() -> None:
    arena = Arena(4 * MIB, huge=False)
    address = arena.address
    arena.close()
    arena.close()
    assert (arena.address, arena.size) == (0, 0)
    mapped = Path("/proc/self/maps").read_text()
    assert f"{address:x}-" not in mapped
    with pytest.raises(OSError, match="where pages are"):
        arena.census(0, 4096, 4096)


def test_memory_that_is_looked_at_stays() -> None:
    arena = Arena(4096, huge=False)
    with memoryview(arena) as view:
        with pytest.raises(OSError, match="looked at") as caught:
            arena.close()
        assert caught.value.errno == errno.EBUSY
        view[0] = 3
    arena.close()


def test_no_mapping_is_left_over() -> None:
    def mapped_bytes() -> int:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmSize:\s+(\d+)", status)[1]) * KIB  # type: ignore[index]

    Arena(64 * MIB, huge=True).close()
    before = mapped_bytes()
    for _ in range(100):
        Arena(64 * MIB, huge=True).close()
        with pytest.raises(OSError, match="nodes"):
            Arena(64 * MIB, huge=True, policy="bind", nodes=[4096])
    assert mapped_bytes() - before < 64 * MIB


def test_memory_of_another_is_counted_as_an_arena_is() -> None:
    with Arena(4 * MIB, huge=False) as arena:
        with memoryview(arena) as view:
            view[:MIB] = bytes(MIB)
        region = Region(arena.address, MIB)
        assert (region.address, region.size) == (arena.address, MIB)
        assert region.census(0, MIB, 4096) == arena.census(0, MIB, 4096)
        with pytest.raises(OSError, match="asking where pages are"):
            region.census(0, 2 * MIB, 4096)


def test_a_threads_memory_comes_from_the_node_it_is_bound_to() -> None:
    home = discover().targets[0].id
    try:
        bind_thread((home,))
    except PermissionError:
        pytest.skip("set_mempolicy is forbidden here: give the container CAP_SYS_NICE")
    try:
        with Arena(MIB, huge=False) as arena:
            with memoryview(arena) as view:
                view[:] = bytes(MIB)
            assert set(arena.census(0, MIB, 4096)) == {home}
    finally:
        bind_thread(())
    for wrong in ((-1,), (4096,), (4000,)):
        with pytest.raises(OSError, match="policy"):
            bind_thread(wrong)
