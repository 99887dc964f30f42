"""Who else used the CPUs while a case was timed: other programs, or the hypervisor's other guests."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.topology import Note

if TYPE_CHECKING:
    from collections.abc import Collection

FOREIGN_SHARE = 0.05
"""Share of the used CPUs' time that others may take before the cell is flagged."""
STEAL_SHARE = 0.02
"""Share that the hypervisor may take. It is smaller, for a guest sees only part of it."""

SWITCHES = 100.0
"""Times a second that a CPU may be taken from the team: the kernel's own threads take a few dozen."""

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Time spent so far, in seconds: by the clock, by this process, and on each CPU.

    `switches` counts how often a thread of this process lost its CPU to another program. `busy` and
    `stolen` are empty where /proc/stat is hidden.
    """

    clock: float
    own: float
    switches: int
    busy: dict[int, float]
    stolen: dict[int, float]


@dataclass(frozen=True, slots=True)
class Noise:
    """Shares, from 0 to 1, of the used CPUs' time, and involuntary context switches a second on
    each of them; None when it cannot be known."""

    foreign: float | None
    steal: float | None
    switches: float | None

    def warnings(self) -> tuple[Note, ...]:
        """Say what may have spoilt the figure."""
        found = []
        # Switches tell of others too where a container hides the CPUs' times.
        preempted = self.switches is not None and self.switches > SWITCHES
        if preempted or (self.foreign is not None and self.foreign > FOREIGN_SHARE):
            found.append(
                Note(
                    "foreign-load",
                    "other programs used the CPUs while this was timed: stop them and "
                    "measure again",
                )
            )
        if self.steal is not None and self.steal > STEAL_SHARE:
            found.append(
                Note(
                    "steal",
                    "the hypervisor took the CPUs away while this was timed: its other "
                    "guests are part of the figure",
                )
            )
        return tuple(found)


def snapshot(stat: Path = Path("/proc/stat")) -> Snapshot:
    """Take the times now."""
    busy, stolen = {}, {}
    try:
        lines = stat.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    for line in lines:
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu" and len(fields) >= 8:
            user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
            index = int(name.removeprefix("cpu"))
            busy[index] = (user + nice + system + irq + softirq) * _TICK
            stolen[index] = steal * _TICK
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    return Snapshot(time.monotonic(), time.process_time(), switches, busy, stolen)


def between(before: Snapshot, after: Snapshot, cpus: Collection[int]) -> Noise:
    """Give what others took of `cpus` between two snapshots."""
    known = [cpu for cpu in cpus if cpu in before.busy and cpu in after.busy]
    lasted = after.clock - before.clock
    span = lasted * len(known)
    switches = _rate(after.switches - before.switches, lasted * len(cpus))
    # Two ticks a CPU are the counters' own grain, and no evidence of anybody.
    grain = 2 * _TICK * len(known)
    if not known or span < 10 * grain:
        return Noise(None, None, switches)
    busy = sum(after.busy[cpu] - before.busy[cpu] for cpu in known)
    stolen = sum(after.stolen[cpu] - before.stolen[cpu] for cpu in known)
    foreign = busy - (after.own - before.own) - grain
    return Noise(min(max(foreign / span, 0.0), 1.0), min(max(stolen / span, 0.0), 1.0), switches)


def _rate(count: int, seconds: float) -> float | None:
    # A single switch within a few milliseconds is no rate.
    return count / seconds if seconds > 0.1 else None
