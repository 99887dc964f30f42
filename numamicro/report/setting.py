"""How a machine is set, as a table of what was read, and a list of what was not and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from numamicro.setting import is_volatile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.setting.words import Value


def render_setting(
    setting: Mapping[str, Value], reasons: Mapping[str, str], style: str = "plain"
) -> str:
    """Give a setting as text.

    Parameters
    ----------
    setting : mapping
        Values by key; None is unknown, or none where `reasons` lack the key.
    reasons : mapping
        Why keys could not be read.
    """
    from tabulate import tabulate

    rows = [
        [key, "none" if value is None else value, "moves by itself" if is_volatile(key) else ""]
        for key, value in sorted(setting.items())
        if key not in reasons
    ]
    known = tabulate(rows, headers=["key", "value", ""], tablefmt=style, disable_numparse=True)
    return "\n\n".join(block for block in (known, _unknown(reasons)) if block) + "\n"


def _unknown(reasons: Mapping[str, str]) -> str:
    """Give the keys that are unknown, those of one reason together."""
    keys: dict[str, list[str]] = defaultdict(list)
    for key, why in reasons.items():
        keys[why].append(key)
    lines = [f"  {', '.join(names)}: {why}" for why, names in keys.items()]
    return "\n".join(["Could not be read, and is unknown:", *lines]) if lines else ""


def setting_to_json(setting: Mapping[str, Value], reasons: Mapping[str, str]) -> dict[str, Any]:
    """Give a setting as plain values."""
    return {"setting": dict(setting), "unknown": dict(reasons)}
