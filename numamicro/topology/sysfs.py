"""Reading small files of /sys and /proc below a root, without trusting them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Beyond any kernel's NR_CPUS and MAX_NUMNODES; keeps "0-4000000000" from filling the memory.
MAX_ID = 16383

# An alternating list of so many ids is shorter than this, and so is every other file read whole.
_MAX_BYTES = 1 << 18

_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", re.ASCII)
_MASK = re.compile(r"[0-9a-fA-F]{1,8}(?:,[0-9a-fA-F]{1,8})*", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_MEMINFO = re.compile(r"(?:Node +[0-9]+ +)?([A-Za-z0-9_()]+): +([0-9]{1,15})( kB)?", re.ASCII)


def parse_list(text: str) -> tuple[int, ...]:
    """Give the ids of a kernel list such as ``0-3,8,10-11``, ascending; an empty list has none.

    Raises
    ------
    NumamicroError
        The text is no such list, or an id is beyond 16383.
    """
    ids: set[int] = set()
    for part in text.strip().split(",") if text.strip() else ():
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last <= MAX_ID:
            raise NumamicroError(f"'{text:.40}' is no list of ids like 0-3,8 (up to {MAX_ID})")
        ids.update(range(first, last + 1))
    return tuple(sorted(ids))


def parse_mask(text: str) -> tuple[int, ...]:
    """Give the ids of a kernel mask such as ``00000000,0000ffff`` (groups of 32 bits), ascending.

    Raises
    ------
    NumamicroError
        The text is no such mask, or an id is beyond 16383.
    """
    groups = text.strip().split(",")
    if len(groups) * 32 > MAX_ID + 1 or not _MASK.fullmatch(text.strip()):
        raise NumamicroError(f"'{text:.40}' is no mask of ids like 00000000,0000ffff")
    bits = int("".join(group.rjust(8, "0") for group in groups), 16)
    return tuple(id for id in range(bits.bit_length()) if bits >> id & 1)


def whole(text: str | None) -> int | None:
    """Give the whole number that `text` writes; None for anything else or an absurd length."""
    return int(text) if text and _NUMBER.fullmatch(text) else None


def _read(handle: int, size: int) -> bytes:
    # In small steps: most of these files hold a few bytes, and there are thousands of them.
    data = b""
    while chunk := os.read(handle, min(size - len(data), 8192)):
        data += chunk
    return data


class Tree:
    """The files below `root`: what is missing or garbled reads as None; the latter is remembered.

    Parameters
    ----------
    root : str
        The folder that stands for ``/``.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self.garbled: list[str] = []

    @property
    def live(self) -> bool:
        """Whether this is the running system and not a copy of another one's files."""
        return not self.root

    def text(self, path: str) -> str | None:
        """Give the stripped text of a file; None when it is missing or too long to be true."""
        text = self.head(path, _MAX_BYTES + 1)
        if text is not None and len(text) > _MAX_BYTES:
            self._refuse(path)
            return None
        return text

    def head(self, path: str, size: int) -> str | None:
        """Give the stripped first `size` bytes of a file as text."""
        try:
            # A pipe in a foreign tree must not block.
            handle = os.open(self._full(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError):
            return None
        try:
            return _read(handle, size).decode("utf-8", "replace").strip("\0 \t\r\n")
        except OSError:
            return None
        finally:
            os.close(handle)

    def number(self, path: str) -> int | None:
        """Give the whole number in a file."""
        text = self.text(path)
        number = whole(text)
        if text and number is None:
            self._refuse(path)
        return number

    def size(self, path: str) -> int | None:
        """Give the number in a file; None where it is not positive: so "none" is written."""
        number = self.number(path)
        return number if number is not None and number > 0 else None

    def ids(self, list_path: str, mask_path: str | None = None) -> tuple[int, ...] | None:
        """Give the ids in a list file or, where an old kernel has none, in its mask file."""
        for path, parse in ((list_path, parse_list), (mask_path or "", parse_mask)):
            text = self.text(path) if path else None
            if text is None:
                continue
            try:
                return parse(text)
            except NumamicroError:
                self._refuse(path)
        return None

    def fields(self, path: str, size: int = _MAX_BYTES) -> dict[str, str]:
        """Give the ``key : value`` lines in the first `size` bytes; the first of each key."""
        pairs = (line.partition(":") for line in (self.head(path, size) or "").splitlines())
        found: dict[str, str] = {}
        for key, _, value in pairs:
            found.setdefault(key.strip(), value.strip())
        return found

    def meminfo(self, path: str) -> dict[str, int]:
        """Give the entries of a meminfo file, sizes in bytes."""
        found = (_MEMINFO.fullmatch(line.strip()) for line in (self.text(path) or "").splitlines())
        return {m[1]: int(m[2]) * (1024 if m[3] else 1) for m in found if m}

    def names(self, folder: str) -> tuple[str, ...]:
        """Give the names in a folder, sorted; none when it is missing."""
        try:
            return tuple(sorted(os.listdir(self._full(folder))))
        except (OSError, ValueError):
            return ()

    def numbered(self, folder: str, prefix: str) -> tuple[int, ...]:
        """Give each N for which the folder has an entry named `prefix` + N, ascending."""
        return tuple(sorted(self._indices(folder, prefix)))

    def link(self, path: str) -> str | None:
        """Give where a symbolic link points to."""
        try:
            return os.readlink(self._full(path))
        except (OSError, ValueError):
            return None

    def has(self, path: str) -> bool:
        """Whether the path exists."""
        return os.path.lexists(self._full(path))

    def _indices(self, folder: str, prefix: str) -> Iterator[int]:
        for name in self.names(folder):
            found = whole(name.removeprefix(prefix)) if name.startswith(prefix) else None
            if found is not None and 0 <= found <= MAX_ID:
                yield found
            elif found is not None:
                self._refuse(f"{folder}/{name}")

    def _full(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _refuse(self, path: str) -> None:
        self.garbled.append(f"/{path}")
