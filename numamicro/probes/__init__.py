"""One file a measured cost. PROBES is the list of our own; others join by :func:`register`."""

from __future__ import annotations

from numamicro.errors import NumamicroError
from numamicro.probes.all_reduce import AllReduce
from numamicro.probes.attention import Attention
from numamicro.probes.bandwidth import Bandwidth
from numamicro.probes.barrier import Barrier
from numamicro.probes.beside import Beside
from numamicro.probes.cache import CacheBandwidth, CacheLatency
from numamicro.probes.core_to_core import CoreToCore
from numamicro.probes.cupy import GpuGemm, Nccl
from numamicro.probes.gpu_alone import DeviceRead, Launch
from numamicro.probes.host_copy import HostCopy, HostCopySize, HostCopyTogether, HostLatency
from numamicro.probes.latency import Latency
from numamicro.probes.loaded import Loaded
from numamicro.probes.peer import PeerCopy, PeerLatency
from numamicro.probes.probe import CaseFailed, Cost, Probe, TakeSample
from numamicro.probes.products import Dot, DotStream, Gemm
from numamicro.probes.step import Step
from numamicro.probes.together import Together

__all__ = ["PROBES", "CaseFailed", "Cost", "Probe", "TakeSample", "all_probes", "register"]

PROBES: tuple[Probe, ...] = (
    Bandwidth(),
    Latency(),
    Together(),
    Barrier(),
    CoreToCore(),
    Loaded(),
    CacheBandwidth(),
    CacheLatency(),
    Dot(),
    DotStream(),
    Gemm(),
    Attention(),
    Step(),
    HostCopy(),
    HostLatency(),
    PeerCopy(),
    PeerLatency(),
    AllReduce(),
    Launch(),
    DeviceRead(),
    HostCopySize(),
    HostCopyTogether(),
    Beside(),
    Nccl(),
    GpuGemm(),
)
ENTRY_POINTS = "numamicro.probes"
"""Group under which an installed package offers its own probes."""

_registered: list[Probe] = []


def register(probe: type[Probe]) -> type[Probe]:
    """Add an outsider's probe to this process; usable as a class decorator."""
    _registered.append(probe())
    return probe


def all_probes() -> tuple[Probe, ...]:
    """Give our probes, those registered here, and those that installed packages offer.

    Raises
    ------
    NumamicroError
        Two probes have one name.
    """
    from importlib.metadata import entry_points

    offered = [point.load()() for point in entry_points(group=ENTRY_POINTS)]
    probes = (*PROBES, *_registered, *offered)
    names = [probe.name for probe in probes]
    for name in names:
        if names.count(name) > 1:
            raise NumamicroError(f"two probes are called '{name}': rename or remove one")
    return probes
