"""A key of the setting: how it is read, from where, by whom, and whether it moves by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numamicro.setting.words import Reader


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the table.

    Parameters
    ----------
    read : callable
        Gives the value from a tree; None where it cannot be read.
    where : str
        The file or folder that it comes from, below the root; empty where the kernel is asked.
    kind : type
        str or int.
    root : bool
        Whether only root may read it.
    volatile : bool
        Whether it moves by itself, so that a difference is none of the setting.
    or_none : bool
        Whether null says that there is none.
    """

    read: Reader
    where: str
    kind: type = str
    root: bool = False
    volatile: bool = False
    or_none: bool = False
