"""Measures cases on the machine this process finds itself on, and prints them as JSON.

    python -m tests.gpu.cells PROBE LEVEL PATTERN... [-- PROBE LEVEL PATTERN...]...

measures the cases of a probe whose keys hold one of the patterns, with little care for speed that
is not simulated, and the like of other probes after it: a list for each. Runs where :func:`tests.standin.play.staged` has set the stage.
"""

from __future__ import annotations

import json
import re
import sys
from itertools import groupby
from typing import TYPE_CHECKING

from numamicro.matrix import Measurement
from numamicro.plan import make_plan
from numamicro.probes import PROBES, all_reduce, gpu, host_copy, probe
from numamicro.topology import discover
from numamicro.units import MIB
from numamicro.wire import measurement_to_json
from numamicro.wishes import LEVELS, Wishes
from numamicro.worker import __main__ as worker
from numamicro.worker import gpu_lab
from numamicro.worker.lab import Lab

if TYPE_CHECKING:
    from numamicro.topology import Machine

BUFFER_BYTES = 2 * MIB
SHORT_SECONDS = 0.0005
"""A thousand ticks of the simulated events."""


def measured(machine: Machine, name: str, level: str, patterns: list[str]) -> list[Measurement]:
    """Give a cell for each case, in the order of the plan of each worker."""
    wanted = next(each for each in PROBES if each.name == name)
    wishes = Wishes(level=LEVELS[level], only=(name,), memory=BUFFER_BYTES)
    items = [
        item
        for item in make_plan(machine, wishes, [wanted]).planned
        if item.waived is None and any(re.search(pattern, item.case.key) for pattern in patterns)
    ]
    cells = []
    for place, group in groupby(sorted(items, key=lambda item: str(item.place)), lambda i: i.place):
        with Lab(place, machine, seed=1) as lab:
            for item in group:
                case = item.otherwise or item.case
                for value, run in worker.measure(wanted, case, lab, 0, (2, 2)).items():
                    named = case.having(value=value) if value else case
                    cells.append(Measurement.of_runs(named, wanted.unit_of(value), (run,)))
    return cells


if __name__ == "__main__":
    # A virtual clock neither warms up nor has links to wake, and is exact in short samples too.
    probe.WARM_UP_SECONDS = gpu.COPY_WARM_UP_SECONDS = gpu_lab.WAKE_SECONDS = 0.0
    gpu.COPY_SECONDS = gpu.WINDOW_SECONDS = SHORT_SECONDS
    vars(host_copy).update(SIZE_SECONDS=SHORT_SECONDS, WINDOW_SECONDS=SHORT_SECONDS)
    all_reduce.SHORT_SECONDS = all_reduce.LONG_SECONDS
    found = discover()
    queries = [[*words] for dashes, words in groupby(sys.argv[1:], "--".__eq__) if not dashes]
    json.dump(
        [
            [measurement_to_json(cell) for cell in measured(found, name, level, patterns)]
            for name, level, *patterns in queries
        ],
        sys.stdout,
    )
