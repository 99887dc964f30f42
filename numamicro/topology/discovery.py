"""Reading a machine once, from the running kernel or from a copy of its /sys and /proc."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.finding import Finding, Severity
from numamicro.topology import environment
from numamicro.topology.caches import llcs_of, read_caches, sorts_of
from numamicro.topology.cpus import allowed_cpus, cpu_ids, read_cpus
from numamicro.topology.gpu_facts import ask_gpus
from numamicro.topology.gpus import Gpus, read_gpus
from numamicro.topology.machine import Machine
from numamicro.topology.nodes import NODE, home_nodes, node_ids, read_nodes
from numamicro.topology.notes import notes_of
from numamicro.topology.sysfs import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def discover(root: str | Path = "/") -> Machine:
    """Read what this process can see of the machine.

    Parameters
    ----------
    root : str or path
        The folder below which sys/ and proc/ lie; any but ``/`` is a copy of a machine's files.

    Returns
    -------
    Machine
        What is missing or garbled is None there, with a note where it matters.

    Raises
    ------
    NumamicroError
        No CPU is to be found below `root`.
    """
    tree = Tree(os.fspath(root))
    ids, online = cpu_ids(tree)
    if not online:
        raise NumamicroError(
            f"no CPU is listed below {tree.root}/sys/devices/system/cpu; "
            "name the folder that holds a Linux machine's sys and proc"
        )
    nodes = read_nodes(tree, online)
    caches = read_caches(tree, online)
    llcs = llcs_of(caches)
    # Only the running system has a driver to ask.
    gpus = read_gpus(tree, [node.id for node in nodes], ask_gpus()) if tree.live else Gpus()
    machine = Machine(
        architecture=environment.architecture(tree),
        cpu_model=environment.cpu_model(tree),
        cpus=read_cpus(
            tree,
            ids,
            online,
            allowed_cpus(tree, online),
            home_nodes(tree, nodes),
            {cpu: llc.id for llc in llcs for cpu in llc.cpus},
        ),
        nodes=nodes,
        llcs=llcs,
        page_bytes=os.sysconf("SC_PAGE_SIZE") if tree.live else 4096,
        huge_page_bytes=tree.size("sys/kernel/mm/transparent_hugepage/hpage_pmd_size"),
        caches=sorts_of(caches),
        cgroup=environment.cgroup(tree),
        hypervisor=environment.hypervisor(tree),
        container=environment.container(tree),
        wsl=environment.is_wsl(tree),
        gpus=gpus.gpus,
        gpu_pairs=gpus.pairs,
        gpu_driver=gpus.driver,
    )
    return replace(machine, notes=(*notes_of(machine), *gpus.notes, *_reading_notes(tree)))


def _reading_notes(tree: Tree) -> Iterator[Finding]:
    if not tree.has("sys/devices/system"):
        yield Finding(
            "no-sysfs",
            Severity.LIMITS,
            "/sys is missing or empty",
            f"there is no {tree.root}/sys/devices/system",
            "nodes, packages and caches are unknown: all CPUs and memory are taken as one node, and "
            "buffers are sized by a guess",
            "mount it (docker -v /sys:/sys:ro, or mount -t sysfs sysfs /sys as root)",
        )
    elif not node_ids(tree):
        yield Finding(
            "no-nodes",
            Severity.LIMITS,
            "the kernel shows no NUMA nodes",
            f"there is no node folder below {tree.root}/{NODE}",
            "it was built without NUMA, or they are hidden: all CPUs and memory are taken as one node",
            "boot a kernel with CONFIG_NUMA, without numa=off",
        )
    if tree.garbled:
        paths = sorted(set(tree.garbled))
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        yield Finding(
            "garbled",
            Severity.REMARK,
            f"these files make no sense: {', '.join(paths[:3])}{more}",
            "their text is not what the kernel writes there",
            "they were left out, and what they tell is unknown",
        )
