"""Runs one command in a guest: QEMU with emulation, the host's own files, and a topology's nodes."""

from __future__ import annotations

import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.vm.kernel import EMULATOR, archive
from tests.vm.slow import plugin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.vm.kernel import Kernel
    from tests.vm.topologies import Topology

INIT = Path(__file__).parent / "init.sh"
CPU_MODEL = "max"
SHARE = "/run/share"
"""The one folder that host and guest both write to, as the guest sees it."""
_ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_QUICK_BOOT = (
    "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on "
    "numa_balancing=disable"  # else each Python's pages are looked at again and again
)
_CLOCK = "tsc=reliable no_timer_check cryptomgr.notests"  # else the kernel doubts them for seconds


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended.

    Parameters
    ----------
    status : int or None
        The command's exit status; None when the guest did not get to its end.
    said, console : str
        What the command and the guest's kernel printed.
    loops : set of str
        The loops of the native side that ran, as the command left them in ``SHARE/loops``.
    seconds : float
        With the boot.
    """

    status: int | None
    said: str
    console: str
    loops: set[str]
    seconds: float


def run(
    topology: Topology, kernel: Kernel, command: Sequence[str], share: Path, seconds: float
) -> Ran:
    """Boot a guest, run a command in it as root and wait for its end, `seconds` at most.

    The guest sees the host's files as they are; what it writes elsewhere than in `share` is lost.
    """
    lines = [*topology.prepare, f"exec {shlex.join(command)}"]
    (share / "command").write_text("\n".join(lines) + "\n")
    init = archive([("init", 0o100755, INIT.read_bytes())])
    (share / "files").write_bytes(kernel.files.read_bytes() + init)
    slowness = list(plugin(topology, share))
    start = time.monotonic()
    with (share / "console").open("wb") as console:
        emulator = subprocess.Popen(
            [*_ENDS_WITH_US, EMULATOR, *arguments(topology, kernel, share), *slowness],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
        try:
            emulator.wait(seconds)
        except subprocess.TimeoutExpired:
            console.write(f"\nthe guest was ended after {seconds:.0f} s\n".encode())
        finally:
            emulator.kill()
            emulator.wait()
    status = _text(share / "status").strip()
    return Ran(
        status=int(status) if status else None,
        said=_text(share / "said"),
        console=_text(share / "console"),
        loops=set(_text(share / "loops").split()),
        seconds=time.monotonic() - start,
    )


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def arguments(topology: Topology, kernel: Kernel, share: Path) -> list[str]:
    """Give the emulator's arguments."""
    return [
        *("-machine", "q35,usb=off,sata=off,smbus=off,vmport=off"),
        *("-accel", "tcg,thread=multi,tb-size=256"),
        *("-cpu", CPU_MODEL),
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none", "-serial", "stdio"),
        *("-kernel", str(kernel.image), "-initrd", str(share / "files")),
        *("-append", f"{_QUICK_BOOT} {_CLOCK} {topology.kernel}"),
        *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
        *("-virtfs", f"local,path={share},mount_tag=share,security_model=none,multidevs=remap"),
        *_machine(topology),
        *_plug(topology, share),
    ]


def _machine(topology: Topology) -> Iterator[str]:
    """Give the arguments for memory, CPUs, nodes and distances."""
    memory = sum(node.memory for node in topology.nodes)
    yield from ("-m", f"{memory}M,slots=1,maxmem={memory + 4096}M")
    # A slot for a CPU, by node, and whether there is one in it.
    slots = [
        (index, number < node.cpus)
        for index, node in enumerate(topology.nodes)
        for number in range(node.cpus + node.empty)
    ]
    sockets = topology.sockets or len({index for index, _ in slots})
    cores = len(slots) // sockets
    # The emulator starts the first CPUs by itself; those behind an empty slot are devices.
    first = next((slot for slot, (_, filled) in enumerate(slots) if not filled), len(slots))
    yield from ("-smp", f"cpus={first},maxcpus={len(slots)},sockets={sockets},cores={cores}")
    for index, node in enumerate(topology.nodes):
        backend = f",memdev=memory{index}" if node.memory else ""
        if node.memory:
            size = f"{node.memory}M"
            yield from ("-object", f"memory-backend-ram,id=memory{index},size={size}")
        yield from ("-numa", f"node,nodeid={index}{backend}")
    for slot, (index, filled) in enumerate(slots):
        place = f"socket-id={slot // cores},core-id={slot % cores},thread-id=0"
        yield from ("-numa", f"cpu,node-id={index},{place}")
        if filled and slot > first:
            yield from ("-device", f"{CPU_MODEL}-x86_64-cpu,id=cpu{slot},{place}")
    for source, row in enumerate(topology.distances):
        for target, distance in enumerate(row):
            if source != target:
                yield from ("-numa", f"dist,src={source},dst={target},val={distance}")


def _plug(topology: Topology, share: Path) -> Iterator[str]:
    """Give the arguments that hand the guest the emulator's own monitor, to plug memory with."""
    if topology.plugged:
        path = share / "monitor"
        yield from ("-object", f"memory-backend-ram,id=module,size={topology.plugged}M")
        yield from ("-chardev", f"socket,id=monitor,path={path},server=on,wait=off")
        yield from ("-mon", "chardev=monitor,mode=control")
        yield from ("-chardev", f"socket,id=guest,path={path}", "-device", "virtio-serial")
        yield from ("-device", "virtserialport,chardev=guest,name=monitor")
