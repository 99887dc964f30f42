"""The peers: other people's programs, and two pages of plain C of our own. One entry each."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.pairs import Reading
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

NATIVE = Path(__file__).with_name("native")
COMPILE = ("gcc", "-std=gnu11", "-O3", "-march=native", "-pthread")
LONGEST_TURN = 300.0
"""Seconds after which a peer is taken to hang."""

# The load kernels of likwid-bench, widest first, each with the CPU flag that it needs.
LIKWID_LOADS = (("load_avx512", "avx512f"), ("load_avx", "avx"), ("load_sse", "sse2"))


@dataclass(frozen=True, slots=True)
class Program:
    """A peer that is run once a turn and prints its figure.

    Parameters
    ----------
    name : str
    about : str
        What a reader must know to compare it.
    command : tuple of str
    read : callable
        Gives the reading that a run printed.
    """

    name: str
    about: str
    command: tuple[str, ...]
    read: Callable[[str], Reading]

    @property
    def missing(self) -> str | None:
        """Why it cannot take part; None when it can."""
        if shutil.which(self.command[0]) is None:
            return f"{self.command[0]} is not installed"
        return None

    def warmed_up(self) -> Program:
        """Take a turn that does not count."""
        self.turn(0)
        return self

    def turn(self, number: int) -> Reading:
        """Run it and give what it printed; it is the same for every `number`.

        Raises
        ------
        NumamicroError
            It failed, hung, or printed no figure.
        """
        try:
            done = subprocess.run(
                self.command, capture_output=True, text=True, timeout=LONGEST_TURN, check=True
            )
        except subprocess.SubprocessError as error:
            raise NumamicroError(f"the peer {self.name} failed: {error}") from error
        return self.read(done.stdout)


def likwid_load(
    threads: int, node: int, gigabytes: int, passes: int, can: Collection[str]
) -> Program:
    """Give likwid-bench's widest load kernel that runs on a CPU with the flags `can`."""
    kernel = next((name for name, flag in LIKWID_LOADS if flag in can), "load")
    first = LIKWID_LOADS[0][0]
    lacking = "" if kernel == first else f"; {first} is left out, this CPU has no AVX-512"
    command = ("likwid-bench", "-t", kernel, "-w", f"M{node}:{gigabytes}GB:{threads}")
    return Program(
        f"likwid {kernel}",
        f"likwid-bench {kernel}, its widest load kernel here{lacking}; 4 KiB pages, for it asks for "
        "no others",
        (*command, "-i", str(passes)),
        read_likwid,
    )


def plain_read(folder: Path, cpus: Sequence[int], size: int, passes: int) -> Program:
    """Give the read loop in plain C."""
    listed = ",".join(map(str, cpus))
    return Program(
        "plain C",
        f"bench/native/read.c, {' '.join(COMPILE)}: one sum as gcc vectorises it; huge pages",
        (str(folder / "read"), listed, str(size), str(passes), "huge"),
        lambda text: read_native(text, "bytes", huge=size),
    )


def plain_chase(folder: Path, cpu: int, size: int, steps: int, pages: str) -> Program:
    """Give the independent pointer chase."""
    return Program(
        "one-page chase",
        f"bench/native/chase.c: a Sattolo cycle over every 64-byte line; {pages} pages",
        (str(folder / "chase"), str(cpu), str(size), str(steps), pages),
        lambda text: read_native(text, "steps", huge=size if pages == "huge" else 0),
    )


def compile_native(folder: Path) -> None:
    """Compile bench/native into `folder`.

    Raises
    ------
    NumamicroError
        The compiler is missing or fails.
    """
    for source in NATIVE.glob("*.c"):
        try:
            subprocess.run(
                [*COMPILE, source, "-o", folder / source.stem],
                check=True,
                capture_output=True,
                text=True,
            )
        except FileNotFoundError:
            raise NumamicroError("the bench compiles two small peers: install gcc") from None
        except subprocess.CalledProcessError as error:
            raise NumamicroError(f"gcc cannot compile {source.name}: {error.stderr}") from error


def read_likwid(text: str) -> Reading:
    """Read likwid-bench's output; its MByte is 10^6 bytes.

    Raises
    ------
    NumamicroError
        The output has no figure.
    """
    rate = re.search(r"^MByte/s:\s+([\d.]+)$", text, re.MULTILINE)
    volume = re.search(r"^Data volume \(Byte\):\s+(\d+)$", text, re.MULTILINE)
    if rate is None or volume is None:
        raise NumamicroError(f"likwid-bench printed no MByte/s: {text.strip()[-200:]!r}")
    return Reading(float(rate[1]) * 1e6, {"bytes": int(volume[1])})


def read_native(text: str, counted: str, huge: int) -> Reading:
    """Read what a program of bench/native printed: bytes a second, or seconds a step.

    Parameters
    ----------
    counted : str
        ``bytes`` or ``steps``.
    huge : int
        Bytes that huge pages should hold; 0 for none.

    Raises
    ------
    NumamicroError
        The output is no such line, or the kernel gave other pages.
    """
    try:
        facts = json.loads(text)
        seconds, amount, found = facts["seconds"], facts[counted], facts["huge_bytes"]
    except (ValueError, KeyError, TypeError) as error:
        raise NumamicroError(f"a native peer printed no {counted}: {text[:200]!r}") from error
    if not 0.95 * huge <= found <= 1.05 * huge:
        raise NumamicroError(f"a native peer got {found} bytes of huge pages where {huge} were due")
    value = amount / seconds if counted == "bytes" else seconds / amount
    return Reading(value, {counted: amount, "huge_bytes": found})
