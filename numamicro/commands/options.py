"""Options that several commands share, and lists as people write them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    import argparse

STYLES = ("plain", "github", "pipe", "grid", "html", "latex", "json")
_MOST_NUMBERS = 100_000


def add_format(command: argparse.ArgumentParser, *more: str) -> None:
    """Add --format, with styles that this command alone has, and --json."""
    command.add_argument(
        "--format", choices=(*STYLES, *more), default="plain", help="default plain"
    )
    command.add_argument(
        "--json", dest="format", action="store_const", const="json", help="same as --format json"
    )


def checked_root(folder: str) -> str:
    """Give a folder that stands for ``/``.

    Raises
    ------
    NumamicroError
        It is another folder than ``/`` and holds neither sys nor proc.
    """
    if folder != "/" and not (Path(folder, "sys").is_dir() or Path(folder, "proc").is_dir()):
        raise NumamicroError(f"--root {folder}: there is neither sys nor proc in it")
    return folder


def parse_numbers(text: str, option: str) -> tuple[int, ...]:
    """Read ``0,2-3`` as (0, 2, 3).

    Raises
    ------
    NumamicroError
        The text is no list of numbers; the sentence names `option`.
    """
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip(), re.ASCII)
        if match is None:
            raise NumamicroError(f"{option} {text}: write numbers as 0,2-3")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or len(numbers) + last - first > _MOST_NUMBERS:
            raise NumamicroError(f"{option} {text}: write numbers as 0,2-3")
        numbers += range(first, last + 1)
    return tuple(dict.fromkeys(numbers))
