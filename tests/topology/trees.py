"""Small trees of /sys and /proc, made from facts: which nodes, which CPUs, how far apart.

:func:`files_of` gives the files of a described machine, :func:`plant` writes them below a folder.
A test that wants something odd changes the files in between.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"
GIB_IN_KB = 1 << 20


@dataclass(frozen=True)
class Node:
    """A node: its CPUs, and its memory in kB."""

    id: int
    cpus: tuple[int, ...] = ()
    memory: int = 8 * GIB_IN_KB
    free: int = 6 * GIB_IN_KB


@dataclass(frozen=True)
class Facts:
    """What a machine is made of.

    Parameters
    ----------
    nodes : tuple of Node
        Without any, `cpus` names the CPUs, and there is no node folder.
    threads : int
        Consecutive CPUs that are SMT siblings.
    llc : int
        Consecutive CPUs that share a last-level cache of 32 MiB; 0 leaves all caches out.
    packages : mapping of node id to package
        A node that is not named is a package of its own.
    offline : frozenset of int
        CPUs that are switched off.
    allowed_cpus, allowed_mems : str or None
        The lists in /proc/self/status; None: the file is missing.
    distances : tuple of rows
        Empty: 10 on the diagonal, 20 elsewhere.
    """

    nodes: tuple[Node, ...] = ()
    cpus: tuple[int, ...] = ()
    threads: int = 1
    llc: int = 4
    packages: Mapping[int, int] = field(default_factory=dict)
    offline: frozenset[int] = frozenset()
    allowed_cpus: str | None = None
    allowed_mems: str | None = None
    distances: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def home(self) -> dict[int, int]:
        """The node of each CPU."""
        return dict.fromkeys(self.cpus, 0) | {c: node.id for node in self.nodes for c in node.cpus}

    @cached_property
    def online(self) -> frozenset[int]:
        return frozenset(self.home) - self.offline


def uniform(nodes: int, cpus_each: int, **facts: object) -> Facts:
    """Give a machine of equal nodes 0, 1, ... with consecutive CPUs."""
    return Facts(
        nodes=tuple(
            Node(id, tuple(range(id * cpus_each, (id + 1) * cpus_each))) for id in range(nodes)
        ),
        **facts,  # type: ignore[arg-type]
    )


def files_of(facts: Facts) -> dict[str, str]:
    """Give path and text of each file; a folder that must be there though empty ends in a slash."""
    files = {f"{CPU}/online": id_list(facts.online), f"{CPU}/possible": id_list(facts.home)}
    for cpu in facts.home:
        files |= _cpu_files(facts, cpu)
    if facts.nodes:
        files |= _node_files(facts)
    files["proc/meminfo"] = _meminfo(
        "", sum(node.memory for node in facts.nodes), sum(node.free for node in facts.nodes)
    )
    status = {"Cpus_allowed_list": facts.allowed_cpus, "Mems_allowed_list": facts.allowed_mems}
    lines = [f"{key}:\t{ids}" for key, ids in status.items() if ids is not None]
    if lines:
        files["proc/self/status"] = "\n".join(["Name:\tany", *lines])
    return files


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write the files below `root` and give it back."""
    # Plain calls of os: a machine with thousands of CPUs has tens of thousands of files.
    for folder in {path.rpartition("/")[0] for path in files}:
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    for path, text in files.items():
        if not path.endswith("/"):
            with open(f"{root}/{path}", "wb") as file:
                file.write(text if isinstance(text, bytes) else f"{text}\n".encode())
    return root


def id_list(ids: Iterable[int]) -> str:
    """Give ids one by one, as no kernel does but every reader must take."""
    return ",".join(map(str, sorted(ids)))


def _cpu_files(facts: Facts, cpu: int) -> dict[str, str]:
    folder = f"{CPU}/cpu{cpu}"
    if cpu in facts.offline:
        return {f"{folder}/online": "0"}
    home = facts.home[cpu]
    files = {
        f"{folder}/topology/physical_package_id": str(facts.packages.get(home, home)),
        f"{folder}/topology/thread_siblings_list": id_list(_group(facts, cpu, facts.threads)),
    }
    if facts.llc:
        files |= {
            f"{folder}/cache/index3/level": "3",
            f"{folder}/cache/index3/type": "Unified",
            f"{folder}/cache/index3/size": "32768K",
            f"{folder}/cache/index3/coherency_line_size": "64",
            f"{folder}/cache/index3/shared_cpu_list": id_list(_group(facts, cpu, facts.llc)),
        }
    return files


def _group(facts: Facts, cpu: int, size: int) -> tuple[int, ...]:
    """Give the online CPUs in the same run of `size` consecutive ones."""
    first = cpu // size * size
    return tuple(other for other in range(first, first + size) if other in facts.online)


def _node_files(facts: Facts) -> dict[str, str]:
    nodes = sorted(facts.nodes, key=lambda node: node.id)
    files = {
        f"{NODE}/online": id_list(tuple(node.id for node in nodes)),
        f"{NODE}/has_cpu": id_list(tuple(node.id for node in nodes if node.cpus)),
        f"{NODE}/has_memory": id_list(tuple(node.id for node in nodes if node.memory)),
    }
    for row, node in enumerate(nodes):
        folder = f"{NODE}/node{node.id}"
        far = [10 if column == row else 20 for column in range(len(nodes))]
        distances = facts.distances[row] if facts.distances else far
        online = tuple(cpu for cpu in node.cpus if cpu not in facts.offline)
        files |= {
            f"{folder}/cpulist": id_list(online),
            f"{folder}/distance": " ".join(map(str, distances)),
            f"{folder}/meminfo": _meminfo(f"Node {node.id} ", node.memory, node.free),
        }
        # The links to its CPUs, offline ones too; only their names count.
        files |= {f"{folder}/cpu{cpu}/": "" for cpu in node.cpus}
    return files


def _meminfo(start: str, total: int, free: int) -> str:
    entries = {"MemTotal": total, "MemFree": free, "FilePages": 0}
    if not start:
        entries["MemAvailable"] = free
    return "\n".join(f"{start}{name}:  {size:10} kB" for name, size in entries.items())
