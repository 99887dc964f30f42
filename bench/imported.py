"""Published figures as matrices of imported cells, and scores of what is predicted from them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, TypeAlias

from numamicro.case import Case, Place, Route
from numamicro.errors import NumamicroError
from numamicro.matrix import CostMatrix, Header, Measurement, Run, Sample
from numamicro.topology import Cpu, Machine, NumaNode
from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

Row: TypeAlias = "Mapping[str, str]"

GB = 1e9

SHEETS = {
    "h100_sxm": 3352e9,
    "h200_sxm": 4800e9,
    "a100_sxm": 2039e9,
    "b200_sxm": 7700e9,
    "b300_sxm": 7700e9,
    "gb200": 7700e9,
    "gb300": 7700e9,
    "l40s": 864e9,
    "rtx_pro_6000_server": 1597e9,
    "a100": 2039e9,
    "l40": 864e9,
    "a6000": 768e9,
    "rtx 6000 ada": 960e9,
    "4090": 1008e9,
    "4080": 717e9,
    "3090": 936e9,
    "5090": 1792e9,
    "7900xtx": 960e9,
    "rtx 6000": 1792e9,
}
"""Bytes per second of GPU memory by the data sheets; the names as the tables write them."""


def imported(
    probe: str, operation: str, route: Route, value: float, **params: int | str
) -> Measurement:
    """Give a cell of one published figure, in the base unit."""
    unit = "s" if probe in ("all-reduce", "barrier") else "B/s"
    amount = 10**9
    seconds = amount / value if is_rate(unit) else amount * value
    run = Run(0, (Sample(seconds, amount),))
    return Measurement.of_runs(Case.of(probe, operation, route, **params), unit, (run,))


def machine(nodes: int, cores: int) -> Machine:
    """Give a machine of so many nodes with so many cores each, of unknown memory."""
    cpus = tuple(
        Cpu(index * cores + core, node=index, package=index, core=index * cores + core)
        for index in range(nodes)
        for core in range(cores)
    )
    return Machine(
        architecture="unknown",
        cpu_model=None,
        cpus=cpus,
        nodes=tuple(
            NumaNode(index, tuple(cpu.id for cpu in cpus if cpu.node == index))
            for index in range(nodes)
        ),
        llcs=(),
    )


def matrix(on: Machine, cells: Iterable[Measurement]) -> CostMatrix:
    """Give the matrix of imported cells."""
    header = Header("bench.published", "2026-01-01T00:00:00+00:00", "imported", on)
    return CostMatrix(header, tuple(cells))


def gpu(index: int) -> Place:
    """Give the place of a GPU."""
    return Place("gpu", index)


def read_table(path: Path) -> list[Row]:
    """Read a table, its comments left out.

    Raises
    ------
    NumamicroError
        It cannot be read.
    """
    try:
        with path.open(encoding="utf-8") as file:
            lines = [line for line in file if not line.startswith("#")]
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
    return list(csv.DictReader(lines))


@dataclass(frozen=True, slots=True)
class Score:
    """One row: what was published and what is predicted, in seconds a token."""

    name: str
    published: float
    predicted: float

    @property
    def ratio(self) -> float:
        """Predicted over published."""
        return self.predicted / self.published


def error(scores: Sequence[Score]) -> float:
    """Give the mean distance of the ratios from 1."""
    return mean(abs(score.ratio - 1) for score in scores)
