"""From what outputs tell to a matrix: one machine, one cell for each thing that was measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from numamicro import __version__
from numamicro.case import Case, Place, PlaceSet, Route, node
from numamicro.finding import Finding, Severity
from numamicro.matrix import CostMatrix, Header, Measurement, Run, Sample, State
from numamicro.topology import Gpu, GpuPair, Machine, NumaNode
from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numamicro.case import AnyPlace
    from numamicro.imports.found import Found, Told

_LONGEST = 200
"""Characters of a source line that a cell keeps."""


@dataclass(frozen=True, slots=True)
class From:
    """A file's name and what was found in it."""

    name: str
    found: Found


def matrix_of(sources: Sequence[From], label: str | None = None) -> CostMatrix:
    """Give the matrix of imported cells; the same thing told twice is two processes' of one cell."""
    sources = _in_one_order(sources)
    machine = _machine(sources)
    beside = _beside(sources, machine)
    runs: dict[Case, list[tuple[str, Run]]] = {}
    for source in sources:
        for told in source.found.told:
            case = _case(told, machine, beside)
            if case is not None:
                found = runs.setdefault(case, [])
                found.append((told.unit, _run(told, source, len(found))))
    header = Header(
        tool=f"numamicro {__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        origin="imported",
        machine=machine,
        label=label,
        plan={"level": "imported"},
    )
    cells = (
        Measurement.of_runs(case, found[0][0], tuple(run for _, run in found))
        for case, found in runs.items()
    )
    return CostMatrix(header, tuple(cells))


# ---- numbers of GPUs -----------------------------------------------------------------------------


def _in_one_order(sources: Sequence[From]) -> list[From]:
    """Give what was found with CUDA's numbers of the GPUs everywhere.

    NVML counts by PCI address. Where the addresses are told, its numbers are translated; where they
    are not, they are taken to be CUDA's, as they are of GPUs that are alike and all visible. Where
    the counts differ, some are hidden, and nothing says which.
    """
    others = [source.found for source in sources if not source.found.by_bus]
    addresses = {i: seen.pci for found in others for i, seen in found.gpus.items() if seen.pci}
    named = {i for found in others for i in (*found.gpus, *_gpus_of(found.told))}
    by_address = sorted(addresses, key=lambda index: addresses[index])
    return [
        replace(source, found=_translated(source.found, named, by_address))
        if source.found.by_bus
        else source
        for source in sources
    ]


def _translated(found: Found, named: set[int], by_address: list[int]) -> Found:
    """Give NVML's findings with CUDA's numbers; without GPUs where they cannot be told apart."""
    if named and len(named) != len(found.gpus):
        return replace(found, gpus={}, pairs={})
    if len(by_address) != len(found.gpus):
        return found
    to = dict(zip(sorted(found.gpus), by_address, strict=True))
    pairs = {(to[a], to[b]): level for (a, b), level in found.pairs.items()}
    return replace(
        found,
        gpus={to[index]: seen for index, seen in found.gpus.items()},
        pairs={(min(pair), max(pair)): level for pair, level in pairs.items()},
    )


def _gpus_of(told: Iterable[Told]) -> set[int]:
    """Give the GPUs that figures name."""
    return {
        place.id
        for each in told
        for end in (each.source, each.target)
        if end is not None
        for place in (end.places if isinstance(end, PlaceSet) else (end,))
        if place.kind == "gpu" and isinstance(place.id, int)
    }


# ---- cells ---------------------------------------------------------------------------------------


def _run(told: Told, source: From, process: int) -> Run:
    # A rate keeps its digits as bytes in one second, a time as the seconds of one operation.
    rate = is_rate(told.unit)
    sample = Sample(1.0, round(told.value)) if rate else Sample(told.value, 1)
    return Run(
        process,
        () if told.wrong else (sample,),
        state=State.WRONG if told.wrong else State.OK,
        reason=told.wrong,
        outcome={
            "tool": source.found.tool,
            "file": source.name,
            "line": told.line,
            "text": told.text.strip()[:_LONGEST],
        },
        warnings=(told.warning,) if told.warning else (),
    )


def _case(told: Told, machine: Machine, beside: dict[int, int]) -> Case | None:
    """Give the case of a figure; None where nobody tells which node's memory took part."""
    source = _end(told.source, told.target, beside)
    target = _end(told.target, told.source, beside)
    if source is None or target is None:
        return None
    params = dict(told.params)
    if told.team and isinstance(source, Place) and (threads := _team(told.team, source, machine)):
        params["threads"] = threads
    return Case.of(told.probe, told.operation, Route(source, target, mover=told.mover), **params)


def _end(end: AnyPlace | None, other: AnyPlace | None, beside: dict[int, int]) -> AnyPlace | None:
    if end is not None:
        return end
    index = other.id if isinstance(other, Place) else None
    home = beside.get(index) if isinstance(index, int) else None
    return None if home is None else node(home)


def _team(team: str, source: Place, machine: Machine) -> int:
    return machine.cores(source) if team == "cores" else len(machine.usable_cpus(source))


