"""p2pBandwidthLatencyTest of the CUDA samples: what each GPU's copies to each other bring.

Rows send to columns where the title says writes or nothing; where it says reads, rows fetch from
columns. The diagonal counts what is read and what is written. It is taken from the tables with peer
access only: the first copy of the run warms nothing up, and its figure is that of a cold GPU.
"""

from __future__ import annotations

import re
from itertools import combinations
from typing import TYPE_CHECKING

from numamicro.case import Place
from numamicro.imports.found import Found, Seen, Told
from numamicro.imports.text import read_grid
from numamicro.topology import Note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.imports.text import Entry, Output

_GB, _MICROSECOND = 1e9, 1e-6
_BANDWIDTH = re.compile(
    r"(Unidirectional|Bidirectional) P2P=(Enabled|Disabled) Bandwidth "
    r"(?:\(P2P (Writes|Reads)\) )?Matrix \(GB/s\)"
)
_LATENCY = re.compile(r"P2P=(Enabled|Disabled) Latency (?:\(P2P (Writes|Reads)\) )?Matrix \(us\)")
_CONNECTIVITY = re.compile(r"P2P Connectivity Matrix")
_DEVICE = re.compile(
    r"Device: ?(\d+), (.+), pciBusID: ?([0-9a-fA-F]+), pciDeviceID: ?([0-9a-fA-F]+), "
    r"pciDomainID: ?([0-9a-fA-F]+)"
)
_SMALL_BYTES = 16
"""What a copy of the latency tables moves (one element of the sample's own type)."""

_UNPROVEN = Note(
    "unproven",
    "the output does not say whether these GPUs can address each other: without peer access the "
    "tool silently copies through the host",
)


def has(output: Output) -> bool:
    """Tell whether the output has a table of the tool."""
    return any(True for pattern in (_BANDWIDTH, _LATENCY) for _ in output.matches(pattern))


def read(output: Output) -> Found:
    """Read the tables of bandwidth, one way and both ways, and of latency on the GPU.

    Raises
    ------
    NumamicroError
        A table is not as the tool writes it.
    """
    linked = _linked(output)
    told = [
        told for each in output.matches(_BANDWIDTH) for told in _bandwidth(output, *each, linked)
    ]
    told += [told for each in output.matches(_LATENCY) for told in _latency(output, *each, linked)]
    gpus = {
        output.index(number, match[1]): Seen(match[2], _address(match))
        for number, match in output.matches(_DEVICE)
    }
    apart = frozenset() if linked is None else _apart(linked)
    return Found("p2pBandwidthLatencyTest", tuple(told), gpus=gpus, apart=apart)


def _apart(linked: frozenset[tuple[int, int]]) -> frozenset[tuple[int, int]]:
    """Give the pairs of which one cannot address the other, the lower ordinal first."""
    ids = sorted({index for pair in linked for index in pair})
    pairs = combinations(ids, 2)
    return frozenset(pair for pair in pairs if not {pair, pair[::-1]} <= linked)


def _address(match: re.Match[str]) -> str:
    bus, device, domain = (int(match[part], 16) for part in (3, 4, 5))
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def _linked(output: Output) -> frozenset[tuple[int, int]] | None:
    """Give the pairs that can address each other's memory; None where the output does not say."""
    heads = [number for number, _ in output.matches(_CONNECTIVITY)]
    if not heads:
        return None
    entries = read_grid(output, heads[0] + 1, r"D\D", square=True)
    return frozenset((entry.row, entry.column) for entry in entries)


def _bandwidth(
    output: Output, number: int, match: re.Match[str], linked: frozenset[tuple[int, int]] | None
) -> Iterator[Told]:
    one_way, enabled, reads = (
        match[1] == "Unidirectional",
        match[2] == "Enabled",
        match[3] == "Reads",
    )
    for entry in read_grid(output, number + 1, r"D\D", square=True):
        rate, text = entry.figure * _GB, output.line(entry.number)
        if entry.row != entry.column:
            path = _path(entry, linked, enabled=enabled)
            if path is not None:
                operation = "copy" if one_way else "both"
                ends = _ends(entry, reads=reads)
                params = {"path": path} | ({"engine": "target"} if reads else {})
                yield Told(
                    *("peer-copy", operation, *ends, rate, "B/s", entry.number, text),
                    mover="copy-engine",
                    params=params,
                    warning=_UNPROVEN if enabled and linked is None else None,
                )
        elif one_way and enabled:
            place = Place("gpu", entry.row)
            yield Told(
                *("gpu-memory", "copy", place, place, rate, "B/s", entry.number, text),
                mover="copy-engine",
            )


def _latency(
    output: Output, number: int, match: re.Match[str], linked: frozenset[tuple[int, int]] | None
) -> Iterator[Told]:
    enabled, reads = match[1] == "Enabled", match[2] == "Reads"
    for entry in read_grid(output, number + 1, "GPU", square=True):
        path = _path(entry, linked, enabled=enabled)
        if entry.row != entry.column and path is not None:
            yield Told(
                *("peer-copy-latency", "copy", *_ends(entry, reads=reads)),
                *(entry.figure * _MICROSECOND, "s", entry.number, output.line(entry.number)),
                mover="copy-engine",
                params={"bytes": _SMALL_BYTES, "path": path},
                warning=_UNPROVEN if enabled and linked is None else None,
            )


def _path(entry: Entry, linked: frozenset[tuple[int, int]] | None, *, enabled: bool) -> str | None:
    """Give how a copy went; None where the tool fell back to the way that its other table shows."""
    if not enabled:
        return "detour"
    unlinked = linked is not None and (entry.row, entry.column) not in linked
    return None if unlinked else "direct"


def _ends(entry: Entry, *, reads: bool) -> tuple[Place, Place]:
    row, column = Place("gpu", entry.row), Place("gpu", entry.column)
    return (column, row) if reads else (row, column)
