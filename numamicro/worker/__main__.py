"""The child: reads one request a line, measures, answers one line. ``python -m numamicro.worker``."""

from __future__ import annotations

import faulthandler
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from numamicro.case import Case, parse_place
from numamicro.errors import GpuError
from numamicro.matrix import Placement, Run, Sample, State
from numamicro.probes.probe import CaseFailed, Probe, TakeSample
from numamicro.stats import is_settled
from numamicro.topology import Machine, Note
from numamicro.wire import case_from_json, run_to_json
from numamicro.worker.lab import Held, Lab, misplaced
from numamicro.worker.noise import between, snapshot


def load_probe(reference: dict[str, str]) -> Probe:
    """Give the probe that a reference names: by its module, or by its file when that is a script."""
    if reference["module"] != "__main__":
        module = importlib.import_module(reference["module"])
    else:
        spec = importlib.util.spec_from_file_location("numamicro_probe_script", reference["file"])
        if spec is None or spec.loader is None:
            raise ImportError(f"{reference['file']} is no Python file")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    probe: Probe = getattr(module, reference["name"])()
    return probe


def measure(
    probe: Probe, case: Case, lab: Lab, process: int, samples: tuple[int, int]
) -> dict[str, Run]:
    """Measure one case and give a run for each value it has; a failure is a run with its reason."""
    lab.begin()
    found: list[Held] = []
    try:
        with probe.ready(case, lab) as take:
            found += lab.placements()
            _refuse_misplaced(found)
            _warm_up(take, probe.warm_up(case))
            quiet = snapshot()
            taken = _samples(take, probe, *samples)
            noise = between(quiet, snapshot(), lab.used_cpus)
            found += lab.placements()
            _refuse_misplaced(found)
    except Exception as error:
        failure = _failure_of(error)
        if failure.reason.code == "displaced":
            lab.dismiss_teams()
        failed = Run(
            process,
            state=failure.state,
            reason=failure.reason,
            placement=_worst(found),
            outcome=lab.outcome,
        )
        return {"": failed}
    where = _worst(found)
    lab.note(foreign=noise.foreign, steal=noise.steal, switches=noise.switches)
    return {
        name: Run(
            process,
            tuple(sample[name] for sample in taken),
            placement=where,
            outcome=lab.outcome,
            warnings=(*lab.warnings, *_unverified(found), *noise.warnings()),
        )
        for name in taken[0]
    }


def _samples(take: TakeSample, probe: Probe, fewest: int, most: int) -> list[dict[str, Sample]]:
    """Take samples until the median of each value is known well enough, or there are `most`."""
    taken: list[dict[str, Sample]] = []
    while len(taken) < most:
        taken.append(_by_name(take()))
        if len(taken) >= fewest and _are_settled(taken, probe):
            break
    return taken


def _are_settled(taken: list[dict[str, Sample]], probe: Probe) -> bool:
    return all(
        is_settled([sample[name].value(probe.unit_of(name)) for sample in taken])
        for name in taken[0]
    )


def _failure_of(error: Exception) -> CaseFailed:
    """Say how a case ends that ended with this exception."""
    from numamicro._cpu import Displaced

    if isinstance(error, CaseFailed):
        return error
    if isinstance(error, Displaced):
        text = (
            "a pinned thread was found on another CPU: its own went offline, or its affinity was "
            "changed"
        )
        return CaseFailed(State.VOID, "displaced", text)
    if isinstance(error, GpuError):
        return CaseFailed(State.ERROR, "driver", str(error))
    text = f"{type(error).__name__}: {error}".splitlines()[0]
    return CaseFailed(State.ERROR, "exception", text)


def _by_name(sample: Any) -> dict[str, Sample]:
    return {"": sample} if isinstance(sample, Sample) else dict(sample)


def _warm_up(take: TakeSample, seconds: float) -> None:
    end = time.monotonic() + seconds
    take()
    while time.monotonic() < end:
        take()


def _refuse_misplaced(found: list[Held]) -> None:
    for held in found:
        if reason := misplaced(held):
            raise CaseFailed(State.VOID, reason.code, reason.text)


def _worst(found: list[Held]) -> Placement | None:
    """Give the placement with the least share on target; an unknown share is the worst of all."""
    places = [held.where for held in found]
    return min(places, key=lambda where: -1.0 if where.share is None else where.share, default=None)


def _unverified(found: list[Held]) -> tuple[Note, ...]:
    """Say what the kernel would not tell about the pages."""
    warnings = []
    if any(held.where.share is None for held in found):
        text = (
            "the kernel would not say where the pages were (move_pages and numa_maps are refused)"
        )
        warnings.append(Note("unverified", text))
    if any(held.where.huge_share is None and held.pages != "auto" for held in found):
        text = (
            "the kernel would not say how large the pages were (/proc/self/smaps is refused): "
            "huge ones were asked for or forbidden, and may not be what was got"
        )
        warnings.append(Note("unverified-page-size", text))
    return tuple(warnings)


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more."""
    start = json.loads(requests.readline())
    for entry in start["path"]:
        if entry not in sys.path:
            sys.path.append(entry)
    machine = Machine.from_json(start["machine"])
    initiator = parse_place(start["initiator"])
    with suppress(OSError):  # all of them went offline: each case then says so
        os.sched_setaffinity(0, machine.usable_cpus(initiator))
    probes: dict[str, Probe] = {}
    with Lab(initiator, machine, start["seed"]) as lab:
        for line in requests:
            request = json.loads(line)
            case = case_from_json(request["case"], "request")
            if case.probe not in probes:
                probes[case.probe] = load_probe(request["probe"])
            runs = measure(
                probes[case.probe], case, lab, request["process"], tuple(request["samples"])
            )
            answer = {name: run_to_json(run) for name, run in runs.items()}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _offer_itself_first() -> None:
    """Where a node runs out of memory after all, let the kernel end this process and no other."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def main() -> None:
    """Serve on standard input and output; what a probe prints goes to standard error instead."""
    from numamicro._cpu import end_with_parent

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    faulthandler.enable()
    end_with_parent()
    _offer_itself_first()
    # Not sys.stdin: the user's PYTHONIOENCODING is for the user's terminal.
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(requests, answers)


if __name__ == "__main__":
    main()
