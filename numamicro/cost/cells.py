"""Cells of a matrix as figures. The one place that knows how probes name what they measure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, log
from typing import TYPE_CHECKING

from numamicro.case import Place, PlaceSet, node
from numamicro.cost.terms import Figure
from numamicro.probes.attention import POSITION_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numamicro.case import AnyPlace, Case
    from numamicro.matrix import CostMatrix, Measurement


@dataclass(frozen=True, slots=True)
class Cell:
    """An ok cell: what it is of, and its figure."""

    case: Case
    figure: Figure
    unit: str

    def count(self, *names: str) -> int | None:
        """Give the first of these parameters that counts something."""
        for name in names:
            value = self.case.get(name)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None


def ok_cells(matrix: CostMatrix) -> dict[tuple[str, AnyPlace, AnyPlace], list[Cell]]:
    """Give the ok cells of a matrix by what they mean, their source and their target."""
    found: dict[tuple[str, AnyPlace, AnyPlace], list[Cell]] = defaultdict(list)
    for measurement in matrix.measurements:
        if cell := _cell(measurement, matrix.header.origin):
            route = cell.case.route
            found[meaning_of(cell.case), route.source, route.target].append(cell)
    return dict(found)


def _cell(cell: Measurement, origin: str) -> Cell | None:
    figure = figure_of(cell, origin)
    return Cell(cell.case, figure, cell.unit) if figure else None


def figure_of(cell: Measurement, origin: str) -> Figure | None:
    """Give the figure of a cell with its interval; None where it has none.

    Parameters
    ----------
    origin : str
        That of the file, for a cell that has none of its own.
    """
    summary = cell.summary()
    if summary is None or not summary.center:
        return None
    low = summary.minimum if summary.low is None else summary.low
    high = summary.maximum if summary.high is None else summary.high
    # The interval is of pooled samples and the centre of processes: they need not enclose it.
    return Figure(
        summary.center,
        min(low, summary.center),
        max(high, summary.center),
        cell.case.key,
        cell.origin or origin,
    )


_MEANINGS = {
    ("bandwidth", "read"): "read",
    ("bandwidth", "copy"): "copy",
    ("together", "read"): "together",
    ("barrier", "wait"): "barrier",
    ("dot", "vector"): "dot",
    ("dot-stream", "vector"): "dot-stream",
    ("gemm", "matrix"): "gemm",
    ("attention", "decode"): "attention",
    ("step", "value"): "step",
    ("host-copy", "h2d"): "h2d",
    ("host-copy", "d2h"): "d2h",
    ("host-copy-size", "h2d"): "h2d",
    ("host-copy-size", "d2h"): "d2h",
    ("host-latency", "h2d"): "h2d",
    ("host-latency", "d2h"): "d2h",
    ("peer-copy", "copy"): "peer",
    ("peer-copy", "read"): "peer",
    ("peer-copy", "write"): "peer",
    ("peer-copy-latency", "copy"): "peer",
    ("all-reduce", "peer"): "all-reduce",
    ("all-reduce", "staged"): "all-reduce",
    ("all-reduce", "nccl"): "all-reduce",
    ("gpu-memory", "read"): "gpu-read",
    ("gpu-gemm", "matrix"): "gpu-gemm",
}
# What a cell must be besides: engines copy from pinned memory, replay graphs, and reach each other.
_USUAL = {"memory": "pinned", "timing": "graph", "path": "direct"}


def meaning_of(case: Case) -> str:
    """Give what a cell tells; its probe and operation for what no prediction asks for."""
    kinds = {getattr(end, "kind", "set") for end in (case.route.source, case.route.target)}
    if kinds & {"drive", "file"}:
        return "storage"
    other = f"{case.probe}/{case.operation}"
    if any(case.get(name, usual) != usual for name, usual in _USUAL.items()):
        return other
    if case.probe == "dot-stream" and case.get("value") == "by-MiB":
        return "dot-matrix"
    return _MEANINGS.get((case.probe, case.operation), other)


def gpu(index: int) -> Place:
    """Give the place of a GPU."""
    return Place("gpu", index)


def place_of(nodes: Sequence[int]) -> AnyPlace:
    """Give the place that nodes are: one, or several that act as one."""
    places = tuple(node(index) for index in nodes)
    return places[0] if len(places) == 1 else PlaceSet(places)


def spans(where: AnyPlace, nodes: int) -> bool:
    """Tell whether a team stands on one node, or on several, as asked: nodes of a kind are alike."""
    return isinstance(where, PlaceSet) == (nodes > 1)


def by_count(
    cells: Iterable[Cell], name: str, *, lowest: bool = False
) -> list[tuple[float, Figure]]:
    """Give the best figure at each value of a parameter, by that value."""
    choose = min if lowest else max
    found: dict[float, Figure] = {}
    for cell in cells:
        count = cell.count(name)
        if count:
            other = found.get(count)
            found[count] = (
                choose(other, cell.figure, key=lambda f: f.value) if other else cell.figure
            )
    return sorted(found.items())


def at(curve: Sequence[tuple[float, Figure]], x: float, *, from_origin: bool) -> Figure:
    """Give a curve's figure at `x`: straight between its points, level beyond the last."""
    if x >= curve[-1][0]:
        return curve[-1][1]
    first_x, first = curve[0]
    if x <= first_x:
        return first * (x / first_x) if from_origin else first
    for (x0, y0), (x1, y1) in pairwise(curve):
        if x <= x1:
            return _between(y0, y1, (x - x0) / (x1 - x0))
    raise AssertionError("the curve is sorted")


