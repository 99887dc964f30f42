"""The one error a user may meet, and the one failure a probe may report."""

from __future__ import annotations


class NumamicroError(Exception):
    """Bad input or an impossible wish: one sentence that says what is wrong, where, and what to do.

    The command line prints the sentence and exits with status 2; it never shows a traceback for it.
    """


class GpuError(Exception):
    """NVIDIA's driver refused a call, or is not there.

    Parameters
    ----------
    text : str
        What was asked, and the driver's own name and words for what went wrong.
    name : str, optional
        The driver's own name for it: CUDA_ERROR_OUT_OF_MEMORY; None where it was not the driver.
    """

    def __init__(self, text: str, name: str | None = None) -> None:
        super().__init__(text)
        self.name = name
