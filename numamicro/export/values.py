"""The figures of a matrix by route, as exports need them: one a pair of places, the best there is."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from numamicro.case import Place
from numamicro.errors import NumamicroError
from numamicro.matrix import best_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numamicro.case import AnyPlace, Param
    from numamicro.matrix import CostMatrix, Measurement

Pairs: TypeAlias = "dict[tuple[int, int], float]"
"""From the node of the CPUs and the node of the memory to a value in its base unit."""

_PAGES = ("huge", None, "small")
"""Of which pages a latency is taken first: huge ones show the memory, small ones the TLB as well."""


def bandwidths(matrix: CostMatrix, operation: str = "read") -> Pairs:
    """Give the bytes per second of every pair of nodes that was measured, with the best team."""
    return _best(matrix.cells("bandwidth", operation))


def latencies(matrix: CostMatrix) -> Pairs:
    """Give the seconds of a load of every pair of nodes that was measured, of one kind of pages."""
    cells = list(matrix.cells("latency", "load"))
    for pages in _PAGES:
        found = _best(cell for cell in cells if cell.case.get("pages") == pages)
        if found:
            return found
    return {}


def _best(cells: Iterable[Measurement]) -> Pairs:
    by_pair: dict[tuple[int, int], list[Measurement]] = defaultdict(list)
    for cell in cells:
        source, target = _node(cell.case.route.source), _node(cell.case.route.target)
        if source is not None and target is not None:
            by_pair[source, target].append(cell)
    return {
        pair: summary.center
        for pair, found in sorted(by_pair.items())
        if (best := best_of(found)) and (summary := best.summary())
    }


def _node(place: AnyPlace) -> int | None:
    if isinstance(place, Place) and place.kind == "node" and isinstance(place.id, int):
        return place.id
    return None


def need(values: Pairs, format: str, what: str) -> Pairs:
    """Give the values, or say that a format cannot be written without them.

    Raises
    ------
    NumamicroError
        There are none.
    """
    if values:
        return values
    raise NumamicroError(f"--to {format} needs {what}, and the file has no such figure: measure it")


def plain(value: Param) -> str:
    """Give a parameter as text that reads the same everywhere: true and not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)
