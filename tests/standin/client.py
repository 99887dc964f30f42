"""A small user of the driver in ctypes, for the tests of the stand-in itself.

It finds the entry points as the product must, by name and version, and names what failed.
"""

from __future__ import annotations

import ctypes as c
import mmap
import platform
from typing import Any, ClassVar
from uuid import UUID

# The version whose parameters are meant, where it is not the first.
_VERSIONS = {
    "cuDeviceGetUuid": 11040,
    "cuDevicePrimaryCtxRelease": 11000,
    "cuGraphInstantiateWithFlags": 11040,
    "cuGraphUpload": 11010,
    "cuStreamBeginCapture": 10010,
    "cuGetErrorName": 6000,
}
_USUAL = 10000
_CALLS = {
    "x86_64": {"mbind": 237, "move_pages": 279},
    "aarch64": {"mbind": 235, "move_pages": 239},
}[platform.machine()]
_MPOL_BIND = 2

Handle = c.c_void_p
Address = c.c_uint64
MAX_RANKS = 16
LINE = 128
"""Bytes of a block's flag line."""


class DriverError(Exception):
    """A call of the driver failed; holds the driver's own name for it."""


class AllReduceArgs(c.Structure):
    """As in args.h."""

    _fields_ = (
        ("input", Address),
        ("output", Address),
        ("send", Address * MAX_RANKS),
        ("receive", Address * MAX_RANKS),
        ("signal", Address * MAX_RANKS),
        ("watch", Address * MAX_RANKS),
        ("generation", Address),
        ("abort", Address),
        ("status", Address),
        ("timeout_ns", c.c_uint64),
        ("words", c.c_uint32),
        ("repetitions", c.c_uint32),
        ("sets", c.c_uint32),
        ("rank", c.c_uint32),
        ("ranks", c.c_uint32),
        ("sends", c.c_uint32),
    )


class CopyArgs(c.Structure):
    """As in args.h."""

    _fields_ = (
        ("source", Address),
        ("target", Address),
        ("words", c.c_uint64),
        ("repetitions", c.c_uint32),
    )


class ChaseArgs(c.Structure):
    """As in args.h."""

    _fields_ = (
        ("next", Address),
        ("result", Address),
        ("start", c.c_uint64),
        ("steps", c.c_uint32),
    )


class SpinArgs(c.Structure):
    """As in args.h."""

    _fields_ = (("release", Address), ("status", Address), ("timeout_ns", c.c_uint64))


class Driver:
    """The driver library; ``driver.cuInit(0)`` calls, and raises where it returns an error."""

    def __init__(self) -> None:
        self._library = c.CDLL("libcuda.so.1")
        self._found: dict[str, Any] = {}
        self.cuInit(0)

    def __getattr__(self, name: str) -> Any:
        entry = self.find(name)

        def call(*arguments: Any) -> None:
            error = entry(*arguments)
            if error:
                raise DriverError(f"{name}: {self._name_of(error)}")

        return call

    def find(self, name: str) -> Any:
        """Give an entry point by its name and the version whose parameters are meant."""
        if name not in self._found:
            entry, status = c.c_void_p(), c.c_int()
            version = _VERSIONS.get(name, _USUAL)
            self._library.cuGetProcAddress_v2(
                name.encode(), c.byref(entry), version, c.c_uint64(1), c.byref(status)
            )
            if not entry.value:
                raise DriverError(f"{name} is not to be had (status {status.value})")
            self._found[name] = c.CFUNCTYPE(c.c_int)(entry.value)
        return self._found[name]

    def _name_of(self, error: int) -> str:
        text = c.c_char_p()
        self._library.cuGetErrorName(error, c.byref(text))
        return (text.value or b"?").decode()

    def count(self) -> int:
        number = c.c_int()
        self.cuDeviceGetCount(c.byref(number))
        return number.value

    def attribute(self, number: int, index: int) -> int:
        value = c.c_int()
        self.cuDeviceGetAttribute(c.byref(value), number, index)
        return value.value

    def uuid(self, index: int) -> str:
        room = (c.c_ubyte * 16)()
        self.cuDeviceGetUuid(room, index)
        return str(UUID(bytes=bytes(room)))

    @property
    def simulation(self) -> str:
        """The name of the simulated machine, by the symbol that only a stand-in has."""
        ask = self._library.numamicro_simulation
        ask.restype = c.c_char_p
        return str(ask().decode())


class HostMemory:
    """Host memory as the product gets it: bound to a node, touched, registered until closed.

    Parameters
    ----------
    node : int or None
        Where it must be; None: wherever the kernel puts it.
    register : bool
        Whether the driver is told of it; without, it is pageable.
    """

    # The driver holds on to memory until it is told otherwise, and so must its owner.
    _registered: ClassVar[set[HostMemory]] = set()

    def __init__(
        self, gpu: Gpu, size: int, node: int | None = None, *, register: bool = True
    ) -> None:
        self.gpu = gpu
        self.memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.address = c.addressof(c.c_char.from_buffer(self.memory))
        if node is not None:
            set_policy(self.address, size, _MPOL_BIND, 1 << node)
        self.memory[:] = bytes(size)
        if register:
            gpu.use().cuMemHostRegister(Handle(self.address), c.c_size_t(size), 3)
            self._registered.add(self)

    def close(self) -> None:
        self.gpu.use().cuMemHostUnregister(Handle(self.address))
        self._registered.remove(self)


