"""What the user asked for: a level of care, and the limits within which to work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.topology import Machine


@dataclass(frozen=True, slots=True)
class Level:
    """How much care a run takes.

    Parameters
    ----------
    name : str
    processes : int
        Fresh processes that measure each cell. One process shares one page placement, so that a
        single one is only indicative.
    fewest, samples : int
        Timed samples a process takes of a cell: at least, and at most. It takes more than the
        fewest until the median's interval is narrow.
    seconds : float
        Budget when the user names none.
    gpu_seconds : float
        What comes on top where there are GPUs.
    refines : bool
        Whether what is left of the budget goes to cells whose interval is still wide; it always
        does where the user named the budget.
    """

    name: str
    processes: int
    fewest: int
    samples: int
    seconds: float
    gpu_seconds: float = 0.0
    refines: bool = False


QUICK = Level("quick", processes=1, fewest=6, samples=10, seconds=60.0, gpu_seconds=60.0)
DEFAULT = Level("default", processes=3, fewest=8, samples=20, seconds=300.0, gpu_seconds=300.0)
THOROUGH = Level(
    "thorough",
    processes=5,
    fewest=10,
    samples=30,
    seconds=3600.0,
    gpu_seconds=3600.0,
    refines=True,
)
LEVELS: Mapping[str, Level] = {level.name: level for level in (QUICK, DEFAULT, THOROUGH)}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to measure and how long it may take; empty means everything that applies.

    Parameters
    ----------
    seconds : float, optional
        Budget for the whole run; the level's own when left out.
    only : tuple of str
        ``probe`` or ``probe/operation``.
    nodes, threads : tuple of int
    memory : int, optional
        Bytes of every buffer.
    gpus : bool
        Whether there are GPUs, for which a level has time of their own.
    """

    level: Level = DEFAULT
    seconds: float | None = None
    only: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    threads: tuple[int, ...] = ()
    memory: int | None = None
    seed: int = 1
    gpus: bool = False

    @property
    def budget(self) -> float:
        """Seconds the whole run may take."""
        usual = self.level.seconds + (self.level.gpu_seconds if self.gpus else 0.0)
        return usual if self.seconds is None else self.seconds

    @property
    def refines(self) -> bool:
        """Whether the rest of the budget narrows the intervals. A quick run stays quick."""
        return self.level.refines or (self.level is not QUICK and self.seconds is not None)

    def on(self, machine: Machine) -> Wishes:
        """Give the wishes with a budget for what this machine has, unless the user named one."""
        return replace(self, gpus=bool(machine.gpus))

    def wants(self, probe: str, operation: str) -> bool:
        """Tell whether `only` lets this operation through."""
        return not self.only or probe in self.only or f"{probe}/{operation}" in self.only

    def wants_node(self, index: int) -> bool:
        """Tell whether `nodes` lets this node through."""
        return not self.nodes or index in self.nodes
