"""Carry a plan out: workers, order, budget and deadlines. Every result goes to the journal."""

from __future__ import annotations

import math
import random
import time
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from numamicro.case import gpus_of
from numamicro.matrix import CHOSEN, Measurement, Run, State, best_of
from numamicro.plan import PHASES, Planned, Priority
from numamicro.stats import NARROW
from numamicro.stop import Stopped, StopRequest
from numamicro.topology import Note
from numamicro.worker.handle import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numamicro.case import AnyPlace, Case, Place
    from numamicro.journal import Journal
    from numamicro.plan import Plan
    from numamicro.probes.probe import Probe
    from numamicro.topology import Machine

DEADLINE_SECONDS = 30.0
"""A worker that gives no answer for this long, and ten times its estimate, is taken to hang."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: `done` of `total` cases and processes, and what comes next."""

    done: int
    total: int
    case: Case
    elapsed: float


class Runner:
    """One run of a plan.

    Parameters
    ----------
    observe : callable
        Told before each case, and never during one: the cores that measure are left alone.
    stop : StopRequest, optional
        Ends the run when it is asked.
    deadline : float
        Seconds without an answer after which a worker is ended.
    """

    def __init__(
        self,
        plan: Plan,
        machine: Machine,
        journal: Journal,
        observe: Callable[[Progress], None] = lambda _: None,
        stop: StopRequest | None = None,
        deadline: float = DEADLINE_SECONDS,
    ) -> None:
        self._plan = plan
        self._machine = machine
        self._journal = journal
        self._observe = observe
        self._stop = stop
        self._deadline = deadline
        self._order = random.Random(plan.wishes.seed)
        self._started = time.monotonic()
        self._done = 0
        self._total = len(plan.to_measure) * plan.wishes.level.processes
        self._estimated = self._spent = 1.0
        self._worker: Worker | None = None
        self._kept: dict[AnyPlace, Worker] = {}
        self._lost: set[Place] = set()

    def run(self) -> bool:
        """Measure until the plan or the budget ends; tell whether it came to its end."""
        for item in self._plan.planned:
            if item.waived:
                self._journal.close_case(item.case, item.probe.unit, State.WAIVED, item.waived)
        try:
            for priorities in PHASES:
                for process in range(self._plan.wishes.level.processes):
                    self._round(process, [self._of(priority) for priority in priorities])
            if self._plan.wishes.refines:
                self._refine()
        except Stopped:
            self._close_open_cases(State.CANCELLED, Note("interrupted", "the run was ended"))
            return False
        finally:
            for worker in (self._worker, *self._kept.values()):
                if worker is not None:
                    worker.kill()
        budget = f"the budget of {self._plan.wishes.budget:.0f} s was spent; --time gives more"
        self._close_open_cases(State.SKIPPED, Note("budget", budget))
        return True

    def _of(self, priority: Priority) -> list[Planned]:
        return [item for item in self._plan.to_measure if item.priority is priority]

    def _refine(self) -> None:
        """Spend what is left on further processes for the figures that are not known well yet."""
        process = self._plan.wishes.level.processes
        while wide := [item for item in self._wide() if self._affords(item)]:
            self._total += len(wide)
            self._round(process, [wide])
            process += 1

    def _wide(self) -> list[Planned]:
        """Give what the figures of the tables are of and is not settled, the widest first.

        A variant or team size that is not the best of its table is nobody's figure.
        """
        best: dict[Case, tuple[Planned, Measurement]] = {}
        for item in self._plan.to_measure:
            cell = self._journal.look_up(self._resolved(item))
            if cell is None or cell.state is not State.OK:
                continue
            table = cell.case.without(*CHOSEN)
            if table not in best or best_of((best[table][1], cell)) is cell:
                best[table] = item, cell
        errors = [(_error(cell), item) for item, cell in best.values()]
        wide = [(error, item) for error, item in errors if error > NARROW]
        return [item for _, item in sorted(wide, key=lambda pair: -pair[0])]

    def _round(self, process: int, blocks: list[list[Planned]]) -> None:
        """Measure blocks one after the other, in random order each, so that drift does not follow
        the matrix.

        One worker lives at a time: two would share the memory bandwidth that is measured. Only that
        of a GPU waits, asleep, where a later block comes back to it: its contexts take longer than
        most of what it measures, and a fresh one in the same round would be no further process.
        """
        for block in blocks:
            self._order.shuffle(block)
            turn = {item.place: index for index, item in enumerate(block)}
            block.sort(key=lambda item: turn[item.place])
        for number, block in enumerate(blocks):
            later = {item.place for each in blocks[number + 1 :] for item in each}
            for place, group in groupby(block, key=lambda item: item.place):
                self._worker = self._kept.pop(place, None)
                for item in group:
                    self._one(item, process)
                if self._worker is not None and place in later and self._may_wait(place):
                    self._kept[place], self._worker = self._worker, None
                self._end_worker()

    def _may_wait(self, place: AnyPlace) -> bool:
        """Tell whether a worker may live on while others measure: it is a GPU's, whose compute mode
        lets other processes in."""
        modes = [self._machine.gpu(gpu.id).compute_mode for gpu in gpus_of(place)]
        return bool(modes) and all(mode == "default" for mode in modes)

    def _one(self, item: Planned, process: int) -> None:
        case = self._resolved(item)
        self._done += 1
        if lost := self._lost.intersection(gpus_of(case.route.source, case.route.target)):
            self._give_up(item, case, min(lost))
            return
        if self._stop is not None:
            self._stop.check()
        if self._settled(case, process) or not self._affords(item):
            return
        self._observe(Progress(self._done, self._total, case, self._elapsed))
        before = self._elapsed
        runs = self._runs(item, case, process)
        self._spent += self._elapsed - before
        self._estimated += item.seconds
        for value, run in runs.items():
            named = case.having(value=value) if value else case
            self._journal.add(named, item.probe.unit_of(value), run)
        self._look_after_worker(item.probe, case, runs.values())

    def _resolved(self, item: Planned) -> Case:
        return item.resolve(self._journal.look_up, len(self._machine.usable_cpus(item.place)))

    def _look_after_worker(self, probe: Probe, case: Case, runs: Iterable[Run]) -> None:
        """End a worker that a probe has for itself, or whose driver failed: nothing it has of a GPU
        is to be trusted, and nothing that waiting workers have. One that a kill cannot end keeps
        its GPUs, and no other is sent after it."""
        failed = any(run.reason and run.reason.code == "driver" for run in runs)
        if probe.alone or failed:
            self._end_worker()
        if failed or (self._worker is not None and not self._worker.alive):
            self._end_kept()
        if self._worker is not None and self._worker.stuck:
            self._lost |= {*gpus_of(case.route.source, case.route.target)}

    def _give_up(self, item: Planned, case: Case, gpu: Place) -> None:
        if self._journal.look_up(case) is None:
            text = f"a process is stuck in the driver of {gpu}, which cannot be used until it ends"
            self._journal.close_case(case, item.probe.unit, State.WAIVED, Note("gpu-stuck", text))

    def _runs(self, item: Planned, case: Case, process: int) -> dict[str, Run]:
        try:
            if self._worker is None or not self._worker.alive:
                self._worker = Worker(item.place, self._machine, self._plan.wishes.seed)
        except OSError as error:
            why = f"no worker could be started: {error.strerror}"
            return {"": Run(process, state=State.ERROR, reason=Note("no-worker", why))}
        level = self._plan.wishes.level
        return self._worker.measure(
            item.probe,
            case,
            process,
            (level.fewest, level.samples),
            self._deadline + 10 * item.seconds,
            self._stop,
        )

    def _settled(self, case: Case, process: int) -> bool:
        """Tell whether a case needs no run of this process: it has one, or it has failed before."""
        known = self._journal.look_up(case)
        return known is not None and (
            known.state is not State.OK or self._journal.has(case, process)
        )

    def _affords(self, item: Planned) -> bool:
        # Estimates are made for slow machines; what the run so far took corrects them.
        expected = item.seconds * self._spent / self._estimated
        return self._elapsed + expected <= self._plan.wishes.budget

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _end_kept(self) -> None:
        """End what waits, at once: to give its memory back it would have to trust the driver."""
        while self._kept:
            place, worker = self._kept.popitem()
            worker.kill()
            if worker.stuck:
                self._lost |= {*gpus_of(place)}

    def _close_open_cases(self, state: State, reason: Note) -> None:
        for item in self._plan.to_measure:
            case = self._resolved(item)
            if self._journal.look_up(case) is None:
                self._journal.close_case(case, item.probe.unit, state, reason)


def _error(cell: Measurement) -> float:
    """Give how well a figure is known, as :attr:`Summary.error`; few samples tell nothing."""
    summary = cell.summary()
    return math.inf if summary is None or summary.error is None else summary.error
