"""Machines and matrices for tests: small builders, and hypothesis strategies over all that fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from numamicro.case import Case, Param, Place, PlaceSet, Route, node
from numamicro.finding import Finding, Severity
from numamicro.matrix import CostMatrix, Header, Measurement, Placement, Run, Sample, State
from numamicro.topology import (
    Access,
    Cache,
    Cgroup,
    Cpu,
    Gpu,
    GpuDriver,
    GpuPair,
    HugePool,
    Llc,
    Machine,
    Note,
    NumaNode,
    PcieLink,
)
from numamicro.units import GIB, MIB, is_rate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# ---- builders ------------------------------------------------------------------------------------


def machine(nodes: Sequence[int] = (0, 1), cores: int = 2, memory: int = 16 * GIB) -> Machine:
    """Give a machine whose nodes are a package with one last-level cache each."""
    cpus = tuple(
        Cpu(rank * cores + core, node=index, package=rank, core=rank * cores + core, llc=rank)
        for rank, index in enumerate(nodes)
        for core in range(cores)
    )
    ids = {index: tuple(cpu.id for cpu in cpus if cpu.node == index) for index in nodes}
    return Machine(
        architecture="x86_64",
        cpu_model="Example CPU",
        cpus=cpus,
        nodes=tuple(
            NumaNode(
                index,
                ids[index],
                memory=memory,
                free=memory,
                distances={other: 10 if other == index else 20 for other in nodes},
            )
            for index in nodes
        ),
        llcs=tuple(Llc(rank, ids[index], 32 * MIB) for rank, index in enumerate(nodes)),
        huge_page_bytes=2 * MIB,
    )


def with_gpus(of: Machine, count: int = 2, memory: int = 24 * GIB) -> Machine:
    """Give the machine with GPUs that reach each other, spread over its nodes in turn."""
    nodes = [each.id for each in of.targets]
    return replace(
        of,
        gpus=tuple(
            Gpu(
                index,
                "Example GPU",
                memory,
                capability=(9, 0),
                host_node=nodes[index % len(nodes)],
                mig=False,
            )
            for index in range(count)
        ),
        gpu_pairs=tuple(
            GpuPair((a, b), "PIX" if (b - a) % len(nodes) == 0 else "SYS", claimed=True)
            for b in range(count)
            for a in range(b)
        ),
        gpu_driver=GpuDriver("595.71.05", "13.2"),
    )


def read_case(source: int, target: int, threads: int = 1, **params: Param) -> Case:
    """Give a case of read bandwidth from one node to another."""
    route = Route(node(source), node(target))
    return Case.of("bandwidth", "read", route, threads=threads, bytes=GIB, **params)


def load_case(source: int, target: int, pages: str = "huge") -> Case:
    """Give a case of load latency from one node to another."""
    route = Route(node(source), node(target))
    return Case.of("latency", "load", route, bytes=GIB, pages=pages, threads=1)


def samples(unit: str, values: Iterable[float]) -> tuple[Sample, ...]:
    """Give samples that have these values in their base unit."""
    amount = GIB if is_rate(unit) else 2**17
    return tuple(Sample(amount / v if is_rate(unit) else amount * v, amount) for v in values)


def a_run(
    *values: float,
    unit: str = "B/s",
    process: int = 0,
    temperature: str = "warm",
    share: float | None = 1.0,
) -> Run:
    """Give a run that went well and has these values."""
    by = None if share is None else "move_pages"
    return Run(process, samples(unit, values), temperature, placement=Placement(share, by))


def failed_run(state: State, code: str = "planted", process: int = 0) -> Run:
    """Give a run that ended in another state than ok."""
    return Run(process, state=state, reason=Note(code, f"{code} is why"))


def cell(case: Case, *values: float) -> Measurement:
    """Give an ok cell of one process; its unit follows from the probe."""
    unit = "s" if case.probe == "latency" else "B/s"
    return Measurement.of_runs(case, unit, (a_run(*values, unit=unit),))


def header(
    of: Machine | None = None, label: str | None = None, origin: str = "simulated"
) -> Header:
    """Give the header of a run on that machine."""
    return Header(
        tool="numamicro test",
        created="2026-01-02T03:04:05+00:00",
        origin=origin,
        machine=of or machine(),
        label=label,
        machine_id="0123456789ab",
        boot_id="ba9876543210",
        setting={"kernel.numa_balancing": 0, "thp.enabled": "madvise", "cpu.governor": None},
        plan={"level": "quick", "processes": 1, "samples": 6, "seed": 1, "only": []},
        budget=60.0,
    )


def matrix(nodes: Sequence[int] = (0, 1), label: str | None = None) -> CostMatrix:
    """Give bandwidth and latency of every pair: 40 GB/s and 100 ns at home, half and double away."""
    spread = (0.99, 1.0, 1.0, 1.0, 1.0, 1.01)
    cells = []
    for source in nodes:
        for target in nodes:
            away = 1 if source == target else 2
            cells.append(cell(read_case(source, target), *(40e9 / away * s for s in spread)))
            cells.append(cell(load_case(source, target), *(100e-9 * away * s for s in spread)))
    return CostMatrix(header(machine(nodes), label), tuple(cells))


# ---- strategies ----------------------------------------------------------------------------------

NUMBERED_KINDS = ("node", "package", "llc", "core", "cpu", "gpu", "drive")
MOVERS = ("cpu", "copy-engine", "sm-load", "sm-store")

ids = st.integers(0, 10**9 - 1)
counts = st.integers(0, 2**63 - 1)
figures = st.floats(0, 2**62)
shares = st.floats(0, 1)
whole = st.integers(-(2**62), 2**62)
params = st.one_of(whole, st.floats(-1e18, 1e18), st.text(), st.booleans())
notes = st.builds(Note, st.text(), st.text())
findings = st.builds(
    Finding, st.text(), st.sampled_from(Severity), st.text(), st.text(), st.text(), st.text()
)
words = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12)

numbered_places = st.builds(Place, st.sampled_from(NUMBERED_KINDS), ids)
files = st.builds(Place, st.just("file"), st.text(min_size=1))
single_places = st.one_of(numbered_places, files)
place_sets = st.builds(PlaceSet, st.lists(numbered_places, min_size=2, max_size=4).map(tuple))
places = st.one_of(single_places, place_sets)


def optional(of: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Give None now and then."""
    return st.none() | of


