"""Which contests there are, and who takes part in them on this machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from bench.pairs import ERROR, Claim, Ratio, Reading, Turn, order, ratio_of
from bench.peers import (
    Work,
    advised,
    likwid,
    openmp_barrier,
    perf_mem,
    plain_chase,
    plain_loop,
    plain_turns,
)
from bench.product import FreeRunning, Product, passes_of
from bench.state import Used, cpu_flags
from numamicro.case import Route, node
from numamicro.errors import NumamicroError
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.barrier import REPETITIONS, Barrier
from numamicro.probes.core_to_core import ROUND_TRIPS, CoreToCore, pair_of
from numamicro.probes.latency import STEPS, Latency
from numamicro.probes.probe import cache_floor
from numamicro.topology.notes import format_ids
from numamicro.units import MIB
from numamicro.wishes import THOROUGH, Wishes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from bench.peers import Program
    from numamicro.case import Case, Place
    from numamicro.topology import Machine

SIZE_UNIT = 300 * 10**6
"""Buffers are a multiple: whole megabytes to likwid, whole lines in two or three equal arrays."""
CHASES = 16
"""Samples of a latency turn: a million loads, or as many as last so long."""
HAND_OVERS = 25
MEETINGS = 25

AS_MET = "each with the pages it takes by itself"
SMALL_PAGES = "small pages on both sides"
HUGE_PAGES = "huge pages on both sides"
ZEROS = "the peer moves zeros"
PARITY = 0.97
"""What the ratio must reach where both sides run into the same limit."""


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
    """A contest's turns, and why some contenders took none.

    Parameters
    ----------
    error : float
        How often the interval of a ratio may err: 5 %, shared out over the looks at it.
    """

    contest: Contest
    turns: tuple[Turn, ...]
    waived: Mapping[str, str]
    error: float = ERROR

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims whose two sides took part."""
        return tuple(
            claim
            for claim in self.contest.claims
            if self.waived.keys().isdisjoint((claim.ours, claim.peer))
        )

    @property
    def undecided(self) -> tuple[Claim, ...]:
        """The claims whose ratio may still lie on either side of a bound."""
        return tuple(
            claim for claim in self.claims if claim.verdict(self.ratio(claim)) == "undecided"
        )

    def ratio(self, claim: Claim) -> Ratio:
        """Give the ratio that a claim is about."""
        return ratio_of(self.turns, claim.ours, claim.peer, self.error)


@dataclass(frozen=True, slots=True)
class Loop:
    """An operation of the bandwidth probe, and what does the same elsewhere.

    Parameters
    ----------
    title : str
    operation, variants
        As the probe names them.
    likwid : str or None
        The kernel of likwid-bench, without its vector width.
    plain : tuple of pairs of str
        Program of bench/native and its loop.
    perf : pair of str or None
        Benchmark of ``perf bench mem`` and its function.
    over_likwid : pair of float
        What the ratio over likwid-bench as it comes must reach with one thread, and with all; over
        likwid-bench in huge pages as much, but no more than 1.
    """

    title: str
    operation: str
    variants: tuple[str, ...]
    likwid: str | None
    plain: tuple[tuple[str, str], ...]
    perf: tuple[str, str] | None = None
    over_likwid: tuple[float, float] = (PARITY, PARITY)


PLAIN = ("1-stream", "2-stream", "4-stream")
LOOPS = {
    "read": Loop("Read", "read", PLAIN, "load", (("stream", "read"),), over_likwid=(1.2, PARITY)),
    "write": Loop(
        "Plain write",
        "write",
        PLAIN,
        "store",
        (("stream", "write"),),
        ("memset", "x86-64-unrolled"),
    ),
    "write-nt": Loop(
        "Non-temporal write",
        "write",
        ("nt",),
        "store_mem",
        (("string", "memset"), ("string", "stosb")),
        ("memset", "x86-64-stosb"),
    ),
    "copy": Loop(
        "Plain copy",
        "copy",
        PLAIN,
        "copy",
        (("stream", "copy"),),
        ("memcpy", "x86-64-unrolled"),
    ),
    "copy-nt": Loop(
        "Non-temporal copy",
        "copy",
        ("nt",),
        "copy_mem",
        (("string", "memcpy"),),
        over_likwid=(1.0, 1.0),
    ),
    "copy-movsb": Loop(
        "Copy by rep movsb",
        "copy",
        ("movsb",),
        None,
        (("string", "movsb"),),
        ("memcpy", "x86-64-movsb"),
    ),
    "triad": Loop("Plain triad", "triad", PLAIN, "stream", (("stream", "triad"),)),
    "triad-nt": Loop(
        "Non-temporal triad",
        "triad",
        ("nt",),
        "stream_mem",
        (("stream", "triad-nt"),),
        over_likwid=(1.0, 1.0),
    ),
}
OF_X86 = {"stosb", "movsb", "triad-nt"}
NAMES = (
    *(f"{loop}-{team}" for loop in LOOPS for team in ("1", "all")),
    *("latency-huge", "latency-small", "core-to-core", "barrier"),
)
"""All contests, in their order."""


