"""The simulated machines as data, and what a copy or an all-reduce on them must take.

A machine is described by what it is built of: nodes, GPUs on links, switches, sockets. From that
:func:`Machine.lines` gives what the stand-in reads, :func:`Machine.files` the /sys that goes with it,
and the ``*_seconds`` methods the closed forms that the product's figures are held against. They are
written from what an operation is meant to do, not from how the stand-in does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tests.topology import trees

if TYPE_CHECKING:
    from collections.abc import Iterator

GB = 1e9
GIB = 1 << 30
MIB = 1 << 20
MICROSECOND = 1e-6

CALL = 2e-6
LAUNCH = 3e-6
GRAPH_NODE = 1e-6
COPY = 1e-6
TICK = 0.5e-6
PAGEABLE = 0.5

# What setting up takes of the host. Published figures lie far apart: a context 0.13 to 0.15 s (RTX
# 4070, openqmc issue 109) and 0.32 s (ucx-py issue 402); an allocation 14 microseconds in the median
# and 170 in the mean, giving it back 47 and 180 (nsys in bpftime issue 506); pinning 0.12 ms a MiB
# (University of Virginia's page on the overhead of memory management), 0.5 to 1 (openvm's
# stark-backend pull request 384) and 1 (imp issue 1653), unpinning 0.2 (the same); peer access 0.4 ms
# (alpaka pull request 602). Those of a module of machine code and of a node of a graph are guesses.
CONTEXT = 0.15
MODULE = 5e-3
ALLOCATION = 100e-6
RELEASE = 50e-6
PIN = 0.3e-3 / MIB
UNPIN = 0.1e-3 / MIB
PEER = 400e-6
INSTANCE = 2e-6
COSTS = {
    "call": CALL,
    "launch": LAUNCH,
    "graph_node": GRAPH_NODE,
    "copy": COPY,
    "tick": TICK,
    "pageable": PAGEABLE,
    "context": CONTEXT,
    "module": MODULE,
    "allocation": ALLOCATION,
    "release": RELEASE,
    "pin": PIN,
    "unpin": UNPIN,
    "peer": PEER,
    "instance": INSTANCE,
}


@dataclass(frozen=True)
class Way:
    """How data go: seconds before the first byte, and the resources they pass."""

    latency: float
    over: tuple[str, ...]


@dataclass(frozen=True)
class Gpu:
    """A GPU and its link to the host.

    Parameters
    ----------
    node : int
        The host node it hangs on.
    down, up : float
        Bytes per second of its own link, to the GPU and from it, at its full speed.
    memory_rate : float
        Bytes per second of its own memory.
    switch : str or None
        The PCIe switch it is behind.
    generation, width, trained_generation, trained_width : int
        Of its PCIe link: at most, and reached under load; 0: as at most.
    links : mapping of GPU to NVLinks
    switch_links : int
        NVLinks to a switch that all GPUs share.
    """

    node: int
    down: float
    up: float
    pci: str
    memory_rate: float = 1.0e12
    latency: float = 1.1e-6
    switch: str | None = None
    name: str = "Simulated GPU"
    capability: int = 90
    processors: int = 8
    memory: int = 4 * GIB
    bar1: int = 4 * GIB
    memory_node: int = -1
    generation: int = 4
    width: int = 16
    trained_generation: int = 0
    trained_width: int = 0
    display: int = 0
    compute_mode: int = 0
    links: dict[int, int] = field(default_factory=dict)
    switch_links: int = 0

    @property
    def training(self) -> float:
        """The share of its full speed that the link reached."""
        generations = (self.trained_generation or self.generation) - self.generation
        return 2.0**generations * (self.trained_width or self.width) / self.width


@dataclass(frozen=True)
class Machine:
    """A simulated machine.

    Parameters
    ----------
    packages : tuple of int
        The package of each node.
    peers : str
        Between which GPUs the driver claims peer access: all, socket or none.
    nvlink : float
        Bytes per second of one NVLink, one way.
    faults : tuple of str
        Lines for the stand-in, as ``p2p_drop gpu0 gpu1``.
    """

    name: str
    gpus: tuple[Gpu, ...]
    packages: tuple[int, ...] = (0,)
    memory_only: tuple[int, ...] = ()
    peers: str = "all"
    nvlink: float = 25 * GB
    driver: int = 12080
    driver_text: str = "570.86.15"
    faults: tuple[str, ...] = ()

    def having(self, *faults: str) -> Machine:
        """Give the machine with faults: the stand-in's own, or one of how it is built."""
        machine = self
        for fault in faults:
            word, *rest = fault.split()
            if word == "downtrained":
                machine = machine._downtrained(int(rest[0].removeprefix("gpu")))
            else:
                machine = replace(machine, faults=(*machine.faults, fault))
        return machine

    def _downtrained(self, index: int) -> Machine:
        slow = replace(self.gpus[index], trained_generation=1, trained_width=8)
        return replace(self, gpus=(*self.gpus[:index], slow, *self.gpus[index + 1 :]))

    # --- How it is built -----------------------------------------------------------------------

    @cached_property
    def resources(self) -> dict[str, float]:
        """Bytes per second of everything that data pass."""
        rates: dict[str, float] = {}
        for node in range(len(self.packages)):
            rates[f"node{node}.read"] = (480 - 7 * node) * GB
            rates[f"node{node}.write"] = (440 - 5 * node) * GB
            for other in range(len(self.packages)):
                if other != node:
                    far = self.packages[node] != self.packages[other]
                    rates[f"node{node}-{other}"] = (17 + node / 2 if far else 41 + node) * GB
        for index, gpu in enumerate(self.gpus):
            rates[f"gpu{index}.down"] = gpu.down * gpu.training
            rates[f"gpu{index}.up"] = gpu.up * gpu.training
            rates[f"gpu{index}.memory"] = gpu.memory_rate
            rates[f"gpu{index}.peer"] = gpu.up * gpu.training * 0.8  # reading from it
            rates[f"gpu{index}.out"] = rates[f"gpu{index}.in"] = gpu.switch_links * self.nvlink
            for peer, links in gpu.links.items():
                rates[f"gpu{index}-{peer}"] = links * self.nvlink
            if gpu.switch:
                rates[f"{gpu.switch}.down"] = gpu.down * 1.1
                rates[f"{gpu.switch}.up"] = gpu.up * 1.1
        return {name: rate for name, rate in rates.items() if rate}

    def from_node(self, gpu: int, node: int) -> Way:
        """Give the way from a node's memory to a GPU."""
        own = self.gpus[gpu]
        switch = (f"{own.switch}.down",) if own.switch else ()
        return Way(
            own.latency + self._hop(node, own.node),
            (f"gpu{gpu}.down", *switch, *self._between(node, own.node), f"node{node}.read"),
        )

    def to_node(self, gpu: int, node: int) -> Way:
        """Give the way from a GPU to a node's memory."""
        own = self.gpus[gpu]
        switch = (f"{own.switch}.up",) if own.switch else ()
        return Way(
            own.latency * 0.9 + self._hop(own.node, node),
            (f"gpu{gpu}.up", *switch, *self._between(own.node, node), f"node{node}.write"),
        )

    def read_peer(self, gpu: int, peer: int) -> Way | None:
        """Give the way of data that a GPU reads from a peer; None where it cannot."""
        way = self._peers(peer, gpu)
        if way is None or "down" not in "".join(way.over):
            return way
        return Way(way.latency * 1.3, (f"gpu{peer}.peer", *way.over))

    def write_peer(self, gpu: int, peer: int) -> Way | None:
        """Give the way of data that a GPU writes to a peer; None where it cannot."""
        return self._peers(gpu, peer)

    def _peers(self, source: int, target: int) -> Way | None:
        a, b = self.gpus[source], self.gpus[target]
        if self.peers == "none" or (
            self.peers == "socket" and self.packages[a.node] != self.packages[b.node]
        ):
            return None
        if target in a.links:
            return Way(0.7e-6, (f"gpu{source}-{target}",))
        if a.switch_links and b.switch_links:
            return Way(0.9e-6, (f"gpu{source}.out", f"gpu{target}.in"))
        apart = a.switch is None or a.switch != b.switch
        switches = [f"{a.switch}.up"] * bool(a.switch) + [f"{b.switch}.down"] * bool(b.switch)
        return Way(
            (a.latency + b.latency) * 0.6 + self._hop(a.node, b.node),
            (
                f"gpu{source}.up",
                *(switches if apart else ()),
                *self._between(a.node, b.node),
                f"gpu{target}.down",
            ),
        )

    def _between(self, source: int, target: int) -> tuple[str, ...]:
        return () if source == target else (f"node{source}-{target}",)

    def _hop(self, source: int, target: int) -> float:
        if source == target:
            return 0.0
        return 0.6e-6 if self.packages[source] != self.packages[target] else 0.2e-6

    # --- What the stand-in and the product read --------------------------------------------------

    def lines(self) -> Iterator[str]:
        """Give the lines of the machine file."""
        yield f"machine {self.name}"
        yield f"driver {self.driver} {self.driver_text}"
        yield from (f"cost {name} {value!r}" for name, value in COSTS.items())
        yield from (f"resource {name} {rate!r}" for name, rate in self.resources.items())
        for index, gpu in enumerate(self.gpus):
            yield self._gpu_line(index, gpu)
        for index, gpu in enumerate(self.gpus):
            yield _way_line("read", index, f"gpu{index}", Way(0.5e-6, (f"gpu{index}.memory",)))
            yield _way_line("write", index, f"gpu{index}", Way(0.5e-6, (f"gpu{index}.memory",)))
            for node in range(len(self.packages)):
                yield _way_line("read", index, f"node{node}", self.from_node(index, node))
                yield _way_line("write", index, f"node{node}", self.to_node(index, node))
            for peer in range(len(self.gpus)):
                if peer != index:
                    yield f"level gpu{index} gpu{peer} {self.level(index, peer)}"
                    yield f"nvlink gpu{index} gpu{peer} {gpu.links.get(peer, 0)}"
                    for word, way in (
                        ("read", self.read_peer(index, peer)),
                        ("write", self.write_peer(index, peer)),
                    ):
                        if way:
                            yield _way_line(word, index, f"gpu{peer}", way)
        yield from (f"fault {fault}" for fault in self.faults)

    def _gpu_line(self, index: int, gpu: Gpu) -> str:
        facts = {
            "name": gpu.name.replace(" ", "_"),
            "uuid": f"5747414d-{index:04x}-4000-8000-{index + 1:012x}",
            "pci": gpu.pci,
            "node": gpu.node,
            "trained_generation": gpu.trained_generation or gpu.generation,
            "trained_width": gpu.trained_width or gpu.width,
        }
        facts |= {
            key: getattr(gpu, key)
            for key in (
                *("capability", "processors", "memory", "bar1", "memory_node", "generation"),
                *("width", "display", "compute_mode", "switch_links"),
            )
        }
        return f"gpu {index} " + " ".join(f"{key} {value}" for key, value in facts.items())

    def level(self, gpu: int, peer: int) -> int:
        """Give NVML's topology level of two GPUs: 10 PIX, 30 PHB, 40 NODE, 50 SYS."""
        a, b = self.gpus[gpu], self.gpus[peer]
        if a.switch and a.switch == b.switch:
            return 10
        if a.node == b.node:
            return 30
        return 40 if self.packages[a.node] == self.packages[b.node] else 50

    def files(self) -> dict[str, str]:
        """Give the files of its /sys and /proc: two CPUs and 4 GiB a node."""
        count = len(self.packages)
        size = 4 * trees.GIB_IN_KB
        nodes = tuple(
            trees.Node(
                node,
                () if node in self.memory_only else (2 * node, 2 * node + 1),
                memory=size,
                free=size * 3 // 4,
            )
            for node in range(count)
        )
        everything = ",".join(map(str, range(count)))
        cpus = ",".join(str(cpu) for node in nodes for cpu in node.cpus)
        facts = trees.Facts(
            nodes=nodes,
            llc=2,
            packages=dict(enumerate(self.packages)),
            allowed_cpus=cpus,
            allowed_mems=everything,
        )
        files = trees.files_of(facts)
        for index, gpu in enumerate(self.gpus):
            files |= self._pci_files(index, gpu)
        return files

    def _pci_files(self, index: int, gpu: Gpu) -> dict[str, str]:
        folder = f"sys/bus/pci/devices/{gpu.pci}"
        hidden = any(fault.split()[0] == "no_host_node" for fault in self.faults)
        return {
            f"{folder}/vendor": "0x10de",
            f"{folder}/class": "0x030000" if gpu.display else "0x030200",
            f"{folder}/numa_node": "-1" if hidden else str(gpu.node),
            f"{folder}/max_link_speed": _speed(gpu.generation),
            f"{folder}/max_link_width": str(gpu.width),
            f"{folder}/current_link_speed": _speed(1),
            f"{folder}/current_link_width": str(gpu.trained_width or gpu.width),
            f"{folder}/boot_vga": str(gpu.display),
            f"sys/kernel/iommu_groups/{index}/devices/{gpu.pci}/": "",
        }

    # --- What it must take -----------------------------------------------------------------------

    def rate(self, way: Way) -> float:
        """Give the bytes per second of a way that nobody shares."""
        return min(self.resources[name] for name in way.over)

    def seconds(self, way: Way, size: int, share: float = 1.0) -> float:
        """Give what a copy of `size` bytes takes; `share` of the rate where it is less."""
        return COPY + way.latency + size / (self.rate(way) * share)

    def staged_copy_seconds(self, source: int, target: int, size: int) -> float:
        """Give what a copy between GPUs takes without peer access: through the source's node."""
        node = self.gpus[source].node
        out, back = self.to_node(source, node), self.from_node(target, node)
        slower = min(self.rate(out), self.rate(back))
        return COPY + out.latency + back.latency + size / slower

    def allreduce_seconds(
        self, variant: str, pair: tuple[int, int], size: int, node: int | None = None
    ) -> float:
        """Give what one of many repetitions takes on a pair: pull, push, or staged on a node.

        A rank's cycle is its own work, its signal on the way, and a look at its flag. The two wait
        for each other, so the pace is the mean of their cycles, unless one alone takes longer.
        """
        cycles = [self._cycle(variant, *ranks, size, node) for ranks in (pair, pair[::-1])]
        together = sum(sum(cycle) for cycle in cycles) / 2
        return max(together, *(work + look for work, _, look in cycles))

    def _cycle(
        self, variant: str, own: int, peer: int, size: int, node: int | None
    ) -> tuple[float, float, float]:
        memory = Way(0.5e-6, (f"gpu{own}.memory",))

        def local(passes: int) -> float:
            return memory.latency + passes * size / self.rate(memory)

        if variant == "staged":
            assert node is not None
            out, back = self.to_node(own, node), self.from_node(own, node)
            through = size / self.rate(out) + size / self.rate(back)
            work = max(max(out.latency, back.latency) + through, local(3))
            return work, out.latency, back.latency
        write, read = self.write_peer(own, peer), self.read_peer(own, peer)
        assert write is not None
        assert read is not None
        if variant == "pull":  # peer read; own input read twice, slot and result written
            work = max(read.latency + size / self.rate(read), local(4))
        else:  # peer written; own input read twice, slot read, result written
            work = max(write.latency + size / self.rate(write), local(4))
        return work, write.latency, memory.latency


