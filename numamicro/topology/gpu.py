"""What a GPU is, and what lies between two of them. Plain values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuDriver:
    """The driver that shows the GPUs.

    Parameters
    ----------
    version : str or None
        As NVIDIA counts its drivers (595.71.05); None when NVML would not say.
    cuda : str
        The newest CUDA it speaks, as 12.8.
    simulation : str or None
        What a stand-in driver simulates; None for NVIDIA's own.
    """

    version: str | None
    cuda: str
    simulation: str | None = None


@dataclass(frozen=True, slots=True)
class PcieLink:
    """The PCIe link of a GPU; None where nobody says.

    Parameters
    ----------
    generation, width : int or None
        As it was trained when the machine was read. An idle GPU may rest at a lower generation.
    max_generation, max_width : int or None
        What GPU and slot can do together.
    """

    generation: int | None
    width: int | None
    max_generation: int | None
    max_width: int | None

    def exceeds(self, generation: int, width: int) -> bool:
        """Tell whether GPU and slot can do better than this; False where that is unknown."""
        most = (self.max_generation, self.max_width)
        return any(
            best is not None and now < best
            for now, best in zip((generation, width), most, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU by the driver's ordinal, as this process sees it.

    Parameters
    ----------
    index : int or None
        Its number in nvidia-smi, which counts in another order.
    identity : str or None
        Its UUID, hashed as the machine's id is.
    pci : str or None
        Its address on the PCI bus, as 0000:17:00.0.
    memory, bar1, l2_bytes : int or None
        Bytes of its memory, of the window through which others reach it, and of its cache.
    capability : tuple of int
        Compute capability, as (9, 0).
    host_node : int or None
        The node next to it; None when unknown, which in a virtual machine is usual.
    memory_node : int or None
        The node that the kernel makes of its memory (GH200); None elsewhere.
    mig : bool or None
        Whether it is cut into instances.
    compute_mode : str
        default, exclusive-process or prohibited.
    display : bool or None
        Whether a screen hangs on it.
    time_limit : bool
        Whether the driver ends kernels that take long.
    iommu_group : int or None
    """

    id: int
    name: str
    memory: int | None = None
    capability: tuple[int, int] = (0, 0)
    index: int | None = None
    identity: str | None = None
    pci: str | None = None
    host_node: int | None = None
    memory_node: int | None = None
    link: PcieLink | None = None
    bar1: int | None = None
    l2_bytes: int | None = None
    processors: int | None = None
    copy_engines: int | None = None
    mig: bool | None = None
    compute_mode: str = "default"
    display: bool | None = None
    time_limit: bool = False
    iommu_group: int | None = None


@dataclass(frozen=True, slots=True)
class GpuPair:
    """What lies between two GPUs, the lower ordinal first.

    Parameters
    ----------
    level : str or None
        INT, PIX, PXB, PHB, NODE or SYS, as nvidia-smi has it; None when unknown.
    nvlinks : int
        NVLinks between them, directly or through a switch.
    claimed : bool or None
        Whether the driver claims that each can address the other's memory; None where nobody told,
        as of an imported pair. Whether data arrive is measured, not claimed.
    atomics : bool
        Whether it claims arithmetic there too.
    """

    gpus: tuple[int, int]
    level: str | None = None
    nvlinks: int = 0
    claimed: bool | None = False
    atomics: bool = False

    @property
    def kind(self) -> str:
        """Name what joins them: NVLink where there is one, else the PCIe level."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.level or "unknown"
