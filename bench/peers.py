"""The peers: other people's programs, and a few pages of plain C of our own. One entry each."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.pairs import Reading, best_in_trial
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

NATIVE = Path(__file__).with_name("native")
COMPILE = ("gcc", "-std=gnu11", "-O3", "-march=native", "-pthread")
# Without it a copy loop would become a call of memcpy, which is a peer of its own.
LITERAL = "-fno-tree-loop-distribute-patterns"
EXTRA = {"stream": (LITERAL,), "meet": ("-fopenmp",), "advise": ("-shared", "-fPIC")}
LONGEST_TURN = 300.0
"""Seconds after which a peer is taken to hang."""
PAGE_BYTES = 4096

# likwid-bench has each kernel for several vector widths: the suffix, and the CPU flag it needs.
LIKWID_WIDTHS = (("_avx512", "avx512f"), ("_avx", "avx"), ("_sse", "sse2"))


@dataclass(frozen=True, slots=True)
class Work:
    """What a bandwidth peer is told.

    Parameters
    ----------
    node : int
        Where the memory is.
    cpus : sequence of int
        One thread on each.
    size : int
        Bytes of all arrays together: whole megabytes (10^6), which is how likwid-bench counts.
    passes : int
    """

    node: int
    cpus: Sequence[int]
    size: int
    passes: int


@dataclass(frozen=True, slots=True)
class Program:
    """A peer that is run once a turn and prints its figure.

    Parameters
    ----------
    name : str
    about : str
        What a reader must know to compare it.
    commands : tuple of tuple of str
        The same work by several kernels; the one that is best in first turns is kept.
    read : callable
        Gives the reading that a run printed.
    environment : mapping
        What is added to the environment.
    needs : tuple of str
        Other programs that the command starts.
    huge : int
        Bytes that it must hold in huge pages, which its number of page faults shows; 0 for any.
    """

    name: str
    about: str
    commands: tuple[tuple[str, ...], ...]
    read: Callable[[str], Reading]
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    huge: int = 0

    @property
    def missing(self) -> str | None:
        """Why it cannot take part; None when it can."""
        for program in (self.commands[0][0], *self.needs):
            if shutil.which(program) is None:
                return f"{Path(program).name} is not installed"
        return None

    def warmed_up(self) -> Program:
        """Take turns with each command that do not count, and keep the best one."""
        alone = [replace(self, commands=(command,)) for command in self.commands]
        best = alone[best_in_trial(alone, highest=True)]
        if len(alone) == 1:
            return best
        return replace(best, about=f"{self.about}; here {' '.join(best.commands[0][:3])}")

    def turn(self, number: int) -> Reading:
        """Run it and give what it printed; it is the same for every `number`.

        Raises
        ------
        NumamicroError
            It failed, hung, printed no figure, or got other pages than it should have.
        """
        faults = _faults()
        try:
            done = subprocess.run(
                self.commands[0],
                capture_output=True,
                text=True,
                timeout=LONGEST_TURN,
                check=True,
                env={**os.environ, **self.environment},
            )
        except subprocess.SubprocessError as error:
            raise NumamicroError(f"the peer {self.name} failed: {error}") from error
        faults = _faults() - faults
        if self.huge and faults > self.huge / PAGE_BYTES / 4:
            raise NumamicroError(f"the peer {self.name} got no huge pages: {faults} page faults")
        reading = self.read(done.stdout)
        return Reading(
            reading.value,
            {**reading.facts, "command": " ".join(self.commands[0][:3]), "faults": faults},
        )


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def likwid(kernel: str, work: Work, can: Collection[str]) -> Program:
    """Give likwid-bench's kernel in every vector width of a CPU with the flags `can`."""
    names = [kernel + suffix for suffix, flag in LIKWID_WIDTHS if flag in can] or [kernel]
    group = f"M{work.node}:{work.size // 10**6}MB:{len(work.cpus)}"
    return Program(
        f"likwid {kernel}",
        f"the best of {', '.join(names)} in first turns; 4 KiB pages, for it asks for no others",
        tuple(("likwid-bench", "-t", name, "-w", group, "-i", str(work.passes)) for name in names),
        read_likwid,
    )


