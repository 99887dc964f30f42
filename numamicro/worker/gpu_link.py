"""How the PCIe link of a GPU is trained while data go over it: at rest it tells nothing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numamicro.topology import Gpu


def link_now(gpu: Gpu) -> tuple[int, int] | None:
    """Give generation and width of a GPU's link at this moment; None where NVML does not tell."""
    nvml = _nvml()
    if nvml is None or gpu.pci is None:
        return None
    try:
        handle = nvml.nvmlDeviceGetHandleByPciBusId(gpu.pci.encode())
        generation: int = nvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)
        width: int = nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)
    except nvml.NVMLError:
        return None
    return generation, width


@cache
def _nvml() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
