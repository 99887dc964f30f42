"""Reading much at once: what is alike is decoded once, no collector walks what grows."""

from __future__ import annotations

import gc
import marshal
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]
T = TypeVar("T")

_PIECE_BYTES = 1 << 20
"""Far more than any machine's result, and less than would fill a memory."""
_MOST_KEPT = 1 << 14
"""Distinct documents of a kind that are kept: more than any machine has cells."""

_NO_REFERENCES = 2
"""Version of marshal that writes like values alike, whether or not they are one object."""


@contextmanager
def no_collector() -> Iterator[None]:
    """Keep the cycle collector still: it would walk all of a growing result again and again.

    What is read has no cycles, and goes when nobody holds it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def remembered(decode: Callable[[Json, str], T]) -> Callable[[Json, str], T]:
    """Decode like content once: thousands of cells of many files hold the same.

    As marshalled, unlike as hashed, 1 is neither 1.0 nor true.
    """

    @lru_cache(maxsize=_MOST_KEPT)
    def known(content: bytes) -> T:
        return decode(marshal.loads(content), "")

    def decoded(document: Json, where: str) -> T:
        try:
            return known(marshal.dumps(document, _NO_REFERENCES))
        except (NumamicroError, ValueError):
            return decode(document, where)  # Once more, to say where the fault is.

    return decoded


def read_at_most(file: BinaryIO, most: int) -> bytearray:
    """Read in pieces: one read would set memory aside for all that it may bring."""
    data = bytearray()
    while piece := file.read(min(_PIECE_BYTES, most - len(data))):
        data += piece
    return data
