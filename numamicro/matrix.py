"""The cost matrix: what was measured, how it went, and typed look-ups. Needs no kernels."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from numamicro.stats import Summary, summarise
from numamicro.units import KIB, MIB, is_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numamicro.case import AnyPlace, Case, Param
    from numamicro.topology import Machine, Note

MIN_SHARE = 0.99
"""A cell with fewer of its pages on the target than this publishes no figure."""

CHOSEN = frozenset({"threads", "variant"})
"""Parameters over which the best is taken when a table shows one figure a route."""


CURVES = ("working_set", "positions", "delay", "team", "format", "kind", "transfer")
"""Parameters that are swept to see a curve: a table shows a row a value, and no best."""


MATRIX_MESSAGES = (16 * KIB, 16 * MIB)
"""Messages that every pair of GPUs exchanges: a token's and a prompt's."""

MATRIX_VALUES: Mapping[str, tuple[Param, ...]] = {"message": MATRIX_MESSAGES}
"""Parameters that have a matrix for a few values, measured everywhere; the others make a curve."""


def in_matrix(case: Case) -> bool:
    """Tell whether a cell belongs to a matrix, and not to a curve alone."""
    return all(case.get(name) is None for name in CURVES) and all(
        case.get(name, values[0]) in values for name, values in MATRIX_VALUES.items()
    )


class State(StrEnum):
    """How a cell ended. Only ok cells publish a figure."""

    OK = "ok"
    WAIVED = "waived"  # not applicable here
    VOID = "void"  # measured, but its pages or its plausibility failed
    WRONG = "wrong"  # the data check failed
    HANG = "hang"
    ERROR = "error"
    SKIPPED = "skipped"  # out of budget
    CANCELLED = "cancelled"


# States of cells that were tried and brought no figure.
FAILED_STATES = frozenset({State.VOID, State.WRONG, State.HANG, State.ERROR})
# When the processes of one cell disagree, the gravest wins.
_GRAVITY = (State.WRONG, State.VOID, State.HANG, State.ERROR, State.WAIVED)


class Sample(NamedTuple):
    """One timing. Never a rate, so that nothing is lost: divide at reading.

    `amount` counts bytes (for a unit of B/s) or operations, over all `repetitions` together.
    """

    seconds: float
    amount: int
    repetitions: int = 1

    def value(self, unit: str) -> float:
        """Give the sample in its base unit: a rate, or the time of one operation."""
        return self.amount / self.seconds if is_rate(unit) else self.seconds / self.amount


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pages of one run really were, as the kernel said before and after the timing.

    Parameters
    ----------
    share : float or None
        Smallest share of pages on the target, before or after; None when the kernel would not say.
    by : str or None
        move_pages or numa_maps; None when neither could be asked.
    pages : mapping of node id to pages
        After the timing. A negative key is an errno the kernel gave in place of a node.
    page_bytes : int
        Bytes of one counted page.
    huge_share : float or None
        Share of the buffer that huge pages backed.
    """

    share: float | None
    by: str | None
    pages: Mapping[int, int] = field(default_factory=dict)
    page_bytes: int = 4096
    huge_share: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What one process brought for one case.

    Parameters
    ----------
    process : int
        Counts the processes that measured this case, from 0.
    temperature : str
        cold (the first pass after set-up) or warm.
    outcome : mapping
        What came of it and is not identity: ISA that ran, CPUs used, clock.
    """

    process: int
    samples: tuple[Sample, ...] = ()
    temperature: str = "warm"
    state: State = State.OK
    reason: Note | None = None
    placement: Placement | None = None
    outcome: Mapping[str, Param | None] = field(default_factory=dict)
    warnings: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Measurement:
    """A case, how it ended, and one run for each process that tried it."""

    case: Case
    unit: str
    state: State
    reason: Note | None = None
    runs: tuple[Run, ...] = ()
    origin: str | None = None

    @classmethod
    def of_runs(cls, case: Case, unit: str, runs: tuple[Run, ...]) -> Measurement:
        """Settle the state of a case from its runs: the gravest of them."""
        for state in _GRAVITY:
            for run in runs:
                if run.state is state:
                    return cls(case, unit, state, run.reason, runs)
        return cls(case, unit, State.OK, None, runs)

    def summary(self) -> Summary | None:
        """Summarise the warm samples in the base unit; None unless the cell is ok."""
        if self.state is not State.OK:
            return None
        groups = self.groups()
        return summarise(groups) if groups else None

    def groups(self) -> list[list[float]]:
        """Give the warm samples in the base unit, by the process that took them."""
        return groups_of(self.unit, self.runs)

    @property
    def share(self) -> float | None:
        """Smallest share of pages on target over the runs; None when a run could not ask."""
        shares = [run.placement.share for run in self.runs if run.placement]
        known = [share for share in shares if share is not None]
        return min(known) if known and len(known) == len(shares) else None

    @property
    def warnings(self) -> tuple[Note, ...]:
        """What the runs warned of, each once."""
        return tuple(dict.fromkeys(warning for run in self.runs for warning in run.warnings))


@dataclass(frozen=True, slots=True)
class Header:
    """What is true of the whole file.

    Parameters
    ----------
    origin : str
        measured, simulated or imported.
    machine_id, boot_id : str or None
        Hashed, so that files of one machine match without carrying a serial.
    setting : mapping
        How the machine was set; None is unknown, never "same".
    plan : mapping
        Level, seed and wishes that made this file.
    budget : float or None
        Seconds the run could spend.
    """

    tool: str
    created: str
    origin: str
    machine: Machine
    label: str | None = None
    machine_id: str | None = None
    boot_id: str | None = None
    setting: Mapping[str, str | int | None] = field(default_factory=dict)
    plan: Mapping[str, object] = field(default_factory=dict)
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class CostMatrix:
    """The measurements of one boot."""

    header: Header
    measurements: tuple[Measurement, ...]

    def cells(
        self,
        probe: str,
        operation: str | None = None,
        source: AnyPlace | None = None,
        target: AnyPlace | None = None,
        **params: Param,
    ) -> Iterator[Measurement]:
        """Give every cell that matches; what is left out matches all."""
        for cell in self.measurements:
            case = cell.case
            if (
                case.probe == probe
                and operation in (None, case.operation)
                and source in (None, case.route.source)
                and target in (None, case.route.target)
                and all(case.get(name) == value for name, value in params.items())
            ):
                yield cell

    def best(
        self, probe: str, operation: str, source: AnyPlace, target: AnyPlace, **params: Param
    ) -> Measurement | None:
        """Give the best ok cell of a route over everything not named in `params`."""
        return best_of(self.cells(probe, operation, source, target, **params))


class Samples(Protocol):
    """What has samples of one process."""

    @property
    def samples(self) -> Sequence[tuple[float, int, int]]: ...
    @property
    def temperature(self) -> str: ...


def groups_of(unit: str, runs: Iterable[Samples]) -> list[list[float]]:
    """Give the warm samples of runs in the base unit, by the process that took them."""
    warm = [run.samples for run in runs if run.samples and run.temperature == "warm"]
    if is_rate(unit):
        return [[amount / seconds for seconds, amount, _ in samples] for samples in warm]
    return [[seconds / amount for seconds, amount, _ in samples] for samples in warm]


def best_of(cells: Iterable[Measurement]) -> Measurement | None:
    """Give the ok cell with the best centre: the highest rate, or the shortest time."""
    rated = [(summary.center, cell) for cell in cells if (summary := cell.summary())]
    if not rated:
        return None
    choose = max if is_rate(rated[0][1].unit) else min
    return choose(rated, key=lambda pair: pair[0])[1]
