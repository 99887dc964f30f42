"""Matrices whose pages the tests look at, each with something that a page must show."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from numamicro.case import Case, Route, node
from numamicro.finding import Finding, Severity
from numamicro.matrix import CostMatrix, Measurement, Run, Sample, State
from numamicro.topology import Note
from tests.cost.rigs import rig
from tests.examples import load_case
from tests.examples import matrix as pairs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.topology import Machine

MARKUP = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
"""What a file of somebody else's may hold."""


@cache
def large() -> CostMatrix:
    """Give eight nodes in two packages, and eight GPUs: what is in the other package is dear."""
    whole = rig(8, 8, remote=32e9)
    old = whole.header.machine
    cpus = tuple(replace(cpu, package=(cpu.node or 0) // 4) for cpu in old.cpus)
    machine = replace(old, cpus=cpus, cpu_model="Simulated, 8 nodes, 8 GPUs")
    times = {"local": 95e-9, "same-package": 120e-9, "other-package": 215e-9}
    cells = [_moved(cell, machine) for cell in whole.measurements]
    cells += [
        _timed(load_case(a, b), "s", 1000 * times[machine.locality(node(a), node(b))], 1000)
        for a in range(8)
        for b in range(8)
    ]
    return CostMatrix(replace(whole.header, machine=machine), tuple(cells))


def _moved(cell: Measurement, machine: Machine) -> Measurement:
    """Make reads from another package take twice their time."""
    route = cell.case.route
    if (
        cell.case.probe != "bandwidth"
        or machine.locality(route.source, route.target) != "other-package"
    ):
        return cell
    runs = tuple(
        replace(run, samples=tuple(s._replace(seconds=2 * s.seconds) for s in run.samples))
        for run in cell.runs
    )
    return replace(cell, runs=runs)


@cache
def small() -> CostMatrix:
    """Give two nodes with curves, with cells that have no figure, and with markup in its texts."""
    whole = pairs((0, 8), label=MARKUP)
    waived = Measurement(
        load_case(0, 8, pages="small"), "s", State.WAIVED, Note("no-kernel", "nothing here can")
    )
    void = Measurement(
        Case.of("bandwidth", "copy", Route(node(8), node(8))),
        "B/s",
        State.VOID,
        Note("misplaced", f"pages strayed {MARKUP}"),
    )
    machine = replace(
        whole.header.machine,
        notes=(Finding("phantom", Severity.LIMITS, MARKUP, "seen here", "so it is"),),
    )
    cells = (*whole.measurements, waived, void, *_curve(), *_loaded(), *_teams())
    return CostMatrix(replace(whole.header, machine=machine), cells)


def _timed(case: Case, unit: str, seconds: float, amount: int) -> Measurement:
    return Measurement.of_runs(case, unit, (Run(0, (Sample(seconds, amount),) * 6),))


def _curve() -> Iterator[Measurement]:
    """Give a latency that rises with the working set."""
    here = Route(node(0), node(0))
    for step in range(8):
        case = Case.of("cache-latency", "load", here, working_set=2 ** (14 + 2 * step), threads=1)
        yield _timed(case, "s", 1e-9 * 2**step * 1000, 1000)


def _loaded() -> Iterator[Measurement]:
    """Give a latency, and the rate that the other cores read at meanwhile."""
    here = Route(node(0), node(0))
    for delay, nanoseconds, rate in ((0, 400, 40), (100, 200, 30), (1000, 110, 5)):
        case = Case.of("loaded", "load", here, delay=delay, threads=2)
        yield _timed(case.having(value="latency"), "s", nanoseconds * 1e-6, 1000)
        yield _timed(case.having(value="streamed"), "B/s", 1.0, rate * 10**9)


def _teams() -> Iterator[Measurement]:
    """Give what teams of several sizes write."""
    here = Route(node(0), node(0))
    for threads in (1, 2, 4):
        yield _timed(
            Case.of("bandwidth", "write", here, threads=threads), "B/s", 1.0, threads * 10**9
        )
