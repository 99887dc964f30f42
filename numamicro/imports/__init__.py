"""Outputs of other programs as a matrix: one file a reader. READERS is the list.

A file may hold several outputs, and prose between them: every reader takes what it knows. Each cell
has the origin imported, and names the tool, the file and the line that tells it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.imports import likwid, mlc, nccl_tests, numactl, nvbandwidth, nvidia_topo, p2p
from numamicro.imports.assemble import From, matrix_of
from numamicro.imports.text import Output, read_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from numamicro.imports.found import Found
    from numamicro.matrix import CostMatrix


@dataclass(frozen=True, slots=True)
class Reader:
    """How an output is recognised and read.

    Parameters
    ----------
    name : str
        The program, and the form of its output.
    has : callable
        Tells whether a text holds such an output.
    read : callable
        Gives what it tells; raises NumamicroError, naming the line, where it is malformed.
    """

    name: str
    has: Callable[[Output], bool]
    read: Callable[[Output], Found]


READERS = (
    Reader("nvbandwidth --json", nvbandwidth.has_json, nvbandwidth.read_json),
    Reader("nvbandwidth", nvbandwidth.has_text, nvbandwidth.read_text),
    Reader("p2pBandwidthLatencyTest", p2p.has, p2p.read),
    Reader("Intel MLC", mlc.has, mlc.read),
    Reader("nccl-tests", nccl_tests.has, nccl_tests.read),
    Reader("nvidia-smi topo -m", nvidia_topo.has, nvidia_topo.read),
    Reader("likwid-topology", likwid.has, likwid.read),
    Reader("numactl -H", numactl.has, numactl.read),
)


@dataclass(frozen=True, slots=True)
class Imported:
    """A matrix, and what the outputs have besides that no cell tells."""

    matrix: CostMatrix
    passed: tuple[str, ...]


def import_files(paths: Sequence[Path], label: str | None = None) -> Imported:
    """Give the matrix that the files tell, which are of one machine.

    Raises
    ------
    NumamicroError
        A file cannot be read, holds no known output or a malformed one, or none has a figure.
    """
    return import_outputs([read_output(path) for path in paths], label)


def import_outputs(outputs: Sequence[Output], label: str | None = None) -> Imported:
    """Give the matrix that texts tell; see :func:`import_files`."""
    sources = [source for output in outputs for source in _found(output)]
    matrix = matrix_of(sources, label)
    if not matrix.measurements:
        notes = "; ".join(note.text for note in matrix.header.machine.notes)
        raise NumamicroError(
            f"{', '.join(output.name for output in outputs)}: there is no figure to import"
            + (f": {notes}" if notes else "")
        )
    passed = [name for source in sources for name in source.found.passed]
    return Imported(matrix, tuple(dict.fromkeys(passed)))


def _found(output: Output) -> Iterator[From]:
    readers = [reader for reader in READERS if reader.has(output)]
    if not readers:
        names = ", ".join(reader.name for reader in READERS)
        raise NumamicroError(
            f"{output.name}: line 1: no output that can be imported begins here or below; "
            f"those of {names} can"
        )
    for reader in readers:
        yield From(output.name, reader.read(output))
