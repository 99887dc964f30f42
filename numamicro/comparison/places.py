"""What a place means on its machine, so that places of two settings can be held against each other.

NPS and SNC cut a package into several nodes, and then ``node0`` is a quarter of what it was. A node
is named by the part of the machine that it is; nodes that are the same part have the same name.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

from numamicro.case import Place, PlaceSet
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numamicro.case import AnyPlace, Route
    from numamicro.topology import Machine


class Identified(Protocol):
    """A GPU as far as it can be found again."""

    @property
    def id(self) -> int: ...
    @property
    def identity(self) -> str | None: ...
    @property
    def pci(self) -> str | None: ...


class Meanings:
    """The parts of one machine that its nodes are.

    A node that is all of a package is ``package0``, one of four that share it ``part 2 of 4 of
    package0``, one that spans both packages ``package0+package1``. A node without CPUs belongs to no
    package, and where the kernel tells of no packages there are none.
    """

    def __init__(self, machine: Machine) -> None:
        self._groups: dict[str, tuple[int, ...]] = {}  # a name and the nodes that are it together
        self._names: dict[int, str] = {}
        for name, nodes in _groups(machine).items():
            self._groups[name] = tuple(nodes)
            for rank, index in enumerate(nodes, start=1):
                part = f"part {rank} of {len(nodes)} of {name}"
                self._names[index] = name if len(nodes) == 1 else part

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Meanings) and self._names == other._names

    __hash__ = None  # type: ignore[assignment]

    def of(self, place: AnyPlace) -> str:
        """Name what a place is; several places that are all parts of one have its name."""
        if isinstance(place, Place):
            return self._node(place)
        nodes = {part.id for part in place.places if part.kind == "node"}
        names = {self._node(part) for part in place.places}
        for whole, members in self._groups.items():
            if nodes.issuperset(members):
                names = names - {self._names[index] for index in members} | {whole}
        return "+".join(sorted({part for name in names for part in name.split("+")}))

    def node(self, index: int) -> str:
        """Name what a node is."""
        return self._names.get(index, f"node{index}")

    def _node(self, place: Place) -> str:
        if place.kind == "node" and isinstance(place.id, int):
            return self.node(place.id)
        return str(place)


def _groups(machine: Machine) -> dict[str, list[int]]:
    """Give the nodes of each package, or of each set of packages that nodes span."""
    packages = {cpu.id: cpu.package for cpu in machine.cpus}
    groups: dict[str, list[int]] = defaultdict(list)
    for node in sorted(machine.nodes, key=lambda node: node.id):
        spanned = {packages.get(cpu) for cpu in node.cpus}
        known = sorted(package for package in spanned if package is not None)
        if not node.cpus:
            groups[f"memory without CPUs ({node.backing or 'of unknown kind'})"].append(node.id)
        elif len(known) < len(spanned):
            groups["the machine"].append(node.id)
        else:
            groups["+".join(f"package{package}" for package in known)].append(node.id)
    return groups


def same_gpus(base: Sequence[Identified], other: Sequence[Identified]) -> dict[int, int]:
    """Give the number on the base side of each GPU of another file: by identity, then by its address
    on the bus, and where neither is told by its number.

    A GPU that is not found again is left out.
    """
    found: dict[int, int] = {}
    for name in ("identity", "pci"):
        known = {getattr(gpu, name): gpu.id for gpu in base if gpu.id not in found.values()}
        for gpu in other:
            label = getattr(gpu, name)
            if gpu.id not in found and label is not None and label in known:
                found[gpu.id] = known.pop(label)
    nameless = [gpu.id for gpu in base if gpu.identity is None and gpu.pci is None]
    for gpu in other:
        if gpu.id not in found and gpu.identity is None and gpu.pci is None and gpu.id in nameless:
            found[gpu.id] = gpu.id
    return found


def renumbered(place: AnyPlace, numbers: Mapping[int, int]) -> AnyPlace:
    """Give a place with its GPUs under other numbers.

    A GPU without one gets a number that none has: its cells must not meet those of another GPU.
    """
    if isinstance(place, PlaceSet):
        parts = (renumbered(part, numbers) for part in place.places)
        return PlaceSet(tuple(part for part in parts if isinstance(part, Place)))
    if place.kind == "gpu" and isinstance(place.id, int):
        return Place("gpu", numbers.get(place.id, _NO_GPU + place.id))
    return place


_NO_GPU = 10**6


def locality(route: Route, machine: Machine) -> str:
    """Name the class of a route: a locality class, or what GPUs it joins."""
    kinds = {_kind(route.source), _kind(route.target)}
    if "gpu" in kinds:
        return "gpu-gpu" if kinds == {"gpu"} else "gpu-host"
    if kinds & {"drive", "file"}:
        return "storage"
    try:
        return machine.locality(route.source, route.target)
    except NumamicroError:
        return "unknown"


def _kind(place: AnyPlace) -> str:
    return place.kind if isinstance(place, Place) else place.places[0].kind
