"""What a rule is, and how it reads a setting, which may come from anybody's file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from numamicro.finding import Finding
from numamicro.topology import Machine

Setting: TypeAlias = Mapping[str, str | int | None]
Rule: TypeAlias = Callable[[Setting, Machine], Iterable[Finding]]


def number(setting: Setting, key: str) -> float | None:
    """Give a value that is a number, or text that writes one; None for anything else."""
    value = setting.get(key)
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def word(setting: Setting, key: str) -> str:
    """Give a value as text; empty where it is unknown."""
    value = setting.get(key)
    return "" if value is None else str(value)


def counted(count: float, what: str) -> str:
    """Give ``1 module`` or ``2 modules``."""
    return f"{count:g} {what}" if count == 1 else f"{count:g} {what}s"