def log_at(
    curve: Sequence[tuple[float, Figure]], x: float, *, in_proportion: bool = False
) -> Figure:
    """Give a curve's figure at `x`: a power law between its points, level outside them.

    Parameters
    ----------
    in_proportion : bool
        Whether it grows with `x` beyond the last point, as the time of a transfer does.
    """
    last_x, last = curve[-1]
    if x >= last_x:
        return last * (x / last_x) if in_proportion else last
    if x <= curve[0][0]:
        return curve[0][1]
    for (x0, y0), (x1, y1) in pairwise(curve):
        if x <= x1:
            share = log(x / x0) / log(x1 / x0)
            mixed = _between(y0, y1, share)
            value, low, high = (
                exp(log(a) + (log(b) - log(a)) * share)
                for a, b in ((y0.value, y1.value), (y0.low, y1.low), (y0.high, y1.high))
            )
            return replace(mixed, value=value, low=low, high=high)
    raise AssertionError("the curve is sorted")


def _between(one: Figure, other: Figure, share: float) -> Figure:
    if share <= 0:
        return one
    if share >= 1:
        return other
    source = one.source if one.source == other.source else f"{one.source} .. {other.source}"
    return Figure(
        one.value + (other.value - one.value) * share,
        one.low + (other.low - one.low) * share,
        one.high + (other.high - one.high) * share,
        source,
        one.origin if one.origin == other.origin else other.origin,
    )


def of_shape(
    cells: Iterable[Cell],
    heads: int,
    head_bytes: float,
    figure: Callable[[Sequence[Cell]], Figure],
) -> Figure:
    """Give what cells of the attention say of a cache, a power law between the measured ones.

    Parameters
    ----------
    heads : int
        Cached heads of a position.
    head_bytes : float
        Keys and values of one head.
    figure : callable
        Gives what those of one shape say.
    """
    shapes: dict[int, dict[int, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        shapes[cell.count("heads") or 1][cell.count("positions") or 1].append(cell)
    curve = []
    for count, found in sorted(shapes.items()):
        depths = [
            (float(positions * POSITION_BYTES), figure(alike))
            for positions, alike in sorted(found.items())
        ]
        curve.append((float(count), log_at(depths, head_bytes)))
    return log_at(curve, heads)
