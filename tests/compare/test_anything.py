"""Whatever two files hold, a comparison comes to an end: with figures, or with a reason."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from numamicro.comparison import Options, compare_sides
from numamicro.comparison.boots import Boot, Side, value_of
from numamicro.report.compare import comparison_to_json, render_comparison
from tests import examples


def side(name: str, matrices: list[Any]) -> Side:
    boots = []
    for index, matrix in enumerate(matrices):
        head = replace(matrix.header, boot_id=f"{name}{index}", machine_id="one", origin="measured")
        values = {cell.case: value_of(cell) for cell in matrix.measurements}
        boots.append(Boot((f"{name}{index}",), head, values))
    return Side(name, tuple(boots))


@settings(max_examples=60)
@given(examples.matrices, st.integers(1, 5), st.integers(1, 5), st.text())
def test_any_file_can_be_held_against_itself(matrix: Any, base: int, new: int, text: str) -> None:
    sides = side("base", [matrix] * base), side("new", [matrix] * new)
    comparison = compare_sides(*sides, Options(changed=text))
    json.dumps(comparison_to_json(comparison), allow_nan=False)
    assert "Verdict: " in render_comparison(comparison, every=True)
    assert not comparison.is_worse


@settings(max_examples=60)
@given(st.lists(examples.matrices, min_size=2, max_size=2))
def test_any_two_files_come_to_an_end(matrices: list[Any]) -> None:
    one, other = matrices
    alike = replace(other.header, machine=one.header.machine)
    for head in (other.header, alike):
        found = replace(other, header=head)
        comparison = compare_sides(side("base", [one] * 4), side("new", [found] * 4), Options())
        json.dumps(comparison_to_json(comparison), allow_nan=False)
        assert render_comparison(comparison, "github")
