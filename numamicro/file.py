"""The result file: JSON to and from a :class:`CostMatrix`. docs/FORMAT.md tells its history."""

from __future__ import annotations

import json
import math
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from numamicro.bulk import no_collector, read_at_most, remembered
from numamicro.case import Case, Place, Route, parse_place
from numamicro.errors import NumamicroError
from numamicro.matrix import CostMatrix, Header, Measurement, Placement, Run, Sample, State
from numamicro.saving import save
from numamicro.topology import Machine, Note
from numamicro.typed import MOST, Json, as_kind, maybe, plain, take
from numamicro.units import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

SCHEMA = 1
"""Version of the file that this program writes."""

UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From a version to the function that turns its document into the next version's."""

T = TypeVar("T")

_LEAST_SECONDS = 1e-15
"""Shorter than any clock's step: a rate over less would pass what a float holds."""
_MOST_BYTES = 1 << 30
_STATES = {state.value: state for state in State}


# ---- writing -------------------------------------------------------------------------------------


def matrix_to_json(matrix: CostMatrix) -> Json:
    """Give the whole document, keys in the order a reader wants them."""
    header = matrix.header
    return {
        "schema": SCHEMA,
        "tool": header.tool,
        "created": header.created,
        "origin": header.origin,
        "label": header.label,
        "machine_id": header.machine_id,
        "boot_id": header.boot_id,
        "plan": dict(header.plan),
        "budget": header.budget,
        "setting": dict(header.setting),
        "machine": header.machine.to_json(),
        "measurements": [measurement_to_json(cell) for cell in matrix.measurements],
    }


def measurement_to_json(cell: Measurement) -> Json:
    """Give one cell."""
    document = case_to_json(cell.case) | {
        "unit": cell.unit,
        "state": cell.state.value,
        "reason": _reason_to_json(cell.reason),
        "runs": [run_to_json(run) for run in cell.runs],
    }
    return document | ({} if cell.origin is None else {"origin": cell.origin})


def case_to_json(case: Case) -> Json:
    """Give the identity of a cell."""
    route = case.route
    return {
        "probe": case.probe,
        "operation": case.operation,
        "route": {
            "source": str(route.source),
            "target": str(route.target),
            "via": str(route.via) if route.via else None,
            "mover": route.mover,
        },
        "params": dict(case.params),
    }


def run_to_json(run: Run) -> Json:
    """Give what one process brought."""
    return {
        "process": run.process,
        "temperature": run.temperature,
        "state": run.state.value,
        "reason": _reason_to_json(run.reason),
        "samples": [list(sample) for sample in run.samples],
        "placement": _placement_to_json(run.placement) if run.placement else None,
        "outcome": dict(run.outcome),
        "warnings": [_reason_to_json(warning) for warning in run.warnings],
    }


def _placement_to_json(placement: Placement) -> Json:
    return {
        "share": placement.share,
        "by": placement.by,
        "pages": {str(node): count for node, count in placement.pages.items()},
        "page_bytes": placement.page_bytes,
        "huge_share": placement.huge_share,
    }


def _reason_to_json(reason: Note | None) -> Json | None:
    return {"code": reason.code, "text": reason.text} if reason else None


def matrix_text(matrix: CostMatrix) -> str:
    """Give the document as text: one line a cell, for files are diffed and grepped."""
    document = matrix_to_json(matrix)
    cells = _BETWEEN.join(json.dumps(cell) for cell in document.pop("measurements"))
    head = json.dumps(document, indent=1).removesuffix("\n}")
    return f"{head}{_CELLS}{cells}{_END}"


_CELLS, _BETWEEN, _END = ',\n "measurements": [\n', ",\n", "\n ]\n}\n"
"""What stands before, between and after cells; none of it can stand within a JSON text's quotes."""


def write_matrix(matrix: CostMatrix, path: Path) -> None:
    """Write the document so that `path` holds either all of it or what it held before.

    Raises
    ------
    NumamicroError
        It cannot be written (read-only folder, full disk).
    """
    save(matrix_text(matrix), path)