# ---- machine -------------------------------------------------------------------------------------


def _machine(sources: Sequence[From]) -> Machine:
    """Put the machine together: CPUs from who tells most of them, and every node that is named."""
    founds = [source.found for source in sources]
    best = max(founds, key=lambda found: (bool(found.llcs), len(found.cpus)))
    known = {each.id: each for found in reversed(founds) for each in found.nodes}
    known |= {each.id: each for each in best.nodes}
    ids = set(known) | _named(founds) or {0}
    homes = {cpu.id: cpu.node for cpu in best.cpus}
    machine = Machine(
        architecture="unknown",
        cpu_model=next((found.cpu_model for found in founds if found.cpu_model), None),
        cpus=best.cpus,
        nodes=tuple(
            replace(
                known.get(id, NumaNode(id)),
                cpus=tuple(sorted(cpu for cpu, home in homes.items() if home == id)),
            )
            for id in sorted(ids)
        ),
        llcs=best.llcs,
    )
    return replace(
        machine,
        notes=tuple(_notes(sources, machine)),
        gpus=tuple(_gpus(sources, _beside(sources, machine))),
        gpu_pairs=tuple(_pairs(sources)),
    )


def _gpus(sources: Sequence[From], beside: dict[int, int]) -> Iterator[Gpu]:
    seen = [source.found.gpus.get for source in sources]
    for index in sorted(_all_gpus(sources)):
        said = [each for get in seen if (each := get(index))]
        yield Gpu(
            index,
            next((each.name for each in said if each.name), "unknown GPU"),
            pci=next((each.pci for each in said if each.pci), None),
            host_node=beside.get(index),
        )


def _pairs(sources: Sequence[From]) -> Iterator[GpuPair]:
    """Give what is told of two GPUs: what joins them, and whether they reach each other."""
    levels = {pair: level for source in sources for pair, level in source.found.pairs.items()}
    apart = {pair for source in sources for pair in source.found.apart}
    reach = {pair for source in sources for told in source.found.told for pair in _reached(told)}
    for pair in sorted({*levels, *apart, *reach}):
        level = levels.get(pair)
        links = int(level[2:]) if level and level.startswith("NV") else 0
        yield GpuPair(
            pair,
            level=None if links else level,
            nvlinks=links,
            claimed=True if pair in reach else False if pair in apart else None,
        )


def _reached(told: Told) -> Iterator[tuple[int, int]]:
    """Give the pair that a figure proves to reach each other, the lower ordinal first."""
    direct = told.params.get("path") == "direct" or told.probe == "peer-latency"
    ends = sorted(_gpus_of([told]))
    if direct and not told.warning and len(ends) == 2:
        yield ends[0], ends[1]


def _all_gpus(sources: Sequence[From]) -> set[int]:
    """Give the GPUs that anything is told of."""
    founds = [source.found for source in sources]
    return {index for found in founds for index in (*found.gpus, *_gpus_of(found.told))}


def _named(founds: Sequence[Found]) -> set[int]:
    """Give the nodes that figures and GPUs name."""
    ends = [end for found in founds for told in found.told for end in (told.source, told.target)]
    places = [
        place
        for end in ends
        if end is not None
        for place in (end.places if isinstance(end, PlaceSet) else (end,))
    ]
    beside = {seen.node for found in founds for seen in found.gpus.values()} - {None}
    return {
        index
        for index in (*(place.id for place in places if place.kind == "node"), *beside)
        if isinstance(index, int)
    }


def _beside(sources: Sequence[From], machine: Machine) -> dict[int, int]:
    """Give the node next to each GPU: as told, or the only one that there is."""
    told = {
        index: seen.node
        for source in sources
        for index, seen in source.found.gpus.items()
        if seen.node is not None
    }
    if len(machine.nodes) > 1:
        return told
    only = machine.nodes[0].id
    return dict.fromkeys(_all_gpus(sources), only) | told


def _copied(sources: Sequence[From]) -> set[int]:
    """Give the GPUs that copy from or to the host."""
    told = [told for source in sources for told in source.found.told]
    return _gpus_of(each for each in told if None in (each.source, each.target))


def _notes(sources: Sequence[From], machine: Machine) -> Iterator[Finding]:
    names = ", ".join(dict.fromkeys(source.found.tool for source in sources))
    lost = _copied(sources) - set(_beside(sources, machine))
    if lost:
        yield Finding(
            "gpu-home-unknown",
            Severity.LIMITS,
            f"no output tells the node next to GPU {', '.join(map(str, sorted(lost)))}",
            f"{names} does not name it, and there are several nodes",
            "copies between the host and these GPUs are left out",
            "import the output of nvidia-smi topo -m, of as many GPUs, together with these",
        )
    if not machine.cpus:
        yield Finding(
            "cpus-unknown",
            Severity.LIMITS,
            "no output tells the CPUs of the machine",
            f"{names} names none",
            "placements on its CPUs cannot be predicted, nor be exported to hwloc",
            "import the output of likwid-topology or numactl -H together with these",
        )
