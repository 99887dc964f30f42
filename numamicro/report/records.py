"""A matrix as flat records, one a cell: what tables of other programs are made of."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from numamicro.case import Param
    from numamicro.matrix import CostMatrix, Measurement

Record: TypeAlias = "dict[str, Param | None]"


def records(matrix: CostMatrix) -> list[Record]:
    """Give every cell in base units: what it is of, how it ended, and the summary of its samples.

    Returns
    -------
    list of dict
        All with the same keys. A parameter of a case is a key of its own; None where a case has no
        such parameter, and where a cell has no figure.
    """
    found = [_record(cell, matrix.header.origin) for cell in matrix.measurements]
    own = {name for record in found for name in record}
    names = sorted({name for cell in matrix.measurements for name, _ in cell.case.params} - own)
    return [
        record | {name: cell.case.get(name) for name in names}
        for record, cell in zip(found, matrix.measurements, strict=True)
    ]


def _record(cell: Measurement, origin: str) -> Record:
    case, route, summary = cell.case, cell.case.route, cell.summary()
    return {
        "probe": case.probe,
        "operation": case.operation,
        "source": str(route.source),
        "target": str(route.target),
        "via": str(route.via) if route.via else None,
        "mover": route.mover,
        "unit": cell.unit,
        "state": cell.state.value,
        "reason": cell.reason.code if cell.reason else None,
        "origin": cell.origin or origin,
        "center": summary.center if summary else None,
        "low": summary.low if summary else None,
        "high": summary.high if summary else None,
        "q1": summary.q1 if summary else None,
        "q3": summary.q3 if summary else None,
        "minimum": summary.minimum if summary else None,
        "maximum": summary.maximum if summary else None,
        "samples": summary.n if summary else None,
        "processes": summary.processes if summary else None,
        "share": cell.share,
    }


def records_csv(matrix: CostMatrix) -> str:
    """Give the records as CSV, a line of names first; None is an empty field."""
    found = records(matrix)
    text = io.StringIO()
    names = list(found[0]) if found else []
    # Quoted, for a text of somebody else's may hold what ends a line.
    writer = csv.DictWriter(text, names, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()
