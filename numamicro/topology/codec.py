"""Frozen dataclasses to plain JSON values and back, exactly."""

from __future__ import annotations

from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from numamicro.errors import NumamicroError

Json: TypeAlias = Any
T = TypeVar("T")


def encode(value: object) -> Json:
    """Give `value` as dict, list, str, number, bool or None; the keys keep the fields' order."""
    if is_dataclass(value):
        return {f.name: encode(getattr(value, f.name)) for f in fields(value) if f.init}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(key): encode(value[key]) for key in sorted(value)}
    return value


def decode(kind: type[T], value: Json, where: str) -> T:
    """Give the dataclass `kind` that :func:`encode` wrote as `value`.

    Parameters
    ----------
    where : str
        What `value` is part of; the error says it.

    Raises
    ------
    NumamicroError
        A key is missing or holds another type. Keys that this version does not know are ignored.
    """
    return cast("T", _decode(kind, value, where))


def _decode(kind: Any, value: Json, where: str) -> Any:
    if get_origin(kind) is UnionType:
        return None if value is None else _decode(_without_none(kind), value, where)
    if is_dataclass(kind):
        return _dataclass(cast("type[Any]", kind), value, where)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        items = _checked(list, value, where)
        return tuple(_decode(item, entry, f"{where}[{i}]") for i, entry in enumerate(items))
    if get_origin(kind) is dict:
        item = get_args(kind)[1]
        entries = _checked(dict, value, where).items()
        return {_index(k, where): _decode(item, entry, f"{where}.{k}") for k, entry in entries}
    if kind in (int, float):
        return _number(kind, value, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _member(kind, value, where)
    return _checked(kind, value, where)


def _dataclass(kind: type[Any], value: Json, where: str) -> Any:
    given = _checked(dict, value, where)
    hints = _hints(cast("Any", kind))
    return kind(
        **{
            f.name: _decode(hints[f.name], given[f.name], f"{where}.{f.name}")
            for f in fields(kind)
            if f.init and (f.name in given or _required(f, where))
        }
    )


def _required(field: Field[Any], where: str) -> bool:
    if field.default is MISSING and field.default_factory is MISSING:
        raise NumamicroError(f"{where} lacks the key '{field.name}'; the file is cut or not ours")
    return False


def _checked(kind: type[T], value: Json, where: str) -> T:
    # type() and not isinstance(): true is no number.
    if type(value) is kind:
        return value
    raise _no(kind, value, where)


def _no(kind: type[Any], value: Json, where: str) -> NumamicroError:
    text = f"{where} is {value!r:.60}, not of type {kind.__name__}; mend the file"
    return NumamicroError(text)


def _member(kind: type[StrEnum], value: Json, where: str) -> StrEnum:
    try:
        return kind(_checked(str, value, where))
    except ValueError as error:
        names = ", ".join(kind)
        raise NumamicroError(
            f"{where} is {value!r:.60}, not one of {names}; mend the file"
        ) from error


def _number(kind: type[T], value: Json, where: str) -> T:
    # An integer is a fine float; NaN, infinity and what passes 64 bits count and measure nothing.
    if type(value) in (int, kind) and abs(value) < 2**63:
        return cast("T", cast("Any", kind)(value))
    raise _no(kind, value, where)


def _index(key: str, where: str) -> int:
    if key.isascii() and key.isdecimal() and len(key) < 10:
        return int(key)
    raise NumamicroError(f"{where} has the key {key!r:.60}, which is no index; mend the file")


def _without_none(kind: UnionType) -> Any:
    return next(option for option in get_args(kind) if option is not NoneType)


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return get_type_hints(kind)
