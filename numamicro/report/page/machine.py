"""The machine as boxes: packages, nodes, last-level caches and GPUs, with what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import TYPE_CHECKING

from numamicro.case import node
from numamicro.report.page.markup import Markup, joined, tag
from numamicro.report.page.peers import peers_figure
from numamicro.report.page.routes import Routes
from numamicro.report.tree import id_list, nodes_by_package, render_machine
from numamicro.units import bytes_text, scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numamicro.case import Place
    from numamicro.matrix import CostMatrix
    from numamicro.topology import Machine, NumaNode

# All lengths are in pixels.
_NODE_WIDTH = 268
_LINE = 18
_ROW = 24
_PAD = 14
_HEAD = 24
_GAP = 56
_PACKAGE_GAP = 84
_CHARACTER = 6.3
_MOST_ROWS = 6
"""Caches, or GPUs, that a node's box shows before it only counts the rest."""


@dataclass(frozen=True, slots=True)
class _Box:
    """A rectangle, and where it stands in the grid of its neighbours."""

    x: float
    y: float
    width: float
    height: float
    column: int = 0
    row: int = 0

    @property
    def middle(self) -> tuple[float, float]:
        return self.x + self.width / 2, self.y + self.height / 2

    def is_beside(self, other: _Box) -> bool:
        """Tell whether nothing stands between the two."""
        return abs(self.column - other.column) <= 1 and abs(self.row - other.row) <= 1


def machine_figure(matrix: CostMatrix) -> Markup:
    """Give the drawing, with the tree of text as its alternative."""
    machine, routes = matrix.header.machine, Routes(matrix)
    drawn = _drawing(routes) if machine.nodes else None
    tree = tag(
        "details",
        tag("summary", "The same as text, with the distances that the firmware states"),
        tag("pre", render_machine(machine)),
    )
    return joined(drawn, peers_figure(routes), tree)


def _drawing(routes: Routes) -> Markup:
    groups = nodes_by_package(routes.machine)
    contents = {each.id: _Contents.of(each, routes) for nodes in groups.values() for each in nodes}
    height = _HEAD + max(each.height for each in contents.values()) + _PAD / 2
    across = ceil(sqrt(max(len(nodes) for nodes in groups.values())))
    down = max(ceil(len(nodes) / across) for nodes in groups.values())
    size = (
        2 * _PAD + _tiled(across, _NODE_WIDTH, _GAP),
        2 * _PAD + _HEAD + _tiled(down, height, _GAP),
    )
    packages = _grid(len(groups), ceil(sqrt(len(groups))), size, _PACKAGE_GAP, (1.0, 1.0))
    outer = _links(routes, packages, [[each.id for each in nodes] for nodes in groups.values()])
    frames, inner, boxes = [], [], []
    for box, (package, nodes) in zip(packages, groups.items(), strict=True):
        start = (box.x + _PAD, box.y + _PAD + _HEAD)
        spots = _grid(len(nodes), across, (_NODE_WIDTH, height), _GAP, start)
        name = "nodes of no package" if package is None else f"package{package}"
        frames.append(_frame(box, "package", name))
        inner += _links(routes, spots, [[each.id] for each in nodes])
        boxes += [
            _node_box(spot, each.id, contents[each.id])
            for spot, each in zip(spots, nodes, strict=True)
        ]
    # What is drawn later lies above: a link ends at the edge of a box, its rate is never hidden.
    layers = [
        *(link.line for link in outer),
        *frames,
        *(link.line for link in inner),
        *boxes,
        *(link.label for link in (*outer, *inner)),
    ]
    return _figure(layers, packages, routes)


