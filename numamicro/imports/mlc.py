"""Intel Memory Latency Checker: idle latency and read bandwidth between nodes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.case import node
from numamicro.imports.found import Found, Told
from numamicro.imports.text import read_grid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.imports.text import Output

_MB, _NANOSECOND = 1e6, 1e-9
_VERSION = re.compile(r"Intel\(R\) Memory Latency Checker - (v\S+)")
_LATENCY = re.compile(r"Measuring idle latencies.*\(in ns\).*")
_BANDWIDTH = re.compile(r"Measuring Memory Bandwidths between nodes within system.*")
_OTHER = re.compile(
    r"(Measuring (?:Peak Injection|Maximum) Memory Bandwidths|Measuring Loaded Latencies|"
    r"Measuring cache-to-cache transfer latency).*"
)
_BETWEEN = 8
"""Lines between a heading and its table, at most."""


def has(output: Output) -> bool:
    """Tell whether the output has one of the two tables."""
    return any(True for pattern in (_LATENCY, _BANDWIDTH) for _ in output.matches(pattern))


def read(output: Output) -> Found:
    """Read the tables of idle latency and of read bandwidth between nodes.

    Raises
    ------
    NumamicroError
        A table is not as the tool writes it.
    """
    told = [told for number, _ in output.matches(_LATENCY) for told in _latency(output, number)]
    passed = [match[1] for _, match in output.matches(_OTHER)]
    for number, _ in output.matches(_BANDWIDTH):
        if _says(output, number, "Read-only"):
            told += _bandwidth(output, number)
        else:
            passed.append("Measuring Memory Bandwidths of other traffic than reads")
    version = next((match[1] for _, match in output.matches(_VERSION)), "")
    return Found(f"Intel MLC {version}".strip(), tuple(told), passed=tuple(passed))


def _latency(output: Output, number: int) -> Iterator[Told]:
    for entry in read_grid(output, _table(output, number), "Numa node", square=False):
        ends = node(entry.row), node(entry.column)
        value, text = entry.figure * _NANOSECOND, output.line(entry.number)
        yield Told(
            *("latency", "load", *ends, value, "s", entry.number, text), params={"threads": 1}
        )


def _bandwidth(output: Output, number: int) -> Iterator[Told]:
    team = "cores" if _says(output, number, "only one thread") else "cpus"
    for entry in read_grid(output, _table(output, number), "Numa node", square=False):
        ends = node(entry.row), node(entry.column)
        value, text = entry.figure * _MB, output.line(entry.number)
        yield Told(*("bandwidth", "read", *ends, value, "B/s", entry.number, text), team=team)


def _table(output: Output, heading: int) -> int:
    """Give the line of the column ids: below one that names the columns' kind alone."""
    for number in range(heading + 1, heading + _BETWEEN):
        line = output.line(number).strip()
        if re.fullmatch(r"Numa node[\s\d]*\d", line):
            return number
        if line.startswith("Socket"):
            raise output.fault(number, "the table is of sockets: run mlc where it shows NUMA nodes")
    raise output.fault(heading, "no table of NUMA nodes follows this heading")


def _says(output: Output, heading: int, words: str) -> bool:
    return any(words in output.line(heading + step) for step in range(1, _BETWEEN))