def _speed(generation: int) -> str:
    return f"{(2.5, 5.0, 8.0, 16.0, 32.0, 64.0)[generation - 1]} GT/s PCIe"


def _way_line(word: str, gpu: int, place: str, way: Way) -> str:
    return f"{word} gpu{gpu} {place} {way.latency!r} {' '.join(way.over)}"


def _pcie(node: int, slot: int, switch: str | None = None, **facts: object) -> Gpu:
    """Give a GPU on PCIe 4.0 whose rates tell it from its neighbours."""
    return Gpu(
        node,
        down=(26.3 - 0.4 * slot) * GB,
        up=(25.1 - 0.3 * slot) * GB,
        pci=f"0000:{0x07 + 0x0F * slot:02x}:00.0",
        memory_rate=(900 + 40 * slot) * GB,
        latency=(1.1 + 0.05 * slot) * MICROSECOND,
        switch=switch,
        **facts,  # type: ignore[arg-type]
    )


_ALL = (
    Machine("one", (_pcie(0, 0),)),
    Machine(
        "two-without-p2p",
        (_pcie(0, 0, capability=89), _pcie(1, 1, capability=89, bar1=256 << 20)),
        packages=(0, 1),
        peers="none",
    ),
    Machine(
        "four-on-two-sockets",
        tuple(_pcie(slot // 2, slot, capability=86) for slot in range(4)),
        packages=(0, 1),
        peers="socket",
    ),
    Machine(
        "eight-nvswitch",
        tuple(
            replace(_pcie(slot // 4, slot, switch_links=18), memory_rate=3.3e12)
            for slot in range(8)
        ),
        packages=(0, 1),
        driver=12090,
        driver_text="575.57.08",
    ),
    Machine(
        "eight-behind-switches",
        tuple(
            _pcie(2 * (slot // 4), slot, switch=f"switch{slot // 4}", capability=89)
            for slot in range(8)
        ),
        packages=(0, 0, 1, 1),
    ),
    Machine(
        "superchip",
        (
            Gpu(
                0,
                down=420 * GB,
                up=370 * GB,
                pci="0009:01:00.0",
                memory_rate=3.4e12,
                latency=0.8e-6,
                name="Simulated Superchip",
                memory_node=1,
                generation=5,
            ),
        ),
        packages=(0, 0),
        memory_only=(1,),
    ),
    Machine(
        "pascal-pair",
        tuple(
            replace(_pcie(slot, slot, capability=60, generation=3), down=12.4 * GB, up=12.9 * GB)
            for slot in range(2)
        ),
        packages=(0, 1),
        driver=12020,
        driver_text="535.183.01",
    ),
    # CUDA counts the fastest first, NVML by PCI address.
    Machine(
        "sixteen",
        tuple(_pcie(slot // 8, slot) for slot in reversed(range(16))),
        packages=(0, 1),
    ),
)

MACHINES = {machine.name: machine for machine in _ALL}
