"""The result file: JSON to and from a :class:`CostMatrix`. docs/FORMAT.md tells its history."""

from __future__ import annotations

import json
import math
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from msgspec import Struct
from msgspec.json import Decoder, decode

from numamicro.bulk import no_collector, read_at_most
from numamicro.errors import NumamicroError
from numamicro.matrix import CostMatrix, Header
from numamicro.saving import save
from numamicro.topology import Machine
from numamicro.units import bytes_text
from numamicro.wire import Cell, Json, Real, Whole, at, measurement_to_json, shaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

SCHEMA = 1
"""Version of the file that this program writes."""

UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""From a version to the function that turns its document into the next version's."""

T = TypeVar("T")

_MOST_BYTES = 1 << 30


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
    header, cells = read_cells(path, Cell.meant)
    return CostMatrix(header, tuple(cells))


def read_cells(path: Path, keep: Callable[[Cell], T]) -> tuple[Header, list[T]]:
    """Read a result file and keep of each cell what `keep` gives: whoever wants one figure of each
    of many thousands need not have all that a :class:`Measurement` holds.

    Raises
    ------
    NumamicroError
        As of :func:`read_matrix`.
    """
    data, where = _bytes_of(path), str(path)
    with no_collector():
        try:
            return _kept(*_as_written(data), keep, where)
        except (ValueError, RecursionError):
            # Not as this version writes it: a slower reader upgrades it, or says what is wrong.
            document = _document(_parsed(data, path), where)
            return _kept(document, document.measurements, keep, where)


def _as_written(data: bytes) -> tuple[_Document, Iterator[Cell]]:
    """Give the head and the cells of a text that stands as :func:`matrix_text` writes it, one by one:
    what was read of one is given back before the next takes memory.

    Raises
    ------
    ValueError
        It stands otherwise.
    """
    begin, end = data.index(_CELLS.encode()) + len(_CELLS), _END.encode()
    document = decode(data[:begin] + end, type=_Document)
    if document.schema != SCHEMA or not data.endswith(end):
        raise ValueError
    lines = data[begin : -len(end)].split(_BETWEEN.encode())
    return document, map(Decoder(Cell).decode, lines)


def matrix_from_json(document: object, where: str) -> CostMatrix:
    """Give the matrix a document holds; `where` names it in an error.

    Raises
    ------
    NumamicroError
        The document is newer than this program, lacks a key, or a key holds the wrong kind.
    """
    found = _document(document, where)
    header, cells = _kept(found, found.measurements, Cell.meant, where)
    return CostMatrix(header, tuple(cells))


class _Document(Struct):
    schema: int
    tool: str
    created: str
    origin: str
    plan: dict[str, Any]
    setting: dict[str, Whole | str | None]
    machine: dict[str, Any]
    measurements: list[Cell]
    label: str | None = None
    machine_id: str | None = None
    boot_id: str | None = None
    budget: Whole | Real | None = None


def _header(document: _Document, where: str) -> Header:
    with at(where):
        machine = Machine.from_json(document.machine)
    return Header(
        tool=document.tool,
        created=document.created,
        origin=document.origin,
        label=document.label,
        machine_id=document.machine_id,
        boot_id=document.boot_id,
        plan=document.plan,
        budget=document.budget,
        setting=document.setting,
        machine=machine,
    )


def _kept(
    document: _Document, cells: Iterable[Cell], keep: Callable[[Cell], T], where: str
) -> tuple[Header, list[T]]:
    header, kept = _header(document, where), []
    for index, cell in enumerate(cells):
        try:
            kept.append(keep(cell))
        except NumamicroError as error:
            raise NumamicroError(f"{where}: measurements[{index}]: {error}") from error
    return header, kept


def _document(document: object, where: str) -> _Document:
    return shaped(_upgraded(document, where), _Document, where)


def _upgraded(document: object, where: str) -> Json:
    found = shaped(document, dict[str, Any], where)
    version = shaped(found, _Version, where).schema
    if version > SCHEMA:
        raise NumamicroError(
            f"{where} has schema {version}, and this numamicro reads up to {SCHEMA}: "
            "update numamicro to read it"
        )
    while version < SCHEMA:
        if version not in UPGRADES:
            raise NumamicroError(f"{where} has schema {version}, which no numamicro ever wrote")
        found = UPGRADES[version](found)
        version += 1
    return found


class _Version(Struct):
    schema: Whole


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = read_at_most(file, _MOST_BYTES + 1)
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        most = bytes_text(_MOST_BYTES)
        raise NumamicroError(f"{path} is no result file: it is larger than {most}")
    return data


def _parsed(data: bytes, path: Path) -> object:
    try:
        text = data.decode()
        parse_float = partial(_finite, str(path))
        return json.loads(text, parse_constant=partial(_refuse, str(path)), parse_float=parse_float)
    except UnicodeDecodeError as error:
        raise NumamicroError(f"{path} is no result file: it is not text") from error
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


def _refuse(where: str, constant: str) -> NoReturn:
    raise NumamicroError(f"{where} holds {constant:.40}, which is neither a figure nor JSON")


def _finite(where: str, text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(where, text)
