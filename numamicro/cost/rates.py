"""Rates and times of a machine, by what they mean. What its file lacks is refused, or assumed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numamicro.case import PlaceSet, node
from numamicro.cost.assume import assumed
from numamicro.cost.cells import at, by_count, gpu, log_at, of_shape, ok_cells, place_of, spans
from numamicro.cost.formats import bits_of, similar
from numamicro.cost.ring import slowest_of_ring
from numamicro.cost.terms import Figure, smaller
from numamicro.errors import NumamicroError
from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numamicro.case import AnyPlace
    from numamicro.cost.cells import Cell
    from numamicro.matrix import CostMatrix

MATRIX_BYTES = 1 << 20
"""What lies between two meetings of the threads in cells of ``dot-stream`` by the MiB."""

SMALL_COPY = 64 * 1024
"""A copy of at most so many bytes tells the time to start one."""


class Lacking(NumamicroError):
    """The file has no figure for something that a prediction needs."""


class Rates:
    """Figures of one matrix. What is not there is refused, or assumed where that is allowed.

    Parameters
    ----------
    matrix : CostMatrix
    assume : bool
        Whether labelled defaults may stand in.
    peer : bool, optional
        Whether GPUs are to be taken as able, or unable, to reach each other; None: as measured.
    """

    def __init__(
        self, matrix: CostMatrix, *, assume: bool = False, peer: bool | None = None
    ) -> None:
        self.machine = matrix.header.machine
        self.assume = assume
        self.forced_peer = peer
        self._cells = ok_cells(matrix)
        self._known: dict[object, Figure] = {}
        self._curves: dict[tuple[str, str], list[tuple[float, Figure]]] = {}
        # An engine asks for no huge pages: it has them where the kernel gives them to everyone.
        always = matrix.header.setting.get("thp.enabled") == "always"
        self._pages = "auto" if always else "small"

    # ---- the CPUs' memory ------------------------------------------------------------------------

    def read(self, source: int, targets: Sequence[int], threads: int) -> Figure:
        """Give the bytes per second that so many threads of a node read from a node, or from pages
        interleaved over several."""
        key = ("read", source, tuple(targets), threads)
        return self._once(key, lambda: self._read(source, targets, threads))

    def _read(self, source: int, targets: Sequence[int], threads: int) -> Figure:
        target = place_of(targets)
        curve = self._curve(node(source), target)
        if not curve:
            return self._otherwise(
                "read",
                f"bandwidth/read from node{source} to {target}",
                self._from_parts(source, targets, threads),
            )
        figure = at(curve, threads, from_origin=True)
        home = self._curve(node(source), node(source))
        # A curve of one point says nothing of fewer threads: then these are no faster than at home.
        if len(curve) == 1 and home and target != node(source):
            return smaller((figure, at(home, threads, from_origin=True)))
        return figure

    def memory(self, target: int) -> Figure:
        """Give the most that anyone was seen to read from a node's memory."""
        return self._once(("memory", target), lambda: self._memory(target))

    def _memory(self, target: int) -> Figure:
        place = node(target)
        figures = [
            cell.figure
            for (meaning, source, there), cells in self._cells.items()
            if meaning == "read" and there == place and getattr(source, "kind", "") == "node"
            for cell in cells
        ]
        if not figures:
            return self._otherwise("read", f"bandwidth/read to node{target}", None)
        return max(figures, key=lambda figure: figure.value)

    def link(self, source: int, target: int) -> Figure:
        """Give the most that a node's CPUs were seen to read from another node."""
        curve = self._curve(node(source), node(target))
        if not curve:
            return self._otherwise(
                "read", f"bandwidth/read from node{source} to node{target}", None
            )
        return max((figure for _, figure in curve), key=lambda figure: figure.value)

    def together(self, nodes: Sequence[int], pairing: str) -> Figure | None:
        """Give what all of exactly these nodes read at once; None where that was not measured."""
        place = place_of(nodes)
        cells = [
            c for c in self._find("together", place, place) if c.case.get("pairing") == pairing
        ]
        return max((c.figure for c in cells), key=lambda f: f.value, default=None)

    def copy(self, source: int) -> Figure:
        """Give the bytes per second that a node copies within itself: half of what it moves."""
        cells = self._find("copy", node(source), node(source))
        if not cells:
            return self._otherwise("copy", f"bandwidth/copy of node{source}", None)
        return max((c.figure for c in cells), key=lambda figure: figure.value) * 0.5

    def barrier(self, nodes: Sequence[int], threads: int) -> Figure:
        """Give the seconds that so many threads on these nodes take to meet."""
        if threads == 1:
            return Figure(0.0, 0.0, 0.0, "one thread waits for nobody", "measured")
        key = ("barrier", len(nodes) > 1, threads)
        return self._once(key, lambda: self._barrier(nodes, threads))

    def _barrier(self, nodes: Sequence[int], threads: int) -> Figure:
        cells = [
            cell
            for (meaning, place, _), found in self._cells.items()
            if meaning == "barrier" and spans(place, len(nodes))
            for cell in found
        ]
        curve = by_count(cells, "team", lowest=True)
        if not curve:
            where = "one node" if len(nodes) == 1 else "several nodes"
            known = assumed("barrier", 1 + threads / 10) if self.assume else None
            return self._otherwise("barrier", f"barrier/wait of a team on {where}", known)
        return at(curve, threads, from_origin=False)

    def team_sizes(self, index: int) -> tuple[int, ...]:
        """Give the numbers of threads with which a node was seen to read its own memory."""
        return tuple(int(count) for count, _ in self._curve(node(index), node(index)))

    # ---- the CPUs' arithmetic --------------------------------------------------------------------

    def dot(self, name: str, threads: int) -> Figure:
        """Give the bytes per second that threads together take of weights in this format, in cache."""
        return self._arithmetic("dot", name, threads)

    def stream(self, name: str, threads: int, *, ends: bool = False) -> Figure | None:
        """Give the bytes per second of weights that threads take from their own memory through dot
        products; None where that was not measured.

        Parameters
        ----------
        ends : bool
            Whether all wait for the last after each MATRIX_BYTES.
        """
        kind = "dot-matrix" if ends else "dot-stream"
        known = name if self._has(kind, name) else similar(name)
        if not self._has(kind, known):
            return None
        return self._once((kind, known, threads), lambda: self._stream(kind, known, threads))

    def _stream(self, kind: str, name: str, threads: int) -> Figure:
        """Take a team that was not measured to be no faster than the next larger one, and than so
        many single threads."""
        curve = self._arithmetic_curve(kind, name)
        (fewest, first), (_, last) = curve[0], curve[-1]
        above = next((figure for count, figure in curve if count >= threads), last)
        return above if threads <= fewest else smaller((above, first * (threads / fewest)))

    def step(self, kind: str) -> Figure:
        """Give the seconds that one value takes to be normed, rotated, or made 8 bits."""
        return self._once(("step", kind), lambda: self._step(kind))

    def _step(self, kind: str) -> Figure:
        figures = [
            cell.figure
            for (meaning, _, _), found in self._cells.items()
            if meaning == "step"
            for cell in found
            if cell.case.get("kind") == kind
        ]
        best = min(figures, key=lambda figure: figure.value, default=None)
        return best or self._otherwise(kind, f"step/value of kind {kind}", None)

    def gemm(self, name: str, threads: int) -> Figure:
        """Give the operations per second of a matrix product with weights in this format."""
        return self._arithmetic("gemm", name, threads)

    def attention(self, threads: int, heads: int, head_bytes: float) -> Figure:
        """Give the bytes per second of cached keys and values that the attention takes in.

        Parameters
        ----------
        heads : int
            Cached heads of a position, side by side: the more, the fewer lines of a cache can hold
            those of one.
        head_bytes : float
            Keys and values of one head: these stay in a cache, or not, from one query head to the
            next.
        """
        key = ("attention", threads, heads, head_bytes)
        return self._once(key, lambda: self._attention(threads, heads, head_bytes))

    def _attention(self, threads: int, heads: int, head_bytes: float) -> Figure:
        cells = self._in_own_pages("attention", None)
        if not cells:
            known = assumed("attention", threads) if self.assume else None
            return self._otherwise("attention", "attention/decode", known)
        return of_shape(
            cells,
            heads,
            head_bytes,
            lambda alike: self._of_cores(by_count(alike, "threads"), threads),
        )

    def _arithmetic(self, kind: str, name: str, threads: int) -> Figure:
        key = (kind, name, threads)
        return self._once(key, lambda: self._arithmetic_of(kind, name, threads))

    def _arithmetic_of(self, kind: str, name: str, threads: int) -> Figure:
        curve = self._arithmetic_curve(kind, name)
        if not curve:
            close = similar(name)
            if self._has(kind, close):
                return self._arithmetic(kind, close, threads)
            # Arithmetic goes by weights: a format of few bits brings many of them in a byte.
            factor = threads * (bits_of(name) / 8 if kind == "dot" else 1.0)
            known = assumed(kind, factor) if self.assume else None
            return self._otherwise(kind, f"{kind}/{name}", known)
        return self._of_cores(curve, threads)

    def _of_cores(self, curve: Sequence[tuple[float, Figure]], threads: int) -> Figure:
        """Give the figure of a team: each core has caches and units of its own."""
        largest, figure = curve[-1]
        if threads <= largest:
            return at(curve, threads, from_origin=True)
        return figure * (threads / largest)

    def _has(self, kind: str, name: str) -> bool:
        return bool(self._arithmetic_curve(kind, name))

    def _arithmetic_curve(self, kind: str, name: str) -> list[tuple[float, Figure]]:
        """Give the figures of a format by threads."""
        key = (kind, name)
        if key not in self._curves:
            self._curves[key] = by_count(self._in_own_pages(kind, name), "threads")
        return self._curves[key]

    def _in_own_pages(self, kind: str, name: str | None) -> list[Cell]:
        """Give the cells of a format, or of what has none, in the pages that an engine has if they differ."""
        cells = [
            cell
            for (meaning, _, _), found in self._cells.items()
            if meaning == kind
            for cell in found
            if cell.case.get("format") == name
        ]
        return [cell for cell in cells if cell.case.get("pages") == self._pages] or cells

    # ---- GPUs ------------------------------------------------------------------------------------

    def gpus(self) -> tuple[int, ...]:
        """Give the GPUs that any cell tells of."""
        places = {
            part.id
            for _, *ends in self._cells
            for end in ends
            for part in (end.places if isinstance(end, PlaceSet) else (end,))
            if part.kind == "gpu" and isinstance(part.id, int)
        }
        return tuple(sorted(places))

    def gpu_memory(self, index: int) -> int | None:
        """Give the bytes of a GPU's memory; None when the file does not say."""
        return next((each.memory for each in self.machine.gpus if each.id == index), None)

    def gpu_read(self, index: int) -> Figure:
        """Give the bytes per second that a GPU reads from its own memory."""
        return self._best("gpu-read", gpu(index), gpu(index), f"memory read of gpu{index}")

    def gpu_gemm(self, index: int) -> Figure:
        """Give the operations per second of a GPU's matrix product."""
        return self._best("gpu-gemm", gpu(index), gpu(index), f"gemm of gpu{index}")

    def to_gpu(self, source: int, index: int) -> Figure:
        """Give the bytes per second of a pinned copy from a node to a GPU."""
        return self._best("h2d", node(source), gpu(index), f"h2d from node{source} to gpu{index}")

    def from_gpu(self, index: int, target: int) -> Figure:
        """Give the bytes per second of a pinned copy from a GPU to a node."""
        return self._best("d2h", gpu(index), node(target), f"d2h from gpu{index} to node{target}")

    def host_hop(self, node_id: int, index: int) -> Figure:
        """Give the seconds that a small copy between a node and a GPU takes, the slower way."""
        ways = [
            self._small("h2d", node(node_id), gpu(index)),
            self._small("d2h", gpu(index), node(node_id)),
        ]
        known = [way for way in ways if way]
        if known:
            return max(known, key=lambda figure: figure.value)
        return self._otherwise(
            "copy-latency", f"a small copy between node{node_id} and gpu{index}", None
        )

    def has_peer(self, one: int, other: int) -> bool:
        """Tell whether copies between two GPUs were measured."""
        if self.forced_peer is not None:
            return self.forced_peer
        return bool(self._find("peer", gpu(one), gpu(other)))

    def has_links(self, group: Sequence[int]) -> bool:
        """Tell whether every pair of a group, or the group itself, was seen to reduce directly."""
        if self.forced_peer is not None:
            return self.forced_peer or len(group) == 1
        if self._all_reduce_curve(group, None):
            return True
        return all(
            bool(self._all_reduce_curve((one, other), None))
            for one in group
            for other in group
            if one < other
        )

    def peer(self, one: int, other: int) -> Figure:
        """Give the bytes per second of a copy from one GPU to another."""
        return self._best("peer", gpu(one), gpu(other), f"peer copy from gpu{one} to gpu{other}")

    def peer_hop(self, one: int, other: int) -> Figure:
        """Give the seconds that a small copy from one GPU to another takes to start: at most what the
        smallest all-reduce of the two takes, which is a copy both ways."""
        known = self._small("peer", gpu(one), gpu(other))
        curve = self._all_reduce_curve((one, other), None)
        if not known and curve:
            known = curve[0][1]
        return known or self._otherwise(
            "peer-latency", f"a small peer copy from gpu{one} to gpu{other}", None
        )

    def all_reduce(self, group: Sequence[int], size: float, via: int | None = None) -> Figure:
        """Give the seconds of an all-reduce of `size` bytes over a group, as measured.

        Between measured sizes it is interpolated in logarithms: a latency and a rate alone miss by
        a quarter. A group that was not measured is a ring over its pairs, see :func:`slowest_of_ring`.

        Parameters
        ----------
        via : int, optional
            The node through whose memory it is staged; None: directly.
        """
        key = ("all-reduce", tuple(group), size, via)
        return self._once(key, lambda: self._all_reduce(group, size, via))

    def _all_reduce(self, group: Sequence[int], size: float, via: int | None) -> Figure:
        curve = self._all_reduce_curve(group, via)
        if curve:
            return log_at(curve, size, in_proportion=True)
        if len(group) == 2:
            way = "" if via is None else f" through node{via}"
            known = _assumed_reduce(size) if self.assume else None
            what = f"all-reduce of gpu{group[0]} and gpu{group[1]}{way}"
            return self._otherwise("all-reduce", what, known)
        # Ring of n: n - 1 steps there and back, each of size / n on the slowest pair; for a pair the
        # steps are halves of its all-reduce.
        count = len(group)
        step = 2 * size / count
        worst = slowest_of_ring(group, lambda a, b: self._pair(a, b, step, via))
        return worst * (count - 1)

    def staged_all_reduce(self, group: Sequence[int], size: float, via: int | None) -> Figure:
        """Give the seconds of an all-reduce through the memory of a node: the fastest unless named."""
        if via is not None:
            return self.all_reduce(group, size, via)
        found = []
        lacking = None
        for index in self.memory_nodes():
            try:
                found.append(self.all_reduce(group, size, index))
            except Lacking as error:
                lacking = error
        if lacking and not found:
            raise lacking
        return min(found, key=lambda figure: figure.value)

    def memory_nodes(self) -> tuple[int, ...]:
        """Give the nodes whose memory can be used, at least one."""
        found = tuple(target.id for target in self.machine.targets)
        if not found:
            raise Lacking("the file tells of no node with memory")
        return found

    def _pair(self, one: int, other: int, size: float, via: int | None) -> Figure:
        return self.all_reduce((min(one, other), max(one, other)), size, via)

    def _all_reduce_curve(
        self, group: Sequence[int], via: int | None
    ) -> list[tuple[float, Figure]]:
        members = tuple(gpu(index) for index in sorted(group))
        found = list(self._find("all-reduce", PlaceSet(members), PlaceSet(members)))
        if len(members) == 2:
            found += self._find("all-reduce", members[0], members[1])
            found += self._find("all-reduce", members[1], members[0])
        times: dict[float, Figure] = {}
        for cell in found:
            size, staged = cell.count("bytes", "message", "transfer"), cell.case.route.via
            if size and (staged.id if staged else None) == via:
                time = cell.figure.inverse() * size if is_rate(cell.unit) else cell.figure
                if size not in times or time.value < times[size].value:
                    times[size] = time
        return sorted(times.items())

    # ---- storage ---------------------------------------------------------------------------------

    def storage(self) -> Figure:
        """Give the bytes per second of the fastest drive or file that was read."""
        figures = [
            cell.figure
            for (meaning, source, _), cells in self._cells.items()
            if meaning == "storage" and getattr(source, "kind", "") in ("drive", "file")
            for cell in cells
        ]
        if figures:
            return max(figures, key=lambda figure: figure.value)
        return self._otherwise("storage", "a read of a drive or file", None)

    # ---- inside ----------------------------------------------------------------------------------

    def _once(self, key: object, work_out: Callable[[], Figure]) -> Figure:
        """Give what was worked out under a key before, or work it out now."""
        if key not in self._known:
            self._known[key] = work_out()
        return self._known[key]

    def _find(self, meaning: str, source: AnyPlace, target: AnyPlace) -> list[Cell]:
        return self._cells.get((meaning, source, target), [])

    def _curve(self, source: AnyPlace, target: AnyPlace) -> list[tuple[float, Figure]]:
        return by_count(self._find("read", source, target), "threads")

    def _best(self, meaning: str, source: AnyPlace, target: AnyPlace, what: str) -> Figure:
        def best() -> Figure:
            rates = [c.figure for c in self._find(meaning, source, target) if is_rate(c.unit)]
            found = max(rates, key=lambda figure: figure.value, default=None)
            return found or self._otherwise(meaning, what, None)

        return self._once((meaning, source, target), best)

    def _small(self, meaning: str, source: AnyPlace, target: AnyPlace) -> Figure | None:
        """Give the time of the smallest copy on a route, if one is small enough."""
        times = [
            (size, cell.figure.inverse() * size if is_rate(cell.unit) else cell.figure)
            for cell in self._find(meaning, source, target)
            # A cell that does not tell its size, as an imported one, may be of a large copy.
            if 0 < (size := cell.count("bytes", "message", "transfer") or 0) <= SMALL_COPY
        ]
        return min(times, key=lambda pair: pair[0])[1] if times else None

    def _from_parts(self, source: int, targets: Sequence[int], threads: int) -> Figure | None:
        """Put an interleave together from single routes: each node gives an equal share in turn."""
        if len(targets) < 2 or not all(self._curve(node(source), node(t)) for t in targets):
            return None
        parts = [self.read(source, (target,), threads).inverse() for target in targets]
        mean = Figure(
            sum(part.value for part in parts) / len(parts),
            sum(part.low for part in parts) / len(parts),
            sum(part.high for part in parts) / len(parts),
            " + ".join(part.source for part in parts),
            parts[0].origin,
        )
        return mean.inverse()

    def _otherwise(self, name: str, what: str, known: Figure | None) -> Figure:
        if known is not None:
            return known
        if self.assume and name != "read":
            return assumed(name)
        hint = "" if name == "read" else ", or allow a default with --assume"
        raise Lacking(f"the file has no figure of {what}: measure it{hint}")


def _assumed_reduce(size: float) -> Figure:
    """Give a default all-reduce of a pair: its start, and the vector once over a link."""
    start, link = assumed("reduce-latency"), assumed("peer")
    moved = link.inverse() * size
    return replace(
        start,
        value=start.value + moved.value,
        low=start.low + moved.low,
        high=start.high + moved.high,
    )
