"""All nodes at once: what replicated weights and tensor-parallel CPU engines do to the memory."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, PlaceSet, Route, node
from numamicro.matrix import Sample, State
from numamicro.probes.bandwidth import USUAL_BYTES, kernel_for
from numamicro.probes.probe import (
    CaseFailed,
    Cost,
    Probe,
    TakeSample,
    buffer_bytes,
    touch_seconds,
    unfit,
    windowed,
)
from numamicro.wishes import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.case import AnyPlace
    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

PAIRINGS = ("own", "opposite", "interleave")
"""Each node's threads read their own node (replicas), the node half way round (both directions of
every link at once), or pages interleaved over all nodes (what the kernel does when asked to share)."""


class Together(Probe):
    """Bytes a second that the cores of all nodes read at the same time."""

    name: ClassVar[str] = "together"
    unit: ClassVar[str] = "B/s"
    swept: ClassVar[tuple[str, ...]] = ("variant",)

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give each pairing over all nodes that have both CPUs and memory."""
        if not wishes.wants(self.name, "read") or (wishes.level is QUICK and not wishes.only):
            return
        usable = {each.id for each in machine.targets}
        nodes = tuple(
            node(each.id)
            for each in machine.initiators
            if each.id in usable and wishes.wants_node(each.id)
        )
        if len(nodes) < 2:
            return
        everywhere = Route(PlaceSet(nodes), PlaceSet(nodes))
        sizes = [buffer_bytes(Route(each, each), machine, wishes, USUAL_BYTES) for each in nodes]
        for pairing in PAIRINGS:
            for variant in ("1-stream", "4-stream"):
                yield Case.of(
                    self.name,
                    "read",
                    everywhere,
                    bytes=max(sizes) * len(nodes),
                    pages="auto",
                    pairing=pairing,
                    threads=machine.cores(everywhere.source),
                    variant=variant,
                )

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the buffers cannot be had beyond the caches."""
        return unfit(case, machine)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate with 20 GB/s a node."""
        size = case.number("bytes")
        a_pass = size / (20e9 * len(machine.memory_nodes(case.route.target)))
        return Cost(a_pass, a_pass, touch_seconds(case, machine, size))

    def essential(self, case: Case, machine: Machine) -> bool:
        """One matrix entry for the whole machine: after those of each route."""
        return False

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Give every node's threads a span of their own, and let all start at once."""
        from numamicro import _cpu

        targets = _targets(case)
        groups = [lab.cores_of(source) for source in _places(case.route.source)]
        team = lab.team_on(tuple(cpu for group in groups for cpu in group))
        size = case.number("bytes") // len(groups) // 2**21 * 2**21
        arenas = [lab.arena(target, size, str(case["pages"])) for target in targets]
        spans = [(arena, size, len(group)) for arena, group in zip(arenas, groups, strict=True)]
        kernel = kernel_for("read", str(case["variant"]))
        lab.note(isa=kernel.isa, kernel=kernel.name)
        _cpu.fill_each(team, spans, lab.seed)

        @cache
        def due(count: int) -> int:
            return _cpu.expected_each(team, spans, kernel.name, count, lab.seed)

        def passes(count: int) -> Sample:
            elapsed, moved, total, strays = _cpu.read_each(team, spans, kernel.name, count)
            if total != due(count):
                text = f"{kernel.name} gave the sum {total:#x} where {due(count):#x} was due"
                raise CaseFailed(State.WRONG, "checksum", text)
            lab.strays += strays
            return Sample(elapsed / 1e9, moved, count)

        yield windowed(passes)


def _places(place: AnyPlace) -> tuple[AnyPlace, ...]:
    return place.places if isinstance(place, PlaceSet) else (place,)


def _targets(case: Case) -> list[AnyPlace]:
    """Give where each node's buffer is, in the order of the nodes."""
    nodes = _places(case.route.target)
    if case["pairing"] == "interleave":
        return [case.route.target] * len(nodes)
    turn = len(nodes) // 2 if case["pairing"] == "opposite" else 0
    return [nodes[(index + turn) % len(nodes)] for index in range(len(nodes))]
