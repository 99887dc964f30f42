"""GPUs on a ring, and between each two a line: the wider, the more bytes a second it carries."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import cos, pi, sin
from typing import TYPE_CHECKING, TypeAlias

from numamicro.matrix import MATRIX_MESSAGES, best_of
from numamicro.report.page.markup import Markup, tag
from numamicro.units import bytes_text, scale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numamicro.case import Place
    from numamicro.matrix import Measurement
    from numamicro.report.page.routes import Routes

# All lengths are in pixels.
_BOX_WIDTH, _BOX_HEIGHT = 58, 38
_LEAST_RADIUS, _RADIUS_PER_GPU = 124, 17
_MARGIN = 8
_WIDEST = 5.0
_MOST_LABELS = 4
"""GPUs whose lines bear their rates; between more of them figures would hide each other."""

_LONG_MESSAGE = MATRIX_MESSAGES[-1]
"""Bytes of an all-reduce from which on its time says what the way carries."""

Rate: TypeAlias = "Callable[[Routes, Place, Place], float | None]"


def peers_figure(routes: Routes) -> Markup | None:
    """Give the ring; None when no two GPUs have a figure."""
    # Neighbours on a node are neighbours on the ring; an unknown node comes last.
    hosts = {gpu: routes.host_of(gpu) for gpu in routes.gpus}
    gpus = sorted(routes.gpus, key=lambda gpu: (hosts[gpu] is None, hosts[gpu] or 0, gpu))
    ring = _Ring(gpus)
    # The slow ones are drawn first and lie below: they are the thinner, and often the more.
    links = sorted(_links(routes, ring), key=lambda link: link.rate)
    if not links:
        return None
    lines = [link.line(links[-1].rate, is_first=link is links[0]) for link in links]
    labels = [link.label() for link in links] if len(gpus) <= _MOST_LABELS else []
    boxes = [_box(ring.spots[gpu], gpu, hosts[gpu]) for gpu in gpus]
    svg = tag(
        "svg",
        *lines,
        *labels,
        *boxes,
        viewBox=f"0 0 {ring.width:.0f} {ring.height:.0f}",
        width=f"{ring.width:.0f}",
        role="group",
        aria_label="Links between GPUs: a line for each pair",
        class_="machine peers",
        style=f"--natural:{ring.width:.0f}px",
    )
    return tag(
        "figure",
        tag("figcaption", "GPU to GPU, in GB/s: the slower way of each pair"),
        tag("div", svg, class_="scroll"),
        tag("p", *_key(links), class_="keys"),
        class_="table",
    )


class _Ring:
    """Where GPUs stand: counter-clockwise from the top, so that halves are left and right."""

    def __init__(self, gpus: Sequence[Place]) -> None:
        count = len(gpus)
        radius = max(_LEAST_RADIUS, _RADIUS_PER_GPU * count)
        turns = {gpu: pi * (1.5 - (2 * index + 1) / count) for index, gpu in enumerate(gpus)}
        across = [radius * cos(turn) for turn in turns.values()]
        down = [radius * sin(turn) for turn in turns.values()]
        left = min(across, default=0) - _BOX_WIDTH / 2 - _MARGIN
        top = min(down, default=0) - _BOX_HEIGHT / 2 - _MARGIN
        self.width = 2 * -left
        self.height = max(down, default=0) + _BOX_HEIGHT / 2 + _MARGIN - top
        self.spots = {
            gpu: (x - left, y - top) for gpu, x, y in zip(gpus, across, down, strict=True)
        }


def _box(spot: tuple[float, float], gpu: Place, host: int | None) -> Markup:
    x, y = spot
    shape = {"x": f"{x - _BOX_WIDTH / 2:.1f}", "y": f"{y - _BOX_HEIGHT / 2:.1f}"}
    return tag(
        "g",
        tag("rect", **shape, width=_BOX_WIDTH, height=_BOX_HEIGHT, rx=4, class_="gpu"),
        tag("text", str(gpu), x=f"{x:.1f}", y=f"{y - 3:.1f}", class_="name"),
        tag("text", f"node{host}", x=f"{x:.1f}", y=f"{y + 12:.1f}") if host is not None else None,
    )


# ---- links ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Way:
    """How data can go between two GPUs, and how fast they then go; bytes per second."""

    name: str
    passes_host: bool
    rate: Rate


@dataclass(frozen=True, slots=True)
class _Link:
    """The way of a pair, its rate in bytes per second, where it is drawn and all that is known."""

    way: _Way
    rate: float
    ends: tuple[tuple[float, float], tuple[float, float]]
    words: str

    def line(self, fastest: float, *, is_first: bool) -> Markup:
        (x1, y1), (x2, y2) = self.ends
        spots = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
        return tag(
            "g",
            # A line of a pixel is hard to point at: a wider one, unseen, lies around it.
            tag("line", **spots, class_="reach"),
            tag("line", **spots, stroke_width=f"{_WIDEST * self.rate / fastest:.1f}"),
            class_="pair host" if self.way.passes_host else "pair",
            role="img",
            aria_label=self.words,
            tabindex=0 if is_first else -1,
            data_more=self.words,
        )

    def label(self) -> Markup:
        # Off the middle, where diagonals cross.
        (x1, y1), (x2, y2) = self.ends
        x, y = x1 + 0.38 * (x2 - x1), y1 + 0.38 * (y2 - y1) + 4
        return tag("text", scale("B/s").text(self.rate), x=f"{x:.1f}", y=f"{y:.1f}", class_="rate")


def _links(routes: Routes, ring: _Ring) -> Iterator[_Link]:
    """Give each pair the first way that has a figure: peers' own before those through the host."""
    for one, other in combinations(ring.spots, 2):
        found = ((way, way.rate(routes, one, other)) for way in _WAYS)
        first = next(((way, rate) for way, rate in found if rate is not None), None)
        if first:
            words = ". ".join([f"{one}, {other}", *_told(routes, one, other)])
            yield _Link(*first, (ring.spots[one], ring.spots[other]), words)


