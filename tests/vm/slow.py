"""Memory that is as slow as its distance: builds the emulator's plugin and tells it who is where."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm.kernel import EMULATOR, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vm.topologies import Topology

SOURCE = Path(__file__).parent / "slow_memory.c"
MIB = 2**20
BELOW_DEVICES = 2816
"""MiB: with more, this machine's memory goes on behind the addresses of its devices."""
_TELLS_GUEST_ADDRESSES = (8, 2)


def plugin(topology: Topology, share: Path) -> Iterator[str]:
    """Give the emulator's arguments that make each node's memory as slow as its distance says.

    Raises
    ------
    Unavailable
        The plugin could not be compiled.
    """
    if not topology.slow:
        return
    library = share / "slow_memory.so"
    compiler = os.environ.get("CC", "cc").split()
    try:
        command = [*compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
        subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise Unavailable(f"the plugin for slow memory was not compiled: {said}") from error
    cpus = [str(index) for index, node in enumerate(topology.nodes) for _ in range(node.cpus)]
    waits = [f"{each * topology.slow:.0f}" for row in topology.distances for each in row]
    memory = "/".join(_ranges(topology))
    yield "-plugin"
    yield f"{library},cpus={'/'.join(cpus)},memory={memory},wait={'/'.join(waits)}"


def _ranges(topology: Topology) -> Iterator[str]:
    """Give where each node's memory is, in the addresses that the emulator tells a plugin.

    Before QEMU 8.2 an address was the offset in its block plus the block's, counted twice.
    """
    told = subprocess.run([EMULATOR, "--version"], capture_output=True, text=True, check=True)
    version = re.search(r"version (\d+)\.(\d+)", told.stdout)
    assert version
    twice = (int(version[1]), int(version[2])) < _TELLS_GUEST_ADDRESSES
    start = 0
    for index, node in enumerate(topology.nodes):
        first = 2 * start if twice else start
        yield f"{first * MIB:x}-{(first + node.memory) * MIB:x}:{index}"
        start += node.memory
    assert start <= BELOW_DEVICES, f"{topology.name}: memory in two pieces is not dealt with"
