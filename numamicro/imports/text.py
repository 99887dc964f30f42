"""The text of another program's output: lines that are numbered, figures that are checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_MOST_BYTES = 64 << 20
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_FIGURE = re.compile(r"\d{1,18}(\.\d{1,18})?([eE][+-]?\d{1,2})?", re.ASCII)
_LEAST, _MOST = 1e-4, 1e9
"""No tool's unit makes a figure of a real machine smaller or larger."""
_ABSENT = ("N/A", "-", "n/a")
_MOST_IDS = 4096
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class Output:
    """One file: its name, and its lines without colours and line ends."""

    name: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, name: str, text: str) -> Output:
        plain = _COLOURS.sub("", text)
        return cls(name, tuple(line.rstrip("\r") for line in plain.split("\n")))

    def fault(self, number: int, what: str) -> NumamicroError:
        """Give the error that names a line, counted from 1."""
        return NumamicroError(f"{self.name}: line {number}: {what}")

    def line(self, number: int) -> str:
        """Give a line, counted from 1; empty beyond the last."""
        return self.lines[number - 1] if 1 <= number <= len(self.lines) else ""

    def matches(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str]]]:
        """Give number and match of every line that is wholly as the pattern says."""
        for number, line in enumerate(self.lines, start=1):
            if len(line) < _LONGEST_LINE and (found := pattern.fullmatch(line.strip())):
                yield number, found

    def figure(self, number: int, text: str) -> float:
        """Read a figure that stands in a line.

        Raises
        ------
        NumamicroError
            It is none.
        """
        value = float(text) if _FIGURE.fullmatch(text) else -1.0
        if value == 0 or _LEAST <= value < _MOST:
            return value
        raise self.fault(number, f"{text!r:.40} is no figure that was measured")

    def index(self, number: int, text: str) -> int:
        """Read an id or a count that stands in a line.

        Raises
        ------
        NumamicroError
            It is none.
        """
        if text.isascii() and text.isdecimal() and len(text) < 10:
            return int(text)
        raise self.fault(number, f"{text!r:.40} is no whole number")

    def ids(self, number: int, text: str) -> tuple[int, ...]:
        """Read ids as ``0-3,8`` or ``0 1 2``.

        Raises
        ------
        NumamicroError
            They are none.
        """
        found: list[int] = []
        for part in text.replace(",", " ").split():
            first, dash, last = part.partition("-")
            low = self.index(number, first)
            high = self.index(number, last) if dash else low
            if not low <= high < low + _MOST_IDS:
                raise self.fault(number, f"{part!r:.40} is no range of ids")
            found += range(low, high + 1)
        return tuple(dict.fromkeys(found))

    def counts(self, number: int, text: str) -> tuple[int, ...]:
        """Read whole numbers between blanks, each as often as it stands there.

        Raises
        ------
        NumamicroError
            One is none.
        """
        return tuple(self.index(number, word) for word in text.split())


@dataclass(frozen=True, slots=True)
class Entry:
    """A figure in a grid: its row and column by the ids that head them, and where it stands."""

    row: int
    column: int
    figure: float
    number: int


def read_output(path: Path) -> Output:
    """Read a file.

    Raises
    ------
    NumamicroError
        It cannot be read, or is larger than any such output.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise NumamicroError(f"{path} is larger than any output that can be imported")
    return Output.of(path.name, data.decode(errors="replace"))


def read_grid(output: Output, number: int, corner: str = "", *, square: bool) -> list[Entry]:
    """Read a grid of figures: a line of column ids, then lines of a row id and its figures.

    It ends before the first line that starts with no id. Figures that are absent, or zero because
    nothing was measured, are left out.

    Parameters
    ----------
    number : int
        The line of the column ids.
    corner : str
        Words that stand before these.
    square : bool
        Whether every column must have a row.

    Raises
    ------
    NumamicroError
        A line has too few or too many figures, or one is no figure.
    """
    columns = _columns(output, number, corner)
    entries: list[Entry] = []
    rows: list[int] = []
    while words := _row_words(output.line(number + 1)):
        number += 1
        rows.append(output.index(number, words[0]))
        entries += _row(output, number, columns, words)
    if not rows or len(set(rows)) < len(rows) or (square and sorted(rows) != sorted(columns)):
        raise output.fault(
            number + 1,
            f"the table breaks off: it has rows {_listed(rows)} for columns {_listed(columns)}",
        )
    return entries


def _row_words(line: str) -> list[str]:
    """Give the words of a line that starts with an id, with a colon or without; none of another."""
    first, *others = line.split() or [""]
    first = first.removesuffix(":")
    return [first, *others] if first.isdecimal() else []


def _columns(output: Output, number: int, corner: str) -> list[int]:
    line = output.line(number).strip()
    if not line.startswith(corner):
        raise output.fault(number, f"a table begins here, and its first words are not {corner!r}")
    columns = [output.index(number, word) for word in line.removeprefix(corner).split()]
    if not columns or len(set(columns)) < len(columns):
        raise output.fault(number, "a table begins here, and its columns have no ids")
    return columns


def _row(output: Output, number: int, columns: list[int], words: list[str]) -> Iterator[Entry]:
    if len(words) != len(columns) + 1:
        raise output.fault(
            number, f"{len(words) - 1} figures stand where the table has {len(columns)} columns"
        )
    for column, word in zip(columns, words[1:], strict=True):
        figure = 0.0 if word in _ABSENT else output.figure(number, word)
        if figure:
            yield Entry(int(words[0]), column, figure, number)


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, ids)) or "none"
