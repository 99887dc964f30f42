"""What `compare` takes for many large files: ``python -m bench.compare_many``.

Made-up files of as many nodes as give the cells, with all their samples; prints seconds and memory.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from math import exp
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from numamicro import __version__
from numamicro.case import Case, Route, node
from numamicro.file import write_matrix
from numamicro.matrix import CostMatrix, Header, Measurement, Placement, Run, Sample
from numamicro.topology import discover

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BYTES = 1 << 28
_OPERATIONS = {"read": ("1-stream", "4-stream"), "write": ("nt",), "copy": ("nt", "movsb")}


def cases(count: int) -> list[Case]:
    """Give so many cases of bandwidth between nodes."""
    found: list[Case] = []
    nodes = 1
    while len(found) < count:
        nodes += 1
        found = list(_between(nodes))
    return found[:count]


def _between(nodes: int) -> Iterator[Case]:
    for source in range(nodes):
        for target in range(nodes):
            for operation, variants in _OPERATIONS.items():
                for variant in variants:
                    yield Case.of(
                        "bandwidth",
                        operation,
                        Route(node(source), node(target)),
                        bytes=_BYTES,
                        pages="auto",
                        threads=8,
                        variant=variant,
                    )


def matrix_of(header: Header, wanted: Sequence[Case], samples: int, draw: Random) -> CostMatrix:
    """Give a matrix of one boot, each cell with three processes of so many samples."""
    boot = draw.gauss(0, 0.01)
    cells = []
    for case in wanted:
        runs = tuple(
            Run(
                process,
                tuple(
                    Sample(0.01 * exp(boot + draw.gauss(0, 0.01)), _BYTES) for _ in range(samples)
                ),
                placement=Placement(1.0, "move_pages", {0: 128}, 1 << 21, 1.0),
                outcome={"cpus": "0-7", "isa": "avx2", "kernel": "read-4-avx2", "strays": 1},
            )
            for process in range(3)
        )
        cells.append(Measurement.of_runs(case, "B/s", runs))
    return CostMatrix(replace(header, boot_id=f"{draw.getrandbits(48):012x}"), tuple(cells))


def main(arguments: Sequence[str]) -> int:
    """Write the files, compare them and print what that took."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare_many", description=__doc__)
    parser.add_argument("--files", type=int, default=20, help="a side (default 20)")
    parser.add_argument("--cells", type=int, default=2000, help="a file (default 2000)")
    parser.add_argument("--samples", type=int, default=8, help="a process (default 8)")
    asked = parser.parse_args(arguments)
    header = Header(f"numamicro {__version__}", "2026-01-01", "simulated", discover(), plan={})
    wanted, draw = cases(asked.cells), Random(1)
    with tempfile.TemporaryDirectory() as name:
        sides = [Path(name, side) for side in ("a", "b")]
        for side in sides:
            side.mkdir()
            for index in range(asked.files):
                write_matrix(
                    matrix_of(header, wanted, asked.samples, draw), side / f"{index:03}.json"
                )
        size = sum(path.stat().st_size for path in Path(name).rglob("*.json"))
        command = [sys.executable, "-m", "numamicro", "compare", *map(str, sides)]
        started = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{2 * asked.files} files, {size / 1e6:.0f} MB: {took:.1f} s, of the CPUs "
        f"{used.ru_utime + used.ru_stime:.1f} s; the largest process held {used.ru_maxrss / 1e3:.0f} MB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
