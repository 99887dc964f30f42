"""The same things from Python: read a file and look figures up, measure, predict, compare.

What is here is thin: it names what other modules do. All figures are in base units (bytes, seconds,
bytes per second). Whatever cannot be done raises :class:`numamicro.errors.NumamicroError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from numamicro.case import AnyPlace, Place, parse_place
from numamicro.cost.advise import advise as search
from numamicro.cost.cells import figure_of
from numamicro.cost.placement import Load, engine
from numamicro.cost.predict import Predictor
from numamicro.cost.rates import Rates
from numamicro.cost.sources import find_model
from numamicro.errors import NumamicroError
from numamicro.file import read_matrix, write_matrix
from numamicro.matrix import CostMatrix, Measurement, best_of
from numamicro.report.records import records
from numamicro.wishes import LEVELS, Wishes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from numpy import float64
    from numpy.typing import NDArray

    from numamicro.case import Param
    from numamicro.comparison import Comparison
    from numamicro.cost.advise import Advice
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.placement import Placement
    from numamicro.cost.predict import TokenCost
    from numamicro.cost.terms import Figure
    from numamicro.report.records import Record

    Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


class Grid(NamedTuple):
    """Figures as an array, and what its rows and columns are.

    Parameters
    ----------
    values : numpy.ndarray of float64, shape (rows, columns)
        In the base unit; NaN where the file has no figure.
    rows, columns : tuple of str
        Sources and targets.
    """

    values: NDArray[float64]
    rows: tuple[str, ...]
    columns: tuple[str, ...]


# What a rate, or a latency, between two kinds of place is called in a file; the rest are CPUs.
_RATES = {
    ("node", "gpu"): ("host-copy", "h2d"),
    ("gpu", "node"): ("host-copy", "d2h"),
    ("gpu", "gpu"): ("peer-copy", "copy"),
}
_LATENCIES = {
    ("node", "gpu"): ("host-latency", "h2d"),
    ("gpu", "node"): ("host-latency", "d2h"),
    ("gpu", "gpu"): ("peer-latency", "load"),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What a file holds, with look-ups by the names of places: ``node0``, ``llc3``, ``gpu1``.

    Parameters
    ----------
    matrix : CostMatrix
        All of it, down to every sample.
    """

    matrix: CostMatrix

    def bandwidth(
        self, source: str, target: str, operation: str | None = None, **params: Param
    ) -> Figure:
        """Give the best rate that was measured from one place to another.

        Parameters
        ----------
        source, target : str
            From the CPUs of the source to the memory of the target; with a GPU, from the memory of
            the source to that of the target.
        operation : str, optional
            read (the usual), write, copy, triad; between GPUs copy (the usual), read, write.
        params
            What a cell's parameters must be, for example ``threads=8``.

        Returns
        -------
        Figure
            Bytes per second with their interval, the cell they came from, and its origin.

        Raises
        ------
        NumamicroError
            The file has no such figure; the sentence says why.
        """
        probe, usual = _named(_RATES, source, target, ("bandwidth", "read"))
        return self.figure(probe, operation or usual, source, target, **params)

    def latency(self, source: str, target: str, **params: Param) -> Figure:
        """Give the shortest time of a load, or of a small copy where one place is a GPU, in seconds.

        Takes and raises as :meth:`bandwidth`. ``pages="huge"`` is what the memory costs alone,
        ``pages="small"`` with the translation of addresses.
        """
        probe, operation = _named(_LATENCIES, source, target, ("latency", "load"))
        return self.figure(probe, operation, source, target, **params)

    def allreduce(self, one: str, other: str, nbytes: int, via: str | None = None) -> Figure:
        """Give the seconds of an all-reduce of `nbytes` over two GPUs.

        Parameters
        ----------
        via : str, optional
            The node through whose memory it is staged; None: directly.

        Raises
        ------
        NumamicroError
            A name is no GPU (or no node), or the file has no such figure.
        """
        group = (_index(one, "gpu"), _index(other, "gpu"))
        staged = None if via is None else _index(via, "node")
        return Rates(self.matrix).all_reduce(group, nbytes, staged)

    def figure(
        self, probe: str, operation: str, source: str, target: str, **params: Param
    ) -> Figure:
        """Give the best figure of any probe on a route; raises as :meth:`bandwidth`."""
        ends = (parse_place(source), parse_place(target))
        cells = [
            cell
            for cell in self._cells(probe, operation, params)
            if (cell.case.route.source, cell.case.route.target) == ends
        ]
        best = best_of(cells)
        found = figure_of(best, self.matrix.header.origin) if best else None
        if found is None:
            route = f"{probe}/{operation} from {source} to {target}"
            raise NumamicroError(f"the file has no figure of {route}: {_why(cells)}")
        return found

    def to_numpy(self, probe: str = "bandwidth", operation: str = "read", **params: Param) -> Grid:
        """Give the best figures of a probe over all its routes as an array; needs numpy.

        Raises
        ------
        NumamicroError
            The file has no such cell, or numpy is not installed.
        """
        try:
            import numpy as np
        except ImportError as error:
            raise NumamicroError("to_numpy needs numpy: pip install numpy") from error
        routes: dict[tuple[AnyPlace, AnyPlace], list[Measurement]] = {}
        for cell in self._cells(probe, operation, params):
            route = cell.case.route
            routes.setdefault((route.source, route.target), []).append(cell)
        if not routes:
            raise NumamicroError(f"the file has no cell of {probe}/{operation}")
        rows = sorted({source for source, _ in routes}, key=_order)
        columns = sorted({target for _, target in routes}, key=_order)
        values = [[_center(routes.get((row, column), ())) for column in columns] for row in rows]
        return Grid(np.array(values), tuple(map(str, rows)), tuple(map(str, columns)))

    def _cells(
        self, probe: str, operation: str, params: Mapping[str, Param]
    ) -> Iterator[Measurement]:
        # Data that took a detour through the host say nothing of a link, unless they are asked for.
        params = {"path": "direct", **params}
        for cell in self.matrix.cells(probe, operation):
            case = {"path": "direct", **dict(cell.case.params)}
            if all(case.get(name) == value for name, value in params.items()):
                yield cell

    def to_records(self) -> list[Record]:
        """Give every cell as a flat dict, for a data frame: see :func:`records`."""
        return records(self.matrix)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result file.

        Raises
        ------
        NumamicroError
            It cannot be written.
        """
        write_matrix(self.matrix, Path(path))


def load(path: str | PathLike[str]) -> Result:
    """Read a result file.

    Raises
    ------
    NumamicroError
        It is none, or cannot be read.
    """
    return Result(read_matrix(Path(path)))


def measure(
    level: str = "default",
    *,
    seconds: float | None = None,
    only: Iterable[str] = (),
    nodes: Iterable[int] = (),
    threads: Iterable[int] = (),
    memory: int | None = None,
    seed: int = 1,
    label: str | None = None,
) -> Result:
    """Measure this machine, as ``numamicro matrix`` does; nothing is written.

    Parameters
    ----------
    level : str
        quick, default or thorough.
    seconds : float, optional
        Budget for measuring; None: the level's own.
    only : iterable of str
        Probes, or ``probe/operation``; empty: all.
    nodes, threads : iterable of int
        Only these nodes, only these sizes of team.
    memory : int, optional
        Bytes of each buffer; None: chosen to be beyond the caches.

    Raises
    ------
    NumamicroError
        A wish cannot be met on this machine.
    """
    from numamicro.session import measured

    if level not in LEVELS:
        raise NumamicroError(f"there is no level '{level:.40}'; choose one of {', '.join(LEVELS)}")
    wishes = Wishes(LEVELS[level], seconds, tuple(only), tuple(nodes), tuple(threads), memory, seed)
    return Result(measured(wishes, label))


def predict(
    result: Result,
    model: str | ModelSpec,
    quant: str | None = None,
    *,
    placement: Placement | None = None,
    load: Load | None = None,
    engine_name: str = "llama.cpp",
    assume: bool = False,
) -> TokenCost:
    """Predict what a token of a model costs on the machine of a result.

    Parameters
    ----------
    model : str or ModelSpec
        A preset, or the path of a ``config.json`` or of a GGUF file.
    quant : str, optional
        Formats of the weights: Q4_K_M, F16, ...
    placement : Placement, optional
        Where the model lies and runs; None: the best there is.
    load : Load, optional
        Batch, context, prompt and format of the cache.
    assume : bool
        Whether labelled defaults may stand in for what the file lacks.

    Raises
    ------
    NumamicroError
        There is no such model, it does not fit, or the file lacks what is needed.
    """
    predictor = _predictor(result, model, quant, load, engine_name, assume)
    return predictor.cost(placement) if placement else search(predictor).best


def advise(
    result: Result,
    model: str | ModelSpec,
    quant: str | None = None,
    *,
    load: Load | None = None,
    engine_name: str = "llama.cpp",
    assume: bool = False,
    by: str = "latency",
) -> Advice:
    """Search for the best placement of a model; takes and raises as :func:`predict`.

    Parameters
    ----------
    by : str
        latency (of a token) or throughput.
    """
    return search(_predictor(result, model, quant, load, engine_name, assume), by=by)


def compare(
    base: Paths,
    new: Paths,
    *,
    unit: str = "boot",
    changed: str | None = None,
    expected: Sequence[str] = (),
    share: float = 0.5,
    model: str | None = None,
    quant: str | None = None,
) -> Comparison:
    """Compare two settings of a machine, as ``numamicro compare`` does.

    Parameters
    ----------
    base, new : path, or sequence of paths
        Result files of either setting, and folders of them: best a file a boot.
    unit : str
        boot, or file: runs within one boot.
    changed : str, optional
        What was changed, as ``NPS1 -> NPS4``.
    expected : sequence of str
        ``h2d=up``, ``latency=down``: tested first.
    share : float
        The quantile of each boot that is compared; 0.5 is the median.
    model, quant : str, optional
        A model whose token is compared, too, as for :func:`predict`.

    Returns
    -------
    Comparison
        Its ``figures`` have a ratio, an interval, a number of boots and a verdict each; where nothing
        can be compared there are none, and ``why_not`` says why.

    Raises
    ------
    NumamicroError
        A file is no result file, a side mixes machines, or boots do not suit the unit.
    """
    from numamicro.comparison import Options
    from numamicro.comparison import compare as compared
    from numamicro.comparison.boots import files_of
    from numamicro.comparison.expect import parse_expectations
    from numamicro.comparison.token import TokenOf

    token = TokenOf(find_model(model, quant)) if model else None
    options = Options(unit, changed, parse_expectations(expected), share, token)
    return compared(files_of(_names(base)), files_of(_names(new)), options)


def _names(paths: Paths) -> list[str]:
    return [str(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)]


def _predictor(
    result: Result,
    model: str | ModelSpec,
    quant: str | None,
    load: Load | None,
    engine_name: str,
    assume: bool,
) -> Predictor:
    spec = find_model(model, quant) if isinstance(model, str) else model
    rates = Rates(result.matrix, assume=assume)
    return Predictor(spec, load or Load(), engine(engine_name), rates)


def _named(
    names: dict[tuple[str, str], tuple[str, str]],
    source: str,
    target: str,
    usual: tuple[str, str],
) -> tuple[str, str]:
    """Give probe and operation of a cost between two kinds of place."""
    kinds = tuple(getattr(parse_place(text), "kind", "set") for text in (source, target))
    if source == target and kinds[0] == "gpu":
        return ("gpu-memory", "read")
    return names.get((kinds[0], kinds[1]), usual)


def _index(text: str, kind: str) -> int:
    place = parse_place(text)
    if not isinstance(place, Place) or place.kind != kind or not isinstance(place.id, int):
        raise NumamicroError(f"{text!r:.60} is no {kind}; write for example {kind}0")
    return place.id


def _why(cells: Sequence[Measurement]) -> str:
    if not cells:
        return "it was not measured"
    cell = cells[0]
    return f"{cell.state}, {cell.reason.text}" if cell.reason else str(cell.state)


def _order(place: AnyPlace) -> tuple[str, int, str]:
    number = getattr(place, "id", 0)
    return (getattr(place, "kind", ""), number if isinstance(number, int) else 0, str(place))


def _center(cells: Iterable[Measurement]) -> float:
    best = best_of(cells)
    summary = best.summary() if best else None
    return summary.center if summary else float("nan")
