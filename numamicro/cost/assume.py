"""What stands in for figures that a file lacks, when the user allows it; each with its label.

These are round numbers of common machines, right within a factor of two or three, which is what
their interval says. None was fitted to anything.
"""

from __future__ import annotations

from numamicro.cost.terms import ASSUMED, Figure

_WIDTH = 2.0

# Base units: bytes per second, operations per second, seconds.
_DEFAULTS: dict[str, tuple[float, str]] = {
    "barrier": (1e-6, "a barrier of 1 us and 0.1 us for each thread"),
    "norm": (1e-9, "1 ns for a value to be normed"),
    "rotate": (1e-8, "10 ns for a value to be rotated"),
    "quantize": (2e-9, "2 ns for a value to be made 8 bits"),
    "dot": (3e10, "30 G weights/s through one core's dot product"),
    "attention": (8e9, "8 GB/s of cache through one core's attention"),
    "gemm": (8e10, "80 G operations/s of a core's matrix product"),
    "storage": (3e9, "storage that reads 3 GB/s"),
    "copy": (5e9, "a host copy of 5 GB/s"),
    "h2d": (2.4e10, "24 GB/s from host to GPU (PCIe 4.0 x16)"),
    "d2h": (2.4e10, "24 GB/s from GPU to host (PCIe 4.0 x16)"),
    "copy-latency": (1e-5, "10 us to start a small copy between host and GPU"),
    "gpu-gemm": (1e14, "100 T operations/s of a GPU's matrix product"),
    "gpu-read": (8e11, "GPU memory of 800 GB/s"),
    "peer": (2.4e10, "24 GB/s between two GPUs"),
    "peer-latency": (5e-6, "5 us to start a copy between two GPUs"),
    "reduce-latency": (2e-5, "an all-reduce of 20 us and 24 GB/s"),
}


def assumed(name: str, factor: float = 1.0) -> Figure:
    """Give the default of that name, scaled by `factor`."""
    value, label = _DEFAULTS[name]
    value *= factor
    return Figure(value, value / _WIDTH, value * _WIDTH, f"assumed: {label}", ASSUMED)
