"""Attention: what cores take of a cache of keys and values, the slope of a token over its depth."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from numamicro.case import Case
from numamicro.matrix import Sample, State
from numamicro.probes.probe import (
    CaseFailed,
    Cost,
    Probe,
    TakeSample,
    buffer_bytes,
    touch_seconds,
    unfit,
    windowed,
)
from numamicro.probes.products import engine_pages, home_routes, is_too_quick, teams
from numamicro.topology import Note
from numamicro.units import MIB, bytes_text
from numamicro.wishes import THOROUGH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.topology import Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

CACHED_BYTES = 128 * MIB
"""At least: what was read of the first layer has left the caches when it comes round again."""

GROUP = 4
"""Query heads that share a cached head; more where a team has more threads than all of them."""

POSITION_BYTES = 2 * 128 * 2
"""Key and value of one head at one position, in 16 bits."""

PAST_PAGE = 64
"""Where a cache begins, as allocators lay large memory down: a line behind the start of a page. The 256
bytes of a head then begin and end amid pairs of lines, and every eighth position may lie on two
pages, which makes one thread a tenth to a quarter slower."""

HEADS = (2, 4, 8)
"""Cached heads that lie side by side. The more, the fewer of a cache's sets can hold one of them."""

POSITIONS = (2048, 8192)
"""Of a head, 1 and 4 MiB: its second query head finds it in the second-level cache, or beyond."""


class Attention(Probe):
    """Bytes a second of 16-bit keys and values, each counted for every query head that takes it."""

    name: ClassVar[str] = "attention"
    unit: ClassVar[str] = "B/s"
    late: ClassVar[bool] = True

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give one thread on every core; one alone and deeper caches, too, if thorough."""
        if not wishes.wants(self.name, "decode") or is_too_quick(wishes):
            return
        for route in home_routes(machine, wishes):
            counts = teams(route, machine, wishes, shared=True)
            for threads, pages, shape in product(counts, engine_pages(wishes), _shapes(wishes)):
                heads, positions = shape
                size = buffer_bytes(route, machine, wishes, CACHED_BYTES)
                yield Case.of(
                    self.name,
                    "decode",
                    route,
                    bytes=size,
                    heads=heads,
                    pages=pages,
                    positions=positions,
                    threads=threads,
                )

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when the layers cannot be had beyond the caches, or not one of them."""
        size = case.number("bytes")
        layer = case.number("positions") * case.number("heads") * POSITION_BYTES
        if layer > size:
            text = f"one layer is {bytes_text(layer)}, more than a buffer of {bytes_text(size)}"
            return Note("too-little-memory", text)
        return unfit(case, machine)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate a first touch, and all query heads at 4 GB/s a thread."""
        size, threads = case.number("bytes"), case.number("threads")
        group = max(GROUP, threads / case.number("heads"))
        a_pass = group * size / (4e9 * threads)
        return Cost(a_pass, a_pass, touch_seconds(case, machine, size))

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Fill and check, then let every head look at all of it; the results' bits must repeat."""
        from numamicro import _cpu

        size, shape = case.number("bytes"), (case.number("positions"), case.number("heads"))
        arena = lab.arena(case.route.target, PAST_PAGE + size, str(case["pages"]))
        team = lab.team(case.number("threads"))
        lab.note(isa=_cpu.dot_kernels()[0][1])
        if wrong := _cpu.attend_fill(team, arena, PAST_PAGE, size, *shape, lab.seed):
            text = f"{wrong} results of the attention are not those of plain arithmetic"
            raise CaseFailed(State.WRONG, "products", text)

        @cache
        def of_one_pass() -> int:
            return _cpu.attend(team, arena, PAST_PAGE, size, *shape, 1)[2]

        def passes(count: int) -> Sample:
            elapsed, taken, total, strays = _cpu.attend(team, arena, PAST_PAGE, size, *shape, count)
            if total != of_one_pass() * count % 2**64:
                text = f"{count} passes of the attention did not give the same results"
                raise CaseFailed(State.WRONG, "products", text)
            lab.strays += strays
            return Sample(elapsed / 1e9, taken, count)

        yield windowed(passes)


def _shapes(wishes: Wishes) -> tuple[tuple[int, int], ...]:
    """Give heads and positions of the caches: those of most models, more if thorough."""
    if wishes.level is not THOROUGH:
        return tuple(product(HEADS, POSITIONS))
    return tuple(product((1, *HEADS), (*POSITIONS, 32768)))
