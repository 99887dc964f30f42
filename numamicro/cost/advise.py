"""The best placement of a model on a machine: every one that makes sense, tried on the matrix.

Small machines are searched whole. Where that would be thousands, groups of GPUs are built up from the
best, and the CPUs' side of an offload is chosen before the GPUs' side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

from numamicro.cost.placement import Placement
from numamicro.cost.rates import Lacking
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numamicro.cost.predict import Predictor, TokenCost

MOST_GROUPS = 100
"""Groups of one size that are all tried."""

BEST_SIDES = 4
"""Placements on the CPUs that go into an offload."""

TIE = 0.005
"""A placement that is faster by less than this is not worth more GPUs or threads."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A placement and the seconds of a token."""

    placement: Placement
    seconds: float


@dataclass(frozen=True, slots=True)
class Advice:
    """What the search found.

    Parameters
    ----------
    best, naive, worst : TokenCost
        The naive one is what happens when nobody binds anything: every core, all pages on the first
        node, GPUs in the order in which the driver counts them. None where it does not fit.
    ranked : tuple of Ranked
        All placements that were tried and fit, the best first.
    """

    best: TokenCost
    naive: TokenCost | None
    worst: TokenCost
    ranked: tuple[Ranked, ...]


def advise(predictor: Predictor, *, by: str = "latency") -> Advice:
    """Search for the best placement.

    Parameters
    ----------
    by : str
        latency (of a token) or throughput (tokens of all sequences and replicas).

    Raises
    ------
    NumamicroError
        Nothing fits, or the file lacks what every placement needs.
    """
    search = _Search(predictor)
    ranked = search.ranked(search.candidates())
    ranked.sort(key=lambda item: _key(item, by))
    if not ranked:
        raise search.why_nothing()
    first = ranked[0]
    near = [item for item in ranked if _key(item, by) <= _key(first, by) * (1 + TIE)]
    best = min(near, key=lambda item: _spent(item.placement))
    naive = search.naive()
    return Advice(
        best=predictor.cost(best.placement),
        naive=None if naive is None else predictor.cost(naive),
        worst=predictor.cost(ranked[-1].placement),
        ranked=(best, *(item for item in ranked if item is not best)),
    )


def _key(item: Ranked, by: str) -> float:
    return item.seconds if by == "latency" else item.seconds / item.placement.replicas


def _spent(placement: Placement) -> tuple[int, int, int]:
    """Give what a placement takes up: GPUs, copies in memory, threads."""
    gpus = sum(len(stage) for stage in placement.stages)
    return gpus, len(placement.memory) if placement.policy == "replicated" else 1, placement.team


