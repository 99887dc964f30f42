"""Prometheus: the figures as a text file for node_exporter's textfile collector, or as OpenMetrics.

Both formats are one text here: base units, no time stamps (the collector refuses them), and the
closing line that OpenMetrics wants and the older format takes for a comment.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.export.values import plain
from numamicro.matrix import CHOSEN, State, best_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numamicro.case import Case
    from numamicro.matrix import CostMatrix, Measurement

_UNITS = {"B/s": "bytes_per_second", "s": "seconds", "op/s": "operations_per_second"}


def prometheus_text(matrix: CostMatrix) -> str:
    """Give a metric for each probe, a series for each route: the best over threads and variants.

    Raises
    ------
    NumamicroError
        The file has no figure.
    """
    families: dict[str, list[Measurement]] = defaultdict(list)
    for cell in _best(matrix.measurements):
        unit = _UNITS.get(cell.unit) or _name(cell.unit)
        families[f"numamicro_{_name(cell.case.probe)}_{unit}"].append(cell)
    if not families:
        raise NumamicroError("--to prometheus needs figures, and no cell of the file has one")
    blocks = [_about(matrix), *_counts(matrix)]
    blocks += [_family(name, cells) for name, cells in sorted(families.items())]
    return "".join(blocks) + "# EOF\n"


def _best(cells: Iterable[Measurement]) -> Iterator[Measurement]:
    alike: dict[Case, list[Measurement]] = defaultdict(list)
    for cell in cells:
        if cell.state is State.OK:
            alike[cell.case.without(*CHOSEN)].append(cell)
    for group in alike.values():
        if best := best_of(group):
            yield best


def _about(matrix: CostMatrix) -> str:
    header = matrix.header
    labels = {
        "tool": header.tool,
        "origin": header.origin,
        "label": header.label or "",
        "machine_id": header.machine_id or "",
        "boot_id": header.boot_id or "",
    }
    return _metric("numamicro_file", "What file these figures are of.", [(labels, 1)])


def _counts(matrix: CostMatrix) -> Iterator[str]:
    counts: dict[str, int] = defaultdict(int)
    for cell in matrix.measurements:
        counts[cell.state.value] += 1
    rows = [({"state": state}, count) for state, count in sorted(counts.items())]
    yield _metric("numamicro_cells", "Cells of the file by how they ended.", rows)
    if when := _seconds(matrix.header.created):
        help = "When the run began, in seconds since 1970."
        yield _metric("numamicro_created_seconds", help, [({}, when)])


def _seconds(created: str) -> float | None:
    try:
        when = datetime.fromisoformat(created)
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _family(name: str, cells: list[Measurement]) -> str:
    labels = [_labels(cell.case.without(*CHOSEN)) for cell in cells]
    # Every series of a metric has the same labels: one that does not apply is empty.
    names = sorted({label for each in labels for label in each})
    rows = [
        ({label: each.get(label, "") for label in names}, summary.center)
        for each, cell in zip(labels, cells, strict=True)
        if (summary := cell.summary())
    ]
    first = cells[0]
    return _metric(name, f"Figures of the probe {first.case.probe}, in {first.unit}.", rows)


def _labels(case: Case) -> dict[str, str]:
    route = case.route
    labels = {
        "operation": case.operation,
        "source": str(route.source),
        "target": str(route.target),
        "mover": route.mover,
    }
    if route.via:
        labels["via"] = str(route.via)
    for name, value in case.params:
        labels[_free(_name(name), labels)] = plain(value)
    return labels


def _free(label: str, taken: Mapping[str, str]) -> str:
    """Give a label that may stand there: it begins with a letter, and none is the same."""
    if not label[:1].isalpha():
        label = f"param_{label}"
    while label in taken:
        label += "_"
    return label


def _name(text: str) -> str:
    """Give a text as part of a name: letters, digits and underscores."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)


def _metric(name: str, help: str, rows: Iterable[tuple[Mapping[str, str], float]]) -> str:
    lines = [f"# HELP {name} {_escaped(help)}", f"# TYPE {name} gauge"]
    for labels, value in rows:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        lines.append(f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
