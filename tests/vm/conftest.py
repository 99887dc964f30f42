"""Tells at the end what each guest was, and which loops no guest could run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCES = Path(__file__).parents[2] / "src" / "cpu"
_lines = pytest.StashKey[list[str]]()
_loops = pytest.StashKey[set[str]]()


@pytest.fixture
def note_guest(pytestconfig: pytest.Config) -> Callable[[str, set[str]], None]:
    """Give a function that keeps a guest's line, and the names of the loops that it ran."""
    lines = pytestconfig.stash.setdefault(_lines, [])
    loops = pytestconfig.stash.setdefault(_loops, set())

    def note(line: str, ran: set[str]) -> None:
        lines.append(line)
        loops.update(ran)

    return note


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lines = config.stash.get(_lines, [])
    if not lines:
        return
    terminalreporter.section("guests")
    for line in lines:
        terminalreporter.line(line)
    if loops := config.stash[_loops]:
        terminalreporter.line(f"loops that no guest ran: {', '.join(_not_run(loops))}")


def _not_run(loops: set[str]) -> list[str]:
    """Give the instruction sets of src/cpu/stream_*.c that no loop's name holds."""
    there = {path.stem.removeprefix("stream_") for path in SOURCES.glob("stream_*.c")}
    return sorted(there - {part for name in loops for part in name.split("-")})
