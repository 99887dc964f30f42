"""numamicro as a contender: its own probes, in its own workers, with its own proof of placement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.pairs import WARM_UPS, Reading
from numamicro.case import Place
from numamicro.errors import NumamicroError
from numamicro.matrix import Measurement, Run, State, best_of
from numamicro.units import is_rate
from numamicro.worker.handle import Worker

if TYPE_CHECKING:
    from numamicro.case import Case
    from numamicro.probes import Probe
    from numamicro.topology import Machine

LONGEST_TURN = 300.0
"""Seconds after which a worker is taken to hang."""


@dataclass(frozen=True, slots=True)
class Product:
    """Cases that differ in their variant; the best of first turns is measured from then on.

    Parameters
    ----------
    samples : int
        Timed samples a turn; all of them count, as a peer's mean does.
    """

    name: str
    about: str
    machine: Machine
    probe: Probe
    cases: tuple[Case, ...]
    samples: int

    @property
    def missing(self) -> None:
        """It always takes part."""

    def warmed_up(self) -> Product:
        """Measure every case and keep the best, as `numamicro matrix` shows the best."""
        cells = (
            Measurement.of_runs(
                case, self.probe.unit, tuple(self._run(case, seed) for seed in range(WARM_UPS))
            )
            for case in self.cases
        )
        best = best_of(cells)
        assert best is not None  # a run that failed has raised
        about = f"{self.about}; {best.case['variant']}" if len(self.cases) > 1 else self.about
        return replace(self, cases=(best.case,), about=about)

    def turn(self, number: int) -> Reading:
        """Measure the first case in a fresh process, as a peer is a fresh process each turn."""
        run = self._run(self.cases[0], number)
        seconds = sum(sample.seconds for sample in run.samples)
        amount = sum(sample.amount for sample in run.samples)
        value = amount / seconds if is_rate(self.probe.unit) else seconds / amount
        where = run.placement
        facts = {
            "case": self.cases[0].key,
            "kernel": run.outcome.get("kernel"),
            "strays": run.outcome.get("strays"),
            "share": where.share if where else None,
            "huge_share": where.huge_share if where else None,
        }
        return Reading(value, {key: fact for key, fact in facts.items() if fact is not None})

    def _run(self, case: Case, seed: int) -> Run:
        source = case.route.source
        assert isinstance(source, Place)
        worker = Worker(source, self.machine, seed)
        try:
            (run,) = worker.measure(
                self.probe, case, 0, (self.samples, self.samples), LONGEST_TURN
            ).values()
        finally:
            worker.close()
        if run.state is not State.OK:
            raise NumamicroError(f"{case.key} is {run.state}: {run.reason and run.reason.text}")
        return run
