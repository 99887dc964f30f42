"""Probes with one planted fault each, as a child process loads them by name.

Each is the real bandwidth or latency probe with one thing broken beneath it, so that what catches
the fault is the product's own check.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from unittest.mock import patch

from numamicro import _cpu
from numamicro.matrix import Sample
from numamicro.probes import Cost
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.latency import Latency

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.case import Case
    from numamicro.probes import TakeSample
    from numamicro.worker.lab import Lab


class OneBandwidth(Bandwidth):
    """The real probe, cut down to one case."""

    def cases(self, machine: Any, wishes: Any) -> list[Case]:
        return list(super().cases(machine, wishes))[:1]


class OneLatency(Latency):
    """The real probe, cut down to small pages."""

    def cases(self, machine: Any, wishes: Any) -> list[Case]:
        return [case for case in super().cases(machine, wishes) if case["pages"] == "small"][:1]


class NeverWritten(OneBandwidth):
    """Nothing fills the buffer: every read would come from the kernel's one zero page."""

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        with patch.object(_cpu, "fill", return_value=0), super().ready(case, lab) as sample:
            yield sample


class ZeroFilled(OneBandwidth):
    """The buffer is zeroed after it was filled."""

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        with super().ready(case, lab) as sample:
            block = bytes(2**20)
            with memoryview(lab._buffers[0].arena) as view:
                for start in range(0, case.number("bytes"), len(block)):
                    view[start : start + len(block)] = block
            yield sample


class Misplaced(OneBandwidth):
    """Binding is forgotten, and the pages are where the kernel likes."""

    def cases(self, machine: Any, wishes: Any) -> list[Case]:
        cases = Bandwidth.cases(self, machine, wishes)
        return [case for case in cases if case.route.source != case.route.target][:1]

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        real = _cpu.Arena

        def unbound(size: int, *, huge: bool, **_: object) -> _cpu.Arena:
            return real(size, huge=huge)

        with patch.object(_cpu, "Arena", unbound), super().ready(case, lab) as sample:
            yield sample


class OptimisedAway(OneBandwidth):
    """The compiler found that nobody looks at what the loop reads."""

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        with (
            patch.object(_cpu, "read", lambda team, arena, length, *_: (1000, length, 0, 0)),
            super().ready(case, lab) as sample,
        ):
            yield sample


class ChaseOptimisedAway(OneLatency):
    """The chase ends where it began."""

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        with (
            patch.object(_cpu, "chase", lambda *_: (1000, _cpu.position(*_[2:6]), 0)),
            super().ready(case, lab) as sample,
        ):
            yield sample


class Displaced(OneBandwidth):
    """The thread is moved to another CPU, as the kernel does where its own goes offline."""

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        with super().ready(case, lab) as sample:
            (here,) = lab.used_cpus
            others = os.sched_getaffinity(0) - {here}
            for task in set(os.listdir("/proc/self/task")) - {str(os.getpid())}:
                os.sched_setaffinity(int(task), others)
            yield sample


class CpuGone(OneBandwidth):
    """A CPU went away since the machine was looked at."""

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        lab._cpus = (2**20,)
        with super().ready(case, lab) as sample:
            yield sample


class Bus(OneBandwidth):
    """Memory that was promised is not there."""

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        os.kill(os.getpid(), signal.SIGBUS)
        with super().ready(case, lab) as sample:
            yield sample


class Sampler(OneBandwidth):
    """A probe that touches no memory; what its sample does is the fault."""

    def cost(self, case: Case, machine: Any) -> Cost:
        return Cost(0.0, 0.001)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        yield self.sample

    def sample(self) -> Sample:
        return Sample(0.001, 1)


class Crash(Sampler):
    def sample(self) -> Sample:
        os.kill(os.getpid(), signal.SIGSEGV)
        return super().sample()


class Exit(Sampler):
    def sample(self) -> Sample:
        os.write(2, b"the library said goodbye\n")
        os._exit(7)


class Hang(Sampler):
    def sample(self) -> Sample:
        while True:
            time.sleep(3600)


class Stuck(Sampler):
    """Hangs, and pays no heed to the polite signals."""

    def sample(self) -> Sample:
        os.kill(os.getpid(), signal.SIGSTOP)
        return super().sample()


class Raises(Sampler):
    def sample(self) -> Sample:
        raise ValueError("the first line\nand a second")


class Chatty(Sampler):
    """Prints more than a pipe holds, on both streams."""

    def sample(self) -> Sample:
        print("x" * 100_000)
        os.write(2, b"y" * 100_000)
        return super().sample()


class Steady(Sampler):
    """Gives the same figure again and again."""


class Restless(Sampler):
    """Never gives the same figure twice."""

    _turn = 0

    def sample(self) -> Sample:
        self._turn += 1
        return Sample(0.001 * (1 + self._turn % 7), 1)


class Rivals(Restless):
    """Two variants, of which one always wins."""

    def cases(self, machine: Any, wishes: Any) -> list[Case]:
        (case,) = super().cases(machine, wishes)
        return [case.having(variant=variant) for variant in ("slow", "fast")]

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        amount = {"slow": 1, "fast": 100}[str(case["variant"])]
        yield lambda: self.sample()._replace(amount=amount)


class Twenty(Sampler):
    """Twenty cases."""

    def cases(self, machine: Any, wishes: Any) -> list[Case]:
        (case,) = super().cases(machine, wishes)
        return [case.having(turn=turn) for turn in range(20)]

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        # What is measured here needs no warm clock, and all of them together would wait long.
        with patch("numamicro.probes.probe.WARM_UP_SECONDS", 0.0):
            yield self.sample


class Good(Sampler):
    name: ClassVar[str] = "good"
