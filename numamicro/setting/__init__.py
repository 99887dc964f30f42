"""How the machine is set: what firmware, kernel and container were told.

Keys are dotted names and values plain; None is "unknown", which is never "the same as before". A key
is one more line in a table: how it is read, from where, by whom, and whether it moves by itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from numamicro.setting import hardware, system
from numamicro.setting.attributes import FOLDER, PREFIX, read_attributes, read_bios_json
from numamicro.setting.facts import facts_of
from numamicro.setting.key import Key
from numamicro.topology.sysfs import Tree

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numamicro.setting.words import Value

__all__ = ["KEYS", "Key", "facts_of", "is_volatile", "read_bios_json", "read_setting", "unread"]

KEYS: dict[str, Key] = {**system.KEYS, **hardware.KEYS}
"""All that is read, by name. The firmware's own attributes come on top, each under its own name."""


def read_setting(root: str | Path = "/") -> dict[str, str | int | None]:
    """Read every key of :data:`KEYS`, and the firmware's attributes where the kernel shows them.

    Parameters
    ----------
    root : str or path
        The folder below which sys/ and proc/ lie.

    Returns
    -------
    dict
        None where a value cannot be read.
    """
    tree = Tree(os.fspath(root))
    return {key: row.read(tree) for key, row in KEYS.items()} | read_attributes(tree)


def is_volatile(key: str) -> bool:
    """Tell whether a key moves by itself, so that a difference is none of the setting."""
    row = KEYS.get(key)
    return row.volatile if row else key.startswith("now.")


def unread(setting: Mapping[str, Value], root: str | Path = "/") -> dict[str, str]:
    """Say of each key that could not be read why."""
    tree = Tree(os.fspath(root))
    missing = [key for key, value in setting.items() if value is None and key in KEYS]
    reasons = {key: _why(KEYS[key], tree) for key in missing if not KEYS[key].or_none}
    if not any(key.startswith(PREFIX) for key in setting):
        name = f"{PREFIX}*"
        if not tree.names(FOLDER):
            reasons[name] = (
                f"there is no /{FOLDER}: no driver shows them (--bios-json hands them in)"
            )
        else:
            reasons[name] = f"/{FOLDER} shows none: as root it shows more"
    return reasons


def _why(row: Key, tree: Tree) -> str:
    if not row.where:
        return "a copy of a machine's files does not answer"
    if not tree.has(row.where):
        return f"there is no /{row.where}"
    if row.root and tree.live and os.geteuid():
        return f"/{row.where} is for root alone"
    return f"/{row.where} does not tell"
