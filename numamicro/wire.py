"""Cells as JSON, for files and between processes: what is written, and what reading makes of it.

msgspec checks a document against the shapes below while it reads it, and says where it is wrong.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import Meta, Struct, ValidationError, convert

from numamicro.case import Case, Param, Place, Route, parse_place
from numamicro.errors import NumamicroError
from numamicro.matrix import Measurement, Placement, Run, Sample, State, groups_of
from numamicro.topology import Note  # noqa: TC001  (msgspec asks for the type at run time)

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
T = TypeVar("T")

# ---- writing -------------------------------------------------------------------------------------


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


# ---- shapes --------------------------------------------------------------------------------------

# No number of a file passes 64 bits.
_MOST = 2**63
Whole = Annotated[int, Meta(gt=-_MOST, le=_MOST - 1)]
Real = Annotated[float, Meta(gt=-float(_MOST), lt=float(_MOST))]
Plain = Whole | Real | str | bool | None
_Count = Annotated[int, Meta(gt=0, le=_MOST - 1)]
_Share = Annotated[float, Meta(ge=0, le=1)]
# Shorter than any clock's step: a rate over less would pass what a float holds.
_Seconds = Annotated[float, Meta(ge=1e-15, lt=float(_MOST))]


class _Route(Struct, frozen=True):
    source: str
    target: str
    mover: str
    via: str | None = None

    def meant(self) -> Route:
        via = None if self.via is None else _single_place(self.via)
        return Route(_place(self.source), _place(self.target), via, self.mover)


class _Case(Struct):
    probe: str
    operation: str
    route: _Route
    params: dict[str, Whole | Real | str | bool]

    def case(self) -> Case:
        return _case(
            self.probe, self.operation, self.route, tuple(self.params), *self.params.values()
        )


# Thousands of cells of many files name the same cases. Typed, for 1 is neither 1.0 nor true.
@lru_cache(maxsize=1 << 14, typed=True)
def _case(
    probe: str, operation: str, route: _Route, names: tuple[str, ...], *values: Param
) -> Case:
    return Case.of(probe, operation, route.meant(), **dict(zip(names, values, strict=True)))


_place = lru_cache(maxsize=4096)(parse_place)


def _single_place(text: str) -> Place:
    place = _place(text)
    if isinstance(place, Place):
        return place
    raise NumamicroError(f"{text!r:.60} is several places where one is meant")


class _Placement(Struct):
    pages: dict[Whole, Whole]
    page_bytes: Whole
    share: _Share | None = None
    by: str | None = None
    huge_share: _Share | None = None

    def meant(self) -> Placement:
        return Placement(self.share, self.by, self.pages, self.page_bytes, self.huge_share)


class _Run(Struct):
    process: Whole
    samples: list[tuple[_Seconds, _Count, _Count]]
    temperature: str
    state: State
    outcome: dict[str, Plain]
    warnings: tuple[Note, ...]
    reason: Note | None = None
    placement: _Placement | None = None

    def meant(self) -> Run:
        return Run(
            self.process,
            tuple(map(_new_sample, self.samples)),
            self.temperature,
            self.state,
            self.reason,
            self.placement.meant() if self.placement else None,
            self.outcome,
            self.warnings,
        )


_new_sample = partial(tuple.__new__, Sample)
"""As `Sample._make`, in a third of its time: files hold millions of them."""


class Cell(_Case):
    """A cell as it stands in a file."""

    unit: str
    state: State
    runs: list[_Run]
    reason: Note | None = None
    origin: str | None = None

    def __post_init__(self) -> None:
        if self.state is State.OK:
            for run in self.runs:
                if run.state is not State.OK:
                    raise ValueError("said to be ok, and one of its runs is not")

    def groups(self) -> list[list[float]]:
        """Give its warm samples as :meth:`Measurement.groups` does, without making all else."""
        return groups_of(self.unit, self.runs)

    def meant(self) -> Measurement:
        """Give the cell itself.

        Raises
        ------
        NumamicroError
            It names no place.
        """
        runs = tuple([run.meant() for run in self.runs])
        return Measurement(self.case(), self.unit, self.state, self.reason, runs, self.origin)


# ---- reading -------------------------------------------------------------------------------------


def measurement_from_json(document: object, where: str) -> Measurement:
    """Give one cell; `where` names it in an error, as in the functions below.

    Raises
    ------
    NumamicroError
        A key is missing, or holds what it should not.
    """
    cell = shaped(document, Cell, where)
    with at(where):
        return cell.meant()


def case_from_json(document: object, where: str) -> Case:
    """Give the identity of a cell."""
    case = shaped(document, _Case, where)
    with at(where):
        return case.case()


def run_from_json(document: object, where: str) -> Run:
    """Give what one process brought."""
    return shaped(document, _Run, where).meant()


def shaped(document: object, shape: type[T], where: str) -> T:
    """Give a parsed document in its shape.

    Raises
    ------
    NumamicroError
        It has another; the sentence says where and what it should be.
    """
    try:
        return convert(document, shape, str_keys=True)
    except ValidationError as error:
        raise NumamicroError(_sentence(str(error), where)) from error
    except UnicodeEncodeError as error:
        raise NumamicroError(f"{where} has a key with half a character") from error
    except RecursionError as error:
        raise NumamicroError(f"{where} is nested too deep") from error


@contextmanager
def at(where: str) -> Iterator[None]:
    """Say in an error where it is."""
    try:
        yield
    except NumamicroError as error:
        raise NumamicroError(f"{where}: {error}") from error


_WORDS = {
    "int": "a whole number",
    "float": "a decimal number",
    "str": "a text",
    "bool": "true or false",
    "null": "null",
    "object": "an object",
    "array": "a list",
}
_PATH = re.compile(r" - at (`key` in )?`\$\.?(.*)`$")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_WRONG = re.compile(r"Expected `([^`]*)`(.*?)(?:, got (.*))?")
_FAR = re.compile(r" [<>]=? -?9[.0-9e+]{18,}")
"""A bound of 64 bits."""


def _sentence(fault: str, where: str) -> str:
    """Say what msgspec says in this program's words."""
    place = where
    if found := _PATH.search(fault):
        fault = fault[: found.start()]
        place += f": {'a key of ' if found[1] else ''}{found[2]}"
    if missing := _MISSING.fullmatch(fault):
        return f"{place}: key '{missing[1]}' is missing"
    if wrong := _WRONG.fullmatch(fault):
        kinds, bound, got = wrong.groups()
        wanted = " or ".join(_WORDS.get(kind, kind) for kind in kinds.split(" | "))
        wanted = wanted.replace("a whole number or a decimal number", "a number")
        bound = " within 64 bits" if _FAR.fullmatch(bound) else bound
        held = (got or "").strip("`")
        return f"{place} should be {wanted}{bound}" + (
            f", not {_WORDS.get(held, held)}" if held else ""
        )
    return f"{place}: {fault[:1].lower()}{fault[1:80]}"
