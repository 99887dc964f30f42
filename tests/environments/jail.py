"""What a container, a batch system or an administrator does to a process, done to a child before it runs.

Each function gives a step for ``preexec_fn``: it runs in the child, between fork and exec.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    Step = Callable[[], object]

_LIBC = ctypes.CDLL(None, use_errno=True)

# Names and numbers of system calls, and the number by which a filter knows the architecture.
_NAMES = (
    "mbind",
    "set_mempolicy",
    "get_mempolicy",
    "migrate_pages",
    "move_pages",
    "perf_event_open",
    "sched_setaffinity",
    "set_mempolicy_home_node",
    "clone3",
)
_NUMBERS = {
    "x86_64": dict(zip(_NAMES, (237, 238, 239, 256, 279, 298, 203, 450, 435), strict=True)),
    "aarch64": dict(zip(_NAMES, (235, 237, 236, 238, 239, 241, 122, 450, 435), strict=True)),
}
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# What Docker's default profile makes of the calls above, as long as no capability is added.
DOCKER = {
    "mbind": errno.EPERM,
    "set_mempolicy": errno.EPERM,
    "get_mempolicy": errno.EPERM,
    "set_mempolicy_home_node": errno.EPERM,
    "migrate_pages": errno.EPERM,
    "move_pages": errno.EPERM,
    "perf_event_open": errno.EPERM,
    "clone3": errno.ENOSYS,
}
# The same with --cap-add SYS_NICE, which opens four of them.
DOCKER_NICE = {
    name: code
    for name, code in DOCKER.items()
    if not name.startswith(("mbind", "set_mempolicy", "get_mempolicy"))
}

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _MODE_FILTER = 22, 38, 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_OFFSET_NUMBER, _OFFSET_ARCHITECTURE = 0, 4

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_NOBODY = 65534


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("operand", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("code", ctypes.POINTER(_Instruction)))


def filtered(refusals: Mapping[str, int]) -> Step:
    """Refuse these system calls with these errors, by a seccomp filter."""
    machine = os.uname().machine
    if machine not in _NUMBERS:
        pytest.skip(f"the numbers of the system calls of {machine} are not in {__name__}")
    numbers = _NUMBERS[machine]
    code = [
        (_LOAD, 0, 0, _OFFSET_ARCHITECTURE),
        (_JUMP_IF_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
    ]
    for name, refusal in refusals.items():
        code += [(_JUMP_IF_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _ERRNO | refusal)]
    code.append((_RETURN, 0, 0, _ALLOW))
    program = _Program(
        len(code), (_Instruction * len(code))(*(_Instruction(*each) for each in code))
    )

    def apply() -> None:
        _done(_LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(no_new_privs)")
        _done(_LIBC.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program)), "prctl(seccomp)")

    return apply


def without(*folders: str) -> Step:
    """Hide folders behind empty ones, in mounts of the child's own."""

    def apply() -> None:
        _own_mounts()
        for folder in folders:
            _mount("none", folder, "tmpfs")

    return apply


def showing(*folders: Path) -> Step:
    """Show folders that lie in one that only root may enter, in mounts of the child's own."""
    tops = {folder: top for folder in folders if (top := _closed_above(folder)) is not None}

    def apply() -> None:
        _own_mounts()
        handles = {folder: os.open(folder, os.O_PATH) for folder in tops}
        for top in set(tops.values()):
            _mount("none", str(top), "tmpfs", data="mode=755")
        for folder, handle in handles.items():
            os.makedirs(folder, exist_ok=True)
            _mount(f"/proc/self/fd/{handle}", str(folder), "none", _MS_BIND)
            os.close(handle)

    return apply


def _closed_above(folder: Path) -> Path | None:
    """Give the topmost folder above that not everybody may enter."""
    closed = (above for above in reversed(folder.parents) if not above.stat().st_mode & 0o001)
    return next(closed, None)


def _own_mounts() -> None:
    user = _CLONE_NEWUSER if os.geteuid() else 0
    _done(_LIBC.unshare(_CLONE_NEWNS | user), "unshare")
    _mount("none", "/", "none", _MS_REC | _MS_PRIVATE)


def _mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    texts = [text.encode() for text in (source, target, kind)]
    _done(_LIBC.mount(*texts, ctypes.c_ulong(flags), data.encode()), f"mount {target}")


def as_nobody() -> None:
    """Give up being root, with all groups and capabilities."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)


def joining(group: Path) -> Step:
    """Enter a control group."""
    return lambda: (group / "cgroup.procs").write_text(str(os.getpid()))


def steps(*each: Step) -> Step:
    """Do one after the other."""

    def apply() -> None:
        for step in each:
            step()

    return apply


def _done(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)
