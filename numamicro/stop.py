"""A wish to end: made by a signal at any moment, looked at only where it is safe to end."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PATIENCE = 3
"""Somebody who asks this often wants out at once, whatever is lost."""


class Stopped(Exception):
    """Raised between two cases, or while a worker is waited for, once somebody wished to end."""


class StopRequest:
    """Set by a signal handler. Its file descriptor becomes readable, so that a wait can see it.

    Nothing is raised from a handler: an exception between any two lines could lose a result that
    was about to be saved.
    """

    def __init__(self) -> None:
        self.signum: int | None = None
        self._asked = 0
        self._readable, self._writable = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Give the descriptor that becomes readable."""
        return self._readable

    def ask(self, signum: int, _frame: FrameType | None = None) -> None:
        """Wish to end; the first signal gives the exit status."""
        self._asked += 1
        if self._asked >= PATIENCE:
            os._exit(128 + signum)
        if self.signum is None:
            self.signum = signum
            os.write(self._writable, b"\0")

    def check(self) -> None:
        """Raise :class:`Stopped` if somebody wished to end."""
        if self.signum is not None:
            raise Stopped

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals that ask a program to end, but for those that are ignored (nohup)."""
        asking = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {each: signal.getsignal(each) for each in asking}
        heard = [each for each in asking if before[each] is not signal.SIG_IGN]
        for each in heard:
            signal.signal(each, self.ask)
        try:
            yield
        finally:
            for each in heard:
                # Once asked, the program is on its way out: another signal must not end it rudely.
                signal.signal(each, before[each] if self.signum is None else signal.SIG_IGN)
            os.close(self._readable)
            os.close(self._writable)