# ---- reading -------------------------------------------------------------------------------------


def read_matrix(path: Path) -> CostMatrix:
    """Read a result file.

    Raises
    ------
    NumamicroError
        It cannot be read, is cut short, is newer than this program, or lacks a key.
    """
    with no_collector():
        header, cells = read_cells(path, lambda cell: cell)
        return CostMatrix(header, tuple(cells))


def read_cells(path: Path, keep: Callable[[Measurement], T]) -> tuple[Header, list[T]]:
    """Read a result file and keep of each cell what `keep` gives.

    Raises
    ------
    NumamicroError
        As of :func:`read_matrix`.
    """
    text, where = _text_of(path), str(path)
    try:
        header, cells = _as_written(text, where)
        return header, [keep(cell) for cell in cells]
    except (ValueError, RecursionError):
        header, cells = _decoded(_parsed(text, path), where)
        return header, [keep(cell) for cell in cells]


def _as_written(text: str, where: str) -> tuple[Header, Iterator[Measurement]]:
    """Give the cells of a text that stands as :func:`matrix_text` writes it, parsed one by one: what
    was parsed of one is given back before the next takes memory.

    Raises
    ------
    ValueError
        It stands otherwise, which may or may not be JSON.
    """
    head, begin, _ = text.partition(_CELLS)
    document = json.loads(f"{head}{begin}{_END}", parse_constant=partial(_refuse, where))
    if not begin or document.get("schema") != SCHEMA or _overflows(document):
        raise ValueError
    header, _ = _decoded(document, where)
    return header, _measurements(_cells_from(text, len(head) + len(_CELLS), where), where)


def _cells_from(text: str, position: int, where: str) -> Iterator[object]:
    parse = json.JSONDecoder(parse_constant=partial(_refuse, where)).raw_decode
    while True:
        cell, position = parse(text, position)
        yield cell
        if not text.startswith(_BETWEEN, position):
            break
        position += len(_BETWEEN)
    if text[position:] != _END:
        raise ValueError


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = read_at_most(file, _MOST_BYTES + 1)
        if len(data) <= _MOST_BYTES:
            return data.decode()
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise NumamicroError(f"{path} is no result file: it is not text") from error
    raise NumamicroError(f"{path} is no result file: it is larger than {bytes_text(_MOST_BYTES)}")


def _parsed(text: str, path: Path) -> object:
    refuse = partial(_refuse, str(path))
    try:
        document = json.loads(text, parse_constant=refuse)
        if _overflows(document):
            # Once more, to name the number; to look at each while reading would take as long again.
            json.loads(text, parse_constant=refuse, parse_float=partial(_finite, str(path)))
        return document
    except json.JSONDecodeError as error:
        raise NumamicroError(f"{path} is no {_fault(text, error)}") from error
    except (RecursionError, ValueError) as error:
        raise NumamicroError(f"{path} is no result file: its JSON is absurd") from error


def _fault(text: str, error: json.JSONDecodeError) -> str:
    """Tell what was cut short, as a full disk leaves it, from what never was a result."""
    whole = text.strip()
    if not whole:
        return "result file: it is empty"
    if whole.startswith("{") and not (whole.endswith("}") and text[error.pos :].strip()):
        return f"complete result file: its JSON breaks off at line {error.lineno}"
    return f"result file: line {error.lineno} is not JSON"


def _overflows(document: object) -> bool:
    """Tell whether a number that no float holds stands anywhere but in the cells, where each number
    is looked at by what takes it."""
    if isinstance(document, dict):
        return any(_overflows(value) for key, value in document.items() if key != "measurements")
    if isinstance(document, list):
        return any(map(_overflows, document))
    return isinstance(document, float) and math.isinf(document)


def _refuse(where: str, constant: str) -> NoReturn:
    raise NumamicroError(f"{where} holds {constant:.40}, which is neither a figure nor JSON")


