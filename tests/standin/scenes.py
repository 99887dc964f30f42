"""What the tests of the stand-in let a user of the driver do, each in a process of its own.

    python -m tests.standin.scenes NAME [ARGUMENT...]

prints what came of it as JSON. Runs where :func:`tests.standin.play.staged` has set the stage.
"""

from __future__ import annotations

import ctypes as c
import json
import mmap
import os
import random
import struct
import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.standin.client import (
    LINE,
    ChaseArgs,
    CopyArgs,
    Driver,
    DriverError,
    Gpu,
    Handle,
    HostMemory,
    SpinArgs,
    kernel_call,
    set_policy,
)
from tests.standin.scenery import (
    MIB,
    PATIENCE_MS,
    Gate,
    Group,
    Work,
    access,
    floats,
    gpus,
    loaded,
    sums,
    timed,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# --- Copies -----------------------------------------------------------------------------------------


def host_copies(nodes: str, size: str) -> list[dict[str, Any]]:
    """Copy from each node to each GPU and back; pinned and pageable."""
    everything = gpus()
    gates = [Gate(gpu) for gpu in everything]
    return [
        _host_copy(gates[index], index, node, int(size), pinned=pinned)
        for index in range(len(everything))
        for node in map(int, nodes.split(","))
        for pinned in (True, False)
    ]


@cache
def _content(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def _host_copy(gate: Gate, index: int, node: int, size: int, *, pinned: bool) -> dict[str, Any]:
    gpu = gate.gpu
    memory, sent = gpu.allocate(size), _content(index, size)
    host = HostMemory(gpu, size, node, register=pinned)
    host.memory[:] = sent
    (down,) = timed(gate, [(gpu, gpu.stream, partial(gpu.upload, memory, host.address, size))])
    host.memory[:] = bytes(size)
    (up,) = timed(gate, [(gpu, gpu.stream, partial(gpu.download, host.address, memory, size))])
    if pinned:
        host.close()
    same = bytes(host.memory) == sent
    return {
        "gpu": index,
        "node": node,
        "pinned": pinned,
        "down": down,
        "up": up,
        "same": same,
    }


def peer_copies(size: str) -> list[dict[str, Any]]:
    """Copy between each pair of GPUs, without peer access and with it."""
    gates = [Gate(gpu) for gpu in gpus()]
    buffers = [gate.gpu.allocate(int(size)) for gate in gates]
    pairs = [(i, j) for i in range(len(gates)) for j in range(len(gates)) if i != j]
    return [
        {"source": i, "target": j}
        | _peer_copy((gates[i], gates[j]), (buffers[i], buffers[j]), int(size), access=access)
        for i, j in pairs
        for access in (False, True)
    ]


def _peer_copy(
    gates: tuple[Gate, Gate], buffers: tuple[int, int], size: int, *, access: bool
) -> dict[str, Any]:
    """Copy by the source's engine, look at the target's memory, and copy by the target's engine."""
    source, target = gates[0].gpu, gates[1].gpu
    here, there = buffers
    try:
        if access:
            source.enable(target)
            target.enable(source)
    except DriverError as error:
        return {"access": str(error)}
    content = _content(here, size)
    source.put(here, content)
    target.put(there, bytes(size))
    send = partial(source.send, target, there, here, size)
    receive = partial(target.receive, source, there, here, size)
    (sent,) = timed(gates[0], [(source, source.stream, send)])
    same = target.contents(there, size) == content
    (received,) = timed(gates[1], [(target, target.stream, receive)])
    if access:
        source.disable(target)
        target.disable(source)
    return {"access": access, "sent": sent, "received": received, "same": same}


def together(size: str, *which: str) -> list[float]:
    """Copy at the same time: ``down0`` from node 0 to GPU 0, ``up3`` the other way."""
    everything = gpus()
    length = int(size)
    works: list[Work] = []
    for word in which:
        gpu = everything[int(word.lstrip("downup"))]
        host, memory = HostMemory(gpu, length, 0), gpu.allocate(length)
        stream = gpu.new_stream()
        work = (
            partial(gpu.upload, memory, host.address, length, stream)
            if word.startswith("down")
            else partial(gpu.download, host.address, memory, length, stream)
        )
        works.append((gpu, stream, work))
    return timed(Gate(everything[0]), works)


# --- Kernels ----------------------------------------------------------------------------------------


def allreduce(image: str, *jobs: str) -> list[dict[str, Any]]:
    """All-reduce, each job as ``pull:0,1:4096`` or ``staged:0,1:4096:NODE[:PATIENCE_MS]``.

    Gives what one repetition takes, whether each rank holds the sum, and how the ranks ended.
    """
    everything = loaded(image)
    access(everything)
    return [_allreduce(everything, *job.split(":")) for job in jobs]


def _allreduce(
    everything: list[Gpu],
    variant: str,
    members: str,
    size: str,
    node: str = "0",
    patience_ms: str = str(PATIENCE_MS),
) -> dict[str, Any]:
    chosen = _each_with_its_stream(everything, [int(index) for index in members.split(",")])
    length = int(size)
    grid = min(8, max(1, length // 4096))
    group = Group(chosen, variant, length, int(node), grid, int(patience_ms))
    contents = [floats(length // 4, seed) for seed in range(len(chosen))]
    for gpu, address, content in zip(chosen, group.inputs, contents, strict=True):
        gpu.put(address, content)

    def run(repetitions: int) -> float:
        # The first few let the ranks meet, so that both clocks start at one moment.
        events = [(gpu.event(), gpu.event()) for gpu in chosen]
        for rank, (gpu, (begin, end)) in enumerate(zip(chosen, events, strict=True)):
            group.launch(rank, 4)
            gpu.record(begin)
            group.launch(rank, repetitions)
            gpu.record(end)
        return max(gpu.elapsed(*pair) for gpu, pair in zip(chosen, events, strict=True))

    few = max(20, min(200, 2 * MIB // length))
    seconds = (run(3 * few) - run(few)) / (2 * few)
    held = [
        gpu.contents(address, length) for gpu, address in zip(chosen, group.outputs, strict=True)
    ]
    expected = sums(contents)
    return {
        "seconds": seconds,
        "right": [content == expected for content in held],
        "status": group.status(),
    }


def _each_with_its_stream(everything: list[Gpu], indices: list[int]) -> list[Gpu]:
    """Give the GPUs; one that is named again is a rank of its own, with a stream of its own."""
    chosen: list[Gpu] = []
    for index in indices:
        gpu = everything[index]
        if gpu in chosen:
            again = Gpu(gpu.driver, index)
            again.module = gpu.module
            gpu = again
        chosen.append(gpu)
    return chosen


def graph(image: str, size: str, launches: str) -> dict[str, Any]:
    """All-reduce as a graph of launches on each of two GPUs, replayed."""
    chosen = loaded(image)[:2]
    access(chosen)
    length = int(size)
    group = Group(chosen, "pull", length, 0, 1)
    contents = [floats(length // 4, seed) for seed in range(2)]
    executables = []
    for rank, gpu in enumerate(chosen):
        gpu.put(group.inputs[rank], contents[rank])
        captured, executable = Handle(), Handle()
        gpu.use().cuStreamBeginCapture(gpu.stream, 0)
        for _ in range(int(launches)):
            group.launch(rank, 1)
        gpu.driver.cuStreamEndCapture(gpu.stream, c.byref(captured))
        gpu.driver.cuGraphInstantiateWithFlags(c.byref(executable), captured, c.c_uint64(0))
        gpu.driver.cuGraphDestroy(captured)
        gpu.driver.cuGraphUpload(executable, gpu.stream)
        executables.append(executable)
    gate = Gate(chosen[0])
    seconds = []
    for _ in range(2):
        gate.close((chosen[1], chosen[1].stream))
        events = [(gpu.event(), gpu.event()) for gpu in chosen]
        for rank, (gpu, (begin, end)) in enumerate(zip(chosen, events, strict=True)):
            group.launch(rank, 4)
            gpu.record(begin)
            gpu.driver.cuGraphLaunch(executables[rank], gpu.stream)
            gpu.record(end)
        seconds.append(max(gpu.elapsed(*pair) for gpu, pair in zip(chosen, events, strict=True)))
    expected = sums(contents)
    return {
        "seconds": [taken / int(launches) for taken in seconds],
        "right": [
            gpu.contents(group.outputs[r], length) == expected for r, gpu in enumerate(chosen)
        ],
        "status": group.status(),
    }


def one_sided(image: str, size: str) -> dict[str, Any]:
    """Copy by load and by store, read and chase; the peer is GPU 1."""
    own, peer = loaded(image)[:2]
    access([own, peer])
    length = int(size)
    here, there = own.allocate(length), peer.allocate(length)
    content = random.Random(1).randbytes(length)
    gate = Gate(own)
    stream = own.stream
    found: dict[str, Any] = {}

    def kernel(name: str, **values: int) -> float:
        arguments = CopyArgs(words=length // 16, repetitions=1, **values)
        return timed(gate, [(own, stream, lambda: own.launch(name, 8, 256, arguments))])[0]

    peer.put(there, content)
    found["load"] = kernel("copy", source=there, target=here)
    found["loaded"] = own.contents(here, length) == content
    own.put(here, content[::-1])
    found["store"] = kernel("copy", source=here, target=there)
    found["stored"] = peer.contents(there, length) == content[::-1]
    found["read"] = kernel("read", source=here, target=own.allocate(16))
    for name, gpu in (("chase", own), ("chase_peer", peer)):
        count = 512
        order = random.Random(2).sample(range(1, count), count - 1)
        ring = [0, *order, 0]
        following = [0] * count
        for at, to in pairwise(ring):
            following[at] = to
        links = gpu.allocate(8 * count)
        gpu.put(links, struct.pack(f"{count}Q", *following))
        result = own.allocate(16)
        steps = 100
        own.launch("chase", 1, 1, ChaseArgs(links, result, 0, steps))
        ended, ticks = struct.unpack("2Q", own.contents(result, 16))
        found[name] = ticks / steps
        found[f"{name}_ended"] = ended == ring[steps]
    return found


def spin(image: str) -> dict[str, Any]:
    """Hold a stream until the host lets go, and until a deadline passes."""
    gpu = loaded(image)[0]
    control = HostMemory(gpu, 4096, 0)
    found = {}
    for name, timeout in (("released", 2_000_000_000), ("timed_out", 50_000_000)):
        control.memory[:] = bytes(4096)
        arguments = SpinArgs(control.address, control.address + LINE, timeout)
        gpu.launch("spin", 1, 1, arguments)
        try:
            gpu.use().cuStreamQuery(gpu.stream)
            held = False
        except DriverError as error:
            held = "NOT_READY" in str(error)
        if name == "released":
            control.memory[0] = 1
        gpu.synchronise()
        found[name] = [held, control.memory[LINE]]
    gpu.launch("empty", 1, 32, None)
    gpu.synchronise()
    return found


# --- What goes wrong --------------------------------------------------------------------------------


def attempt(*steps: str) -> dict[str, str]:
    """Take some steps, and say of each ``ok`` or the driver's name for what stopped it."""
    found: dict[str, str] = {}
    everything: list[Gpu] = []

    def of(word: str) -> Gpu:
        return everything[int(word)]

    def enable(a: str, b: str) -> None:
        of(a).enable(of(b))

    def allocate(gpu: str, size: str) -> None:
        of(gpu).allocate(int(size))

    def load(gpu: str, image: str) -> None:
        with open(image, "rb") as file:
            of(gpu).load(file.read())

    def find(name: str) -> None:
        Driver().find(name)

    actions: dict[str, Callable[..., None]] = {
        "open": lambda: everything.extend(gpus()),
        "enable": enable,
        "allocate": allocate,
        "load": load,
        "find": find,
    }
    for step in steps:
        word, *arguments = step.split(":")
        try:
            actions[word](*arguments)
            found[step] = "ok"
        except DriverError as error:
            found[step] = str(error)
    # The second group of a simulated GPU's UUID is its number in the machine.
    found["devices"] = ",".join(
        str(int(gpu.driver.uuid(index).split("-")[1], 16)) for index, gpu in enumerate(everything)
    )
    return found


def stray(image: str) -> str:
    """Let a kernel touch memory that its GPU may not reach."""
    own, peer = loaded(image)[:2]
    there = peer.allocate(4096)
    own.launch("copy", 1, 32, CopyArgs(there, own.allocate(4096), 256, 1))
    try:
        own.synchronise()
    except DriverError as error:
        return str(error)
    return "ok"


def impatient(size: str) -> dict[str, bool]:
    """Read what a copy brings before it is waited for, and after."""
    gpu = gpus()[0]
    length = int(size)
    host = HostMemory(gpu, length, 0)
    memory = gpu.allocate(length)
    gpu.put(memory, b"\1" * length)
    gpu.download(host.address, memory, length)
    before = bytes(host.memory) == b"\1" * length
    gpu.synchronise()
    return {"before": before, "after": bytes(host.memory) == b"\1" * length}


# --- The machine ------------------------------------------------------------------------------------


def look() -> dict[str, Any]:
    """Say what a process sees of the machine."""
    driver = Driver()
    nodes = Path("/sys/devices/system/node")
    packages = Path("/sys/devices/system/cpu").glob("cpu*/topology/physical_package_id")
    return {
        "simulation": driver.simulation,
        "nodes": sorted(int(path.name.removeprefix("node")) for path in nodes.glob("node*")),
        "cpus": sorted(os.sched_getaffinity(0)),
        "packages": sorted({int(path.read_text()) for path in packages}),
        "host_nodes": [driver.attribute(134, index) for index in range(driver.count())],
    }


def pages(policy: str) -> dict[str, int]:
    """Map 64 MiB in some way and count where the first page of each MiB is."""
    modes = {"default": (0, 0), "bind": (2, 0b10), "interleave": (3, 0b11), "absent": (2, 1 << 5)}
    mode, nodes = modes[policy]
    memory = mmap.mmap(-1, 64 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = c.addressof(c.c_char.from_buffer(memory))
    try:
        set_policy(address, 64 * MIB, mode, nodes)
    except OSError as error:
        return {"errno": error.errno or 0}
    for at in range(0, 64 * MIB, MIB):
        memory[at] = 1
    asked = (c.c_void_p * 64)(*(address + at for at in range(0, 64 * MIB, MIB)))
    status = (c.c_int * 64)()
    kernel_call("move_pages", 0, 64, c.addressof(asked), 0, c.addressof(status), 0)
    return {str(node): status[:].count(node) for node in set(status[:])}


def nvml() -> dict[str, Any]:
    """Say what NVML tells, and the generation of the first link: idle, at work, idle."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return {"error": error.value}
    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    everything = gpus()
    first = everything[0]
    uuid = first.driver.uuid(0)
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    memory, host = first.allocate(MIB), HostMemory(first, MIB)

    def generation() -> int:
        return int(pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle))

    generations = [generation()]
    first.upload(memory, host.address, MIB)
    generations.append(generation())
    first.synchronise()
    generations.append(generation())
    return {
        "gpus": [
            {
                "uuid": pynvml.nvmlDeviceGetUUID(handle),
                "pci": pynvml.nvmlDeviceGetPciInfo(handle).busId,
            }
            for handle in handles
        ],
        "driver_uuids": [first.driver.uuid(index) for index in range(len(everything))],
        "generations": generations,
    }


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
