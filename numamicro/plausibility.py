"""The last gate: a figure that the machine cannot reach is an artefact, however clean its samples.

Zero pages, a loop that was optimised away or a buffer that stayed in a cache give figures that are
steady, well placed and wrong. What gives them away is a comparison with what the DIMMs can carry and
with what the caches gave in the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from numamicro.matrix import Measurement, State
from numamicro.topology import Note
from numamicro.units import is_rate, scale

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numamicro.topology import Machine

TOLERANCE = 1.1
"""How far beyond a limit a figure may lie: limits are measured too, or round."""

CACHE_SHARE = 0.5
"""A working set within this share of the last-level cache is in it, whatever its hashing."""

_MEMORY = ("bandwidth", "together", "latency")


@dataclass(frozen=True, slots=True)
class Limits:
    """What no figure of memory can pass here; None where it is not known.

    Parameters
    ----------
    peak : float or None
        Bytes a second that all DIMMs together can carry.
    fastest : mapping
        Of each unit, the best that one CPU had from any cache in this run.
    cached : mapping
        Of each unit, what one CPU had from a working set within the last-level cache.
    """

    peak: float | None
    fastest: Mapping[str, float]
    cached: Mapping[str, float]


def judged(
    cells: Iterable[Measurement], machine: Machine, peak: float | None
) -> tuple[Measurement, ...]:
    """Give the cells, those void that no memory of this machine can have given.

    A figure that memory could have given but that a cache gives too keeps its state and gets a
    warning: the sizes of caches that the kernel reports may be fiction.

    Parameters
    ----------
    peak : float or None
        See :class:`Limits`.
    """
    cells = tuple(cells)
    limits = _limits(cells, machine, peak)
    return tuple(_judged(cell, limits) for cell in cells)


def _limits(cells: tuple[Measurement, ...], machine: Machine, peak: float | None) -> Limits:
    fastest: dict[str, float] = {}
    largest: dict[str, tuple[int, float]] = {}
    for cell in cells:
        size, summary = cell.case.get("working_set"), cell.summary()
        if summary is None or not isinstance(size, int) or not cell.case.probe.startswith("cache-"):
            continue
        better = max if is_rate(cell.unit) else min
        fastest[cell.unit] = better(fastest.get(cell.unit, summary.center), summary.center)
        within = size <= CACHE_SHARE * machine.llc_bytes(
            machine.usable_cpus(cell.case.route.source)[:1]
        )
        if within and size >= largest.get(cell.unit, (0, 0.0))[0]:
            largest[cell.unit] = size, summary.center
    return Limits(peak, fastest, {unit: center for unit, (_, center) in largest.items()})


def _judged(cell: Measurement, limits: Limits) -> Measurement:
    summary = cell.summary()
    if summary is None or cell.case.probe not in _MEMORY:
        return cell
    if reason := _impossible(cell, summary.center, limits):
        return replace(cell, state=State.VOID, reason=reason)
    if warning := _as_fast_as_a_cache(cell, summary.center, limits):
        last = replace(cell.runs[-1], warnings=(*cell.runs[-1].warnings, warning))
        return replace(cell, runs=(*cell.runs[:-1], last))
    return cell


def _impossible(cell: Measurement, center: float, limits: Limits) -> Note | None:
    if not is_rate(cell.unit):
        fastest = limits.fastest.get(cell.unit)
        if fastest is None or center * TOLERANCE >= fastest:
            return None
        return _note(cell, center, "less than any cache took", fastest)
    if limits.peak is not None and center > limits.peak * TOLERANCE:
        return _note(cell, center, "more than all DIMMs can carry", limits.peak)
    fastest = limits.fastest.get(cell.unit)
    # Caches were only read; a copy counts two bytes where a read counts one.
    if cell.case.operation != "read" or fastest is None:
        return None
    most = fastest * cell.case.number("threads")
    if center <= most * TOLERANCE:
        return None
    return _note(cell, center, "more than caches give so many threads", most)


def _note(cell: Measurement, center: float, excess: str, limit: float) -> Note:
    unit = scale(cell.unit)
    text = f"{unit.text(center)} {unit.label} is {excess} ({unit.text(limit)} {unit.label})"
    return Note("implausible", f"{text}: not all of it came from memory")


def _as_fast_as_a_cache(cell: Measurement, center: float, limits: Limits) -> Note | None:
    cached = limits.cached.get(cell.unit)
    # A team's caches are more than one CPU's; only single threads can be told apart.
    if cached is None or cell.case.get("threads") != 1:
        return None
    if is_rate(cell.unit):
        alike = cell.case.operation == "read" and center > cached * TOLERANCE
    else:
        alike = center * TOLERANCE < cached
    text = "some figures of memory are better than those of the last-level cache: the buffer may "
    return (
        Note("cache-like", f"{text}lie in a cache that the kernel does not show") if alike else None
    )
