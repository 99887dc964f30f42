"""Figures that no memory gives are void; those that a cache gives too are warned of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.case import Case, Route, node
from numamicro.matrix import Measurement, State
from numamicro.plausibility import judged
from numamicro.units import MIB
from tests.examples import a_run, load_case, machine, read_case

HOME = Route(node(0), node(0))
RATE, TIME = "B/s", "s"


def cell(case: Case, unit: str, value: float) -> Measurement:
    return Measurement.of_runs(case, unit, (a_run(value, value, unit=unit),))


def cached(size: int, rate: float, seconds: float) -> list[Measurement]:
    # The example's last-level caches are 32 MiB.
    return [
        cell(Case.of("cache-bandwidth", "read", HOME, working_set=size, threads=1), RATE, rate),
        cell(Case.of("cache-latency", "load", HOME, working_set=size, threads=1), TIME, seconds),
    ]


CACHES = [*cached(MIB, 100e9, 2e-9), *cached(16 * MIB, 40e9, 15e-9), *cached(64 * MIB, 9e9, 90e-9)]


def outcome(figure: Measurement, peak: float | None = None) -> tuple[State, list[str]]:
    found = judged([*CACHES, figure], machine(), peak)[-1]
    codes = [found.reason.code] if found.reason else []
    return found.state, codes + [warning.code for warning in found.warnings]


@pytest.mark.parametrize(
    ("figure", "peak", "expected"),
    [
        (cell(read_case(0, 0), RATE, 30e9), None, (State.OK, [])),
        (cell(read_case(0, 0), RATE, 50e9), None, (State.OK, ["cache-like"])),
        (cell(read_case(0, 0), RATE, 120e9), None, (State.VOID, ["implausible"])),
        # Two threads have two first-level caches.
        (cell(read_case(0, 0, threads=2), RATE, 120e9), None, (State.OK, [])),
        (cell(read_case(0, 0, threads=2), RATE, 240e9), None, (State.VOID, ["implausible"])),
        (cell(read_case(0, 0, threads=2), RATE, 60e9), 51.2e9, (State.VOID, ["implausible"])),
        (cell(read_case(0, 0, threads=2), RATE, 55e9), 51.2e9, (State.OK, [])),
        (cell(load_case(0, 0), TIME, 100e-9), None, (State.OK, [])),
        (cell(load_case(0, 0), TIME, 12e-9), None, (State.OK, ["cache-like"])),
        (cell(load_case(0, 0), TIME, 1e-9), None, (State.VOID, ["implausible"])),
        # One first-level cache is beaten by nothing of its own.
        (CACHES[0], 1e9, (State.OK, [])),
    ],
)
def test_a_figure_is_judged(
    figure: Measurement, peak: float | None, expected: tuple[State, list[str]]
) -> None:
    assert outcome(figure, peak) == expected


def test_a_void_cell_says_both_figures() -> None:
    reason = judged([cell(read_case(0, 0, threads=2), RATE, 60e9)], machine(), 51.2e9)[0].reason
    assert reason is not None
    assert "60.0 GB/s" in reason.text
    assert "51.2 GB/s" in reason.text


@given(st.floats(1e6, 1e12), st.floats(1e-9, 1e-6))
def test_without_limits_nothing_is_judged(rate: float, seconds: float) -> None:
    cells = (cell(read_case(0, 1), RATE, rate), cell(load_case(0, 1), TIME, seconds))
    assert judged(cells, machine(), None) == cells
