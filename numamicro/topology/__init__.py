"""What the machine is: :func:`discover` reads it once into a :class:`Machine`."""

from numamicro.topology.discovery import discover
from numamicro.topology.gpu import Gpu, GpuDriver, GpuPair, PcieLink
from numamicro.topology.machine import (
    Access,
    Cache,
    Cgroup,
    Cpu,
    HugePool,
    Llc,
    Machine,
    Note,
    NumaNode,
)

__all__ = [
    "Access",
    "Cache",
    "Cgroup",
    "Cpu",
    "Gpu",
    "GpuDriver",
    "GpuPair",
    "HugePool",
    "Llc",
    "Machine",
    "Note",
    "NumaNode",
    "PcieLink",
    "discover",
]
