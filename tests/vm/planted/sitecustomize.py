"""Breaks one thing beneath the product, in every Python that starts with this folder on its path.

The product is not changed and does not know: what must catch the fault is its own question to the
kernel where the pages are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numamicro import _cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Real = _cpu.Arena
ONLINE = [
    int(folder.name.removeprefix("node"))
    for folder in Path("/sys/devices/system/node").glob("node[0-9]*")
]
ONLINE.sort()


def following(node: int) -> int:
    return ONLINE[(ONLINE.index(node) + 1) % len(ONLINE)]


BROKEN: dict[str, Callable[[int], int]] = {
    "wrong-node": following,
    "off-by-one": lambda node: node + 1,
    "index": ONLINE.index,
}


def broken(size: int, *, huge: bool, nodes: Sequence[int] = (), **more: Any) -> _cpu.Arena:
    """Give an arena as asked, but for the planted fault."""
    fault = os.environ["PLANTED_FAULT"]
    if fault == "unbound":
        return Real(size, huge=huge)
    return Real(size, huge=huge, nodes=[BROKEN[fault](node) for node in nodes], **more)


setattr(_cpu, "Arena", broken)  # noqa: B010  # a type checker would rightly refuse it