def hold(
    contest: Contest, rounds: int, most: int, seed: int, observe: Callable[[Turn], None]
) -> Outcome:
    """Let the contenders take turns, after some each that do not count.

    Parameters
    ----------
    rounds : int
        In which all take part.
    most : int
        The rounds, those included, after which there is an end for those who are so close that the
        first look decides nothing between them: then there are two looks, which share the error.
    """
    waived = {who.name: why for who in contest.contenders if (why := who.missing)}
    ready = {who.name: who.warmed_up() for who in contest.contenders if who.name not in waived}
    met = tuple(ready.get(who.name, who) for who in contest.contenders)
    error = ERROR / 2 if most > rounds else ERROR
    outcome = Outcome(replace(contest, contenders=met), (), waived, error)
    names = list(ready)
    for part in (range(rounds), range(rounds, most)):
        for number, name in order(names, part, seed):
            before = Used.now()
            reading = ready[name].turn(number + 1)
            turn = Turn(number, name, reading, *Used.now().since(before))
            outcome = replace(outcome, turns=(*outcome.turns, turn))
            observe(turn)
        close = {name for claim in outcome.undecided for name in (claim.ours, claim.peer)}
        names = [name for name in ready if name in close]
    return outcome


def contests(machine: Machine, programs: Path) -> Mapping[str, Callable[[], Contest]]:
    """Give how to set each contest up, by name; `programs` holds the compiled peers.

    What this machine cannot do, such as handing a line over with one core, has no contest.
    """
    home, _ = _home(machine)
    cores = machine.cores(home)
    found: dict[str, Callable[[], Contest]] = {}
    for loop in LOOPS:
        if loop == "copy-movsb" and "erms" not in cpu_flags():
            continue
        for team, threads in (("1", 1), ("all", cores)) if cores > 1 else (("1", 1),):
            name = f"{loop}-{team}"
            found[name] = partial(_bandwidth, machine, programs, name, LOOPS[loop], threads)
    for pages in ("huge", "small"):
        found[f"latency-{pages}"] = partial(_latency, machine, programs, pages)
    if cores > 1:
        found["core-to-core"] = partial(_hand_over, machine, programs)
        found["barrier"] = partial(_barrier, machine, programs)
    return found


