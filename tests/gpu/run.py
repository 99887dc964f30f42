"""Carries out a plan on the machine this process finds itself on, with a deadline of its own.

    python -m tests.gpu.run DEADLINE PATTERN PROBE...

takes the cases whose keys hold the pattern, and prints the cells as JSON. Runs where :func:`tests.standin.play.staged` has set the stage.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from functools import partial

from numamicro.journal import Journal
from numamicro.plan import make_plan
from numamicro.probes import PROBES
from numamicro.runner import Runner
from numamicro.topology import discover, discovery
from numamicro.topology.gpu_facts import ask_gpus
from numamicro.wire import measurement_to_json
from numamicro.wishes import Level, Wishes
from tests.gpu.cells import BUFFER_BYTES

ONCE = Level("test", processes=1, fewest=2, samples=2, seconds=600.0)

if __name__ == "__main__":
    deadline, pattern, *names = sys.argv[1:]
    journal = Journal()
    # Of everything: where all is slow, a driver is too.
    setattr(discovery, "ask_gpus", partial(ask_gpus, float(deadline)))  # noqa: B010
    machine = discover()
    wishes = Wishes(level=ONCE, only=tuple(names), memory=BUFFER_BYTES)
    everything = make_plan(machine, wishes, PROBES)
    chosen = [item for item in everything.planned if re.search(pattern, item.case.key)]
    plan = replace(everything, planned=tuple(chosen))
    Runner(plan, machine, journal, deadline=float(deadline)).run()
    json.dump([measurement_to_json(cell) for cell in plan.in_order(journal.fold())], sys.stdout)
