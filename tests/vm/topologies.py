"""The machines that the guests play: nodes, what is done to them, and what must come out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Distances = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """One node: its memory in MiB, the CPUs it has, and how many sockets for CPUs stay empty.

    A node with neither CPU nor memory exists in the firmware's tables only: its id is skipped.
    """

    memory: int = 0
    cpus: int = 0
    empty: int = 0


@dataclass(frozen=True, slots=True)
class Topology:
    """A machine, how the product is run on it, and what it must find.

    Parameters
    ----------
    rows, columns : tuple of int
        The nodes that can have a row (usable CPUs) and a column (usable memory).
    distances : tuple of tuple of int
        As the firmware tells them; the kernel's own guess where left out.
    sockets : int, optional
        One a node with CPUs where left out.
    kernel : str
        Added to the guest kernel's command line.
    prepare : tuple of str
        Shell lines run as root in the guest before the tests.
    slow : float
        Nanoseconds that a load waits for each step of the distance; 0: memory is equally fast.
    plugged : int
        MiB of a memory module that the tests plug into the last node and take out again.
    pools : dict of node id to the number of huge pages reserved there
    notes : tuple of str
        Codes of what the product must say about the machine.
    measured : tuple of int
        The nodes that ``matrix`` is run on; all where left out.
    only : str
        The probes that ``matrix`` runs.
    checks : tuple of str
        The files of inside/ that are run in the guest.
    faults : tuple of str
        What faults.py breaks beneath the product; see door/sitecustomize.py.
    by_hand : bool
        Whether it is run only where it is named: it takes minutes, or the machine to itself.
    """

    name: str
    what: str
    nodes: tuple[Node, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    distances: Distances = ()
    sockets: int | None = None
    kernel: str = ""
    prepare: tuple[str, ...] = ()
    slow: float = 0.0
    plugged: int = 0
    pools: Mapping[int, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    measured: tuple[int, ...] = ()
    only: str = "bandwidth/read"
    checks: tuple[str, ...] = ("whole", "policies")
    faults: tuple[str, ...] = ()
    by_hand: bool = False


BOTH = Node(memory=512, cpus=1)
CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
GROUP = "/sys/fs/cgroup"

# The longest come first, so that none is left to run alone. A guest costs half a minute before it
# does anything: what does not stand in each other's way shares one.
TOPOLOGIES: tuple[Topology, ...] = (
    Topology(
        "2n",
        "two nodes of two CPUs",
        nodes=(Node(512, cpus=2), Node(512, cpus=2)),
        distances=((10, 21), (21, 10)),
        rows=(0, 1),
        columns=(0, 1),
        # The CPUs of a node are gone in the end.
        checks=("whole", "policies", "pairs", "faults", "offline"),
        faults=("unbound",),
    ),
    Topology(
        "8n",
        "two sockets of four nodes, farther one way than the other",
        nodes=(BOTH, *[Node(384, cpus=1)] * 7),
        sockets=2,
        distances=tuple(
            tuple(
                10 if i == j else (32 if i < j else 28) if i // 4 != j // 4 else 12
                for j in range(8)
            )
            for i in range(8)
        ),
        rows=tuple(range(8)),
        columns=tuple(range(8)),
        measured=(0, 7),
        only="latency/load",
        checks=("whole", "policies", "together"),
    ),
    Topology(
        "hotplug",
        "memory that comes and goes while the machine runs, and huge pages reserved on one node only",
        nodes=(BOTH, BOTH, Node()),
        kernel="memhp_default_state=online_movable",
        prepare=(f"echo 64 >{NODE}/node1/hugepages/hugepages-2048kB/nr_hugepages",),
        rows=(0, 1),
        columns=(0, 1),
        plugged=512,
        pools={1: 64},
        # What is reserved is changed in the end.
        checks=("policies", "faults", "plug", "limits"),
        faults=("exhausted",),
    ),
    Topology(
        "sparse",
        "nodes 0, 8, 10 and 11: the third without memory, the last of memory alone",
        nodes=(BOTH, *[Node(empty=1)] * 7, BOTH, Node(empty=1), Node(cpus=1), Node(512)),
        distances=tuple(
            tuple(10 if i == j else 15 if {i, j} == {8, 10} else 24 for j in range(12))
            for i in range(12)
        ),
        rows=(0, 8, 10),
        columns=(0, 8, 11),
        notes=("no-memory",),
        checks=("whole", "policies", "faults"),
        faults=("index",),
    ),
    Topology(
        "restricted",
        "nodes with half and with all of their CPUs offline, and a cgroup that grants no other node",
        nodes=(Node(512, cpus=2),) * 3,
        prepare=(
            *(f"echo 0 >{CPU}/cpu{cpu}/online" for cpu in (1, 2, 3)),
            f"echo +cpuset >{GROUP}/cgroup.subtree_control",
            f"mkdir {GROUP}/two",
            f"echo 0-3 >{GROUP}/two/cpuset.cpus",
            f"echo 0-1 >{GROUP}/two/cpuset.mems",
            f"echo $$ >{GROUP}/two/cgroup.procs",
        ),
        rows=(0,),
        columns=(0, 1),
        notes=("offline-cpus", "cpus-not-allowed", "nodes-not-allowed"),
        checks=("whole", "policies", "faults"),
        faults=("wrong-node", "off-by-one"),
    ),
    Topology(
        "autonuma",
        "two nodes, where the kernel moves unbound pages to their readers",
        nodes=(BOTH, BOTH),
        kernel="numa_balancing=enable",
        prepare=("mount -t debugfs debugfs /sys/kernel/debug",),
        rows=(0, 1),
        columns=(0, 1),
        checks=("autonuma",),
    ),
    Topology(
        "fake4",
        "one node that the kernel splits into four",
        nodes=(Node(2048, cpus=1),),
        kernel="numa=fake=4",
        rows=(0, 1, 2, 3),
        columns=(0, 1, 2, 3),
        measured=(0, 3),
        notes=("emulated-nodes",),
    ),
    Topology(
        "gpus",
        "two nodes of two CPUs, and GPUs that the stand-in driver plays",
        nodes=(Node(512, cpus=2), Node(512, cpus=2)),
        distances=((10, 21), (21, 10)),
        rows=(0, 1),
        columns=(0, 1),
        checks=("gpus",),
    ),
    Topology(
        "slow",
        "memory as slow as its distance: two sockets of two nodes, and a node of memory alone",
        nodes=(*[Node(384, cpus=1)] * 4, Node(384)),
        sockets=2,
        distances=(
            (10, 14, 22, 28, 50),
            (14, 10, 28, 22, 60),
            (34, 28, 10, 14, 60),
            (28, 34, 14, 10, 50),
            (50, 60, 60, 50, 10),
        ),
        slow=60.0,
        rows=(0, 1, 2, 3),
        columns=(0, 1, 2, 3, 4),
        checks=("slow",),
        by_hand=True,
    ),
)
