"""The Python API: look-ups against a machine of round figures, and the page that documents it."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import numamicro
from numamicro import Result
from numamicro.case import Place, Route
from numamicro.errors import NumamicroError
from numamicro.file import write_matrix
from numamicro.matrix import CostMatrix, Measurement, State
from numamicro.topology import Note
from tests.cost.rigs import cell, rig, sentence_of
from tests.examples import header, load_case, matrix, read_case
from tests.test_house import loaded_by

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "API.md"


@pytest.fixture(scope="module")
def result() -> Result:
    """Give two nodes, at 40 and 20 GB/s, and two GPUs, at 25 and 20 GB/s."""
    return Result(rig(2, 2))


@pytest.mark.parametrize(
    ("source", "target", "rate", "probe"),
    [
        ("node0", "node0", 40e9, "bandwidth/read"),
        ("node0", "node1", 20e9, "bandwidth/read"),
        ("node0", "gpu1", 20e9, "host-copy/h2d"),
        ("gpu1", "node1", 25e9, "host-copy/d2h"),
        ("gpu0", "gpu1", 12.5e9, "peer-copy/copy"),
        ("gpu0", "gpu0", 1e12, "gpu-memory/read"),
    ],
)
def test_a_bandwidth_is_found_by_the_names_of_its_ends(
    result: Result, source: str, target: str, rate: float, probe: str
) -> None:
    found = result.bandwidth(source, target)
    assert found.value == pytest.approx(rate)
    assert found.low <= found.value <= found.high
    assert found.source.startswith(probe)
    assert found.origin == "simulated"


def test_parameters_and_operations_narrow_a_look_up(result: Result) -> None:
    assert result.bandwidth("node0", "node0", threads=1).value == pytest.approx(10e9)
    assert result.bandwidth("gpu0", "gpu1", "read").source.startswith("peer-copy/read")


def test_a_detour_through_the_host_is_no_link_unless_it_is_asked_for() -> None:
    ends = Route(Place("gpu", 0), Place("gpu", 1), mover="copy-engine")
    detour = cell("peer-copy", "copy", ends, 5e9, path="detour")
    found = Result(CostMatrix(header(), (detour,)))
    assert "not measured" in sentence_of(lambda: found.bandwidth("gpu0", "gpu1"))
    assert found.bandwidth("gpu0", "gpu1", path="detour").value == pytest.approx(5e9)


def test_a_latency_is_the_shortest_that_was_measured() -> None:
    found = Result(matrix((0, 8)))
    assert found.latency("node0", "node8", pages="huge").value == pytest.approx(200e-9)
    assert Result(rig(2, 2)).latency("node0", "gpu0").value == pytest.approx(1e-5)


def test_an_allreduce_is_interpolated_and_can_be_staged(result: Result) -> None:
    direct = result.allreduce("gpu0", "gpu1", 4096)
    larger = result.allreduce("gpu0", "gpu1", 2**20)
    staged = result.allreduce("gpu0", "gpu1", 4096, via="node0")
    assert staged.value == pytest.approx(4 * direct.value)
    assert direct.value < larger.value < result.allreduce("gpu0", "gpu1", 2**26).value


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        (lambda r: r.bandwidth("node0", "node7"), "it was not measured"),
        (lambda r: r.bandwidth("node0", "socket1"), "socket1"),
        (lambda r: r.latency("node0", "node0"), "latency/load from node0 to node0"),
        (lambda r: r.allreduce("gpu0", "node1", 4096), "'node1' is no gpu"),
        (lambda r: r.allreduce("gpu0", "gpu1", 4096, via="gpu1"), "'gpu1' is no node"),
        (lambda r: r.to_numpy("nonsense"), "nonsense"),
        (lambda r: numamicro.predict(r, "gpt-9"), "gpt-9"),
        (lambda _: numamicro.load("/no/such/file.json"), "/no/such/file.json"),
        (lambda _: numamicro.measure("leisurely"), "leisurely"),
    ],
)
def test_what_cannot_be_given_is_refused_in_a_sentence(
    result: Result, wish: object, says: str
) -> None:
    assert callable(wish)
    assert says in sentence_of(lambda: wish(result))


def test_a_cell_without_a_figure_gives_its_reason() -> None:
    void = Measurement(read_case(0, 1), "B/s", State.VOID, Note("misplaced", "its pages strayed"))
    with pytest.raises(NumamicroError, match="void, its pages strayed"):
        Result(CostMatrix(header(), (void,))).bandwidth("node0", "node1")


def test_an_array_has_a_row_a_source_and_no_number_where_there_is_none() -> None:
    whole = matrix((0, 8, 250))
    cells = tuple(each for each in whole.measurements if each.case != read_case(8, 250))
    grid = Result(CostMatrix(whole.header, cells)).to_numpy()
    assert grid.rows == grid.columns == ("node0", "node8", "node250")
    assert grid.values.shape == (3, 3)
    assert math.isnan(grid.values[1, 2])
    assert grid.values[2, 1] == pytest.approx(20e9)
    assert grid.values[1, 1] == pytest.approx(40e9)


def test_a_file_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    Result(matrix((0, 8))).save(path)
    kept = numamicro.load(path)
    assert kept.to_records() == Result(matrix((0, 8))).to_records()
    assert kept.latency("node8", "node0").source == load_case(8, 0).key


def test_a_file_is_read_without_numpy_and_kernels(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    write_matrix(matrix(), path)
    loaded = loaded_by(
        f"import numamicro\nnumamicro.load({str(path)!r}).bandwidth('node0', 'node1')"
    )
    assert "numamicro.api" in loaded
    assert loaded.isdisjoint({"numpy", "tabulate", "numamicro._cpu", "numamicro.runner"})


def test_every_name_is_there_and_no_other() -> None:
    assert all(callable(getattr(numamicro, name)) for name in numamicro.__all__)
    with pytest.raises(AttributeError, match="frobnicate"):
        numamicro.frobnicate  # type: ignore[attr-defined]  # noqa: B018


# ---- the page ------------------------------------------------------------------------------------


@pytest.fixture
def at_home(tmp_path: Path) -> Iterator[None]:
    """Work where the files of the examples are."""
    cells = (*rig(2, 2).measurements, *(c for c in matrix().measurements if c.unit == "s"))
    write_matrix(CostMatrix(rig(2, 2).header, cells), tmp_path / "nps4.json")
    before = Path.cwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)


@pytest.mark.usefixtures("at_home")
def test_the_examples_of_the_page_run(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(compile(example, str(PAGE), "exec"), names)
    said = capsys.readouterr().out
    assert "40.0 GB/s at home, 20.0 GB/s away" in said
    assert "200 ns, 20 GB/s to gpu1" in said
    assert "node7: it was not measured" in said
    assert numamicro.load("mine.json").matrix.header.origin == "measured"
