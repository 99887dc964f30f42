"""The memory modules, as far as they can be read without privileges."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.topology.sysfs import whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.topology.sysfs import Tree

# What udev keeps of the firmware's table (SMBIOS type 17), which itself only root may read.
_UDEV = "run/udev/data/+dmi:id"
_SIZE = re.compile(r"MEMORY_DEVICE_(0|[1-9][0-9]{0,3})_SIZE", re.ASCII)


@dataclass(frozen=True, slots=True)
class Dimm:
    """A slot that holds a module.

    Parameters
    ----------
    size : int
        Bytes.
    kind : str or None
        DDR4, DDR5...
    transfers : int or None
        Million transfers a second that it runs at.
    width : int or None
        Data bits of a transfer, as firmware says: some say less than the 64 of a whole module.
    """

    size: int
    kind: str | None
    transfers: int | None
    width: int | None

    @property
    def peak(self) -> int | None:
        """Bytes a second that the module can carry."""
        if not self.transfers or not self.width:
            return None
        # Only soldered chips are narrower than a module.
        soldered = (self.kind or "").startswith("LP")
        return self.transfers * 10**6 * (self.width if soldered else max(self.width, 64)) // 8

    def __str__(self) -> str:
        """Write as ``32 GiB DDR5-4800``."""
        speed = f"-{self.transfers}" if self.transfers else ""
        return f"{self.size / 2**30:g} GiB {self.kind or 'unknown'}{speed}"


def read_dimms(tree: Tree) -> tuple[Dimm, ...]:
    """Give the modules that firmware lists; none where nothing can be read."""
    known = _entries(tree)
    found = (_dimm(known, prefix) for prefix in _slots(known))
    return tuple(dimm for dimm in found if dimm)


def slots_of(tree: Tree) -> tuple[str, ...]:
    """Give the names, as the board writes them, of the slots that hold a module."""
    known = _entries(tree)
    filled = (prefix for prefix in _slots(known) if (whole(known[f"{prefix}SIZE"]) or 0) > 0)
    return tuple(name[:20] for prefix in filled if (name := known.get(f"{prefix}LOCATOR")))


def _entries(tree: Tree) -> dict[str, str]:
    # E:MEMORY_DEVICE_0_SIZE=34359738368
    lines = (tree.text(_UDEV) or "").splitlines()
    pairs = (line.removeprefix("E:").partition("=") for line in lines if line.startswith("E:"))
    return {key: value for key, _, value in pairs}


def _slots(known: Mapping[str, str]) -> list[str]:
    """Give what the keys of each slot begin with, in the slots' order."""
    found = filter(None, map(_SIZE.fullmatch, known))
    return [f"MEMORY_DEVICE_{index}_" for index in sorted(int(match[1]) for match in found)]


def peak_of(dimms: tuple[Dimm, ...]) -> int | None:
    """Give what all modules can carry together in bytes a second; None when one is unknown.

    Modules may share a channel, so that this is an upper bound.
    """
    peaks = [dimm.peak for dimm in dimms]
    known = [peak for peak in peaks if peak is not None]
    return sum(known) if known and len(known) == len(peaks) else None


def summary_of(dimms: tuple[Dimm, ...]) -> str | None:
    """Write as ``8 x 32 GiB DDR5-4800``; None when there is nothing to tell."""
    counts = Counter(map(str, dimms))
    return ", ".join(f"{count} x {text}" for text, count in sorted(counts.items())) or None


def _dimm(known: Mapping[str, str], prefix: str) -> Dimm | None:
    def number(name: str) -> int | None:
        return whole(known.get(f"{prefix}{name}"))

    size = number("SIZE")
    if size is None or size <= 0:
        return None
    speed = number("CONFIGURED_SPEED_MTS") or number("SPEED_MTS")
    kind = known.get(f"{prefix}TYPE")
    return Dimm(size, kind[:20] if kind else None, speed, number("DATA_WIDTH"))
