"""What a machine is: nodes, CPUs and caches as the kernel numbers them. Plain values, no I/O."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from numamicro.case import AnyPlace, Place, PlaceSet
from numamicro.errors import NumamicroError
from numamicro.finding import Finding  # noqa: TC001  (the codec asks for the type at run time)
from numamicro.topology.codec import decode, encode
from numamicro.topology.gpu import Gpu, GpuDriver, GpuPair  # noqa: TC001  the codec needs them

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Note:
    """Why something is as it is: a stable code, and a sentence for people."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU by its os index.

    Parameters
    ----------
    node, package, die : int or None
        The kernel's own indices; None when it does not say.
    core : int or None
        The lowest CPU id among its online SMT siblings; None when offline.
    llc : int or None
        The id in :attr:`Machine.llcs`.
    smt : int
        Rank among the siblings of its core, 0 for the first.
    kind : str or None
        performance or efficiency on a hybrid machine, None where all cores are alike.
    online, allowed : bool
        Whether the kernel runs it, and whether this process may use it (affinity, cpuset).
    """

    id: int
    node: int | None = None
    package: int | None = None
    core: int | None = None
    llc: int | None = None
    online: bool = True
    allowed: bool = True
    die: int | None = None
    smt: int = 0
    kind: str | None = None

    @property
    def usable(self) -> bool:
        return self.online and self.allowed


@dataclass(frozen=True, slots=True)
class Llc:
    """CPUs below one last-level cache (a CCD on AMD). `id` counts from 0 in order of first CPU."""

    id: int
    cpus: tuple[int, ...]
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Cache:
    """One sort of cache: `count` instances of `bytes` each, shared by `shared_by` online CPUs each.

    Parameters
    ----------
    level : int
    kind : str
        data, instruction or unified.
    bytes, line_bytes : int or None
        None when the kernel does not say.
    """

    level: int
    kind: str
    bytes: int | None
    line_bytes: int | None
    shared_by: int
    count: int


@dataclass(frozen=True, slots=True)
class Access:
    """What the firmware (HMAT) promises to the best initiators of a node; None where it is silent.

    Parameters
    ----------
    level : int
        0: the best of all initiators (a GPU may be one), 1: the best among CPUs.
    initiators : tuple of int
        The nodes that reach this memory so.
    read_bandwidth, write_bandwidth : float or None
        Bytes per second.
    read_latency, write_latency : float or None
        Seconds.
    """

    level: int
    initiators: tuple[int, ...]
    read_bandwidth: float | None
    write_bandwidth: float | None
    read_latency: float | None
    write_latency: float | None


@dataclass(frozen=True, slots=True)
class HugePool:
    """The reserved (hugetlb) pages of one size on one node."""

    page_bytes: int
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node by its os index.

    Parameters
    ----------
    cpus : tuple of int
        Its online CPUs, whether this process may use them or not.
    memory, free : int or None
        Bytes; None when the kernel does not say. `free` is what an application can still get.
    distances : dict of node id to the firmware's (SLIT) distance
    allowed : bool
        Whether this process may place pages here (cpuset).
    offline_memory : int
        Bytes that are plugged in but offline.
    tier : int or None
        The kernel's memory tier; the lower the faster.
    backing : str or None
        What the memory is where the kernel tells: gpu, cxl, pmem or special-purpose (HBM).
    side_cache : int or None
        Bytes of a memory-side cache in front of it (DRAM before persistent memory).
    """

    id: int
    cpus: tuple[int, ...] = ()
    memory: int | None = None
    free: int | None = None
    distances: dict[int, int] = field(default_factory=dict)
    allowed: bool = True
    offline_memory: int = 0
    tier: int | None = None
    backing: str | None = None
    side_cache: int | None = None
    access: tuple[Access, ...] = ()
    huge_pools: tuple[HugePool, ...] = ()

    @property
    def phantom(self) -> bool:
        """Whether it is online with neither CPU nor memory."""
        return not self.cpus and self.memory == 0


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The limits of this process' control group; None where it sets none or hides it.

    Parameters
    ----------
    version : int
        1 or 2.
    cpus, mems : tuple of int or None
        The CPUs and nodes that its cpuset grants.
    memory_limit, memory_left : int or None
        Bytes; the tightest of the group and its parents.
    """

    version: int
    cpus: tuple[int, ...] | None = None
    mems: tuple[int, ...] | None = None
    memory_limit: int | None = None
    memory_left: int | None = None


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as one process sees it.

    Parameters
    ----------
    architecture : str
        As ``uname -m`` writes it: x86_64, aarch64, ...
    page_bytes, huge_page_bytes : int
        The base page, and the page that transparent huge pages give (None: there are none).
    hypervisor : str or None
        Its name, or ``unnamed``; None on bare metal.
    container : str or None
        docker, podman, lxc, ...; None outside.
    wsl : bool
        Whether this is the Windows Subsystem for Linux.
    gpus, gpu_pairs, gpu_driver
        The GPUs by ordinal, every pair of them, and the driver that shows them (None: none does).
    notes : tuple of Finding
        What is hidden or left out, and what would show it.
    """

    architecture: str
    cpu_model: str | None
    cpus: tuple[Cpu, ...]
    nodes: tuple[NumaNode, ...]
    llcs: tuple[Llc, ...]
    page_bytes: int = 4096
    huge_page_bytes: int | None = None
    caches: tuple[Cache, ...] = ()
    cgroup: Cgroup | None = None
    hypervisor: str | None = None
    container: str | None = None
    wsl: bool = False
    notes: tuple[Finding, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    gpu_pairs: tuple[GpuPair, ...] = ()
    gpu_driver: GpuDriver | None = None
    _teams: dict[AnyPlace, tuple[tuple[int, ...], int]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def gpu(self, id: int | str) -> Gpu:
        """Give the GPU with this ordinal.

        Raises
        ------
        NumamicroError
            There is none; the sentence names those that exist.
        """
        for gpu in self.gpus:
            if gpu.id == id:
                return gpu
        raise _no_such("gpu", id, (gpu.id for gpu in self.gpus))

    def gpu_pair(self, here: Place, there: Place) -> GpuPair | None:
        """Give what lies between two GPUs, in whatever order they are named."""
        both = sorted(place.id for place in (here, there) if isinstance(place.id, int))
        return next((pair for pair in self.gpu_pairs if [*pair.gpus] == both), None)

    def node(self, id: int) -> NumaNode:
        """Give the node with this os index.

        Raises
        ------
        NumamicroError
            There is none; the sentence names those that exist.
        """
        for node in self.nodes:
            if node.id == id:
                return node
        raise _no_such("node", id, (node.id for node in self.nodes))

    @property
    def initiators(self) -> tuple[NumaNode, ...]:
        """Nodes with at least one online CPU that this process may use."""
        usable = {cpu.id for cpu in self.cpus if cpu.usable}
        return tuple(node for node in self.nodes if not usable.isdisjoint(node.cpus))

    @property
    def targets(self) -> tuple[NumaNode, ...]:
        """Nodes with memory, or perhaps with memory, where this process may place pages."""
        return tuple(node for node in self.nodes if node.allowed and node.memory != 0)

    @property
    def packages(self) -> tuple[int, ...]:
        """The packages (sockets) with an online CPU, by os index."""
        return tuple(sorted({c.package for c in self.cpus if c.online and c.package is not None}))

    def usable_cpus(self, place: AnyPlace) -> tuple[int, ...]:
        """Give the online, allowed CPUs of `place`, so that the first k of them use most hardware.

        One CPU of every core comes first, spread round-robin over the last-level caches, those of
        performance cores before those of efficiency cores; SMT siblings follow in the same order.

        Parameters
        ----------
        place : Place or PlaceSet
            A node, package, llc, core or cpu, or several of them; a gpu has the CPUs next to it.

        Raises
        ------
        NumamicroError
            The machine has no such place, or a place of that kind holds no CPUs.
        """
        return self._team(place)[0]

    def cores(self, place: AnyPlace) -> int:
        """Count the physical cores with a usable CPU in `place`; raises as :meth:`usable_cpus`."""
        return self._team(place)[1]

    def llc_bytes(self, cpus: Iterable[int]) -> int:
        """Give the bytes of all last-level caches that `cpus` reach; 0 when one is unknown."""
        wanted = set(cpus)
        reached = [cpu.llc for cpu in self.cpus if cpu.id in wanted]
        sizes = {llc.id: llc.bytes for llc in self.llcs}
        totals = [sizes.get(id) if id is not None else None for id in set(reached)]
        known = [total for total in totals if total is not None]
        return sum(known) if len(known) == len(totals) else 0

    def locality(self, source: AnyPlace, target: AnyPlace) -> str:
        """Name how near `target` is to `source`.

        Returns
        -------
        str
            same-llc (both are CPUs below one last-level cache), local (one node), same-package,
            other-package, memory-only (a node without CPUs, which belongs to no package), or
            several (either is a set of places). From a node to a GPU it is as from the node to the
            one next to the GPU (unknown: nobody tells which); between GPUs it is what joins them.

        Raises
        ------
        NumamicroError
            The machine has no such place.
        """
        if isinstance(source, PlaceSet) or isinstance(target, PlaceSet):
            return "several"
        if "gpu" in (source.kind, target.kind):
            return self._gpu_locality(source, target)
        here, there = self._spot(source), self._spot(target)
        if source == target and source.kind == "package":
            return "local"
        if "node" not in (source.kind, target.kind) and _one_shared(here.llcs, there.llcs):
            return "same-llc"
        if _one_shared(here.nodes, there.nodes):
            return "local"
        if not (here.cpus and there.cpus):
            return "memory-only"
        return "other-package" if here.packages.isdisjoint(there.packages) else "same-package"

    def available(self, node_id: int) -> int | None:
        """Give the bytes an application can still get on a node, within its cgroup's limit.

        Raises
        ------
        NumamicroError
            There is no such node.
        """
        bounds = (self.node(node_id).free, self.cgroup.memory_left if self.cgroup else None)
        known = [bound for bound in bounds if bound is not None]
        # A cgroup's limit alone says nothing about this node.
        return None if bounds[0] is None else min(known)

    def memory_nodes(self, place: AnyPlace) -> tuple[int, ...]:
        """Give the nodes whose memory `place` means: a node itself, else the nodes of its CPUs.

        Nodes where this process may place nothing are left out.

        Raises
        ------
        NumamicroError
            The machine has no such place.
        """
        nodes: set[int] = set()
        for part in _parts(place):
            if part.kind == "node" and isinstance(part.id, int):
                nodes.add(self.node(part.id).id)
            else:
                usable = {node.id for node in self.targets}
                nodes |= {cpu.node for cpu in self._members(part) if cpu.node is not None} & usable
        return tuple(sorted(nodes))

    def available_on(self, place: AnyPlace) -> int | None:
        """Give the bytes that can be spread evenly over the memory of `place`; None when unknown."""
        nodes = self.memory_nodes(place)
        known = [free for node in nodes if (free := self.available(node)) is not None]
        return min(known) * len(nodes) if known else None

    def to_json(self) -> dict[str, Any]:
        """Give plain JSON values, without serial, UUID or host name."""
        data: dict[str, Any] = encode(self)
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Machine:
        """Give the machine that :meth:`to_json` wrote.

        Raises
        ------
        NumamicroError
            A key is missing or holds another type.
        """
        return decode(cls, data, "machine")

    def _team(self, place: AnyPlace) -> tuple[tuple[int, ...], int]:
        """Give the usable CPUs of a place and the number of their cores; plans ask for them often."""
        if place not in self._teams:
            cores = _by_core(self._cpus_of(place))
            ranks: dict[int, list[Cpu]] = defaultdict(list)
            for siblings in cores.values():
                for rank, cpu in enumerate(siblings):
                    ranks[rank].append(cpu)
            ordered = tuple(cpu.id for rank in sorted(ranks) for cpu in _spread(ranks[rank]))
            self._teams[place] = ordered, len(cores)
        return self._teams[place]

    def _cpus_of(self, place: AnyPlace) -> list[Cpu]:
        """Give the usable CPUs of a place in ascending order."""
        found = {cpu.id: cpu for part in _parts(place) for cpu in self._members(part) if cpu.usable}
        return [found[id] for id in sorted(found)]

    def _members(self, place: Place) -> list[Cpu]:
        if place.kind == "node" and isinstance(place.id, int):
            inside = set(self.node(place.id).cpus)
            return [cpu for cpu in self.cpus if cpu.id in inside]
        if place.kind == "gpu":
            next_to = self.gpu(place.id).host_node
            near = [cpu for cpu in self.cpus if cpu.node == next_to and cpu.usable]
            return near or [*self.cpus]
        label = _LABELS.get(place.kind)
        if label is None:
            raise NumamicroError(f"{place} holds no CPUs; name a node, package, llc, core or cpu")
        members = [cpu for cpu in self.cpus if getattr(cpu, label) == place.id]
        if not members:
            labels = {getattr(cpu, label) for cpu in self.cpus} - {None}
            raise _no_such(place.kind, place.id, labels)
        return members

    def _gpu_locality(self, source: Place, target: Place) -> str:
        if source == target:
            return "local"
        if source.kind == target.kind:
            pair = self.gpu_pair(source, target)
            return pair.kind if pair else "unknown"
        gpu, other = (source, target) if source.kind == "gpu" else (target, source)
        next_to = self.gpu(gpu.id).host_node
        return "unknown" if next_to is None else self.locality(Place("node", next_to), other)

    def _spot(self, place: Place) -> _Spot:
        members = [cpu for cpu in self._members(place) if cpu.online]
        at_node = place.kind == "node" and isinstance(place.id, int)
        nodes = {place.id} if at_node else {cpu.node for cpu in members}
        return _Spot(
            cpus=frozenset(cpu.id for cpu in members),
            llcs=frozenset(cpu.llc for cpu in members),
            nodes=frozenset(nodes),
            packages=frozenset(cpu.package for cpu in members if cpu.package is not None),
        )


_LABELS = {"package": "package", "llc": "llc", "core": "core", "cpu": "id"}


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where the CPUs of a place are."""

    cpus: frozenset[int]
    llcs: frozenset[int | None]
    nodes: frozenset[int | str | None]
    packages: frozenset[int]


def _parts(place: AnyPlace) -> tuple[Place, ...]:
    return place.places if isinstance(place, PlaceSet) else (place,)


def _one_shared(here: frozenset[Any], there: frozenset[Any]) -> bool:
    return len(here) == 1 and here == there and None not in here


def _by_core(cpus: Iterable[Cpu]) -> dict[int, list[Cpu]]:
    cores: dict[int, list[Cpu]] = defaultdict(list)
    for cpu in cpus:
        cores[cpu.id if cpu.core is None else cpu.core].append(cpu)
    return cores


def _spread(cpus: Iterable[Cpu]) -> list[Cpu]:
    """Take the CPUs in turn from each last-level cache; efficiency cores after all others."""
    turns: dict[tuple[bool, int], list[Cpu]] = defaultdict(list)
    for cpu in cpus:
        turns[cpu.kind == "efficiency", -1 if cpu.llc is None else cpu.llc].append(cpu)
    return [
        cpu
        for slow in (False, True)
        for cpu in chain(*zip_longest(*(turns[key] for key in sorted(turns) if key[0] is slow)))
        if cpu is not None
    ]


def _no_such(kind: str, id: object, existing: Iterable[int]) -> NumamicroError:
    ids = ", ".join(map(str, sorted(existing))) or "none"
    return NumamicroError(f"there is no {kind}{id} here; choose one of: {ids}")
