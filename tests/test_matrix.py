"""The cost matrix: what a cell is worth, and which cell answers a question."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.case import Route, node
from numamicro.matrix import (
    FAILED_STATES,
    CostMatrix,
    Measurement,
    Run,
    Sample,
    State,
    best_of,
)
from numamicro.topology import Note
from tests import examples
from tests.examples import a_run, cell, failed_run, load_case, read_case

CASE = read_case(0, 0)


def of_runs(*runs: Run) -> Measurement:
    return Measurement.of_runs(CASE, "B/s", runs)


# ---- samples -------------------------------------------------------------------------------------


def test_a_sample_is_a_rate_or_the_time_of_one_operation() -> None:
    sample = Sample(seconds=2.0, amount=8, repetitions=4)
    assert sample.value("B/s") == 4.0
    assert sample.value("s") == 0.25


# ---- the state of a cell -------------------------------------------------------------------------

GRAVEST_FIRST = (State.WRONG, State.VOID, State.HANG, State.ERROR, State.WAIVED)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_gravest_run_settles_the_cell_in_any_order(count: int) -> None:
    for states in permutations(GRAVEST_FIRST, count):
        cell = of_runs(a_run(1.0), *(failed_run(state, state.value) for state in states))
        gravest = min(states, key=GRAVEST_FIRST.index)
        assert cell.state is gravest
        assert cell.reason == Note(gravest.value, f"{gravest.value} is why")
        assert len(cell.runs) == count + 1


def test_the_first_of_equally_grave_runs_gives_the_reason() -> None:
    cell = of_runs(failed_run(State.ERROR, "first"), failed_run(State.ERROR, "second"))
    assert cell.reason is not None
    assert cell.reason.code == "first"


def test_runs_that_went_well_need_no_reason() -> None:
    cell = of_runs(a_run(1.0), a_run(2.0, process=1))
    assert (cell.state, cell.reason) == (State.OK, None)


def test_a_failed_state_is_one_that_was_tried_and_brought_no_figure() -> None:
    assert frozenset(GRAVEST_FIRST) - {State.WAIVED} == FAILED_STATES


# ---- what a cell publishes -----------------------------------------------------------------------


@pytest.mark.parametrize("state", [state for state in State if state is not State.OK])
def test_only_an_ok_cell_publishes_a_figure(state: State) -> None:
    good = cell(CASE, *range(1, 8))
    assert good.summary() is not None
    assert replace(good, state=state).summary() is None


def test_a_figure_of_one_failed_process_is_not_that_of_the_others() -> None:
    assert of_runs(a_run(1.0, 2.0), failed_run(State.VOID, process=1)).summary() is None


def test_cold_samples_are_kept_apart_from_warm_ones() -> None:
    cold = a_run(1e9, temperature="cold")
    warm = a_run(2.0**33, 2.0**33, process=1)
    summary = of_runs(cold, warm).summary()
    assert summary is not None
    assert (summary.center, summary.n, summary.processes) == (2.0**33, 2, 1)
    assert of_runs(cold).summary() is None


def test_processes_count_alike_in_the_centre() -> None:
    summary = of_runs(a_run(*[8.0] * 9), a_run(4.0, process=1), a_run(2.0, process=2)).summary()
    assert summary is not None
    assert (summary.center, summary.n, summary.processes) == (4.0, 11, 3)


def test_the_share_of_a_cell_is_its_worst_runs() -> None:
    assert of_runs(a_run(1.0), a_run(1.0, share=0.995), a_run(1.0)).share == 0.995


def test_the_share_is_unknown_when_one_run_could_not_ask() -> None:
    assert of_runs(a_run(1.0), a_run(1.0, share=None)).share is None
    assert of_runs(Run(0, examples.samples("B/s", [1.0]))).share is None


def test_a_run_without_memory_has_no_say_in_the_share() -> None:
    assert of_runs(a_run(1.0, share=0.995), failed_run(State.ERROR)).share == 0.995


def test_a_warning_that_several_runs_give_is_given_once() -> None:
    one, two = Note("one", "1"), Note("two", "2")
    runs = (
        replace(a_run(1.0), warnings=(one, two)),
        replace(a_run(1.0, process=1), warnings=(two, one)),
    )
    assert of_runs(*runs).warnings == (one, two)


# ---- look-ups ------------------------------------------------------------------------------------


def matrix(*cells: Measurement) -> CostMatrix:
    return CostMatrix(examples.header(), cells)


def test_the_best_of_a_rate_is_the_highest_and_of_a_time_the_shortest() -> None:
    slow, fast = cell(read_case(0, 1, threads=1), 1e9), cell(read_case(0, 1, threads=8), 9e9)
    near, far = cell(load_case(0, 1, "huge"), 90e-9), cell(load_case(0, 1, "small"), 130e-9)
    some = matrix(slow, fast, near, far)
    assert some.best("bandwidth", "read", node(0), node(1)) is fast
    assert some.best("bandwidth", "read", node(0), node(1), threads=1) is slow
    assert some.best("latency", "load", node(0), node(1)) is near
    assert some.best("latency", "load", node(0), node(1), pages="small") is far


def test_the_best_is_an_ok_cell_or_none() -> None:
    broken = replace(cell(read_case(0, 1, threads=8), 9e9), state=State.VOID)
    good = cell(read_case(0, 1, threads=1), 1e9)
    assert matrix(broken, good).best("bandwidth", "read", node(0), node(1)) is good
    assert matrix(broken).best("bandwidth", "read", node(0), node(1)) is None
    assert matrix().best("bandwidth", "read", node(0), node(1)) is None
    assert best_of([of_runs(a_run(1e9, temperature="cold"))]) is None


def test_cells_match_on_what_is_given_alone() -> None:
    some = examples.matrix((0, 8))
    assert len(list(some.cells("bandwidth"))) == 4
    assert len(list(some.cells("bandwidth", source=node(8)))) == 2
    assert len(list(some.cells("bandwidth", target=node(8)))) == 2
    (one,) = some.cells("latency", "load", node(0), node(8), pages="huge")
    assert one.case.route == Route(node(0), node(8))
    assert not list(some.cells("bandwidth", "write"))
    assert not list(some.cells("bandwidth", source=node(1)))
    assert not list(some.cells("bandwidth", threads=2))
    assert not list(some.cells("bandwidth", variant="nt"))


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=8), st.sampled_from(("B/s", "s")))
def test_the_best_of_many_is_the_extreme(values: list[float], unit: str) -> None:
    case = read_case(0, 0) if unit == "B/s" else load_case(0, 0)
    cells = [cell(case.having(rank=rank), value) for rank, value in enumerate(values)]
    best = best_of(cells)
    assert best is not None
    summary = best.summary()
    assert summary is not None
    extreme = max(values) if unit == "B/s" else min(values)
    assert summary.center == pytest.approx(extreme)
