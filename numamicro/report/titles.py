"""What a table is of, in words: the cost, its unit, and what its rows and columns stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.units import bytes_text

if TYPE_CHECKING:
    from numamicro.case import Param, Route
    from numamicro.topology import Machine

# What the field calls a cost; every other is called by its operation and its probe.
_NAMES = {
    ("loaded", "load"): "Loaded latency",
    ("cache-bandwidth", "read"): "Read bandwidth",
    ("cache-latency", "load"): "Load latency",
    ("barrier", "wait"): "Barrier",
    ("dot", "vector"): "Dot products of weights in cache",
    ("dot-stream", "vector"): "Dot products of weights from memory",
    ("gemm", "matrix"): "Matrix products",
    ("attention", "decode"): "Attention over a cache",
    ("step", "value"): "Small operations, a value",
    ("host-copy", "h2d"): "H2D copy",
    ("host-copy", "d2h"): "D2H copy",
    ("host-copy", "both"): "H2D and D2H copy at once",
    ("host-copy-size", "h2d"): "H2D copy",
    ("host-copy-size", "d2h"): "D2H copy",
    ("host-copy-together", "h2d"): "H2D copy of several GPUs at once",
    ("host-copy-together", "d2h"): "D2H copy of several GPUs at once",
    ("host-copy-beside", "h2d"): "H2D copy beside reading CPUs",
    ("host-copy-beside", "d2h"): "D2H copy beside reading CPUs",
    ("host-latency", "h2d"): "Latency of a small H2D copy",
    ("host-latency", "d2h"): "Latency of a small D2H copy",
    ("peer-copy", "copy"): "Peer copy by copy engine",
    ("peer-copy", "read"): "Peer read by kernels",
    ("peer-copy", "write"): "Peer write by kernels",
    ("peer-latency", "load"): "Load latency of peer memory",
    ("all-reduce", "peer"): "All-reduce through peer memory",
    ("all-reduce", "staged"): "All-reduce staged",
    ("launch", "queue"): "Launch of a kernel",
    ("launch", "round-trip"): "Launch of a kernel and wait for its end",
    ("launch", "event"): "Event and wait for it",
    ("gpu-memory", "read"): "Read bandwidth of own memory",
    ("nccl", "all-reduce"): "All-reduce by NCCL",
    ("gpu-gemm", "matrix"): "Matrix product by cuBLAS",
}

USUAL = frozenset(
    {("memory", "pinned"), ("path", "direct"), ("timing", "graph"), ("number", "bf16")}
)
"""Values of parameters that go without saying."""


def subject(probe: str, operation: str) -> str:
    """Name a cost: ``H2D copy``."""
    return _NAMES.get((probe, operation), f"{operation.capitalize()} {probe}")


def detail(name: str, value: Param, machine: Machine) -> str:
    """Say what a parameter is set to; nothing where that goes without saying."""
    if (name, value) in USUAL:
        return ""
    if name == "message" and isinstance(value, int):
        return f"{bytes_text(value)} message"
    if name != "pages":
        return f"{name} {value}"
    size = {"huge": machine.huge_page_bytes, "small": machine.page_bytes}.get(str(value))
    return f"{bytes_text(size)} pages" if size else ""


def is_turned(kinds: tuple[str, str]) -> bool:
    """Tell whether a table has its sources as columns: rows are nodes wherever there are any."""
    return kinds == ("gpu", "node")


def direction(kinds: tuple[str, str], route: Route) -> str:
    """Say what rows and columns are to each other."""
    via = f", through {route.via}" if route.via else ""
    return _direction(kinds, route) + via


def _direction(kinds: tuple[str, str], route: Route) -> str:
    source, target = kinds
    if route.mover == "sm":
        return "all of these GPUs" if source == "set" else "the row's GPU with the column's"
    if is_turned(kinds):
        return "from the column's GPU to the row's memory"
    if route.mover == "cpu":
        what = _WHAT_CPUS_REACH.get(target, "memory")
        return f"from the row's CPUs to the column's {what}"
    return (
        f"from the row's {_ENDS.get(source, 'place')} to the column's {_ENDS.get(target, 'place')}"
    )


_WHAT_CPUS_REACH = {"llc": "cores", "core": "cores", "cpu": "cores", "gpu": "GPU"}
_ENDS = {"node": "memory", "gpu": "GPU"}