def tuples(of: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    """Give tuples of any number of these."""
    return st.lists(of, max_size=3).map(tuple)


routes = st.builds(
    Route,
    source=places,
    target=places,
    via=optional(single_places),
    mover=st.sampled_from(MOVERS),
)
cases = st.builds(
    lambda probe, operation, route, params: Case.of(probe, operation, route, **params),
    words,
    words,
    routes,
    st.dictionaries(st.text(), params, max_size=4),
)
hashes = st.text("0123456789abcdef", min_size=12, max_size=12)
machines = st.builds(
    Machine,
    architecture=st.text(),
    cpu_model=optional(st.text()),
    cpus=tuples(
        st.builds(
            Cpu,
            ids,
            node=optional(ids),
            package=optional(ids),
            core=optional(ids),
            llc=optional(ids),
            online=st.booleans(),
            allowed=st.booleans(),
            die=optional(ids),
            smt=st.integers(0, 7),
            kind=st.sampled_from((None, "performance", "efficiency")),
        )
    ),
    nodes=tuples(
        st.builds(
            NumaNode,
            ids,
            tuples(ids),
            memory=optional(counts),
            free=optional(counts),
            distances=st.dictionaries(ids, st.integers(0, 255), max_size=3),
            allowed=st.booleans(),
            offline_memory=counts,
            tier=optional(ids),
            backing=st.sampled_from((None, "gpu", "cxl", "pmem", "special-purpose")),
            side_cache=optional(counts),
            access=tuples(
                st.builds(
                    Access,
                    level=st.integers(0, 1),
                    initiators=tuples(ids),
                    read_bandwidth=optional(figures),
                    write_bandwidth=optional(figures),
                    read_latency=optional(figures),
                    write_latency=optional(figures),
                )
            ),
            huge_pools=tuples(st.builds(HugePool, st.integers(1, 2**40), counts, counts)),
        )
    ),
    llcs=tuples(st.builds(Llc, ids, tuples(ids), optional(counts))),
    page_bytes=st.sampled_from((4096, 65536)),
    huge_page_bytes=optional(st.just(2 * MIB)),
    caches=tuples(
        st.builds(
            Cache,
            level=st.integers(1, 4),
            kind=st.sampled_from(("data", "instruction", "unified")),
            bytes=optional(counts),
            line_bytes=optional(counts),
            shared_by=ids,
            count=ids,
        )
    ),
    cgroup=optional(
        st.builds(
            Cgroup,
            st.sampled_from((1, 2)),
            cpus=optional(tuples(ids)),
            mems=optional(tuples(ids)),
            memory_limit=optional(counts),
            memory_left=optional(counts),
        )
    ),
    hypervisor=optional(st.text()),
    container=optional(st.text()),
    wsl=st.booleans(),
    notes=tuples(findings),
    gpus=tuples(
        st.builds(
            Gpu,
            id=ids,
            name=st.text(),
            memory=optional(counts),
            capability=st.tuples(ids, ids),
            index=optional(ids),
            identity=optional(hashes),
            pci=optional(st.text()),
            host_node=optional(ids),
            memory_node=optional(ids),
            link=optional(st.builds(PcieLink, *[optional(ids)] * 4)),
            bar1=optional(counts),
            l2_bytes=optional(counts),
            processors=optional(ids),
            copy_engines=optional(ids),
            mig=optional(st.booleans()),
            compute_mode=st.sampled_from(("default", "exclusive-process", "prohibited")),
            display=optional(st.booleans()),
            time_limit=st.booleans(),
            iommu_group=optional(ids),
        )
    ),
    gpu_pairs=tuples(
        st.builds(
            GpuPair,
            st.tuples(ids, ids),
            level=optional(st.text()),
            nvlinks=ids,
            claimed=st.none() | st.booleans(),
            atomics=st.booleans(),
        )
    ),
    gpu_driver=optional(st.builds(GpuDriver, optional(st.text()), st.text(), optional(st.text()))),
)
some_samples = st.lists(
    st.builds(Sample, st.floats(1e-9, 1e6), st.integers(1, 2**53), st.integers(1, 2**31)),
    min_size=1,
    max_size=8,
).map(tuple)
placements = st.builds(
    Placement,
    share=optional(shares),
    by=st.sampled_from((None, "move_pages", "numa_maps")),
    pages=st.dictionaries(st.integers(-100, 1023), counts, max_size=3),
    page_bytes=st.integers(1, 2**30),
    huge_share=optional(shares),
)
good_runs = st.builds(
    Run,
    st.integers(0, 9),
    some_samples,
    temperature=st.sampled_from(("cold", "warm")),
    placement=optional(placements),
    outcome=st.dictionaries(st.text(), st.none() | params, max_size=3),
    warnings=tuples(notes),
)
failed_runs = st.builds(
    Run,
    st.integers(0, 9),
    state=st.sampled_from([State.WAIVED, State.VOID, State.WRONG, State.HANG, State.ERROR]),
    reason=notes,
    placement=optional(placements),
)
units = st.sampled_from(("B/s", "s"))
tried = st.builds(
    Measurement.of_runs,
    cases,
    units,
    st.lists(good_runs | failed_runs, min_size=1, max_size=4).map(tuple),
)
untried = st.builds(
    Measurement,
    cases,
    units,
    st.sampled_from((State.WAIVED, State.SKIPPED, State.CANCELLED)),
    reason=notes,
    origin=st.sampled_from((None, "measured", "simulated", "imported")),
)
json_values = st.recursive(
    st.none() | params,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)
headers = st.builds(
    Header,
    tool=st.text(),
    created=st.text(),
    origin=st.sampled_from(("measured", "simulated", "imported")),
    machine=machines,
    label=optional(st.text()),
    machine_id=optional(hashes),
    boot_id=optional(hashes),
    setting=st.dictionaries(st.text(), st.none() | st.text() | whole, max_size=4),
    # Keys of a later version: those that are known have types of their own.
    plan=st.dictionaries(st.text().map("new {}".format), json_values, max_size=4),
    budget=optional(figures),
)
matrices = st.builds(CostMatrix, headers, st.lists(tried | untried, max_size=5).map(tuple))