def _key(links: Sequence[_Link]) -> Iterator[Markup]:
    """Give what each sort of line is, with its slowest and its fastest."""
    shown = scale("B/s")
    for way in _WAYS:
        rates = [link.rate for link in links if link.way is way]
        if rates:
            ends = dict.fromkeys([shown.text(min(rates)), shown.text(max(rates))])
            words = f"{way.name}: {' to '.join(ends)} {shown.label}"
            yield tag("span", words, class_="line host" if way.passes_host else "line")


def _copies(operation: str) -> Rate:
    def slower(routes: Routes, one: Place, other: Place) -> float | None:
        ends = ((one, other), (other, one))
        # What one way carries does not count where the other loses it.
        if any(routes.has_failed("peer-copy", operation, *each) for each in ends):
            return None
        rates = (routes.center("peer-copy", operation, *each) for each in ends)
        return min((rate for rate in rates if rate is not None), default=None)

    return slower


def _reduces(operation: str) -> Rate:
    def by_message(routes: Routes, one: Place, other: Place) -> float | None:
        times = _times(routes, operation, one, other)
        longest = max(times, default=0)
        return longest / times[longest] if longest >= _LONG_MESSAGE else None

    return by_message


_WAYS = (
    _Way("copies", False, _copies("copy")),
    _Way("all-reduces, message over time", False, _reduces("peer")),
    _Way("copies through the host", True, _copies("detour")),
    _Way("all-reduces through a node, message over time", True, _reduces("staged")),
)


def _times(routes: Routes, operation: str, one: Place, other: Place) -> dict[int, float]:
    """Give the seconds of the best all-reduce of a pair, by the bytes of its message."""
    sizes: dict[int, list[Measurement]] = {}
    for ends in ((one, other), (other, one)):
        for cell in routes.cells("all-reduce", operation, *ends):
            if cell.case.get("message"):
                sizes.setdefault(cell.case.number("message"), []).append(cell)
    found = ((size, best_of(cells)) for size, cells in sorted(sizes.items()))
    best = ((size, cell.summary()) for size, cell in found if cell)
    return {size: summary.center for size, summary in best if summary}


def _told(routes: Routes, one: Place, other: Place) -> Iterator[str]:
    """Give in sentences what was measured between two GPUs."""
    rate = scale("B/s")
    for operation, words in (("copy", "Copies"), ("detour", "Copies through the host")):
        ways = {
            "there": routes.center("peer-copy", operation, one, other),
            "back": routes.center("peer-copy", operation, other, one),
        }
        known = [f"{rate.text(value)} {name}" for name, value in ways.items() if value is not None]
        if known:
            yield f"{words} {', '.join(known)}, in {rate.label}"
    for operation, words in (("peer", "All-reduces"), ("staged", "All-reduces through a node")):
        times = _times(routes, operation, one, other)
        ends = dict.fromkeys([min(times), max(times)]) if times else ()
        if ends:
            yield f"{words} {', '.join(_time_text(size, times[size]) for size in ends)}"


def _time_text(message: int, seconds: float) -> str:
    shown = scale("s", seconds)
    return f"of {bytes_text(message)} {shown.text(seconds)} {shown.label}"
