"""Reading much at once: no collector walks what grows, no memory is set aside for what may not come."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE_BYTES = 1 << 20
"""Far more than any machine's result, and less than would fill a memory."""


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


def read_at_most(file: BinaryIO, most: int) -> bytes:
    """Read in pieces: one read would set memory aside for all that it may bring."""
    pieces: list[bytes] = []
    while piece := file.read(min(_PIECE_BYTES, most)):
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)
