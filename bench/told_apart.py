"""`compare` on runs of this machine: ``python -m bench.told_apart``.

Runs alternate between a quiet machine and one on which another program streams through memory. Five of each
are compared (``--unit file``, for they are of one boot), and so are quiet runs with quiet runs. The first pair
must be told apart in what other programs slow down, the second must not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.comparison import Comparison, Options, compare
from numamicro.errors import NumamicroError
from numamicro.report.compare import render_comparison

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOAD = """
import numpy
block = numpy.ones(1 << 25)
while True:
    block += 1.0
"""


@contextmanager
def competing(programs: int) -> Iterator[None]:
    """Let so many programs stream through 256 MiB each."""
    running = [subprocess.Popen([sys.executable, "-c", _LOAD]) for _ in range(programs)]
    try:
        time.sleep(1.0 if running else 0.0)
        yield
    finally:
        for program in running:
            program.kill()
            program.wait()


def measure(path: Path, options: Sequence[str]) -> None:
    """Let `numamicro matrix` write a result.

    Raises
    ------
    NumamicroError
        It could not.
    """
    command = [sys.executable, "-m", "numamicro", "matrix", "-q", "-o", str(path), *options]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if not path.exists():
        raise NumamicroError(f"{' '.join(command)} gave no result: {done.stderr.strip()[-200:]}")


def runs(folder: Path, count: int, programs: int, options: Sequence[str]) -> dict[str, list[Path]]:
    """Measure in turns: quiet, quiet again, and with company."""
    found: dict[str, list[Path]] = {"quiet": [], "alike": [], "busy": []}
    for turn in range(count):
        for name, paths in found.items():
            path = folder / f"{name}{turn}.json"
            with competing(programs if name == "busy" else 0):
                measure(path, options)
            paths.append(path)
            print(f"{path.name} measured", file=sys.stderr, flush=True)
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure, compare twice, and print both."""
    parser = argparse.ArgumentParser(prog="python -m bench.told_apart", description=__doc__)
    add = parser.add_argument
    add("--runs", type=int, default=5, help="of each kind (default 5)")
    add("--programs", type=int, default=len(os.sched_getaffinity(0)), help="that compete")
    add("options", nargs="*", help="for numamicro matrix, after --: --quick, --time 20, ...")
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = runs(Path(folder), asked.runs, asked.programs, asked.options or ["--quick"])
        same = compared(found["quiet"], found["alike"])
        other = compared(found["quiet"], found["busy"])
    print("--- the same against the same\n" + render_comparison(same))
    print("--- quiet against busy\n" + render_comparison(other))
    return 0


def compared(base: Sequence[Path], new: Sequence[Path]) -> Comparison:
    """Compare runs within this boot."""
    return compare(base, new, Options(unit="file"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
