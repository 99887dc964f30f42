"""Which contests there are, and who takes part in them on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bench.pairs import Claim, Reading, Turn, order
from bench.peers import likwid_load, plain_chase, plain_read
from bench.product import Product
from bench.state import Used, cpu_flags
from numamicro.case import Route, node
from numamicro.errors import NumamicroError
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.latency import STEPS, Latency
from numamicro.probes.probe import cache_floor
from numamicro.topology.notes import format_ids
from numamicro.units import GIB
from numamicro.wishes import Wishes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numamicro.case import Place
    from numamicro.topology import Machine

GIGABYTE = 10**9  # likwid counts so
PASSES = 16
"""Times the buffer is read in a turn, for each thread: half a second or more."""
CHASES = 64
"""Samples of a latency turn: eight million loads, about a second."""

AS_MET = "each with the pages it takes by itself"
SMALL_PAGES = "small pages on both sides"
HUGE_PAGES = "huge pages on both sides"


class Contender(Protocol):
    """Whoever takes turns: numamicro or a peer."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def missing(self) -> str | None: ...
    def warmed_up(self) -> Contender: ...
    def turn(self, number: int) -> Reading: ...


@dataclass(frozen=True, slots=True)
class Contest:
    """Contenders that measure the same thing in turns, and what is claimed of the outcome."""

    name: str
    title: str
    unit: str
    contenders: tuple[Contender, ...]
    claims: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A contest's turns, and why some contenders took none."""

    contest: Contest
    turns: tuple[Turn, ...]
    waived: Mapping[str, str]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims whose two sides took part."""
        return tuple(
            claim
            for claim in self.contest.claims
            if self.waived.keys().isdisjoint((claim.ours, claim.peer))
        )


def hold(contest: Contest, rounds: int, seed: int, observe: Callable[[Turn], None]) -> Outcome:
    """Let the contenders take turns, after one turn each that does not count."""
    waived = {who.name: why for who in contest.contenders if (why := who.missing)}
    ready = {who.name: who.warmed_up() for who in contest.contenders if who.name not in waived}
    turns = []
    for number, name in order(tuple(ready), rounds, seed):
        before = Used.now()
        reading = ready[name].turn(number + 1)
        turns.append(Turn(number, name, reading, *Used.now().since(before)))
        observe(turns[-1])
    return Outcome(contest, tuple(turns), waived)


def contests(machine: Machine, programs: Path) -> Mapping[str, Callable[[], Contest]]:
    """Give how to set each contest up, by name; `programs` holds the compiled peers."""
    return {
        "read-1": partial(_read, machine, programs, "read-1", 1),
        "read-all": partial(_read, machine, programs, "read-all", None),
        "latency-huge": partial(_latency, machine, programs, "huge", 0.95, 1.05),
        "latency-small": partial(_latency, machine, programs, "small", None, None),
    }


def _read(machine: Machine, programs: Path, name: str, threads: int | None) -> Contest:
    home, index = _home(machine)
    cpus = machine.usable_cpus(home)[: threads or machine.cores(home)]
    gigabytes = max(1, -(-cache_floor(Route(home, home), machine) // GIGABYTE))
    size, passes = gigabytes * GIGABYTE, PASSES * len(cpus)
    wishes = Wishes(memory=size, threads=(len(cpus),), nodes=(index,), only=("bandwidth/read",))
    cases = tuple(Bandwidth().cases(machine, wishes))
    small_cases = tuple(case.having(pages="small") for case in cases)
    product = partial(Product, machine=machine, probe=Bandwidth(), samples=passes)
    ours = product("numamicro", "huge pages where it can have them", cases=cases)
    small = product("numamicro, small", "forced to 4 KiB pages", cases=small_cases)
    likwid = likwid_load(len(cpus), index, gigabytes, passes, cpu_flags())
    plain = plain_read(programs, cpus, size, passes)
    return Contest(
        name,
        f"Read bandwidth of {home}, CPUs {format_ids(cpus)}, a buffer of {gigabytes} GB",
        "B/s",
        (ours, small, likwid, plain),
        (
            Claim(ours.name, likwid.name, 1.2 if threads == 1 else 0.97, why=AS_MET),
            Claim(small.name, likwid.name, why=SMALL_PAGES),
            Claim(ours.name, plain.name, why=HUGE_PAGES),
        ),
    )


def _latency(
    machine: Machine, programs: Path, pages: str, low: float | None, high: float | None
) -> Contest:
    home, index = _home(machine)
    cpu = machine.usable_cpus(home)[0]
    cases = tuple(
        case
        for case in Latency().cases(machine, Wishes(memory=GIB, nodes=(index,)))
        if case["pages"] == pages
    )
    ours = Product("numamicro", f"{pages} pages", machine, Latency(), cases, CHASES)
    peer = plain_chase(programs, cpu, GIB, STEPS * CHASES, pages)
    return Contest(
        f"latency-{pages}",
        f"Latency of a load from {home}, CPU {cpu}, one random cycle through 1 GiB, {pages} pages",
        "s",
        (ours, peer),
        (Claim(ours.name, peer.name, low, high, why=f"{pages} pages on both sides"),),
    )


def _home(machine: Machine) -> tuple[Place, int]:
    """Give the first node that has both CPUs and memory, as a place and by its index."""
    targets = {target.id for target in machine.targets}
    for initiator in machine.initiators:
        if initiator.id in targets:
            return node(initiator.id), initiator.id
    raise NumamicroError("no node of this machine has both usable CPUs and memory to compare on")
