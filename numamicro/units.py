"""Scale base units for people, and read what people write. The only place that knows prefixes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from numamicro.errors import NumamicroError

KIB, MIB, GIB = 2**10, 2**20, 2**30

# People write 1G and mean what a memory module means by it; GB is the decimal one.
_BYTES = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _BYTES |= {_letter: 1024**_power, f"{_letter}ib": 1024**_power, f"{_letter}b": 1000**_power}
_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Scale:
    """How a unit is shown: base values are divided by `divisor` and labelled `label`."""

    divisor: float
    label: str
    digits: int = 1

    def text(self, value: float) -> str:
        """Give a base value as a bare number in this scale."""
        return f"{value / self.divisor:.{self.digits}f}"


_SCALES = {"B/s": Scale(1e9, "GB/s"), "s": Scale(1e-9, "ns"), "op/s": Scale(1e9, "G op/s")}
_MICROSECONDS = Scale(1e-6, "µs", 2)
_LEAST_MICROSECONDS = 2e-6


def scale(unit: str, least: float = 0.0) -> Scale:
    """Give the scale in which a base unit is shown; a unit not known here is shown as it is.

    Parameters
    ----------
    least : float
        The smallest value to be shown: nanoseconds are not for what takes long.
    """
    if unit == "s" and least >= _LEAST_MICROSECONDS:
        return _MICROSECONDS
    return _SCALES.get(unit, Scale(1.0, unit, 3))


def is_rate(unit: str) -> bool:
    """Tell whether more is better: GB/s is a rate, a time for one operation is not."""
    return unit.endswith("/s")


def bytes_text(count: float) -> str:
    """Give a byte count in the largest binary unit that keeps it at 1 or more: ``1 GiB``."""
    for size, label in ((1024**4, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= size:
            return f"{count / size:.4g} {label}"
    return f"{count:.0f} B"


def parse_bytes(text: str) -> int:
    """Read ``512M``, ``1GiB`` (binary) or ``1GB`` (decimal).

    Raises
    ------
    NumamicroError
        The text is no positive size.
    """
    number, suffix = _split(text)
    factor = _BYTES.get(suffix)
    count = 0.0 if number is None or factor is None else number * factor
    if not 1 <= count < 2**63:
        raise NumamicroError(f"{text!r:.60} is no size; write for example 512M, 1G or 1GB")
    return int(count)


def parse_seconds(text: str) -> float:
    """Read ``90``, ``90s``, ``2m`` or ``1h``.

    Raises
    ------
    NumamicroError
        The text is no positive time.
    """
    number, suffix = _split(text)
    factor = _SECONDS.get(suffix)
    seconds = 0.0 if number is None or factor is None else number * factor
    if not 0 < seconds < 1e9:
        raise NumamicroError(f"{text!r:.60} is no time; write for example 90, 90s, 2m or 1h")
    return seconds


def _split(text: str) -> tuple[float | None, str]:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", text.strip().lower(), re.ASCII)
    return (float(match[1]), match[2]) if match else (None, "")