class _Search:
    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor
        self.rates = predictor.rates
        self.machine = predictor.rates.machine
        self.model = predictor.model
        self.lacking: NumamicroError | None = None
        targets = {target.id for target in self.machine.targets}
        self.nodes = tuple(each.id for each in self.machine.initiators if each.id in targets)
        self.memory = tuple(target.id for target in self.machine.targets)
        self.gpus = self.rates.gpus()

    def ranked(self, placements: Iterable[Placement]) -> list[Ranked]:
        """Time those that fit and whose figures are there."""
        found = []
        for placement in dict.fromkeys(placements):
            seconds = self._seconds(placement)
            if seconds is not None:
                found.append(Ranked(placement, seconds))
        return found

    def why_nothing(self) -> NumamicroError:
        """Say why nothing was found."""
        if not (self.nodes or self.gpus):
            return NumamicroError(
                "the file tells of no node with CPUs and memory, and of no GPU: import the output of "
                "likwid-topology or numactl -H together with the figures"
            )
        return self.lacking or NumamicroError(
            f"{self.model.name} fits nowhere on this machine; a smaller quantisation may (--quant)"
        )

    def _seconds(self, placement: Placement) -> float | None:
        try:
            return self.predictor.decode(placement).seconds
        except NumamicroError as error:
            # What the file lacks says more than that another placement does not fit.
            if isinstance(error, Lacking) or self.lacking is None:
                self.lacking = error
            return None

    # ---- what there is to try --------------------------------------------------------------------

    def candidates(self) -> Iterator[Placement]:
        """Give every placement worth a look."""
        yield from self.on_cpus()
        stages = list(self.on_gpus())
        for placement in stages:
            if self.predictor.ignore_capacity or self.predictor.fits(placement):
                yield placement
        if self.nodes and stages:
            yield from self.offloads(stages)

    def on_cpus(self) -> Iterator[Placement]:
        """Give node sets, team sizes and policies."""
        for nodes in self._node_sets():
            for count in self._team_sizes(nodes):
                yield from self._policies(tuple((index, count) for index in nodes))

    def naive(self) -> Placement | None:
        """Give the placement of someone who binds nothing; None where it does not fit."""
        threads = tuple((index, self._cores(index)) for index in self.nodes)
        on_cpu = Placement(threads=threads, policy="first-touch", memory=self.memory[:1])
        if not self.gpus:
            return on_cpu if self._seconds(on_cpu) is not None else None
        groups: list[tuple[int, ...]] = [(i,) for i in self.gpus[: len(self.model.layers)]]
        if self.predictor.engine.name != "llama.cpp" and self.model.heads % len(self.gpus) == 0:
            groups = [self.gpus]
        whole = self._with_links(Placement(stages=tuple(groups)))
        for placement in (whole, self._offloaded(whole, on_cpu), on_cpu):
            if placement is not None and self._seconds(placement) is not None:
                return placement
        return None

    def _node_sets(self) -> list[tuple[int, ...]]:
        nodes = self.nodes
        sets: list[tuple[int, ...]] = [(index,) for index in nodes]
        if len(nodes) <= 4:
            sets += [s for size in range(2, len(nodes) + 1) for s in combinations(nodes, size)]
        else:
            sets += [*self._packages(), nodes]
        return list(dict.fromkeys(sets))

    def _packages(self) -> Iterator[tuple[int, ...]]:
        for package in self.machine.packages:
            inside = {cpu.node for cpu in self.machine.cpus if cpu.package == package}
            nodes = tuple(index for index in self.nodes if index in inside)
            if len(nodes) > 1:
                yield nodes

    def _team_sizes(self, nodes: Sequence[int]) -> list[int]:
        most = min(self._cores(index) for index in nodes)
        return sorted({most, *(n for n in self.rates.team_sizes(nodes[0]) if n <= most)})

    def _cores(self, index: int) -> int:
        from numamicro.case import node

        return self.machine.cores(node(index))

    def _policies(self, threads: tuple[tuple[int, int], ...]) -> Iterator[Placement]:
        nodes = tuple(index for index, _ in threads)
        yield Placement(threads=threads, policy="bound", memory=nodes)
        if len(nodes) == 1 and len(self.nodes) > 1:
            yield Placement(threads=threads, policy="bound", memory=nodes, replicas=len(self.nodes))
        if len(self.memory) > 1:
            yield Placement(threads=threads, policy="interleaved", memory=self.memory)
        for target in self.memory:
            if (target,) != nodes:
                yield Placement(threads=threads, policy="first-touch", memory=(target,))
        if len(nodes) > 1:
            yield Placement(threads=threads, policy="replicated", memory=nodes)

    def on_gpus(self) -> Iterator[Placement]:
        """Give groups for TP, chains of them for PP, and replicas of both."""
        count = len(self.gpus)
        for size in range(1, count + 1):
            if self.model.heads % size:
                continue
            for stages in range(1, min(count // size, len(self.model.layers)) + 1):
                for chain in self._chains(size, stages):
                    placement = self._with_links(Placement(stages=chain))
                    yield placement
                    copies = count // (size * stages)
                    if copies > 1:
                        yield replace(placement, replicas=copies)

    def _chains(self, size: int, stages: int) -> Iterator[tuple[tuple[int, ...], ...]]:
        if stages == 1:
            if comb(len(self.gpus), size) <= MOST_GROUPS:
                yield from ((group,) for group in combinations(self.gpus, size))
            else:
                yield (self.gpus[:size],)
                yield (self._grown(self.gpus, size),)
            return
        chain: list[tuple[int, ...]] = []
        left = self.gpus
        for _ in range(stages):
            group = self._grown(left, size)
            chain.append(group)
            left = tuple(index for index in left if index not in group)
        yield tuple(chain)

    def _grown(self, gpus: Sequence[int], size: int) -> tuple[int, ...]:
        """Give a group grown from the first GPU by the member that keeps its all-reduces fastest."""
        group = [gpus[0]]
        while len(group) < size:
            rest = [index for index in gpus if index not in group]
            group.append(min(rest, key=lambda index: self._distance(group, index)))
        return tuple(sorted(group))

    def _distance(self, group: Sequence[int], index: int) -> float:
        size = self.model.hidden * 2
        try:
            return max(self.rates.all_reduce((m, index), size).value for m in group)
        except Lacking:
            return float(abs(index - group[0]))

    def _with_links(self, placement: Placement) -> Placement:
        """Let GPUs pass data directly where every link that is used was measured to do so."""
        direct = all(self.rates.has_links(stage) for stage in placement.stages)
        chain = zip(placement.stages, placement.stages[1:], strict=False)
        direct = direct and all(self.rates.has_peer(a[-1], b[0]) for a, b in chain)
        return replace(placement, peer=direct)

    # ---- offload ---------------------------------------------------------------------------------

    def offloads(self, stages: Sequence[Placement]) -> Iterator[Placement]:
        """Give placements with as much on the GPUs as fits and the rest on the best CPU sides."""
        whole = [placement for placement in stages if placement.replicas == 1]
        short = [placement for placement in whole if not self.predictor.fits(placement)]
        if not short:
            return
        sides = self._best_sides()
        for gpus in self._largest(short):
            for side in sides:
                if placement := self._offloaded(gpus, side):
                    yield placement

    def _largest(self, placements: Sequence[Placement]) -> list[Placement]:
        """Give one placement of each shape (stages by GPUs): the CPUs bind an offload."""
        shapes: dict[tuple[int, int], Placement] = {}
        for placement in placements:
            shapes.setdefault((len(placement.stages), len(placement.stages[0])), placement)
        return list(shapes.values())

    def _best_sides(self) -> list[Placement]:
        """Rank the CPU sides by what they take of a token, whether or not all of it would fit."""
        timed = []
        for side in self.on_cpus():
            try:
                timed.append((self.predictor.without_capacity().decode(side).seconds, side))
            except NumamicroError as error:
                self.lacking = self.lacking or error
        timed.sort(key=lambda pair: pair[0])
        return [side for _, side in timed[:BEST_SIDES]]

    def _offloaded(self, gpus: Placement, side: Placement) -> Placement | None:
        """Move experts, or whole layers, to the CPUs until the GPUs have room; None if never."""
        placed = replace(gpus, threads=side.threads, policy=side.policy, memory=side.memory)
        sparse = [i for i, layer in enumerate(self.model.layers) if layer.experts]

        def moved(count: int) -> Placement:
            if sparse:
                return replace(placed, cpu_experts=tuple(sparse[len(sparse) - count :]))
            return replace(placed, cpu_layers=count)

        most = len(sparse) or len(self.model.layers) - len(gpus.stages)
        if most < 1 or not self._has_room(moved(most)):
            return None
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            if self._has_room(moved(middle)):
                high = middle
            else:
                low = middle + 1
        return moved(low)

    def _has_room(self, placement: Placement) -> bool:
        return self.predictor.gpus_have_room(placement)
