"""The ACPI tables that QEMU makes for a guest, asked of its firmware device without starting it."""

from __future__ import annotations

import struct
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EMULATOR = "qemu-system-x86_64"

_DIRECTORY, _SELECT_AND_READ = 0x19, 0x8 | 0x2
_REQUEST, _ROOM = 0x1000, 0x100000  # anywhere in the memory of a guest that does not run
_LATENCY, _BANDWIDTH = 0, 3  # of accesses, in HMAT's numbering

Table = dict[tuple[int, int], int]


class _Guest:
    def __init__(self, emulator: subprocess.Popen[str]) -> None:
        assert emulator.stdin
        assert emulator.stdout
        self._to, self._from, self._emulator = emulator.stdin, emulator.stdout, emulator

    def ask(self, command: str) -> str:
        """Send a command of the test protocol and give what answers it."""
        self._to.write(command + "\n")
        self._to.flush()
        for line in self._from:
            if line.startswith("OK"):
                return line.removeprefix("OK").strip()
        assert self._emulator.stderr
        raise AssertionError(self._emulator.stderr.read())

    def item(self, key: int, size: int) -> bytes:
        """Give bytes of the firmware device's item, fetched by its own engine into memory."""
        request = struct.pack(">IIQ", key << 16 | _SELECT_AND_READ, size, _ROOM)
        self.ask(f"write {_REQUEST:#x} {len(request)} 0x{request.hex()}")
        (swapped,) = struct.unpack("<I", struct.pack(">I", _REQUEST))
        self.ask(f"outl 0x518 {swapped:#x}")
        return bytes.fromhex(self.ask(f"read {_ROOM:#x} {size}").removeprefix("0x"))

    def file(self, wanted: str) -> bytes:
        """Give a file that the firmware would find."""
        (count,) = struct.unpack(">I", self.item(_DIRECTORY, 4))
        entries = self.item(_DIRECTORY, 4 + 64 * count)[4:]
        for size, key, _, name in struct.iter_unpack(">IHH56s", entries):
            if name.rstrip(b"\0").decode() == wanted:
                return self.item(key, size)
        raise AssertionError(f"{wanted} is not there")


@contextmanager
def _stopped(arguments: Sequence[str]) -> Iterator[_Guest]:
    command = [EMULATOR, "-S", "-nodefaults", "-display", "none", "-qtest", "stdio", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as emulator:
        try:
            yield _Guest(emulator)
        finally:
            emulator.kill()


def hmat(arguments: Sequence[str]) -> tuple[Table, Table]:
    """Give latency in picoseconds and bandwidth in MiB/s by initiator and target, as a guest has them."""
    with _stopped(arguments) as guest:
        tables = guest.file("etc/acpi/tables")
    start = tables.index(b"HMAT")
    (length,) = struct.unpack_from("<I", tables, start + 4)
    table = tables[start : start + length]
    found: dict[int, Table] = {_LATENCY: {}, _BANDWIDTH: {}}
    at = 40
    while at < length:
        kind, _, size = struct.unpack_from("<HHI", table, at)
        if kind == 1:
            (data,) = struct.unpack_from("<B", table, at + 9)
            found[data] |= _entries(table, at)
        at += size
    return found[_LATENCY], found[_BANDWIDTH]


def _entries(table: bytes, at: int) -> Table:
    initiators, targets = struct.unpack_from("<II", table, at + 12)
    (unit,) = struct.unpack_from("<Q", table, at + 24)
    ids = struct.unpack_from(f"<{initiators + targets}I", table, at + 32)
    values = struct.unpack_from(f"<{initiators * targets}H", table, at + 32 + 4 * len(ids))
    return {
        (source, target): values[row * targets + column] * unit
        for row, source in enumerate(ids[:initiators])
        for column, target in enumerate(ids[initiators:])
    }