def advised(peer: Program, programs: Path, work: Work) -> Program:
    """Give likwid-bench in huge pages."""
    return replace(
        peer,
        name=f"{peer.name}, huge",
        about="the same in huge pages, for which a preloaded posix_memalign "
        "(bench/native/advise.c) asks",
        environment={"LD_PRELOAD": str(programs / "advise")},
        huge=work.size,
    )


def plain_loop(programs: Path, program: str, loop: str, work: Work, pages: str) -> Program:
    """Give a bandwidth loop of bench/native."""
    cpus = ",".join(map(str, work.cpus))
    compiled = " ".join((*COMPILE, *EXTRA.get(program, ())))
    return Program(
        f"{program}.c {loop}",
        f"bench/native/{program}.c, {compiled}; {pages} pages",
        ((str(programs / program), loop, cpus, str(work.size), str(work.passes), pages),),
        lambda text: read_native(text, "bytes", huge=work.size if pages == "huge" else 0),
    )


def perf_mem(benchmark: str, function: str, work: Work) -> Program:
    """Give a loop of ``perf bench mem``, which has one thread and counts a copied byte once.

    The C library's own setting has its memory in huge pages.
    """
    arrays = 2 if benchmark == "memcpy" else 1
    command = (
        *("taskset", "-c", str(work.cpus[0]), "perf", "bench", "-f", "simple", "mem", benchmark),
        *("-s", f"{work.size // arrays}B", "-l", str(work.passes), "-f", function),
    )
    return Program(
        f"perf {benchmark} {function}",
        f"perf bench mem {benchmark} -f {function}; huge pages; its data are zeros, which some CPUs "
        "move faster, so it is not judged",
        (command,),
        lambda text: read_perf(text, arrays),
        {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
        ("perf",),
        work.size,
    )


def plain_chase(folder: Path, cpu: int, size: int, steps: int, pages: str) -> Program:
    """Give the independent pointer chase."""
    return Program(
        "one-page chase",
        f"bench/native/chase.c: a Sattolo cycle over every 64-byte line; {pages} pages",
        ((str(folder / "chase"), str(cpu), str(size), str(steps), pages),),
        lambda text: read_native(text, "steps", huge=size if pages == "huge" else 0),
    )


def plain_turns(folder: Path, cpus: Sequence[int], lines: int, trips: int) -> Program:
    """Give the independent hand-over of a line between two cores."""
    return Program(
        "one-page turns",
        "bench/native/turns.c: each side exchanges the number that it waits for",
        ((str(folder / "turns"), ",".join(map(str, cpus)), str(lines), str(trips)),),
        lambda text: read_native(text, "steps", huge=0),
    )


def openmp_barrier(folder: Path, cpus: Sequence[int], meetings: int) -> Program:
    """Give the barrier of gcc's OpenMP, spinning, on those CPUs."""
    return Program(
        "OpenMP barrier",
        "bench/native/meet.c, gcc -fopenmp; OMP_WAIT_POLICY=active, OMP_PLACES one CPU each",
        ((str(folder / "meet"), str(meetings)),),
        lambda text: read_native(text, "steps", huge=0),
        {
            "OMP_NUM_THREADS": str(len(cpus)),
            "OMP_PLACES": ",".join(f"{{{cpu}}}" for cpu in cpus),
            "OMP_WAIT_POLICY": "active",
        },
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
                [*COMPILE, *EXTRA.get(source.stem, ()), source, "-o", folder / source.stem],
                check=True,
                capture_output=True,
                text=True,
            )
        except FileNotFoundError:
            raise NumamicroError("the bench compiles a few small peers: install gcc") from None
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


def read_perf(text: str, arrays: int) -> Reading:
    """Read the bytes a second that ``perf bench -f simple mem`` printed, times the arrays moved.

    Raises
    ------
    NumamicroError
        The output has no figure.
    """
    rate = re.search(r"^\s*(\d+\.\d+)\s*$", text, re.MULTILINE)
    if rate is None:
        raise NumamicroError(f"perf bench printed no rate: {text.strip()[-200:]!r}")
    return Reading(float(rate[1]) * arrays)


def read_native(text: str, counted: str, huge: int) -> Reading:
    """Read what a program of bench/native printed: bytes a second, or seconds a step.

    Parameters
    ----------
    counted : str
        ``bytes`` or ``steps``.
    needs : tuple of str
        Other programs that the command starts.
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