def _finite(where: str, text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(where, text)


def matrix_from_json(document: object, where: str) -> CostMatrix:
    """Give the matrix a document holds; `where` names it in an error.

    Raises
    ------
    NumamicroError
        The document is newer than this program, lacks a key, or a key holds the wrong kind.
    """
    header, cells = _decoded(document, where)
    return CostMatrix(header, tuple(cells))


def _decoded(document: object, where: str) -> tuple[Header, Iterator[Measurement]]:
    top = _upgraded(as_kind(document, dict, where), where)
    cells = take(top, "measurements", list, where)
    machine = _machine_from_json(take(top, "machine", dict, where), where)
    header = Header(
        tool=take(top, "tool", str, where),
        created=take(top, "created", str, where),
        origin=take(top, "origin", str, where),
        label=maybe(top, "label", str, where),
        machine_id=maybe(top, "machine_id", str, where),
        boot_id=maybe(top, "boot_id", str, where),
        plan=take(top, "plan", dict, where),
        budget=maybe(top, "budget", (int, float), where),
        setting=plain(top, "setting", where),
        machine=machine,
    )
    return header, _measurements(cells, where)


def _measurements(cells: Iterable[object], where: str) -> Iterator[Measurement]:
    for index, cell in enumerate(cells):
        yield measurement_from_json(cell, f"{where}: measurements[{index}]")


@remembered
def _machine_from_json(document: Json, where: str) -> Machine:
    try:
        return Machine.from_json(document)
    except NumamicroError as error:
        raise NumamicroError(f"{where}: {error}") from error


def _upgraded(document: Json, where: str) -> Json:
    version = take(document, "schema", int, where)
    if version > SCHEMA:
        raise NumamicroError(
            f"{where} has schema {version}, and this numamicro reads up to {SCHEMA}: "
            "update numamicro to read it"
        )
    while version < SCHEMA:
        if version not in UPGRADES:
            raise NumamicroError(f"{where} has schema {version}, which no numamicro ever wrote")
        document = UPGRADES[version](document)
        version += 1
    return document


def measurement_from_json(document: object, where: str) -> Measurement:
    """Give one cell."""
    cell = as_kind(document, dict, where)
    state = _state(cell, where)
    runs = _runs_from_json(take(cell, "runs", list, where), where)
    if state is State.OK and any(run.state is not State.OK for run in runs):
        raise NumamicroError(f"{where} is said to be ok, and one of its runs is not")
    return Measurement(
        case=case_from_json(cell, where),
        unit=take(cell, "unit", str, where),
        state=state,
        reason=_reason(cell, where),
        runs=runs,
        origin=maybe(cell, "origin", str, where),
    )


def case_from_json(document: object, where: str) -> Case:
    """Give the identity of a cell."""
    cell = as_kind(document, dict, where)
    return _case_from_json({key: cell[key] for key in _IDENTITY if key in cell}, where)


_IDENTITY = ("probe", "operation", "route", "params")


@remembered
def _case_from_json(cell: Json, where: str) -> Case:
    route = take(cell, "route", dict, where)
    params = take(cell, "params", dict, where)
    for name, value in params.items():
        as_kind(value, (int, float, str, bool), f"{where}.params[{name!r:.60}]")
    try:
        via = maybe(route, "via", str, where)
        return Case.of(
            take(cell, "probe", str, where),
            take(cell, "operation", str, where),
            Route(
                _place(take(route, "source", str, where)),
                _place(take(route, "target", str, where)),
                None if via is None else _single_place(via),
                take(route, "mover", str, where),
            ),
            **params,
        )
    except NumamicroError as error:
        text = str(error)
        raise NumamicroError(text if text.startswith(where) else f"{where}: {text}") from error


_place = lru_cache(maxsize=4096)(parse_place)
"""Thousands of cells name a few places."""


def _single_place(text: str) -> Place:
    place = _place(text)
    if isinstance(place, Place):
        return place
    raise NumamicroError(f"{text!r:.60} is several places where one is meant")


def run_from_json(document: object, where: str) -> Run:
    """Give what one process brought."""
    run = as_kind(document, dict, where)
    (samples,) = _samples_from_json([run], [where])
    return _run(run, samples, where)


def _runs_from_json(documents: list[Any], where: str) -> tuple[Run, ...]:
    places = [f"{where}.runs[{index}]" for index in range(len(documents))]
    runs = [as_kind(run, dict, place) for run, place in zip(documents, places, strict=True)]
    return tuple(map(_run, runs, _samples_from_json(runs, places), places))


def _run(run: Json, samples: tuple[Sample, ...], where: str) -> Run:
    placement = maybe(run, "placement", dict, where)
    return Run(
        process=take(run, "process", int, where),
        samples=samples,
        temperature=take(run, "temperature", str, where),
        state=_state(run, where),
        reason=_reason(run, where),
        placement=None
        if placement is None
        else _placement_from_json(placement, f"{where}.placement"),
        outcome=plain(run, "outcome", where),
        warnings=_warnings(take(run, "warnings", list, where), where),
    )


def _samples_from_json(runs: list[Json], places: list[str]) -> list[tuple[Sample, ...]]:
    """Give the samples of each run, checked all together: files hold millions of them."""
    lists = [take(run, "samples", list, place) for run, place in zip(runs, places, strict=True)]
    together = [*chain.from_iterable(lists)]
    if together and not _are_samples(together):
        raise NumamicroError(
            f"{_first_other(lists, places)} is not [seconds, amount, repetitions], all above zero"
        )
    return [tuple(map(_new_sample, samples)) for samples in lists]


def _are_samples(rows: list[Any]) -> bool:
    try:
        seconds, amounts, repetitions = zip(*rows, strict=True)
    except (TypeError, ValueError):
        return False
    # What else has three parts, a text or an object, has no numbers for parts.
    if not (
        {*map(type, seconds)} <= {float, int}
        and {*map(type, amounts)} == {*map(type, repetitions)} == {int}
    ):
        return False
    counts = {*amounts, *repetitions}
    fit = min(seconds) >= _LEAST_SECONDS and max(seconds) < MOST
    return bool(fit and min(counts) > 0 and max(counts) < MOST)


def _first_other(lists: list[list[Any]], places: list[str]) -> str:
    return next(
        f"{place}.samples[{index}]"
        for rows, place in zip(lists, places, strict=True)
        for index, row in enumerate(rows)
        if not _are_samples([row])
    )


_new_sample = partial(tuple.__new__, Sample)
"""As `Sample._make`, in a third of its time."""


@remembered
def _placement_from_json(placement: Json, where: str) -> Placement:
    pages = take(placement, "pages", dict, where)
    try:
        counted = {
            int(node): as_kind(count, int, f"{where}.pages") for node, count in pages.items()
        }
    except ValueError as error:
        raise NumamicroError(f"{where}.pages has a key that is no node id") from error
    return Placement(
        share=_share(placement, "share", where),
        by=maybe(placement, "by", str, where),
        pages=counted,
        page_bytes=take(placement, "page_bytes", int, where),
        huge_share=_share(placement, "huge_share", where),
    )


def _share(placement: Json, key: str, where: str) -> float | None:
    share = maybe(placement, key, (int, float), where)
    if share is not None and not 0 <= share <= 1:
        raise NumamicroError(f"{where}: key '{key}' is not within 0 and 1")
    return None if share is None else float(share)


def _reason(document: Json, where: str) -> Note | None:
    reason = document.get("reason")
    return None if reason is None else _note(reason, f"{where}.reason")


def _warnings(warnings: list[Any], where: str) -> tuple[Note, ...]:
    if not warnings:
        return ()
    return tuple(
        _note(warning, f"{where}.warnings[{index}]")
        for index, warning in enumerate(warnings)
        if warning is not None
    )


def _note(document: object, where: str) -> Note:
    note = as_kind(document, dict, where)
    return Note(take(note, "code", str, where), take(note, "text", str, where))


def _state(document: Json, where: str) -> State:
    text = take(document, "state", str, where)
    state = _STATES.get(text)
    if state is None:
        raise NumamicroError(f"{where}: {text!r:.60} is no state of a cell")
    return state
