"""Writing a file so that it holds either all of the new text or what it held before."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from secrets import token_hex

from numamicro.errors import NumamicroError

READER_SECONDS = 3.0
"""How long an output that is a pipe may be without a reader."""


def save(text: str, path: Path) -> None:
    """Write `text`: beside its place, flushed, then renamed over it; a pipe or a device directly.

    Raises
    ------
    NumamicroError
        It cannot be written (read-only folder, full disk).
    """
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            _write_through(path, text)  # a pipe or a device cannot be renamed over
        else:
            _replace(Path(os.path.realpath(path)), text)  # a link stays a link
    except OSError as error:
        raise NumamicroError(f"cannot write {path}: {error.strerror}") from error


def _write_through(path: Path, text: str) -> None:
    with os.fdopen(_open_for_reader(path), "w", encoding="utf-8") as file:
        file.write(text)


def _open_for_reader(path: Path) -> int:
    """Open a pipe or a device. A pipe's reader may come a moment later, but not never."""
    end = time.monotonic() + READER_SECONDS
    while True:
        try:
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > end:
                raise
            time.sleep(0.05)
        else:
            os.set_blocking(handle, True)
            return handle


def _replace(path: Path, text: str) -> None:
    # A name of its own, and short: the output's may be as long as a name can be.
    beside = path.with_name(f".numamicro-{os.getpid()}-{token_hex(4)}.tmp")
    file = beside.open("x", encoding="utf-8")
    try:
        with file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            if path.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
