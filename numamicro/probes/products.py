"""Products: what a core's arithmetic takes of weights, in the loops and formats of a CPU engine.

One vector is a token that is decoded, many are a prompt. In cache the arithmetic alone is timed;
from memory the same loop waits for its weights, as it does in an engine.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case, Route, node
from numamicro.matrix import Sample, State
from numamicro.probes.bandwidth import USUAL_BYTES, thread_counts
from numamicro.probes.probe import (
    WINDOW_SECONDS,
    CaseFailed,
    Cost,
    Probe,
    TakeSample,
    buffer_bytes,
    touch_seconds,
    unfit,
    windowed,
)
from numamicro.setting import KEYS
from numamicro.topology.sysfs import Tree
from numamicro.units import KIB, MIB
from numamicro.wishes import QUICK, THOROUGH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numamicro.topology import Machine, Note
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

FORMATS = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_K")
CACHED_BYTES = 128 * KIB
"""Weights of a thread that stay in its second-level cache."""


def home_routes(machine: Machine, wishes: Wishes) -> Iterator[Route]:
    """Give the first node with CPUs and memory, or every one if thorough: cores are alike."""
    targets = {each.id for each in machine.targets}
    for each in machine.initiators:
        if each.id in targets and wishes.wants_node(each.id):
            yield Route(node(each.id), node(each.id))
            if wishes.level is not THOROUGH:
                return


def is_too_quick(wishes: Wishes) -> bool:
    """Tell whether a run is a quick one that did not name its probes."""
    return wishes.level is QUICK and not wishes.only


def teams(route: Route, machine: Machine, wishes: Wishes, *, shared: bool) -> list[int]:
    """Give one thread, or one on every core where they share what is measured; both if thorough.

    A core's own caches and units do for each thread what they do for one.
    """
    counts = thread_counts(route.source, machine, wishes)
    both = sorted({*counts[:1], machine.cores(route.source)} & set(counts))
    if wishes.level is THOROUGH or wishes.threads:
        return both
    return both[-1:] if shared else both[:1]


def engine_pages(wishes: Wishes) -> tuple[str, ...]:
    """Give the pages that an engine gets, which asks for no huge ones; both kinds if thorough."""
    if wishes.level is THOROUGH:
        return ("auto", "small")
    for_all = KEYS["thp.enabled"].read(Tree("/")) == "always"
    return ("auto",) if for_all else ("small",)


class Dot(Probe):
    """Bytes a second of weights in a core's cache that go through its dot products."""

    name: ClassVar[str] = "dot"
    unit: ClassVar[str] = "B/s"
    late: ClassVar[bool] = True
    operation: ClassVar[str] = "vector"
    many: ClassVar[bool] = False
    shared: ClassVar[bool] = False

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give each format with a team that tells of the others."""
        if not wishes.wants(self.name, self.operation) or is_too_quick(wishes):
            return
        for route in home_routes(machine, wishes):
            counts = teams(route, machine, wishes, shared=self.shared)
            for threads, pages, name in product(counts, self._pages(wishes), self._formats(wishes)):
                yield Case.of(
                    self.name,
                    self.operation,
                    route,
                    bytes=self._bytes(threads, route, machine, wishes),
                    format=name,
                    pages=pages,
                    threads=threads,
                )

    def _bytes(self, threads: int, route: Route, machine: Machine, wishes: Wishes) -> int:
        return CACHED_BYTES * threads

    def _pages(self, wishes: Wishes) -> tuple[str, ...]:
        return ("auto",)

    def _formats(self, wishes: Wishes) -> tuple[str, ...]:
        return FORMATS

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate: set-up is small, a sample is one window."""
        return Cost(0.2, 2 * WINDOW_SECONDS)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Fill and check, then pass over the weights; the results' bits must repeat."""
        from numamicro import _cpu

        size, name = case.number("bytes"), str(case["format"])
        arena = lab.arena(case.route.target, size, str(case["pages"]))
        team = lab.team(case.number("threads"))
        lab.note(isa=dict(reversed(_cpu.dot_kernels()))[name])
        if wrong := _cpu.dot_fill(team, arena, size, name, lab.seed):
            text = f"{wrong} products of {name} weights are not what the format makes them"
            raise CaseFailed(State.WRONG, "products", text)

        @cache
        def of_one_pass() -> int:
            return _cpu.dot(team, arena, size, name, self.many, 0, 1)[3]

        def passes(matrices: int, count: int) -> Sample:
            taken = _cpu.dot(team, arena, size, name, self.many, matrices, count)
            elapsed, moved, operations, total, strays = taken
            if total != of_one_pass() * count % 2**64:
                text = f"{count} passes of {name} products did not give the same results"
                raise CaseFailed(State.WRONG, "products", text)
            lab.strays += strays
            return Sample(elapsed / 1e9, operations if self.many else moved, count)

        yield self._sampler(passes, size)

    def _sampler(self, passes: Callable[[int, int], Sample], size: int) -> TakeSample:
        return windowed(partial(passes, 0))


class Gemm(Dot):
    """Operations a second of a matrix product: weights in a format by 48 tokens."""

    operation: ClassVar[str] = "matrix"
    name: ClassVar[str] = "gemm"
    unit: ClassVar[str] = "op/s"
    many: ClassVar[bool] = True


class DotStream(Dot):
    """Bytes a second of weights in the node's own memory that go through dot products.

    In the pages that an engine gets: small ones where the kernel gives huge pages to those alone who
    ask. Two values: the threads meet at the end of the whole buffer, or after each MiB of it, as an
    engine's do after each matrix. What they lose then is no barrier's time: for some microseconds one
    thread is behind another, and over a whole buffer that evens out.
    """

    name: ClassVar[str] = "dot-stream"
    shared: ClassVar[bool] = True

    def _bytes(self, threads: int, route: Route, machine: Machine, wishes: Wishes) -> int:
        return buffer_bytes(route, machine, wishes, USUAL_BYTES)

    def _pages(self, wishes: Wishes) -> tuple[str, ...]:
        return engine_pages(wishes)

    def _formats(self, wishes: Wishes) -> tuple[str, ...]:
        # From memory, numbers of 16 bits are of one kind.
        if wishes.level is THOROUGH:
            return FORMATS
        return tuple(name for name in FORMATS if name != "BF16")

    def _sampler(self, passes: Callable[[int, int], Sample], size: int) -> TakeSample:
        whole = windowed(partial(passes, 0))
        by_matrix = windowed(partial(passes, max(1, size // MIB)))
        return lambda: {"whole": whole(), "by-MiB": by_matrix()}

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the buffer cannot be had beyond the caches."""
        return unfit(case, machine)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate a first touch, and passes at 4 GB/s a thread."""
        size = case.number("bytes")
        a_pass = size / min(4e9 * case.number("threads"), 4e10)
        return Cost(a_pass, 2 * a_pass, touch_seconds(case, machine, size))
