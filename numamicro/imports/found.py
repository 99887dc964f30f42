"""What one output tells: figures, and facts about the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.case import AnyPlace, Param
    from numamicro.topology import Cpu, Llc, Note, NumaNode


@dataclass(frozen=True, slots=True)
class Told:
    """A figure, and the line that tells it.

    Parameters
    ----------
    source, target : Place, PlaceSet or None
        None: the host memory beside the GPU at the other end, which another output may name.
    value : float
        In the base unit.
    text : str
        The line as it stands in the output.
    team : str
        cpus or cores: how many threads of each the tool ran on the source; empty: not for it.
    wrong : Note, optional
        Why the figure cannot be trusted.
    warning : Note, optional
        What a reader of the figure must know.
    """

    probe: str
    operation: str
    source: AnyPlace | None
    target: AnyPlace | None
    value: float
    unit: str
    line: int
    text: str
    mover: str = "cpu"
    params: Mapping[str, Param] = field(default_factory=dict)
    team: str = ""
    wrong: Note | None = None
    warning: Note | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What is said of a GPU; None where nothing is.

    Parameters
    ----------
    pci : str or None
        Its address, as 0000:17:00.0.
    node : int or None
        The node next to it.
    """

    name: str | None = None
    pci: str | None = None
    node: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """All that a reader took from one file.

    Parameters
    ----------
    tool : str
        The program that wrote the output, with its version where it says so.
    gpus : mapping of ordinal to what is said of that GPU
    pairs : mapping of two ordinals to what lies between: NV4, PIX, PXB, PHB, NODE or SYS
    apart : set of two ordinals
        Pairs that are said to be unable to address each other's memory.
    by_bus : bool
        Whether its GPUs count by their PCI address, as NVML does. Otherwise they count as CUDA does,
        which may hide some and put the fastest first.
    passed : tuple of str
        What the output has besides, and no cell tells.
    """

    tool: str
    told: tuple[Told, ...] = ()
    cpu_model: str | None = None
    cpus: tuple[Cpu, ...] = ()
    llcs: tuple[Llc, ...] = ()
    nodes: tuple[NumaNode, ...] = ()
    gpus: Mapping[int, Seen] = field(default_factory=dict)
    pairs: Mapping[tuple[int, int], str] = field(default_factory=dict)
    apart: frozenset[tuple[int, int]] = frozenset()
    by_bus: bool = False
    passed: tuple[str, ...] = ()
