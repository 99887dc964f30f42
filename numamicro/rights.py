"""What this process may ask of the kernel: tried, for what a container forbids stands in no file.

Each function is a reader of the setting: ``yes``, the kernel's error (``EPERM``), or None for a copy
of another machine's files. Nothing is changed by trying.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from numamicro.topology.cpus import status_ids
from numamicro.topology.nodes import NODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numamicro.topology.sysfs import Tree

# perf_event_open(2) has no wrapper in the C library; its number is each architecture's own.
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
# struct perf_event_attr: a hardware event (0) of its first version's size, CPU cycles (0), counted
# in this process alone, and not in the kernel or a hypervisor.
_ATTRIBUTES = (0).to_bytes(4, "little") + (64).to_bytes(4, "little") + bytes(32)
_EXCLUDE = 1 << 5 | 1 << 6

_PAGE = os.sysconf("SC_PAGE_SIZE")


def affinity(tree: Tree) -> str | None:
    """Whether threads may be pinned."""
    return _tried(tree, lambda: os.sched_setaffinity(0, os.sched_getaffinity(0)))


def mbind(tree: Tree) -> str | None:
    """Whether memory may be bound to a node, and the binding be read back."""
    allowed = status_ids(tree, "Mems_allowed_list") or (0,)
    inhabited = tree.ids(f"{NODE}/has_memory") or allowed
    node = next((id for id in allowed if id in inhabited), allowed[0])

    def bind() -> None:
        from numamicro._cpu import Arena

        Arena(_PAGE, huge=False, policy="bind", nodes=(node,)).close()

    return _tried(tree, bind)


def move_pages(tree: Tree) -> str | None:
    """Whether the kernel may be asked for the node of a page."""

    def ask() -> None:
        from numamicro._cpu import Arena

        with Arena(_PAGE, huge=False) as arena:
            arena.census(0, _PAGE, _PAGE)

    return _tried(tree, ask)


def perf(tree: Tree) -> str | None:
    """Whether hardware events may be counted; ENOENT where the CPU or the hypervisor has none."""
    number = _PERF_EVENT_OPEN.get(os.uname().machine)

    def count() -> None:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        attributes = _ATTRIBUTES + _EXCLUDE.to_bytes(8, "little") + bytes(16)
        handle = libc.syscall(number, attributes, 0, -1, -1, 0)
        if handle < 0:
            raise OSError(ctypes.get_errno(), "perf_event_open")
        os.close(handle)

    return None if number is None else _tried(tree, count)


def seccomp(tree: Tree) -> str | None:
    """Whether a seccomp filter decides on this process' system calls: ``off`` or ``on``."""
    mode = tree.fields("proc/self/status").get("Seccomp")
    return None if mode is None else "off" if mode == "0" else "on"


def _tried(tree: Tree, attempt: Callable[[], object]) -> str | None:
    if not tree.live:
        return None
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return "yes"
