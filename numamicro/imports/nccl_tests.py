"""nccl-tests: the time of all-reduces over the GPUs of one host.

The out-of-place column counts. NCCL chooses the way, so that a cell says `nccl` and no way of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from numamicro.case import Place, PlaceSet
from numamicro.imports.found import Found, Seen, Told
from numamicro.topology import Note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.case import AnyPlace
    from numamicro.imports.text import Output

_MICROSECOND = 1e-6
_TITLE = re.compile(r".*# Collective test starting: (\w+)")
_VERSION = re.compile(r".*# nccl-tests version (\S+).*")
_RANK = re.compile(
    r".*#\s*Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+(\d+)\s+"
    r"\[(\w+)(?::(\w+):(\w+))?\]\s+(.+)"
)
_HEAD = re.compile(r".*#\s+size\s+count\s+type\s(?:.*\s)?time\s+algbw\s+busbw(?:\s.*)?")
_TOLERANCE = 0.05
_PREFIX = re.compile(r"^\s*\[\d+,\d+\]<stdout>:")
"""What some starters of MPI put before each line."""


def has(output: Output) -> bool:
    """Tell whether the output has the head of a table."""
    return any(True for _ in output.matches(_HEAD))


def read(output: Output) -> Found:
    """Read the tables of all-reduces.

    Raises
    ------
    NumamicroError
        The ranks are not told or are of several hosts, or a row is not as the tool writes it.
    """
    told: list[Told] = []
    passed: list[str] = []
    for number, match in output.matches(_HEAD):
        test = _test(output, number)
        if test not in ("", "all_reduce_perf"):
            passed.append(test)
        else:
            told += _table(output, number, match[0], _places(output, number))
    gpus = {device: Seen(name, pci) for device, name, pci in _devices(output)}
    version = next((match[1] for _, match in output.matches(_VERSION)), "")
    return Found(f"nccl-tests {version}".strip(), tuple(told), gpus=gpus, passed=tuple(passed))


def _test(output: Output, table: int) -> str:
    """Give the name of the test that a table is of: the last title above it."""
    titles = [match[1] for number, match in output.matches(_TITLE) if number < table]
    return titles[-1] if titles else ""


def _devices(output: Output) -> Iterator[tuple[int, str, str | None]]:
    for number, match in output.matches(_RANK):
        yield output.index(number, match[3]), match[7].strip(), _address(match)


def _address(match: re.Match[str]) -> str | None:
    return f"{match[4]}:{match[5]}:{match[6]}.0".lower() if match[5] else None


def _places(output: Output, table: int) -> tuple[Place, ...]:
    """Give the GPUs of the ranks that the table is of: those listed last above it."""
    ranks: list[tuple[str, int]] = []
    for number, match in output.matches(_RANK):
        if number > table:
            break
        if match[1] == "0":
            ranks.clear()
        ranks.append((match[2], output.index(number, match[3])))
    devices = sorted({device for _, device in ranks})
    if len({host for host, _ in ranks}) > 1:
        raise output.fault(table, "the ranks are on several hosts, and a matrix is of one machine")
    if len(devices) < 2 or len(devices) < len(ranks):
        raise output.fault(
            table, "the lines above do not tell two GPUs or more, one for each rank (# Rank 0 ...)"
        )
    return tuple(Place("gpu", device) for device in devices)


def _table(output: Output, number: int, head: str, gpus: tuple[Place, ...]) -> Iterator[Told]:
    names = _PREFIX.sub("", head).lstrip(" #").split()
    row = first = number + 1 + ("(B)" in output.line(number + 1))
    while (words := _PREFIX.sub("", output.line(row)).split()) and words[0].isdecimal():
        if len(words) != len(names):
            what = f"{len(words)} words stand where the table has {len(names)} columns"
            raise output.fault(row, what)
        yield _told(output, row, names, words, gpus)
        row += 1
    if row == first:
        raise output.fault(row, "the table has no row")


def _told(
    output: Output, row: int, names: list[str], words: list[str], gpus: tuple[Place, ...]
) -> Told:
    """Give the all-reduce of one row; of two columns of a name the first is out of place."""
    size = output.index(row, words[0])
    microseconds, algbw, busbw = (
        output.figure(row, words[names.index(name)]) for name in ("time", "algbw", "busbw")
    )
    if not size or not microseconds:
        raise output.fault(row, "a size or a time is 0")
    _refuse_others(output, row, algbw, busbw, len(gpus))
    here: AnyPlace = gpus[0] if len(gpus) == 2 else PlaceSet(gpus)
    there: AnyPlace = gpus[1] if len(gpus) == 2 else PlaceSet(gpus)
    wrong = words[names.index("#wrong")] if "#wrong" in names else "0"
    return Told(
        *("all-reduce", "nccl", here, there, microseconds * _MICROSECOND, "s", row),
        text=output.line(row),
        mover="sm",
        params={"message": size, "number": words[names.index("type")]},
        wrong=None if wrong in ("0", "N/A") else _bad(wrong),
    )


def _bad(wrong: str) -> Note:
    return Note("checksum", f"nccl-tests found {wrong} values that are not the sum")


def _refuse_others(output: Output, row: int, algbw: float, busbw: float, ranks: int) -> None:
    """Refuse a table of another collective: its bus bandwidth tells (PERFORMANCE.md of nccl-tests).

    Raises
    ------
    NumamicroError
        The ratio is not that of an all-reduce of so many ranks.
    """
    due = algbw * 2 * (ranks - 1) / ranks
    if algbw >= 1 and abs(busbw - due) > _TOLERANCE * due:
        raise output.fault(row, f"the bus bandwidth is not that of an all-reduce of {ranks} ranks")
