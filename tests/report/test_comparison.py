"""The page of two sides: what changed, beside the matrices of the new one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from numamicro.comparison import Options, compare
from numamicro.file import write_matrix
from numamicro.matrix import CostMatrix
from numamicro.report.compare import conclusion
from numamicro.report.page import render_page
from numamicro.report.page.markup import escaped
from tests.examples import cell, load_case, matrix, read_case
from tests.report.test_page import Page
from tests.test_cli import numamicro, one_sentence

if TYPE_CHECKING:
    from pathlib import Path


def boot(number: int, rate: float) -> CostMatrix:
    """Give a boot on which reads from the other node reach so many bytes a second."""
    whole = matrix()
    cells = (cell(read_case(0, 1), rate * (1 + number / 1000)), cell(load_case(0, 1), 200e-9))
    header = replace(
        whole.header,
        boot_id=f"{number:012x}",
        created=f"2026-01-02T03:{number:02}:05+00:00",
        setting={"kernel.numa_balancing": int(rate > 20e9)},
    )
    return CostMatrix(header, cells)


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Give two folders of five boots each: on the new side reads are half as fast again."""
    folder = tmp_path_factory.mktemp("sides")
    for side, rate in (("base", 20e9), ("new", 30e9)):
        (folder / side).mkdir()
        for number in range(5):
            index = 2 * number + (side == "new")
            write_matrix(boot(index, rate), folder / side / f"{number}.json")
    return folder / "base", folder / "new"


def test_the_page_says_what_compare_says(sides: tuple[Path, Path]) -> None:
    base, new = (sorted(side.iterdir()) for side in sides)
    comparison = compare(base, new, Options())
    text = render_page(boot(1, 30e9), comparison=comparison)
    Page(text)
    assert escaped(conclusion(comparison)) in text
    assert "kernel.numa_balancing" in text
    assert text.count("better") >= sum(f.verdict == "better" for f in comparison.figures) > 0


def test_report_takes_the_other_side_as_its_base(sides: tuple[Path, Path], tmp_path: Path) -> None:
    base, new = map(str, sides)
    page = tmp_path / "page.html"
    result = numamicro("report", new, "--base", base, "-o", str(page))
    assert result.returncode == 0, result.stderr
    assert 'id="comparison"' in page.read_text()
    assert "--base" in one_sentence(numamicro("report", new, "-o", str(page)))
