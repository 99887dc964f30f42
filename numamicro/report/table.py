"""The cost matrix as tables of text."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from numamicro.case import Place
from numamicro.doctor import diagnose_matrix
from numamicro.matrix import CHOSEN, CostMatrix, Measurement, State, best_of, in_matrix
from numamicro.report.blocks import paragraph, titled
from numamicro.report.curves import render_curves
from numamicro.report.figures import Footnotes, bus_figure, figure, no_figure, scale_of, spreads
from numamicro.report.findings import finding_lines
from numamicro.report.shade import best_center, cost_ratio, legend_line, painted, strength
from numamicro.report.titles import detail, direction, is_turned, subject
from numamicro.stats import drifts, is_bimodal
from numamicro.units import bytes_text, is_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.case import AnyPlace, Param
    from numamicro.matrix import Header
    from numamicro.topology import Machine
    from numamicro.units import Scale

FORMATS = ("plain", "github", "pipe", "grid", "html", "latex")
"""What :func:`render` can write; all but plain are tabulate's."""

_NOTED = ("no-gpu",)
"""Findings that are always said, however grave the others are: a part of every run is left out."""


_Key: TypeAlias = "tuple[tuple[str, str], str, str, str, tuple[tuple[str, Param], ...]]"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of one probe and operation that differ in their route and in what the best is of."""

    kinds: tuple[str, str]  # of source and target: nodes and packages are not rows of one table
    how: str  # mover, and the node passed through
    probe: str
    operation: str
    fixed: tuple[tuple[str, Param], ...]
    cells: tuple[Measurement, ...]
    by_route: dict[tuple[AnyPlace, AnyPlace], list[Measurement]]
    names_threads: bool
    scale: Scale
    best: float | None  # centre of the best cell, in the base unit

    @property
    def rows(self) -> list[AnyPlace]:
        """What the rows stand for, in order: sources, or targets where a table is turned."""
        return self._ends(is_turned(self.kinds))

    @property
    def columns(self) -> list[AnyPlace]:
        """What the columns stand for, in order."""
        return self._ends(not is_turned(self.kinds))

    def _ends(self, targets: bool) -> list[AnyPlace]:
        routes = (cell.case.route for cell in self.cells)
        return _places(route.target if targets else route.source for route in routes)

    def at(self, row: AnyPlace, column: AnyPlace) -> list[Measurement]:
        """Give the cells of one route."""
        ends = (column, row) if is_turned(self.kinds) else (row, column)
        return self.by_route.get(ends, [])

    def ratio(self, row: AnyPlace, column: AnyPlace) -> float | None:
        """Give how many times as much as the best of the table a route costs; None if unknown."""
        cell = best_of(self.at(row, column))
        summary = cell.summary() if cell else None
        if cell is None or summary is None or not self.best or not summary.center:
            return None
        return cost_ratio(summary.center, self.best, cell.unit)


def render(
    matrix: CostMatrix,
    style: str = "plain",
    doctor: str = "numamicro doctor FILE",
    *,
    shaded: bool = False,
) -> str:
    """Give the whole matrix as text: machine, one table a cost, legend, notes, findings.

    Parameters
    ----------
    style : str
        One of FORMATS.
    doctor : str
        The command that shows all findings.
    shaded : bool
        Whether cells get a background, for a terminal that has colours.
    """
    footnotes = Footnotes()
    machine = matrix.header.machine
    grids = [_render_table(each, machine, style, footnotes, shaded) for each in tables(matrix)]
    grids += render_curves(matrix, style, footnotes)
    found = [each for each in diagnose_matrix(matrix) if each.code not in _NOTED]
    below = [
        "\n".join([legend(matrix), *([legend_line()] if shaded else [])]),
        "\n".join(footnotes.lines()),
        "\n".join(f"note: {text}" for text in notes_of(matrix)),
        "\n".join(finding_lines(found, doctor)),
    ]
    blocks = [
        paragraph(heading(matrix), style),
        *grids,
        *(paragraph(text, style) for text in below),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def heading(matrix: CostMatrix) -> str:
    """Give two lines: the machine, and how and by what it was measured."""
    machine, plan = matrix.header.machine, matrix.header.plan
    nodes = ", ".join(str(node.id) for node in machine.nodes)
    usable = sum(cpu.usable for cpu in machine.cpus)
    parts = [
        machine.cpu_model or "unknown CPU",
        machine.architecture,
        f"node{'s' if len(machine.nodes) > 1 else ''} {nodes}",
        f"{usable} usable CPU{'s' if usable != 1 else ''}",
        *_gpu_names(machine),
    ]
    if machine.hypervisor:
        parts.append(f"virtual machine ({machine.hypervisor})")
    if machine.container:
        parts.append(f"container ({machine.container})")
    how = [matrix.header.tool, f"{plan.get('level')} level", _origin(matrix.header)]
    if matrix.header.label:
        how.insert(0, f"'{matrix.header.label}'")
    return " · ".join(parts) + "\n" + " · ".join(how)


def _gpu_names(machine: Machine) -> list[str]:
    counts = Counter(gpu.name for gpu in machine.gpus)
    return [f"{count} x {name}" if count > 1 else name for name, count in counts.items()]


def _origin(header: Header) -> str:
    driver = header.machine.gpu_driver
    simulated = f" ({driver.simulation})" if driver and driver.simulation else ""
    return f"{header.origin}{simulated}"


def tables(matrix: CostMatrix) -> list[Table]:
    """Give the tables of a matrix: one for each cost, each kind of place, and what is fixed."""
    groups: dict[_Key, list[Measurement]] = defaultdict(list)
    for cell in matrix.measurements:
        case = cell.case
        if not in_matrix(case):
            continue
        # The buffer may be smaller on a small node; that is a note, not a table of its own.
        fixed = case.without(*CHOSEN, "bytes").params
        kinds = (_kind(case.route.source), _kind(case.route.target))
        how = f"{case.route.mover} {case.route.via}"
        groups[kinds, how, case.probe, case.operation, fixed].append(cell)
    return [
        Table(
            *key,
            tuple(cells),
            _by_route(cells),
            _names_threads(cells),
            scale_of(cells),
            best_center(cells),
        )
        for key, cells in groups.items()
    ]


def _by_route(
    cells: Iterable[Measurement],
) -> dict[tuple[AnyPlace, AnyPlace], list[Measurement]]:
    routes = defaultdict(list)
    for cell in cells:
        routes[cell.case.route.source, cell.case.route.target].append(cell)
    return routes


def _kind(place: AnyPlace) -> str:
    return place.kind if isinstance(place, Place) else "set"


def title(table: Table, machine: Machine) -> str:
    """Say what a table is of, its unit, and which way is better."""
    first = table.cells[0]
    details = [detail(name, value, machine) for name, value in table.fixed]
    known = "".join(f", {word}" for word in [*details, _buffers(table)] if word)
    wins = "higher" if is_rate(first.unit) else "lower"
    return (
        f"{subject(table.probe, table.operation)} in {table.scale.label}: "
        f"{direction(table.kinds, first.case.route)}{known}; {wins} is better"
    )


def _buffers(table: Table) -> str:
    """Give the size of the buffer, or the smallest and the largest where they differ."""
    sizes = [size for cell in table.cells if isinstance(size := cell.case.get("bytes"), int)]
    texts = dict.fromkeys(bytes_text(size) for size in (min(sizes), max(sizes))) if sizes else {}
    return f"{' to '.join(texts)} buffer" if texts else ""


def _render_table(
    table: Table, machine: Machine, style: str, footnotes: Footnotes, shaded: bool
) -> str:
    from tabulate import tabulate

    columns = table.columns
    cells = [[cell_text(table, row, column, footnotes) for column in columns] for row in table.rows]
    if shaded:
        cells = _painted(table, cells)
    rows = [[str(row), *texts] for row, texts in zip(table.rows, cells, strict=True)]
    grid = tabulate(
        rows,
        headers=["", *map(str, columns)],
        tablefmt=style,
        disable_numparse=True,
        colalign=["left", *["right"] * len(columns)],
    )
    return titled(title(table, machine), grid, style)


def _painted(table: Table, cells: list[list[str]]) -> list[list[str]]:
    """Give each text its background, over the whole width of its column."""
    widths = [
        max(len(str(column)), *(len(texts[index]) for texts in cells))
        for index, column in enumerate(table.columns)
    ]
    return [
        [
            text if ratio is None else painted(text.rjust(width), strength(ratio))
            for text, width, column in zip(texts, widths, table.columns, strict=True)
            for ratio in (table.ratio(row, column),)
        ]
        for row, texts in zip(table.rows, cells, strict=True)
    ]


def _places(places: Iterable[AnyPlace]) -> list[AnyPlace]:
    return sorted(set(places), key=_place_order)


def _place_order(place: AnyPlace) -> tuple[str, int, str]:
    number = getattr(place, "id", 0)
    return (type(place).__name__, number if isinstance(number, int) else 0, str(place))


def cell_text(table: Table, row: AnyPlace, column: AnyPlace, footnotes: Footnotes) -> str:
    """Give the best figure of a route, or why there is none."""
    cells = table.at(row, column)
    if not cells:
        return ""
    best = best_of(cells)
    text = figure(best, table.scale) if best else None
    if best is None or text is None:
        return no_figure(cells, footnotes)
    text = f"{text} {best.case['threads']}T" if table.names_threads else text
    text = f"{text} ({bus})" if (bus := bus_figure(best)) else text
    return f"{text} *" if _unfinished(cells) else text


def _unfinished(cells: Iterable[Measurement]) -> bool:
    """Tell whether something that might have been better was not measured."""
    return any(cell.state in (State.SKIPPED, State.CANCELLED) for cell in cells)


def legend(matrix: CostMatrix) -> str:
    """Say what the marks beside figures mean, and how much of the placement is proven."""
    shown = [best for table in tables(matrix) for best in _best_cells(table)]
    lines = ["Each figure is the median of the process medians."]
    threads = [cell.case.number("threads") for table, cell in shown if table.names_threads]
    if threads:
        lines.append(f"{max(threads)}T: best with {max(threads)} threads.")
    if any(bus_figure(cell) for _, cell in shown):
        lines.append("bus: what crosses the memory bus, if a plain store first reads its line.")
    if any(spreads(cell) for _, cell in shown):
        lines.append("±: half the distance between the quartiles of all samples.")
    if any(_unfinished(table.cells) for table in tables(matrix)):
        lines.append("*: the best of what was measured; some team sizes or variants were not.")
    if any(cell.state is State.WAIVED for cell in matrix.measurements):
        lines.append("-: waived, does not apply here.")
    return "\n".join(line for line in (" ".join(lines), _placement_line(matrix)) if line)


def _best_cells(table: Table) -> Iterator[tuple[Table, Measurement]]:
    for cells in table.by_route.values():
        if best := best_of(cells):
            yield table, best


def _names_threads(cells: Iterable[Measurement]) -> bool:
    """Tell whether several team sizes were tried, so that a figure must say which it is of."""
    counts = {cell.case.get("threads") for cell in cells}
    return len(counts) > 1 and all(isinstance(count, int) for count in counts)


def _placement_line(matrix: CostMatrix) -> str:
    ok = [cell for cell in matrix.measurements if cell.state is State.OK]
    if not ok:
        return "No cell has a figure."
    ok = [cell for cell in ok if any(run.placement for run in cell.runs)]
    if not ok:
        return ""  # the rest needs no memory of a node
    shares = [cell.share for cell in ok if cell.share is not None]
    askers = {run.placement.by for cell in ok for run in cell.runs if run.placement}
    if not shares:
        return "Pages: the kernel would not say where they were; no placement is proven."
    by = ", ".join(sorted(str(asker) for asker in askers if asker))
    return (
        f"Pages: at least {min(shares):.1%} on target in {len(shares)} of {len(ok)} cells, "
        f"asked of the kernel before and after ({by})."
    )


def notes_of(matrix: CostMatrix) -> list[str]:
    """Give what a reader of the figures must know of how they were measured."""
    notes = [each.text for each in matrix.header.machine.notes if each.code in _NOTED]
    notes += _warnings(matrix)
    if fewest := _fewest_processes(matrix):
        notes.append(
            f"a single process measured {fewest} of the cells: indicative, for another process "
            "may get another placement of its pages"
        )
    notes += _restless(matrix)
    small = [cell for cell in matrix.measurements if _fell_back(cell)]
    if small:
        notes.append(f"{len(small)} cells got no huge pages: their bandwidth includes TLB misses")
    return list(dict.fromkeys(notes))


def _warnings(matrix: CostMatrix) -> list[str]:
    """Give each warning once, with how many cells have it and the first of them."""
    cells: dict[str, list[str]] = defaultdict(list)
    for cell in matrix.measurements:
        for warning in cell.warnings:
            cells[warning.text].append(cell.case.key)
    return [
        f"{text} ({len(keys)} cell{'s' if len(keys) > 1 else ''}, the first is {keys[0]})"
        for text, keys in cells.items()
    ]


def _fewest_processes(matrix: CostMatrix) -> int:
    ok = [cell for cell in matrix.measurements if cell.state is State.OK]
    return sum(len(cell.runs) == 1 for cell in ok)


def _restless(matrix: CostMatrix) -> list[str]:
    """Say which cells have samples that no single figure can stand for."""
    runs = [
        (cell.case, [sample.value(cell.unit) for sample in run.samples])
        for cell in matrix.measurements
        if cell.state is State.OK
        for run in cell.runs
    ]
    notes = []
    if two := {case.key: case for case, values in runs if is_bimodal(values)}:
        notes.append(
            f"the samples of {len(two)} cells fall into two groups, the median into one of them "
            f"(the first is {next(iter(two))}): the CPUs, their clock or the pages changed"
        )
    if drifting := {case.key: case for case, values in runs if drifts(values)}:
        notes.append(
            f"{len(drifting)} cells grew faster or slower while they were timed (the first is "
            f"{next(iter(drifting))}): the clock or the temperature had not settled"
        )
    return notes


def _fell_back(cell: Measurement) -> bool:
    return cell.case.get("pages") == "auto" and any(
        run.placement is not None
        and run.placement.huge_share is not None
        and run.placement.huge_share < 0.5
        for run in cell.runs
    )
