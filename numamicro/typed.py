"""Values out of parsed JSON: of the kind they should be, or one sentence that says where they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

MOST = 2**63
"""No number of a file reaches it."""

_PLAIN = (str, bool, type(None))
_SIZELESS = frozenset({dict, list, *_PLAIN})
"""Types of which no value is too large."""
_NAMES: dict[type, str] = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def take(document: Mapping[str, Any], key: str, kind: Any, where: str) -> Any:
    """Give the value of a key, of a type or of one of several.

    Raises
    ------
    NumamicroError
        It is missing, of another type, or a number that passes 64 bits.
    """
    value = document.get(key)
    # Nearly every value is what it should be, and a sentence on where it stands takes longer.
    if type(value) is kind and (kind in _SIZELESS or is_number(value)):
        return value
    if key not in document:
        raise NumamicroError(f"{where}: key '{key}' is missing")
    return as_kind(value, kind, f"{where}: key '{key}'")


def plain(document: Mapping[str, Any], key: str, where: str) -> Json:
    """Give an object that holds texts, numbers, true, false and null only."""
    values: Json = take(document, key, dict, where)
    for name, value in values.items():
        if type(value) not in _PLAIN and not is_number(value):
            as_kind(value, (int, float, *_PLAIN), f"{where}: {key}[{name!r:.60}]")
    return values


def maybe(document: Mapping[str, Any], key: str, kind: Any, where: str) -> Any:
    """Give the value of a key that may be missing or null: None then."""
    return None if document.get(key) is None else take(document, key, kind, where)


def as_kind(value: object, kind: Any, where: str) -> Any:
    """Give the value when it is of a type, or of one of several."""
    if type(value) is kind and kind in _SIZELESS:
        return value
    # bool is an int to Python, never to the file.
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise NumamicroError(f"{where} holds {_NAMES[type(value)]}, not {_names(kinds)}")
    if isinstance(value, int | float) and not abs(value) < MOST:
        raise NumamicroError(f"{where} holds a number that passes 64 bits")
    return value


def is_number(value: Any) -> bool:
    """Tell whether it is a number within 64 bits."""
    return type(value) in (int, float) and -MOST < value < MOST


def _names(kinds: tuple[type, ...]) -> str:
    return " or ".join(dict.fromkeys(_NAMES[kind] for kind in kinds))
