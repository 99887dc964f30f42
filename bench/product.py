"""numamicro as a contender: its own probes, in its own workers, with its own proof of placement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from bench.pairs import Reading, best_in_trial
from numamicro.case import Place
from numamicro.errors import NumamicroError
from numamicro.matrix import State
from numamicro.probes.bandwidth import Bandwidth
from numamicro.units import is_rate
from numamicro.worker.handle import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from numamicro.case import Case
    from numamicro.matrix import Run, Sample
    from numamicro.probes import Probe
    from numamicro.probes.probe import TakeSample
    from numamicro.topology import Machine

TURN_BYTES = 3_600_000_000
"""What the team moves in a turn for each thread, at least: a quarter of a second or more. With several
threads a third of that makes the ratios of pairs spread more than twice as far."""
FEWEST_PASSES = 4
LONGEST_TURN = 300.0
"""Seconds after which a worker is taken to hang."""


class FreeRunning(Bandwidth):
    """The bandwidth probe with all passes of a turn in one window, as its peers have them.

    The product makes as many passes as last 10 ms, here mostly one, in a window each. Where several
    threads are held up now and then, all wait at the end of every such window for the last.
    """

    def sampler(self, passes: Callable[[int], Sample], case: Case) -> TakeSample:
        """Give what takes a sample of a whole turn."""
        return partial(passes, passes_of(case.number("bytes"), case.number("threads")))


def passes_of(size: int, threads: int) -> int:
    """Give how often a team passes over buffers of so many bytes in a turn."""
    return max(FEWEST_PASSES, -(-TURN_BYTES * threads // size))


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
        alone = [replace(self, cases=(case,)) for case in self.cases]
        best = alone[best_in_trial(alone, highest=is_rate(self.probe.unit))]
        if len(alone) == 1:
            return best
        return replace(best, about=f"{self.about}; {best.cases[0]['variant']}")

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
            "bytes": amount if is_rate(self.probe.unit) else None,
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
