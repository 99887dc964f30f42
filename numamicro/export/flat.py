"""CSV: everything in long form, one row a sample, for a spreadsheet or a data frame."""

from __future__ import annotations

import csv
from io import StringIO
from typing import TYPE_CHECKING

from numamicro.export.values import plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.matrix import CostMatrix, Measurement, Run

_CELL = ("probe", "operation", "source", "target", "via", "mover", "unit", "state", "reason")
_SAMPLE = ("process", "temperature", "sample", "seconds", "amount", "repetitions", "value")
_PARAM = "param."


def csv_text(matrix: CostMatrix) -> str:
    """Give a row for each sample, and one without a sample for each cell that has none.

    Parameters of the cells are columns named ``param.NAME``; `value` is in the cell's base unit.
    """
    names = sorted({name for cell in matrix.measurements for name, _ in cell.case.params})
    header = [*_CELL[:6], *(f"{_PARAM}{name}" for name in names), *_CELL[6:], "origin", *_SAMPLE]
    file = StringIO()
    table = csv.DictWriter(file, header, restval="", lineterminator="\n")
    table.writerow({name: _line(name) for name in header})
    for cell in matrix.measurements:
        about = _about(cell, matrix.header.origin)
        samples = [row for run in cell.runs for row in _samples(run, cell.unit)]
        table.writerows(about | row for row in samples or [{}])
    return file.getvalue()


def _line(text: str) -> str:
    """Give a text without what would end a row for some reader, or end the file."""
    return "".join(char if char.isprintable() else " " for char in text)


def _about(cell: Measurement, origin: str) -> dict[str, object]:
    route = cell.case.route
    params = {f"{_PARAM}{name}": plain(value) for name, value in cell.case.params}
    texts = {
        "probe": cell.case.probe,
        "operation": cell.case.operation,
        "source": str(route.source),
        "target": str(route.target),
        "via": str(route.via or ""),
        "mover": route.mover,
        "unit": cell.unit,
        "state": cell.state.value,
        "reason": cell.reason.code if cell.reason else "",
        "origin": cell.origin or origin,
        **params,
    }
    return {name: _line(text) for name, text in texts.items()}


def _samples(run: Run, unit: str) -> Iterator[dict[str, object]]:
    for index, sample in enumerate(run.samples):
        yield {
            "process": run.process,
            "temperature": run.temperature,
            "sample": index,
            "seconds": repr(sample.seconds),
            "amount": sample.amount,
            "repetitions": sample.repetitions,
            "value": repr(sample.value(unit)),
        }
