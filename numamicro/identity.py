"""Ids that tell whether two files are of one machine and one boot, and nothing else."""

from __future__ import annotations

import hashlib
from pathlib import Path


def hashed(secret: str) -> str:
    """Give a short one-way name for an id, so that no file carries the id itself."""
    return hashlib.sha256(f"numamicro:{secret}".encode()).hexdigest()[:12]


def machine_id(root: str = "/") -> str | None:
    """Give the hashed id of this installation; None where a container hides it."""
    return _hashed_file(Path(root, "etc/machine-id"))


def boot_id(root: str = "/") -> str | None:
    """Give the hashed id of this boot."""
    return _hashed_file(Path(root, "proc/sys/kernel/random/boot_id"))


def _hashed_file(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return hashed(text) if text else None
