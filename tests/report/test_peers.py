"""GPUs on a ring: which pairs have a line, what it says, and how wide it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from numamicro.case import Case, Place, Route
from numamicro.matrix import CostMatrix, State
from numamicro.report.page import render_page
from numamicro.report.page.peers import peers_figure
from numamicro.report.page.routes import Routes
from numamicro.topology import Note
from tests.cost.rigs import cell, gpu, rig
from tests.examples import header, machine

if TYPE_CHECKING:
    from collections.abc import Callable

    from numamicro.matrix import Measurement

LINE = re.compile(
    r'<g class="(pair[^"]*)" role="img" aria-label="[^"]*" tabindex="(-?\d)" data-more="([^"]*)">'
    r'<line [^>]*/><line [^>]*stroke-width="([\d.]+)"/></g>'
)

EMPTY = CostMatrix(header(machine(range(2))), ())


@dataclass(frozen=True)
class Line:
    """A line as it is drawn."""

    ends: str
    passes_host: bool
    width: float
    tabindex: int
    words: str


def drawn(matrix: CostMatrix) -> str:
    return peers_figure(Routes(matrix)) or ""


def lines_of(matrix: CostMatrix) -> list[Line]:
    return [
        Line(words.partition(".")[0], kind == "pair host", float(width), int(tabindex), words)
        for kind, tabindex, words, width in LINE.findall(drawn(matrix))
    ]


def without(matrix: CostMatrix, dropped: Callable[[Case], bool]) -> CostMatrix:
    return replace(
        matrix, measurements=tuple(c for c in matrix.measurements if not dropped(c.case))
    )


def joins(case: Case, one: int, other: int) -> bool:
    return {case.route.source, case.route.target} == {gpu(one), gpu(other)}


def copying(one: int, other: int, rate: float, path: str = "direct") -> Measurement:
    return cell("peer-copy", "copy", Route(gpu(one), gpu(other)), rate, path=path)


def having(matrix: CostMatrix, *cells: Measurement) -> CostMatrix:
    return replace(matrix, measurements=(*matrix.measurements, *cells))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_each_pair_has_a_line_and_the_tabulator_enters_once(count: int) -> None:
    lines = lines_of(rig(2, count))
    pairs = {f"gpu{a}, gpu{b}" for a, b in combinations(range(count), 2)}
    assert {line.ends for line in lines} == pairs
    assert len(lines) == len(pairs)
    assert [line.tabindex for line in lines] == [0] + [-1] * (len(lines) - 1)


def test_a_line_is_as_wide_as_its_slower_way_is_fast() -> None:
    lines = {line.ends: line for line in lines_of(rig(2, 4))}
    # Half as fast between nodes.
    assert lines["gpu0, gpu1"].width == pytest.approx(2 * lines["gpu1, gpu2"].width)
    assert "copies: 24.0 GB/s" in drawn(having(EMPTY, copying(0, 1, 24e9)))
    figure = drawn(having(EMPTY, copying(0, 1, 24e9), copying(1, 0, 6e9)))
    assert "copies: 6.0 GB/s" in figure
    assert "Copies 24.0 there, 6.0 back, in GB/s" in figure


def test_what_passes_the_host_is_dashed_and_says_so() -> None:
    matrix = without(rig(2, 4), lambda case: case.probe == "peer-copy" and not joins(case, 0, 1))
    matrix = without(matrix, lambda case: case.operation == "peer")
    matrix = having(matrix, copying(0, 2, 9e9, "detour"), copying(2, 0, 8e9, "detour"))
    lines = {line.ends: line for line in lines_of(matrix)}
    assert {ends for ends, line in lines.items() if not line.passes_host} == {"gpu0, gpu1"}
    assert "Copies through the host 9.0 there, 8.0 back" in lines["gpu0, gpu2"].words
    assert "All-reduces through a node of 4 KiB" in lines["gpu1, gpu3"].words
    figure = drawn(matrix)
    assert "copies: 25.0 GB/s" in figure
    assert "copies through the host: 8.0 GB/s" in figure
    # 64 MiB in 4 times 1025 steps of 10 µs, and of 20 µs between nodes.
    slow, fast = 2**26 / (4 * 1025 * 2e-5), 2**26 / (4 * 1025 * 1e-5)
    words = f"all-reduces through a node, message over time: {slow / 1e9:.1f} to {fast / 1e9:.1f}"
    assert words in figure


def test_a_way_on_which_data_got_lost_is_not_drawn() -> None:
    def lost(found: Measurement) -> Measurement:
        case = found.case
        if (case.probe, case.route.source, case.route.target) != ("peer-copy", gpu(0), gpu(1)):
            return found
        return replace(found, state=State.WRONG, reason=Note("data", "nothing arrived"))

    matrix = without(rig(1, 2), lambda case: case.operation == "peer")
    assert [line.passes_host for line in lines_of(matrix)] == [False]
    broken = replace(matrix, measurements=tuple(map(lost, matrix.measurements)))
    assert [line.passes_host for line in lines_of(broken)] == [True]


def test_a_short_message_says_nothing_of_what_a_way_carries() -> None:
    short, long = (
        cell("all-reduce", "peer", Route(gpu(0), gpu(1)), 1e-5, message=size)
        for size in (2**14, 2**24)
    )
    assert drawn(having(EMPTY, short)) == ""
    assert f"{2**24 / 1e-5 / 1e9:.1f} GB/s" in drawn(having(EMPTY, short, long))


def test_where_nothing_was_measured_there_is_no_line() -> None:
    some = lines_of(without(rig(2, 4), lambda case: joins(case, 0, 3)))
    assert {line.ends for line in some} == {
        f"gpu{a}, gpu{b}" for a, b in combinations(range(4), 2) if (a, b) != (0, 3)
    }
    none = without(rig(2, 4), lambda case: case.probe in ("peer-copy", "all-reduce"))
    assert peers_figure(Routes(none)) is None
    assert 'class="machine peers"' not in render_page(none)
    assert peers_figure(Routes(rig(2, 0))) is None


@pytest.mark.parametrize("count", [*range(2, 20), 64])
def test_gpus_stand_apart_and_inside_the_picture(count: int) -> None:
    cells = [copying(*ends, 1e9) for peer in range(1, count) for ends in ((0, peer), (peer, 0))]
    figure = drawn(having(EMPTY, *cells))
    width, height = map(float, re.findall(r'viewBox="0 0 (\d+) (\d+)"', figure)[0])
    boxes = [
        (float(x), float(y), int(wide), int(high))
        for x, y, wide, high in re.findall(
            r'<rect x="([\d.]+)" y="([\d.]+)" width="(\d+)" height="(\d+)"', figure
        )
    ]
    assert len(boxes) == count
    for x, y, wide, high in boxes:
        assert x >= 0 <= y
        assert x + wide <= width + 1
        assert y + high <= height + 1
    for (x1, y1, wide, high), (x2, y2, _, _) in combinations(boxes, 2):
        assert abs(x1 - x2) >= wide or abs(y1 - y2) >= high


def test_gpus_of_one_node_are_neighbours() -> None:
    matrix = rig(2, 4)
    # The driver counts them in turn: even ones are at node0.
    crossed = tuple(
        replace(found, case=replace(found.case, route=swapped(found.case.route)))
        for found in matrix.measurements
    )
    figure = drawn(replace(matrix, measurements=crossed))
    assert re.findall(r">(gpu\d)</text>", figure) == ["gpu0", "gpu2", "gpu1", "gpu3"]


def swapped(route: Route) -> Route:
    """Let gpu1 and gpu2 change names."""
    names = {gpu(1): gpu(2), gpu(2): gpu(1)}

    def renamed(place: object) -> object:
        return names.get(place, place) if isinstance(place, Place) else place

    return replace(route, source=renamed(route.source), target=renamed(route.target))  # type: ignore[arg-type]
