"""What the tests of GPUs share: the product's own probes on simulated machines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.topology import Machine as Discovered
from numamicro.wire import measurement_from_json
from tests.standin.play import staged

if TYPE_CHECKING:
    from numamicro.matrix import Measurement
    from tests.standin.machines import Machine

ROOT = Path(__file__).parents[2]
SECONDS = 300
"""How long a command may take where many run at once."""


def cells(
    machine: Machine, probe: str, *patterns: str, level: str = "default"
) -> list[Measurement]:
    """Measure cases of a probe on a simulated machine, in a process of its own."""
    return each_of(machine, (probe, level, *patterns))[0]


def each_of(machine: Machine, *queries: tuple[str, ...]) -> list[list[Measurement]]:
    """Measure cases of several probes in one process; a query is a probe, a level, and patterns."""
    words = [word for query in queries for word in ("--", *query)][1:]
    done = command(machine, "tests.gpu.cells", *words)
    assert done.returncode == 0, done.stderr
    return [
        [measurement_from_json(cell, "cells") for cell in found]
        for found in json.loads(done.stdout)
    ]


def command(
    machine: Machine, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a module on a simulated machine."""
    with staged(machine) as stage:
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            env=stage | environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )


def numamicro(
    machine: Machine, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the product itself on a simulated machine."""
    return command(machine, "numamicro", *arguments, **environment)


def discovered(machine: Machine, **environment: str) -> Discovered:
    """Give the machine as the product discovers it."""
    done = numamicro(machine, "topology", "--json", **environment)
    assert done.returncode == 0, done.stderr
    return Discovered.from_json(json.loads(done.stdout))
