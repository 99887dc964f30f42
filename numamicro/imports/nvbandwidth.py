"""nvbandwidth: copies between host and GPUs, and between GPUs; its text and its JSON.

What a row and a column mean follows from a test's name: versions differ in the arrow they print.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numamicro.case import Place
from numamicro.imports.found import Found, Seen, Told
from numamicro.imports.text import Entry, read_grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numamicro.case import Param
    from numamicro.imports.text import Output

_GB, _NANOSECOND = 1e9, 1e-9
_RUNNING = re.compile(r"Running (\w+)\.?")
_VERSION = re.compile(r"nvbandwidth (?:Version: )?(v?[\d.]+)")
_DEVICE = re.compile(
    r"Device (\d+): (.+?)(?: \(([0-9a-fA-F]{8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\))?"
)


@dataclass(frozen=True, slots=True)
class _Test:
    """A test by what numamicro calls the same thing."""

    probe: str
    operation: str
    mover: str
    from_row: bool = True
    unit: str = "B/s"
    params: tuple[tuple[str, Param], ...] = ()


_TESTS = {
    "host_to_device_memcpy_ce": _Test(
        "host-copy", "h2d", "copy-engine", params=(("memory", "pinned"),)
    ),
    "device_to_host_memcpy_ce": _Test(
        "host-copy", "d2h", "copy-engine", from_row=False, params=(("memory", "pinned"),)
    ),
    "device_to_device_memcpy_write_ce": _Test(
        "peer-copy", "copy", "copy-engine", params=(("path", "direct"),)
    ),
    "device_to_device_memcpy_read_ce": _Test(
        "peer-copy",
        "copy",
        "copy-engine",
        from_row=False,
        params=(("engine", "target"), ("path", "direct")),
    ),
    "device_to_device_memcpy_write_sm": _Test(
        "peer-copy", "write", "sm-store", params=(("path", "direct"),)
    ),
    "device_to_device_memcpy_read_sm": _Test(
        "peer-copy", "read", "sm-load", from_row=False, params=(("path", "direct"),)
    ),
    "device_to_device_latency_sm": _Test("peer-latency", "load", "sm-load", unit="s"),
}


# ---- text ----------------------------------------------------------------------------------------


def has_text(output: Output) -> bool:
    """Tell whether the output has a test's heading."""
    return any(True for _ in output.matches(_RUNNING))


def read_text(output: Output) -> Found:
    """Read every test of the output that numamicro has a name for.

    Raises
    ------
    NumamicroError
        A table is not as nvbandwidth writes it.
    """
    told: list[Told] = []
    passed: list[str] = []
    headings = list(output.matches(_RUNNING))
    ends = [number for number, _ in headings[1:]] + [len(output.lines) + 1]
    for (number, match), end in zip(headings, ends, strict=True):
        title = _title(output, number + 1, end)
        if title is None or match[1] not in _TESTS:
            passed.append(match[1])
        else:
            told += _table(output, title, _TESTS[match[1]])
    return Found(_tool(output), tuple(told), gpus=_gpus(output), passed=tuple(passed))


def _title(output: Output, start: int, end: int) -> int | None:
    """Give the line that says what rows and columns are; None for a test that brought no table."""
    for number in range(start, end):
        line = output.line(number)
        if "(row)" in line and "(column)" in line:
            return number
    return None


def _table(output: Output, title: int, test: _Test) -> Iterator[Told]:
    unit = "(ns)" if test.unit == "s" else "(GB/s)"
    if unit not in output.line(title):
        raise output.fault(title, f"the table is not in {unit}")
    square = test.probe != "host-copy"
    for entry in read_grid(output, title + 1, square=square):
        yield _told(test, entry, output.line(entry.number))


def _told(test: _Test, entry: Entry, text: str) -> Told:
    row = None if test.probe == "host-copy" else Place("gpu", entry.row)
    column = Place("gpu", entry.column)
    return Told(
        test.probe,
        test.operation,
        row if test.from_row else column,
        column if test.from_row else row,
        entry.figure * (_NANOSECOND if test.unit == "s" else _GB),
        test.unit,
        entry.number,
        text,
        test.mover,
        dict(test.params),
    )


def _tool(output: Output) -> str:
    version = next((match[1] for _, match in output.matches(_VERSION)), "")
    return f"nvbandwidth {version}".strip()


def _gpus(output: Output) -> dict[int, Seen]:
    return {
        output.index(number, match[1]): Seen(match[2], _address(match))
        for number, match in output.matches(_DEVICE)
    }


def _address(match: re.Match[str]) -> str | None:
    if match[3] is None:
        return None
    return f"{match[3][-4:]}:{match[4]}:{match[5]}.0".lower()


# ---- JSON ----------------------------------------------------------------------------------------


def has_json(output: Output) -> bool:
    """Tell whether the output is the JSON of ``nvbandwidth --json``."""
    text = "\n".join(output.lines).lstrip()
    return text.startswith("{") and '"nvbandwidth"' in text


def read_json(output: Output) -> Found:
    """Read every test of the output that numamicro has a name for.

    Raises
    ------
    NumamicroError
        It is no JSON, or not as nvbandwidth writes it.
    """
    top = _parsed(output)
    about = _taken(output, 1, top, "nvbandwidth", dict)
    told: list[Told] = []
    passed: list[str] = []
    last = 1
    for test in _taken(output, 1, about, "testcases", list):
        name = _taken(output, last, test, "name", str)
        last = _line_of(output, name)
        if name in _TESTS and isinstance(test, dict) and "bandwidth_matrix" in test:
            told += _matrix(output, last, _TESTS[name], test)
        else:
            passed.append(name)
    version = about.get("git_version") or about.get("version") or ""
    tool = f"nvbandwidth {version}".strip() if isinstance(version, str) else "nvbandwidth"
    return Found(tool, tuple(told), passed=tuple(passed))


def _parsed(output: Output) -> object:
    try:
        return json.loads("\n".join(output.lines))
    except json.JSONDecodeError as error:
        raise output.fault(error.lineno, "this is not JSON") from error
    except (RecursionError, ValueError) as error:
        raise output.fault(1, "its JSON is absurd") from error


def _taken(output: Output, line: int, holder: object, key: str, kind: type[Any]) -> Any:
    value = holder.get(key) if isinstance(holder, dict) else None
    if isinstance(value, kind):
        return value
    raise output.fault(line, f"nvbandwidth's JSON has no {key!r} here, or not of its kind")


def _line_of(output: Output, name: str) -> int:
    quoted = json.dumps(name)
    return next((n for n, line in enumerate(output.lines, start=1) if quoted in line), 1)


def _matrix(output: Output, line: int, test: _Test, found: Mapping[str, object]) -> Iterator[Told]:
    rows = _taken(output, line, found, "bandwidth_matrix", list)
    widths = {len(row) if isinstance(row, list) else -1 for row in rows}
    if len(widths) != 1 or -1 in widths or (test.probe != "host-copy" and widths != {len(rows)}):
        raise output.fault(line, "the rows of this test's matrix are not of one length")
    for row, values in enumerate(rows):
        for column, value in enumerate(values):
            figure = _json_figure(output, line, value)
            if figure:
                text = f"{output.line(line).strip()} row {row} column {column}: {value}"
                yield _told(test, Entry(row, column, figure, line), text)


def _json_figure(output: Output, line: int, value: object) -> float:
    """Read a figure of the matrix, which is a text; 0 where there is none."""
    if value == "N/A":
        return 0.0
    text = value if isinstance(value, str) else json.dumps(value)
    return output.figure(line, text)
