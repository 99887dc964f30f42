"""The one error a user may meet, and the one failure a probe may report."""

from __future__ import annotations


class NumamicroError(Exception):
    """Bad input or an impossible wish: one sentence that says what is wrong, where, and what to do.

    The command line prints the sentence and exits with status 2; it never shows a traceback for it.
    """
