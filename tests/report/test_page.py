"""The page as text: what it holds, and that it needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numamicro.file import write_matrix
from numamicro.report.page import START, render_page
from numamicro.report.page.markup import Markup, tag
from numamicro.report.table import tables
from tests.examples import matrices
from tests.report.pages import large, small
from tests.test_cli import numamicro, one_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from numamicro.matrix import CostMatrix

EMPTY = frozenset({"meta", "br", "rect", "line"})


class Page(HTMLParser):
    """Counts elements and holds that each that opens is closed in its place."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: dict[str, int] = {}
        self.cells: list[dict[str, str | None]] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] = self.seen.get(tag, 0) + 1
        if "data-more" in dict(attrs):
            self.cells.append(dict(attrs))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in EMPTY

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def figures(matrix: CostMatrix) -> list[float]:
    """Give the best figure of every route of every table."""
    found = []
    for table in tables(matrix):
        for cells in table.by_route.values():
            centers = [summary.center for cell in cells if (summary := cell.summary())]
            if centers:
                found.append((min if cells[0].unit == "s" else max)(centers))
    return sorted(found)


@pytest.mark.parametrize("matrix", [small(), large()], ids=["small", "large"])
def test_cells_hold_the_figures_of_the_file(matrix: CostMatrix) -> None:
    page = Page(render_page(matrix))
    assert sorted(
        float(cell["data-value"] or 0) for cell in page.cells if "data-value" in cell
    ) == figures(matrix)


def test_a_cell_stands_in_the_row_of_its_cpus_and_the_column_of_its_memory() -> None:
    told = [cell["data-more"] or "" for cell in Page(render_page(large())).cells]
    for ends, rate in (("node0, node0", 40), ("node0, node1", 32), ("node5, node2", 16)):
        assert any(text.startswith(f"{ends}. {rate}.0 GB/s") for text in told)


def test_a_cell_without_a_figure_says_why() -> None:
    page = Page(render_page(small()))
    told = [cell["data-more"] or "" for cell in page.cells if "data-value" not in cell]
    assert any("waived: nothing here can" in text for text in told)
    assert any("void: pages strayed" in text for text in told)
    assert "[2] pages strayed" in render_page(small())


def test_nothing_of_a_file_becomes_markup() -> None:
    text = render_page(small())
    page = Page(text)
    assert "img" not in page.seen
    assert page.seen["script"] == 2  # the figures of the charts, and the page's own
    assert "&lt;img src=x" in text


def test_a_page_names_no_address_that_it_would_fetch() -> None:
    text = render_page(large())
    bare = re.sub(r"<script\b.*?</script>", "", text, flags=re.DOTALL)
    addresses = set(re.findall(r"(?:src|href|url)[=(]+\W?([^\"')>]*)", bare))
    assert addresses == {f"#{id}" for id in re.findall(r'<section id="(\w+)"', bare)}
    assert "default-src &#x27;none&#x27;" in text


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(matrices)
def test_every_file_has_a_page(matrix: CostMatrix) -> None:
    text = render_page(matrix)
    text.encode()
    Page(text)


@given(st.text(), st.text())
def test_texts_come_back_from_markup_as_they_were(inside: str, attribute: str) -> None:
    class Reader(HTMLParser):
        data, value = "", ""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.value = dict(attrs)["data-more"] or ""

        def handle_data(self, data: str) -> None:
            self.data += data

    reader = Reader()
    reader.feed(tag("td", inside, data_more=attribute))
    reader.close()
    # Half a pair cannot be written; a browser takes every other character as it stands.
    assert reader.data == inside.encode("utf-8", "replace").decode()
    assert reader.value == attribute.encode("utf-8", "replace").decode()


def test_markup_is_not_escaped_again() -> None:
    assert tag("p", tag("b", "x"), None, hidden=True, lang=None) == "<p hidden><b>x</b></p>"
    assert isinstance(tag("br"), Markup)


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "small.json"
    write_matrix(small(), path)
    return path


def test_report_writes_a_page_and_may_write_it_again(file: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for _ in range(2):
        result = numamicro("report", str(file), "-o", str(page))
        assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert page.read_text().startswith(START)
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_report_overwrites_nothing_else(file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    assert "is no report" in one_sentence(numamicro("report", str(file), "-o", str(file)))
    assert file.read_bytes() == before
    assert "is a folder" in one_sentence(numamicro("report", str(file), "-o", str(tmp_path)))
    assert "/no/such" in one_sentence(numamicro("report", str(file), "-o", "/no/such/page.html"))
    assert "gpt-9" in one_sentence(
        numamicro("report", str(file), "-o", str(tmp_path / "p.html"), "--model", "gpt-9")
    )


def test_without_the_library_curves_are_tables_and_that_is_said(file: Path, tmp_path: Path) -> None:
    (tmp_path / "plotly.py").write_text("raise ImportError('not here')\n")
    page = tmp_path / "page.html"
    result = numamicro("report", str(file), "-o", str(page), env={"PYTHONPATH": str(tmp_path)})
    assert result.returncode == 0
    assert "numamicro[report]" in result.stderr
    assert page.stat().st_size < 200_000
    assert "working set" in page.read_text()
