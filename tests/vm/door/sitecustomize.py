"""Stands before the product's native door, in every Python that starts with this folder on its path.

Each time that the product asks the kernel where its pages are (move_pages), what numa_maps says of
them is written down beside the answer. And it breaks one thing beneath the product where it is told
to. The product is not changed and does not know.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numa_maps import mapping_of, read_mappings

from numamicro import _cpu

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Asked = tuple[str, "Sequence[int]"]

Real = _cpu.Arena

RECORD = os.environ["DOOR_RECORD"]
FAULT = os.environ.get("DOOR_FAULT", "none")
PAGE = mmap.PAGESIZE
HUGE_PAGE = 2**21
MAP_HUGETLB = 0x40000
SYS_SET_MEMPOLICY = 238
MPOL_DEFAULT = 0
MPOL_BIND = 2
SYSTEM = Path("/sys/devices/system")
ONLINE = sorted(
    int(folder.name.removeprefix("node")) for folder in (SYSTEM / "node").glob("node[0-9]*")
)


def following(node: int) -> int:
    return ONLINE[(ONLINE.index(node) + 1) % len(ONLINE)]


def elsewhere(change: Callable[[int], int]) -> Callable[[Asked], Asked]:
    return lambda asked: (asked[0], [change(node) for node in asked[1]])


def forbidden(asked: Asked) -> Asked:
    """Refuse mbind, as the filter of a container does."""
    if asked[0] != "none":
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
    return asked


def exhausted(asked: Asked) -> Asked:
    """Touch a reserved page on the node that was asked for: SIGBUS where its pool is empty."""
    kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_HUGETLB
    for node in asked[1]:
        with mmap.mmap(-1, HUGE_PAGE, flags=kind) as page:  # promised: some node has some
            set_policy(MPOL_BIND, ctypes.byref(ctypes.c_ulong(1 << node)), 64)
            page[0] = 1
            set_policy(MPOL_DEFAULT, None, 0)
    return asked


def set_policy(*arguments: Any) -> None:
    if ctypes.CDLL(None, use_errno=True).syscall(SYS_SET_MEMPOLICY, *arguments):
        raise OSError(ctypes.get_errno(), "set_mempolicy")


BROKEN: dict[str, Callable[[Asked], Asked]] = {
    "unbound": lambda _: ("none", ()),
    "wrong-node": elsewhere(following),
    "off-by-one": elsewhere(lambda node: node + 1),
    "index": elsewhere(ONLINE.index),
    "forbidden": forbidden,
    "exhausted": exhausted,
}


class Arena(Real):  # type: ignore[misc]
    """The real arena, but for the planted fault, and with a second account of its pages."""

    def __init__(
        self, size: int, *, huge: bool, policy: Any = "none", nodes: Sequence[int] = ()
    ) -> None:
        policy, nodes = BROKEN.get(FAULT, lambda asked: asked)((policy, nodes))  # type: ignore[no-untyped-call]
        super().__init__(size, huge=huge, policy=policy, nodes=nodes)

    def census(self, offset: int, length: int, step: int) -> dict[int, int]:
        answer = super().census(offset, length, step)
        mapping = mapping_of(self.address, read_mappings())
        line = {
            "cpus": sorted(os.sched_getaffinity(0)),
            "policy": mapping.policy,
            "asked": {node: pages * step for node, pages in answer.items()},
            "seen": mapping.held,
        }
        with Path(RECORD).open("a") as record:
            record.write(json.dumps(line) + "\n")
        return answer


def switched_off(*arguments: Any) -> Any:
    """Read; but where the CPUs of node 1 do it, all of them go offline first."""
    cpus = list((SYSTEM / "node/node1").glob("cpu[0-9]*"))
    if os.sched_getaffinity(0) <= {int(cpu.name.removeprefix("cpu")) for cpu in cpus}:
        for cpu in cpus:
            (cpu / "online").write_text("0")
    return real_read(*arguments)


# A type checker would rightly refuse what follows.
real_read = _cpu.read
if FAULT == "offline":
    setattr(_cpu, "read", switched_off)  # noqa: B010
setattr(_cpu, "Arena", Arena)  # noqa: B010