def _figure(layers: Sequence[Markup], packages: Sequence[_Box], routes: Routes) -> Markup:
    lost = routes.gpus_at(None)
    width = max(box.x + box.width for box in packages) + 1
    height = max(box.y + box.height for box in packages) + 1
    svg = tag(
        "svg",
        tag("title", "The machine as boxes"),
        tag("desc", "Packages hold nodes, nodes hold last-level caches and GPUs; the same as text"),
        *layers,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        role="img",
        class_="machine",
        style=f"--natural:{width:.0f}px",
    )
    caption = (
        "Rates in GB/s. On a link: reading, the slower way of the slowest pair of nodes. "
        "P2P: copying to the slowest peer."
    )
    if lost:
        caption += f" Next to an unknown node: {', '.join(map(str, lost))}."
    return tag(
        "figure",
        tag("div", svg, class_="scroll", tabindex=0),
        tag("figcaption", caption),
    )


# ---- what a node's box holds ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Contents:
    """Lines of text, then a box for each cache and each GPU: its kind and its own lines."""

    lines: tuple[str, ...]
    boxes: tuple[tuple[str, tuple[str, ...]], ...]

    @classmethod
    def of(cls, found: NumaNode, routes: Routes) -> _Contents:
        caches = [(line,) for line in _cache_lines(found, routes.machine)]
        gpus = [_gpu_lines(gpu, routes) for gpu in routes.gpus_at(found.id)]
        boxes = [("llc", lines) for lines in _shortened(caches, "caches")]
        boxes += [("gpu", lines) for lines in _shortened(gpus, "GPUs")]
        return cls(tuple(_node_lines(found, routes)), tuple(boxes))

    @property
    def height(self) -> float:
        return _LINE * len(self.lines) + sum(_box_height(lines) for _, lines in self.boxes)


def _box_height(lines: tuple[str, ...]) -> float:
    return _LINE * len(lines) + _ROW - _LINE


def _shortened(boxes: Sequence[tuple[str, ...]], what: str) -> list[tuple[str, ...]]:
    if len(boxes) <= _MOST_ROWS:
        return list(boxes)
    return [*boxes[: _MOST_ROWS - 1], (f"and {len(boxes) - _MOST_ROWS + 1} more {what}",)]


def _node_lines(found: NumaNode, routes: Routes) -> Iterator[str]:
    memory = bytes_text(found.memory) if found.memory else "no memory"
    if found.memory is None:
        memory = "memory unknown"
    yield " · ".join([memory, *([found.backing] if found.backing else [])])
    here = node(found.id)
    known = [
        routes.text("bandwidth", "read", here, here),
        routes.text("latency", "load", here, here),
    ]
    if any(known):
        yield f"local {' · '.join(filter(None, known))}"
    if not found.cpus:
        yield "no CPUs"


def _cache_lines(found: NumaNode, machine: Machine) -> list[str]:
    inside: dict[int, list[int]] = {}
    for cpu in machine.cpus:
        if cpu.id in found.cpus and cpu.llc is not None:
            inside.setdefault(cpu.llc, []).append(cpu.id)
    sizes = {llc.id: llc.bytes for llc in machine.llcs}
    return [
        f"llc{llc} {bytes_text(size) if (size := sizes.get(llc)) else ''} · CPUs {id_list(cpus)}"
        for llc, cpus in inside.items()
    ]


def _gpu_lines(gpu: Place, routes: Routes) -> tuple[str, ...]:
    """Give what a GPU is, and its rates of copies with the node next to it and with its peers."""
    known = next((found for found in routes.machine.gpus if found.id == gpu.id), None)
    words = [str(gpu)]
    if known:
        words += [known.name, *([bytes_text(known.memory)] if known.memory else [])]
    here = routes.host_of(gpu)
    rates = _copy_rates(routes, node(here), gpu) if here is not None else ()
    return tuple(filter(None, (" · ".join(words), " · ".join(rates))))


def _copy_rates(routes: Routes, here: Place, gpu: Place) -> Iterator[str]:
    rates = {
        "H2D": routes.center("host-copy", "h2d", here, gpu),
        "D2H": routes.center("host-copy", "d2h", gpu, here),
        "P2P": routes.slowest_peer(gpu),
    }
    yield from (
        f"{name} {scale('B/s').text(rate)}" for name, rate in rates.items() if rate is not None
    )


# ---- shapes --------------------------------------------------------------------------------------


def _tiled(count: int, size: float, gap: float) -> float:
    return count * size + (count - 1) * gap


