"""What a picture of the machine asks of a file: the best figure of a route, and what is where."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.case import Place, PlaceSet, node
from numamicro.matrix import FAILED_STATES, best_of
from numamicro.units import scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.case import AnyPlace
    from numamicro.matrix import CostMatrix, Measurement


class Routes:
    """The cells of each route, found once.

    A copy that takes another path than the direct one is an operation of its own, named as the
    path is (detour): it is not what a link carries.
    """

    def __init__(self, matrix: CostMatrix) -> None:
        self.machine = matrix.header.machine
        self._cells: dict[tuple[str, str, AnyPlace, AnyPlace], list[Measurement]] = {}
        for cell in matrix.measurements:
            case = cell.case
            path = case.get("path", "direct")
            operation = case.operation if path == "direct" else str(path)
            key = (case.probe, operation, case.route.source, case.route.target)
            self._cells.setdefault(key, []).append(cell)
        ends = {end for _, _, *both in self._cells for end in both}
        parts = {part for end in ends for part in _parts(end)}
        parts |= {Place("gpu", gpu.id) for gpu in self.machine.gpus}
        self.gpus = sorted(part for part in parts if part.kind == "gpu")

    def cells(
        self, probe: str, operation: str, source: AnyPlace, target: AnyPlace
    ) -> Sequence[Measurement]:
        """Give every cell of a route."""
        return self._cells.get((probe, operation, source, target), ())

    def center(self, probe: str, operation: str, source: Place, target: Place) -> float | None:
        """Give the best figure of a route in its base unit."""
        best = best_of(self.cells(probe, operation, source, target))
        summary = best.summary() if best else None
        return summary.center if summary else None

    def has_failed(self, probe: str, operation: str, source: Place, target: Place) -> bool:
        """Tell whether a route was tried and brought no figure."""
        cells = self.cells(probe, operation, source, target)
        return best_of(cells) is None and any(cell.state in FAILED_STATES for cell in cells)

    def text(self, probe: str, operation: str, source: Place, target: Place) -> str:
        """Give the best figure of a route with its unit; empty without one."""
        center = self.center(probe, operation, source, target)
        if center is None:
            return ""
        shown = scale(self.cells(probe, operation, source, target)[0].unit)
        return f"{shown.text(center)} {shown.label}"

    def gpus_at(self, index: int | None) -> list[Place]:
        """Give the GPUs next to a node; under None those of which nobody knows where they are."""
        return [gpu for gpu in self.gpus if self.host_of(gpu) == index]

    def host_of(self, gpu: Place) -> int | None:
        """Give the node next to a GPU: as the driver says, else from which copies are fastest."""
        for found in self.machine.gpus:
            if found.id == gpu.id and found.host_node is not None:
                return found.host_node
        nodes = [found.id for found in self.machine.nodes]
        rates = {index: self.center("host-copy", "h2d", node(index), gpu) for index in nodes}
        known = {index: rate for index, rate in rates.items() if rate is not None}
        return max(known, key=lambda index: known[index], default=None)

    def slowest_peer(self, gpu: Place) -> float | None:
        """Give the rate of copies from a GPU to the peer that it reaches slowest."""
        rates = (self.center("peer-copy", "copy", gpu, other) for other in self.gpus)
        return min((rate for rate in rates if rate is not None), default=None)


def _parts(place: AnyPlace) -> tuple[Place, ...]:
    return place.places if isinstance(place, PlaceSet) else (place,)