def kernel_call(name: str, *arguments: int) -> None:
    """Make a call of the kernel that the C library has no function for."""
    libc = c.CDLL(None, use_errno=True)
    if libc.syscall(c.c_long(_CALLS[name]), *map(c.c_long, arguments)) < 0:
        raise OSError(c.get_errno(), name)


def set_policy(address: int, size: int, mode: int, nodes: int) -> None:
    """Say where memory that is not there yet shall go; `nodes` is a mask."""
    mask = c.c_ulong(nodes)
    bits = 8 * c.sizeof(mask)
    kernel_call("mbind", address, size, mode, c.addressof(mask) if nodes else 0, bits, 0)


class Gpu:
    """A device with its primary context, a stream and, once loaded, a module."""

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver = driver
        self.context = Handle()
        self.module = Handle()
        driver.cuDevicePrimaryCtxRetain(c.byref(self.context), index)
        self.stream = self.new_stream()

    def use(self) -> Driver:
        """Make the context current and give the driver."""
        self.driver.cuCtxSetCurrent(self.context)
        return self.driver

    def new_stream(self) -> Handle:
        stream = Handle()
        self.use().cuStreamCreate(c.byref(stream), 1)
        return stream

    def event(self) -> Handle:
        event = Handle()
        self.use().cuEventCreate(c.byref(event), 0)
        return event

    def allocate(self, size: int) -> int:
        address = Address()
        self.use().cuMemAlloc(c.byref(address), c.c_size_t(size))
        self.driver.cuMemsetD8Async(address, 0, c.c_size_t(size), self.stream)
        self.synchronise()
        return address.value

    def synchronise(self) -> None:
        self.use().cuStreamSynchronize(self.stream)

    def record(self, event: Handle, stream: Handle | None = None) -> None:
        self.use().cuEventRecord(event, stream or self.stream)

    def elapsed(self, begin: Handle, end: Handle) -> float:
        """Give the seconds between two events once both have happened."""
        milliseconds = c.c_float()
        self.use().cuEventSynchronize(end)
        self.driver.cuEventElapsedTime(c.byref(milliseconds), begin, end)
        return milliseconds.value * 1e-3

    def upload(self, target: int, source: int, size: int, stream: Handle | None = None) -> None:
        self.use().cuMemcpyHtoDAsync(
            Address(target), Handle(source), c.c_size_t(size), stream or self.stream
        )

    def download(self, target: int, source: int, size: int, stream: Handle | None = None) -> None:
        self.use().cuMemcpyDtoHAsync(
            Handle(target), Address(source), c.c_size_t(size), stream or self.stream
        )

    def send(self, peer: Gpu, target: int, source: int, size: int) -> None:
        """Copy own memory to a peer's, by the own engine."""
        self.use().cuMemcpyPeerAsync(
            Address(target),
            peer.context,
            Address(source),
            self.context,
            c.c_size_t(size),
            self.stream,
        )

    def receive(self, peer: Gpu, target: int, source: int, size: int) -> None:
        """Copy a peer's memory to the own, by the own engine."""
        self.use().cuMemcpyPeerAsync(
            Address(target),
            self.context,
            Address(source),
            peer.context,
            c.c_size_t(size),
            self.stream,
        )

    def enable(self, peer: Gpu) -> None:
        self.use().cuCtxEnablePeerAccess(peer.context, 0)

    def disable(self, peer: Gpu) -> None:
        self.use().cuCtxDisablePeerAccess(peer.context)

    def contents(self, address: int, size: int) -> bytes:
        """Give what the device's memory holds, by way of its own copy to the host."""
        room = HostMemory(self, size)
        self.download(room.address, address, size)
        self.synchronise()
        room.close()
        return bytes(room.memory)

    def put(self, address: int, content: bytes) -> None:
        """Fill the device's memory from the host."""
        room = HostMemory(self, len(content))
        room.memory[:] = content
        self.upload(address, room.address, len(content))
        self.synchronise()
        room.close()

    def load(self, image: bytes) -> None:
        self.use().cuModuleLoadData(c.byref(self.module), image)

    def launch(self, name: str, grid: int, block: int, arguments: c.Structure | None) -> None:
        function = Handle()
        self.use().cuModuleGetFunction(c.byref(function), self.module, name.encode())
        parameters = (c.c_void_p * 1)(c.addressof(arguments) if arguments is not None else None)
        self.driver.cuLaunchKernel(
            function, grid, 1, 1, block, 1, 1, 0, self.stream, parameters, Handle()
        )
