"""The text a user sees, from matrices whose figures are known."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro import output
from numamicro.case import Case, Place, Route, node, parse_place
from numamicro.matrix import CostMatrix, Header, Measurement, Placement, Run, Sample, State
from numamicro.report import shade
from numamicro.report.figures import scale_of
from numamicro.report.records import records, records_csv
from numamicro.report.table import FORMATS, render
from numamicro.topology import Cpu, Machine, Note, NumaNode
from tests.examples import matrices

GB = 10**9
PROVEN = Placement(1.0, "move_pages", {0: 512})
MACHINE = Machine(
    architecture="x86_64",
    cpu_model="Some CPU",
    cpus=tuple(Cpu(index, node=index // 2, package=0, core=index) for index in range(4)),
    nodes=(
        NumaNode(0, (0, 1), 2**34, 2**33, {0: 10, 8: 20}),
        NumaNode(8, (2, 3), 2**34, 2**33, {0: 20, 8: 10}),
    ),
    llcs=(),
    huge_page_bytes=2**21,
)
HEADER = Header(
    "numamicro 1", "2026-01-01T00:00:00+00:00", "measured", MACHINE, plan={"level": "quick"}
)


def read(source: int, target: int, threads: int, *rates: float, **changes: Any) -> Measurement:
    case = Case.of(
        "bandwidth", "read", Route(node(source), node(target)), threads=threads, pages="auto"
    )
    run = Run(0, tuple(Sample(1.0, int(rate * GB)) for rate in rates), placement=PROVEN)
    return replace(Measurement.of_runs(case, "B/s", (run,)), **changes)


def load(pages: str, nanoseconds: float) -> Measurement:
    case = Case.of("latency", "load", Route(node(0), node(0)), pages=pages, threads=1)
    run = Run(0, (Sample(nanoseconds * 1e-9 * 1000, 1000),), placement=PROVEN)
    return Measurement.of_runs(case, "s", (run,))


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_table_without_figures_has_the_scale_that_they_would_have() -> None:
    late = Note("budget", "too late")
    launch = Case.of("launch", "queue", Route(node(0), Place("gpu", 0)))
    skipped = [
        Measurement(case, "s", State.SKIPPED, late) for case in (launch, load("huge", 1).case)
    ]
    assert [scale_of([cell]).label for cell in skipped] == ["µs", "ns"]


def test_a_row_is_the_initiator_and_a_column_the_target_in_order_of_their_ids() -> None:
    cells = (read(8, 0, 1, 4.0), read(0, 8, 1, 3.0), read(8, 8, 1, 5.0), read(0, 0, 1, 2.0))
    text = rows(render(CostMatrix(HEADER, cells)))
    assert ["node0", "node8"] in text
    assert ["node0", "2.0", "3.0"] in text
    assert ["node8", "4.0", "5.0"] in text


def test_the_best_team_is_shown_with_its_size() -> None:
    text = render(
        CostMatrix(HEADER, (read(0, 0, 1, 10.0), read(0, 0, 2, 19.0), read(0, 0, 4, 18.0)))
    )
    assert ["node0", "19.0", "2T"] in rows(text)
    assert "2T: best with 2 threads" in text


def test_bus_bytes_stand_beside_program_bytes_where_they_differ() -> None:
    plain, streaming = read(0, 0, 1, 20.0), read(0, 0, 2, 10.0)
    fetched = replace(plain, runs=(replace(plain.runs[0], outcome={"bus_ratio": 1.5}),))
    text = render(CostMatrix(HEADER, (fetched,)))
    assert ["node0", "20.0", "(bus", "30.0)"] in rows(text)
    assert "a plain store first reads its line" in text
    same = replace(streaming, runs=(replace(streaming.runs[0], outcome={"bus_ratio": 1.0}),))
    assert "bus" not in render(CostMatrix(HEADER, (same,)))


def test_a_spread_is_shown_only_where_it_is_large() -> None:
    assert "±" not in render(CostMatrix(HEADER, (read(0, 0, 1, 10.0, 10.1, 10.2),)))
    wide = render(CostMatrix(HEADER, (read(0, 0, 1, 8.0, 9.0, 10.0, 11.0, 12.0),)))
    assert ["node0", "10.0", "±10%"] in rows(wide)
    assert "quartiles" in wide


def test_latency_is_in_nanoseconds_and_pages_have_their_size() -> None:
    text = render(CostMatrix(HEADER, (load("huge", 93.7), load("small", 120.0))))
    assert ["node0", "93.7"] in rows(text)
    assert ["node0", "120.0"] in rows(text)
    assert "2 MiB pages" in text
    assert "4 KiB pages" in text


@pytest.mark.parametrize("state", [state for state in State if state is not State.OK])
def test_a_cell_without_a_figure_says_its_state_and_why(state: State) -> None:
    cell = read(0, 0, 1, 10.0, state=state, reason=Note("code", "the reason is this"))
    text = render(CostMatrix(HEADER, (cell,)))
    assert ["node0", "-" if state is State.WAIVED else str(state), "[1]"] in rows(text)
    assert "[1] the reason is this" in text
    assert "10.0" not in text


def test_a_failed_team_size_does_not_hide_the_others() -> None:
    bad = read(0, 0, 2, 99.0, state=State.WRONG, reason=Note("checksum", "wrong data"))
    assert ["node0", "10.0", "1T"] in rows(render(CostMatrix(HEADER, (read(0, 0, 1, 10.0), bad))))


def test_what_the_kernel_would_not_say_is_said() -> None:
    unasked = Run(0, (Sample(1.0, GB),), placement=Placement(None, None))
    cell = replace(read(0, 0, 1, 1.0), runs=(unasked,))
    assert "no placement is proven" in render(CostMatrix(HEADER, (cell,)))


def test_simulated_figures_say_so() -> None:
    header = replace(HEADER, origin="simulated")
    assert "simulated" in render(CostMatrix(header, (read(0, 0, 1, 1.0),)))


@pytest.mark.parametrize("style", FORMATS)
def test_every_format_holds_every_figure(style: str) -> None:
    text = render(CostMatrix(HEADER, (read(0, 0, 1, 12.3), load("huge", 45.6))), style)
    assert "12.3" in text
    assert "45.6" in text


def curve(size: int, nanoseconds: float) -> Measurement:
    case = Case.of("cache-latency", "load", Route(node(0), node(0)), working_set=size, threads=1)
    run = Run(0, (Sample(nanoseconds * 1e-9 * 1000, 1000),), placement=PROVEN)
    return Measurement.of_runs(case, "s", (run,))


def test_a_curve_has_a_row_a_value_and_names_its_edges() -> None:
    cells = (curve(2**20, 12.0), curve(2**15, 1.0), curve(2**16, 1.0), curve(2**17, 3.0))
    text = render(CostMatrix(HEADER, cells))
    places = [text.index(f"{size} KiB") for size in (32, 64, 128)]
    assert places == sorted(places)
    assert ["1", "MiB", "12.0"] in rows(text)
    assert "rises after 64 KiB" in text


def test_nodes_and_packages_are_not_rows_of_one_table() -> None:
    package = Case.of(
        "bandwidth",
        "read",
        Route(Place("package", 0), Place("package", 0)),
        threads=1,
        pages="auto",
    )
    run = Run(0, (Sample(1.0, 5 * GB),), placement=PROVEN)
    cells = (read(0, 0, 1, 2.0), Measurement.of_runs(package, "B/s", (run,)))
    text = render(CostMatrix(HEADER, cells))
    assert ["node0"] in rows(text)
    assert ["package0"] in rows(text)


def test_two_groups_of_samples_are_said() -> None:
    rates = [36.0, 36.5, 68.0, 36.2, 67.0, 36.1, 68.5, 36.3, 36.4, 67.5, 36.6, 68.2]
    assert "two groups" in render(CostMatrix(HEADER, (read(0, 0, 2, *rates),)))
    assert "two groups" not in render(CostMatrix(HEADER, (read(0, 0, 2, *[36.0] * 12),)))


def test_a_best_of_part_of_the_sweep_says_so() -> None:
    untried = read(0, 0, 2, state=State.CANCELLED, reason=Note("interrupted", "the run was ended"))
    text = render(CostMatrix(HEADER, (read(0, 0, 1, 10.0), replace(untried, runs=()))))
    assert ["node0", "10.0", "1T", "*"] in rows(text)
    assert "best of what was measured" in text
    assert "*" not in render(CostMatrix(HEADER, (read(0, 0, 1, 10.0), read(0, 0, 2, 9.0))))


# ---- shades --------------------------------------------------------------------------------------

PLAIN = re.compile(r"\033\[[0-9;]*m")


def test_a_dearer_cell_is_shaded_more_whether_high_or_low_is_dear() -> None:
    half = shade.cost_ratio(20e9, 40e9, "B/s")
    double = shade.cost_ratio(200e-9, 100e-9, "s")
    assert half == double == 2.0
    assert shade.strength(half) == shade.strength(double) > shade.strength(1.3) > 0
    assert shade.strength(1.04) == 0


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=9))
def test_strengths_rise_with_the_ratio_and_each_has_its_words(ratios: list[float]) -> None:
    strengths = [shade.strength(ratio) for ratio in sorted(ratios)]
    assert strengths == sorted(strengths)
    assert all(0 <= level < len(shade.LEGEND) for level in strengths)


def test_shading_changes_no_text_and_needs_one_line_of_legend() -> None:
    cells = (read(0, 0, 1, 40.0), read(0, 8, 1, 20.0), read(8, 0, 1, 39.0), read(8, 8, 1, 10.0))
    matrix = CostMatrix(HEADER, cells)
    plain, shaded = render(matrix), render(matrix, shaded=True)
    bare = [line for line in PLAIN.sub("", shaded).splitlines() if "Shaded" not in line]
    assert bare == plain.splitlines()
    assert sum("Shaded by cost" in line for line in shaded.splitlines()) == 1
    tables = shaded.partition("Shaded")[0]
    painted = dict(re.findall(r"(\033\[[0-9;]*m) *([0-9.]+)", tables))
    assert sorted(painted.values()) == ["10.0", "20.0"]


def test_only_colours_of_our_own_reach_a_terminal() -> None:
    foreign = "\033[5m\033]0;title\007" + shade.painted("mine", 3)
    kept = output.printable(foreign, shade.CODES)
    assert kept == "?[5m?]0;title?" + shade.painted("mine", 3)
    assert "\033" not in output.printable(foreign)


# ---- formats -------------------------------------------------------------------------------------


def test_html_holds_no_markup_of_a_file() -> None:
    header = replace(
        HEADER, label="<script>alert(1)</script>", machine=replace(MACHINE, cpu_model="<b>")
    )
    cell = read(0, 0, 1, 1.0, state=State.VOID, reason=Note("code", "<img src=x>"))
    text = render(CostMatrix(header, (cell, read(0, 8, 1, 2.0))), "html")
    assert not re.search("<(script|b>|img)", text)
    assert "&lt;img src=x&gt;" in text
    assert "<h3>Read bandwidth" in text


@given(matrices)
def test_records_hold_every_cell_and_csv_holds_the_records(matrix: CostMatrix) -> None:
    found = records(matrix)
    assert len(found) == len(matrix.measurements)
    assert len({tuple(record) for record in found}) <= 1
    for record, cell in zip(found, matrix.measurements, strict=True):
        summary = cell.summary()
        assert record["center"] == (summary.center if summary else None)
        assert parse_place(str(record["target"])) == cell.case.route.target
    lines = list(csv.DictReader(io.StringIO(records_csv(matrix))))
    assert [line["state"] for line in lines] == [record["state"] for record in found]
