"""Step: the small operations between products, which one thread does while the others wait."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case
from numamicro.matrix import Sample, State
from numamicro.probes.probe import WINDOW_SECONDS, CaseFailed, Cost, Probe, TakeSample, windowed
from numamicro.probes.products import home_routes, is_too_quick

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

VALUES = {"norm": 4096, "rotate": 128, "quantize": 4096}
"""Length of the vector: a hidden state, or a head."""


class Step(Probe):
    """Seconds that a value takes to be normed, rotated by its position, or made 8 bits for products."""

    name: ClassVar[str] = "step"
    unit: ClassVar[str] = "s"
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give each operation on the first node."""
        if not wishes.wants(self.name, "value") or is_too_quick(wishes):
            return
        for route in home_routes(machine, wishes):
            for kind, values in VALUES.items():
                yield Case.of(self.name, "value", route, kind=kind, values=values)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate: a sample is one window."""
        return Cost(0.1, 2 * WINDOW_SECONDS)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Do it again and again; the sum of squares tells that it was done."""
        from numamicro import _cpu

        team, values, kind = lab.team(1), case.number("values"), str(case["kind"])
        # A norm makes the mean square 1. The others leave the squares of -3 to 3 in turn as they were.
        kept = sum((index % 7 - 3) ** 2 for index in range(values))
        due = float(values if kind == "norm" else kept)

        def passes(count: int) -> Sample:
            # The first norm sees the vector as it was made, and the next what it has become.
            elapsed, done, total, strays = _cpu.step(team, kind, values, count + 1)
            if abs(total - due) > 0.01 * due:
                text = f"the squares add up to {total:g} where {due:g} was due"
                raise CaseFailed(State.WRONG, "products", text)
            lab.strays += strays
            return Sample(elapsed / 1e9, done, count + 1)

        yield windowed(passes)
