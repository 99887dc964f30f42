"""A node too small for the buffer, in a guest: refused or shrunk, and said; nobody is killed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from numamicro.matrix import State
from numamicro.topology import discover
from tests.vm.inside.scene import MIB, NODES, counted, matrix, numamicro

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HUGE_PAGE = 2 * MIB
POOL = NODES / "node1/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.fixture(autouse=True)
def _nobody_is_killed() -> Iterator[None]:
    yield
    assert counted("/proc/vmstat", "oom_kill") == 0


def leave_on_node_1(size: int) -> int:
    """Reserve huge pages on node 1 until about `size` bytes are left, and give what is left."""
    POOL.write_text("0")
    spare = (discover().available(1) or 0) - size
    POOL.write_text(str(spare // HUGE_PAGE))
    return discover().available(1) or 0


def planned(*options: str) -> dict[int, list[dict[str, str | None]]]:
    """Give the cases that would be measured, by the node of their memory."""
    listed = numamicro("matrix", "--quick", "--only", "bandwidth", "--list", "--json", *options)
    assert listed.status == 0, listed.err
    cases = json.loads(listed.out)["cases"]
    target = {case["case"]: int(case["case"].partition(">node")[2].split()[0]) for case in cases}
    return {
        node: [case for case in cases if target[case["case"]] == node] for node in target.values()
    }


def test_a_buffer_shrinks_to_what_the_node_can_spare(tmp_path: Path) -> None:
    left = leave_on_node_1(240 * MIB)
    ran = matrix(tmp_path, "--threads", "1", nodes=(1,))
    assert ran.done.status == 0, ran.failures
    (size,) = {cell.case.number("bytes") for cell in ran.cells}
    assert 64 * MIB <= size <= 0.4 * left
    assert {cell.state for cell in ran.cells} == {State.OK}
    assert f"{size // MIB} MiB buffer" in ran.done.out


def test_a_node_too_small_for_any_buffer_is_waived_with_the_sizes(tmp_path: Path) -> None:
    leave_on_node_1(80 * MIB)
    cases = planned()
    assert all(case["waived"] is None for case in cases[0])
    for case in cases[1]:
        assert case["waived"] is not None
        assert case["waived"].startswith("a buffer of 64 MiB is more than the ")
    refused = matrix(tmp_path, nodes=(1,))
    assert refused.done.status == 2
    assert "nothing is left to measure: a buffer of 64 MiB is more than the " in refused.done.err


def test_a_size_that_fits_no_node_is_refused_before_anything_runs(tmp_path: Path) -> None:
    refused = matrix(tmp_path, "--memory", "4G")
    assert refused.done.status == 2
    assert "4 GiB" in refused.done.err
    assert list(tmp_path.iterdir()) == []