def _bandwidth(machine: Machine, programs: Path, name: str, loop: Loop, threads: int) -> Contest:
    home, index = _home(machine)
    cpus = machine.usable_cpus(home)[:threads]
    units = -(-cache_floor(Route(home, home), machine) // SIZE_UNIT)
    size = units * SIZE_UNIT
    cases = tuple(_cases(machine, loop, index, size, threads))
    product = partial(Product, machine=machine, probe=FreeRunning(), samples=1)
    ours = product("numamicro", "huge pages where it can have them", cases=cases)
    peers = tuple(
        _peers(loop, programs, machine, Work(index, cpus, size, passes_of(size, threads)))
    )
    return Contest(
        name,
        f"{loop.title}: bandwidth of {home}, CPUs {format_ids(cpus)}, {size // 10**6} MB in all",
        "B/s",
        (ours, *(peer for peer, _, _ in peers)),
        tuple(Claim(ours.name, peer.name, bound, why=why) for peer, bound, why in peers),
    )


def _peers(
    loop: Loop, programs: Path, machine: Machine, work: Work
) -> Iterator[tuple[Program, float | None, str]]:
    """Give who does the same, what numamicro's ratio over it must reach, and on which pages."""
    flags = cpu_flags()
    huge = machine.huge_page_bytes is not None
    pages, why = ("huge", HUGE_PAGES) if huge else ("small", SMALL_PAGES)
    if loop.likwid:
        peer = likwid(loop.likwid, work, flags)
        bound = loop.over_likwid[len(work.cpus) > 1]
        yield peer, bound, AS_MET
        if huge:
            yield advised(peer, programs, work), min(bound, 1.0), HUGE_PAGES
    for program, plain in loop.plain:
        if plain not in OF_X86 or "sse2" in flags:
            yield plain_loop(programs, program, plain, work, pages), PARITY, why
    if loop.perf and huge and len(work.cpus) == 1 and "sse2" in flags:
        yield perf_mem(*loop.perf, work), None, ZEROS


def _cases(machine: Machine, loop: Loop, index: int, size: int, threads: int) -> Iterator[Case]:
    only = (f"bandwidth/{loop.operation}",)
    wishes = Wishes(memory=size, threads=(threads,), nodes=(index,), only=only)
    cases = Bandwidth().cases(machine, wishes)
    return (case for case in cases if case["variant"] in loop.variants)


def _latency(machine: Machine, programs: Path, pages: str) -> Contest:
    home, index = _home(machine)
    cpu = machine.usable_cpus(home)[0]
    size = max(cache_floor(Route(home, home), machine), 256 * MIB)
    cases = tuple(
        case
        for case in Latency().cases(machine, Wishes(memory=size, nodes=(index,)))
        if case["pages"] == pages
    )
    ours = Product("numamicro", f"{pages} pages", machine, Latency(), cases, CHASES)
    peer = plain_chase(programs, cpu, size, STEPS * CHASES, pages)
    return Contest(
        f"latency-{pages}",
        f"Latency of a load from {home}, CPU {cpu}, one random cycle through {size // MIB} MiB, "
        f"{pages} pages",
        "s",
        (ours, peer),
        (Claim(ours.name, peer.name, 0.95, 1.05, why=f"{pages} pages on both sides"),),
    )


def _hand_over(machine: Machine, programs: Path) -> Contest:
    _, index = _home(machine)
    wishes = Wishes(level=THOROUGH, nodes=(index,), only=("core-to-core",))
    case = next(iter(CoreToCore().cases(machine, wishes)))
    cpus = pair_of(case.route.source, case.route.target, machine)
    assert cpus is not None  # the probe gives no case where they are one core
    ours = Product(
        "numamicro",
        "a counter that each side raises in turn",
        machine,
        CoreToCore(),
        (case,),
        HAND_OVERS,
    )
    peer = plain_turns(programs, cpus, HAND_OVERS, ROUND_TRIPS)
    return Contest(
        "core-to-core",
        f"Core to core: a round trip of a line between CPUs {cpus[0]} and {cpus[1]}",
        "s",
        (ours, peer),
        (Claim(ours.name, peer.name, at_most=1 / PARITY),),
    )


def _barrier(machine: Machine, programs: Path) -> Contest:
    home, index = _home(machine)
    cpus = machine.usable_cpus(home)[: machine.cores(home)]
    wishes = Wishes(threads=(len(cpus),), nodes=(index,), only=("barrier",))
    cases = tuple(Barrier().cases(machine, wishes))
    ours = Product(
        "numamicro", "the barrier that starts every job", machine, Barrier(), cases, MEETINGS
    )
    peer = openmp_barrier(programs, cpus, REPETITIONS * MEETINGS)
    return Contest(
        "barrier",
        f"Barrier of the CPUs {format_ids(cpus)}, from meeting to meeting",
        "s",
        (ours, peer),
        (Claim(ours.name, peer.name, at_most=1 / PARITY),),
    )


def _home(machine: Machine) -> tuple[Place, int]:
    """Give the first node that has both CPUs and memory, as a place and by its index."""
    targets = {target.id for target in machine.targets}
    for initiator in machine.initiators:
        if initiator.id in targets:
            return node(initiator.id), initiator.id
    raise NumamicroError("no node of this machine has both usable CPUs and memory to compare on")