def _grid(
    count: int, across: int, size: tuple[float, float], gap: float, start: tuple[float, float]
) -> list[_Box]:
    """Give so many boxes of one size, row by row."""
    width, height = size
    return [
        _Box(start[0] + column * (width + gap), start[1] + row * (height + gap), *size, column, row)
        for row, column in (divmod(index, across) for index in range(count))
    ]


def _frame(box: _Box, kind: str, name: str) -> Markup:
    return joined(
        tag(
            "rect",
            x=f"{box.x:g}",
            y=f"{box.y:g}",
            width=f"{box.width:g}",
            height=f"{box.height:g}",
            rx=6,
            class_=kind,
        ),
        _text(name, box.x + _PAD, box.y + 18, box.width - 2 * _PAD, f"name {kind}-name"),
    )


def _text(text: str, x: float, y: float, width: float, kind: str = "") -> Markup:
    """Give a line of text, cut where it would leave its box; the whole of it is its title."""
    most = int(width / _CHARACTER)
    if len(text) <= most:
        return tag("text", text, x=f"{x:g}", y=f"{y:g}", class_=kind or None)
    cut = f"{text[: most - 1]}…"
    return tag("text", tag("title", text), cut, x=f"{x:g}", y=f"{y:g}", class_=kind or None)


def _node_box(box: _Box, index: int, contents: _Contents) -> Markup:
    parts = [_frame(box, "node", f"node{index}")]
    left, width, y = box.x + _PAD, box.width - 2 * _PAD, box.y + _HEAD
    for line in contents.lines:
        parts.append(_text(line, left, y + 13, width))
        y += _LINE
    for kind, lines in contents.boxes:
        height = _box_height(lines)
        shape = {"x": f"{left - 6:g}", "y": f"{y:g}", "width": f"{width + 12:g}"}
        parts.append(tag("rect", **shape, height=f"{height - 4:g}", rx=3, class_=kind))
        parts += [
            _text(line, left, y + 14 + _LINE * index, width) for index, line in enumerate(lines)
        ]
        y += height
    return joined(*parts)


# ---- links ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Link:
    line: Markup
    label: Markup


def _links(routes: Routes, boxes: Sequence[_Box], nodes: Sequence[Sequence[int]]) -> list[_Link]:
    """Give the links between boxes that stand side by side: crossing ones could not be read."""
    found = [
        (boxes[one], boxes[other], rate)
        for other in range(len(boxes))
        for one in range(other)
        if boxes[one].is_beside(boxes[other])
        and (rate := _slowest(routes, nodes[one], nodes[other])) is not None
    ]
    fastest = max((rate for _, _, rate in found), default=0.0)
    return [_link(one, other, rate, rate / fastest) for one, other, rate in found]


def _slowest(routes: Routes, here: Sequence[int], there: Sequence[int]) -> float | None:
    """Give the slowest of the best rates between two groups of nodes, either way; bytes per second."""
    pairs = [(a, b) for a in here for b in there]
    rates = [
        routes.center("bandwidth", "read", node(source), node(target))
        for source, target in pairs + [(b, a) for a, b in pairs]
    ]
    return min((rate for rate in rates if rate is not None), default=None)


def _link(one: _Box, other: _Box, rate: float, share: float) -> _Link:
    (x1, y1), (x2, y2) = one.middle, other.middle
    # Two diagonals cross in one spot: their rates stand above and below it.
    shift = 0.0 if one.row == other.row or one.column == other.column else 9.0
    shift = -shift if x1 < x2 else shift
    ends = {"x1": f"{x1:g}", "y1": f"{y1:g}", "x2": f"{x2:g}", "y2": f"{y2:g}"}
    line = tag("line", **ends, stroke_width=f"{1 + 5 * share:.1f}", class_="link")
    x, y = (x1 + x2) / 2, (y1 + y2) / 2 + 4 + shift
    label = tag("text", scale("B/s").text(rate), x=f"{x:g}", y=f"{y:g}", class_="rate")
    return _Link(line, label)
