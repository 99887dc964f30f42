"""Result files as boots: what is compared is one figure a boot, however many samples it has.

Iterations within a process, and processes within a boot, share what that boot happened to be like.
Pooled, they find differences that are not there.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from numamicro.comparison.places import renumbered, same_gpus
from numamicro.errors import NumamicroError
from numamicro.file import read_cells, read_matrix
from numamicro.matrix import State
from numamicro.stats import fewest_for, median, tail
from numamicro.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numamicro.case import Case
    from numamicro.matrix import CostMatrix, Header, Measurement
    from numamicro.stats import Tail
    from numamicro.wire import Cell


class Value(NamedTuple):
    """What one boot brought for one case. A tuple, for processes hand over many.

    Parameters
    ----------
    figures : tuple of float
        One a process, in the base unit; none where the cell has no figure.
    tail : Tail or None
        Where a tail is compared: on how many samples it rests.
    why : str or None
        Why there is no figure.
    """

    unit: str
    figures: tuple[float, ...] = ()
    tail: Tail | None = None
    why: str | None = None

    @property
    def center(self) -> float | None:
        """The figure of the boot: the median of its processes'."""
        return median(self.figures) if self.figures else None

    def joined(self, other: Value) -> Value:
        """Give what two files of one boot brought together."""
        figures = self.figures + other.figures
        why = None if figures else self.why or other.why
        return Value(self.unit, figures, self.tail or other.tail, why)


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot, or one run within a boot where runs are compared.

    Parameters
    ----------
    names : tuple of str
        The files it was read from.
    token : Value or None
        Seconds of a model's token, one for each file; None where no model was named.
    """

    names: tuple[str, ...]
    header: Header
    values: dict[Case, Value] = field(repr=False)
    token: Value | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """The boots of one setting."""

    name: str
    boots: tuple[Boot, ...]

    @property
    def first(self) -> Header:
        """The header that stands for all of the side."""
        return self.boots[0].header


def files_of(names: Iterable[str]) -> list[Path]:
    """Give the result files that names stand for; a folder stands for every .json file in it.

    Raises
    ------
    NumamicroError
        A folder holds none, or a file is named twice.
    """
    paths: list[Path] = []
    for name in names:
        path = Path(name)
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise NumamicroError(f"{name} holds no result file: no name in it ends in .json")
        paths += found
    twice = {path for path in paths if sum(other == path for other in paths) > 1}
    if twice:
        raise NumamicroError(f"{min(twice)} is named twice on one side: name each file once")
    return paths


def read_sides(
    base: Sequence[Path],
    new: Sequence[Path],
    *,
    unit: str = "boot",
    share: float = 0.5,
    token: Callable[[CostMatrix], Value] | None = None,
) -> tuple[Side, Side]:
    """Read the files of both sides and keep of each what is compared.

    Parameters
    ----------
    unit : str
        boot: files of one boot count once. file: each file counts, and all are of one boot.
    share : float
        Which quantile of a process' samples is compared; 0.5 is the median.
    token : callable, optional
        Gives the seconds of a token from a matrix.

    Raises
    ------
    NumamicroError
        A file is no result file, or the files of a side are not of one machine.
    """
    boots = _read_all([*base, *new], partial(_boot_of, share=share, token=token))
    return (
        _side("base", boots[: len(base)], unit),
        _side("new", boots[len(base) :], unit),
    )


def _side(name: str, boots: Sequence[Boot], unit: str) -> Side:
    _check_one_machine(name, boots)
    return Side(name, tuple(boots if unit == "file" else _by_boot(boots)))


def tail_words(side: Side) -> str | None:
    """Say on how few samples a tail rests, and how many would give it an interval of its own."""
    tails = [value.tail for boot in side.boots for value in boot.values.values() if value.tail]
    if not tails:
        return None
    least = min(tails, key=lambda tail: tail.n)
    needed = f" (that takes {fewest_for(least.share)})" if least.low is None else ""
    return f"{least}{needed}, in the cell with the fewest samples of a run"


def _read_all(paths: Sequence[Path], read: Callable[[Path], Boot]) -> list[Boot]:
    """Read files; many and large ones by as many processes as there are CPUs."""
    workers = min(len(os.sched_getaffinity(0)), len(paths))
    if workers > 1 and sum(_size(path) for path in paths) > _WORTH_A_POOL:
        from concurrent.futures import ProcessPoolExecutor

        with ProcessPoolExecutor(workers, initializer=_set_up_reader) as pool:
            # One piece a process: what files have in common is handed over once.
            return list(pool.map(read, paths, chunksize=-(-len(paths) // workers)))
    return [read(path) for path in paths]


def _set_up_reader() -> None:
    # Ctrl-C reaches every process of a terminal; the one that waits says what there is to say.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()


_WORTH_A_POOL = 16 * MIB
"""Bytes of result files that take longer to read than processes take to start."""


def _size(path: Path) -> int:
    # What cannot be asked for its size cannot be read either, and that is said then.
    return path.stat().st_size if path.is_file() else 0


def _boot_of(path: Path, share: float, token: Callable[[CostMatrix], Value] | None) -> Boot:
    if token is None:
        header, values = read_cells(path, lambda cell: (cell.case(), value_of(cell, share)))
        return Boot((str(path),), header, dict(values))
    matrix = read_matrix(path)
    values = [(cell.case, value_of(cell, share)) for cell in matrix.measurements]
    return Boot((str(path),), matrix.header, dict(values), token(matrix))


def value_of(cell: Measurement | Cell, share: float = 0.5) -> Value:
    """Give what a cell of one file brings to a comparison.

    A median is taken of each process; a tail of all samples together, for one process has too few.
    """
    if cell.state is not State.OK:
        return Value(
            cell.unit, why=f"{cell.state}: {cell.reason.text if cell.reason else 'no why'}"
        )
    groups = cell.groups()
    if not groups:
        return Value(cell.unit, why="no warm samples")
    if share == 0.5:
        return Value(cell.unit, tuple(median(group) for group in groups))
    found = tail([value for group in groups for value in group], share)
    return Value(cell.unit, (found.value,), found)


def _by_boot(files: Iterable[Boot]) -> list[Boot]:
    """Join files of one boot. Where no boot is told, all may be of one, and count once."""
    boots: dict[str | None, Boot] = {}
    for one in files:
        boot = one.header.boot_id
        boots[boot] = _joined(boots[boot], one) if boot in boots else one
    return list(boots.values())


def _joined(one: Boot, other: Boot) -> Boot:
    values = dict(one.values)
    for case, value in other.values.items():
        values[case] = values[case].joined(value) if case in values else value
    token = one.token.joined(other.token) if one.token and other.token else one.token
    return Boot(one.names + other.names, one.header, values, token)


def _check_one_machine(name: str, boots: Sequence[Boot]) -> None:
    first = boots[0]
    for other in boots[1:]:
        why = differ(first.header, other.header)
        if why:
            raise NumamicroError(
                f"the {name} side mixes what cannot be pooled: {first.names[0]} and "
                f"{other.names[0]} differ in {why}"
            )


def differ(one: Header, other: Header) -> str | None:
    """Say why figures of two files are no figures of one machine; None where they may be."""
    pairs = (
        ("origin", one.origin, other.origin),
        ("machine", one.machine_id, other.machine_id),
        ("CPU", one.machine.cpu_model, other.machine.cpu_model),
        ("architecture", one.machine.architecture, other.machine.architecture),
    )
    for what, left, right in pairs:
        # An id that a container hides tells neither this nor that.
        if left != right and (what != "machine" or None not in (left, right)):
            return f"their {what} ({left} and {right})"
    if one.machine.hypervisor != other.machine.hypervisor:
        left, right = (_ground(header) for header in (one, other))
        return f"what they ran on ({left} and {right})"
    return None


def _ground(header: Header) -> str:
    name = header.machine.hypervisor
    return f"a virtual machine, {name}" if name else "bare metal"


def shared_boots(base: Side, new: Side) -> int:
    """Count the boots that stand on both sides."""
    known = [{boot.header.boot_id for boot in side.boots} - {None} for side in (base, new)]
    return len(known[0] & known[1])


def by_case(side: Side) -> dict[Case, list[Value | None]]:
    """Give the values of each case, one entry a boot; None where a boot has not tried it."""
    table: dict[Case, list[Value | None]] = defaultdict(lambda: [None] * len(side.boots))
    for index, boot in enumerate(side.boots):
        for case, value in boot.values.items():
            table[case][index] = value
    return dict(table)


def aligned(side: Side, base: Side) -> Side:
    """Give a side whose GPUs have the numbers that the base's first boot gave them.

    Numbers follow the bus, and a setting or another card renumbers it.
    """
    known = base.first.machine.gpus
    boots = []
    for boot in side.boots:
        numbers = same_gpus(known, boot.header.machine.gpus)
        if any(old != new for old, new in numbers.items()) or len(numbers) < len(known):
            values = {_renamed(case, numbers): value for case, value in boot.values.items()}
            boot = replace(boot, values=values)
        boots.append(boot)
    return replace(side, boots=tuple(boots))


def _renamed(case: Case, numbers: dict[int, int]) -> Case:
    route = replace(
        case.route,
        source=renumbered(case.route.source, numbers),
        target=renumbered(case.route.target, numbers),
    )
    return replace(case, route=route)
