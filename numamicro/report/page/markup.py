"""HTML and SVG elements from Python values: everything that is not markup already is escaped."""

from __future__ import annotations

import html
import json
from typing import TypeAlias


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child: TypeAlias = "str | None"
Attribute: TypeAlias = "str | int | float | bool | None"

_EMPTY = frozenset({"meta", "br", "rect", "line"})


def escaped(text: str) -> str:
    """Give text for an element or an attribute; markup stays as it is."""
    if isinstance(text, Markup):
        return text
    # A file of somebody else's may hold half a surrogate pair, which no encoding can write.
    return html.escape(text.encode("utf-8", "replace").decode("utf-8"))


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """Give an element.

    Parameters
    ----------
    children : str or None
        Text, or markup; None is left out.
    attributes : str, number, bool or None
        A trailing underscore is dropped and others become hyphens (``class_``, ``data_more``). None
        and False are left out, True is an attribute without a value.
    """
    words = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        plain = key.rstrip("_").replace("_", "-")
        words.append(plain if value is True else f'{plain}="{escaped(str(value))}"')
    start = f"<{' '.join(words)}>"
    if name in _EMPTY:
        return Markup(f"{start[:-1]}/>")
    return Markup(f"{start}{joined(*children)}</{name}>")


def joined(*children: Child, between: str = "") -> Markup:
    """Give children one after another; None is left out."""
    return Markup(between.join(escaped(child) for child in children if child is not None))


def data(value: object, id: str) -> Markup:
    """Give JSON that a script of the page reads and no browser runs."""
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return Markup(f'<script type="application/json" id="{id}">{text}</script>')
