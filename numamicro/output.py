"""Standard output and standard error, whatever state they are in."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Collection

_COLOR = re.compile(r"(\033\[[0-9;]*m)")
_closed = False


def open_standard_streams() -> None:
    """Put /dev/null where a standard stream is closed, or the next file opened would become it."""
    global _closed
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
            _closed = _closed or number == 1
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def is_closed() -> bool:
    """Tell whether standard output was closed when the program started."""
    return _closed


def emit(text: str) -> None:
    """Write a result to standard output.

    Raises
    ------
    BrokenPipeError
        The reader has gone away.
    NumamicroError
        It cannot be written, on a full disk for example.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _give_up()
        raise
    except OSError as error:
        _give_up()
        raise NumamicroError(f"cannot write to standard output: {error.strerror}") from error
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def printable(text: str, allowed: Collection[str] = ()) -> str:
    """Take out what would command a terminal: texts of a file are somebody else's.

    Parameters
    ----------
    allowed : collection of str
        Colours that stay.
    """
    parts = _COLOR.split(text)
    return "".join(part if part in allowed else _harmless(part) for part in parts)


def _harmless(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)


def has_color() -> bool:
    """Tell whether standard output is a terminal that has colours, and whose user wants them."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return wanted and sys.stdout.isatty()


def flush() -> None:
    """Write what is still held back."""
    emit("")


def say(sentence: str) -> None:
    """Tell the user something on standard error, on a line of its own."""
    tell(f"numamicro: {sentence}\n")


def tell(text: str) -> None:
    """Write to standard error. Where that is gone or full there is nobody to tell."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _give_up() -> None:
    # Python flushes again at exit and would fail again, with a message of its own.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
