"""What can be measured: places, routes between them, and the case that names one measurement."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from numamicro.errors import NumamicroError

Param: TypeAlias = int | float | str | bool

# Kinds whose id is a name; every other kind counts with the operating system's own index.
_NAMED_KINDS = frozenset({"file"})
_KINDS = ("node", "package", "llc", "core", "cpu", "gpu", "drive", "file")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One spot of the machine, written ``node0``, ``llc3``, ``gpu1`` or ``file:NAME``.

    Parameters
    ----------
    kind : str
        node, package, llc, core, cpu, gpu, drive or file.
    id : int or str
        The operating system's index (they can be sparse), or the name of a file.
    """

    kind: str
    id: int | str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}" if self.kind in _NAMED_KINDS else f"{self.kind}{self.id}"


@dataclass(frozen=True, slots=True, order=True)
class PlaceSet:
    """Several places that act as one: an interleave over nodes, all GPUs. Written ``node0+node1``."""

    places: tuple[Place, ...]

    def __str__(self) -> str:
        return "+".join(map(str, self.places))


AnyPlace: TypeAlias = Place | PlaceSet


def parse_place(text: str) -> AnyPlace:
    """Give the place that `text` names; the inverse of ``str(place)``.

    Raises
    ------
    NumamicroError
        The text names no place.
    """
    name = text.partition(":")[2] if text.startswith("file:") else ""
    if name:
        return Place("file", name)
    if "+" in text:
        parts = [parse_place(part) for part in text.split("+")]
        return PlaceSet(tuple(part for part in parts if isinstance(part, Place)))
    for kind in _KINDS:
        digits = text.removeprefix(kind)
        if digits != text and digits.isascii() and digits.isdecimal() and len(digits) < 10:
            return Place(kind, int(digits))
    raise NumamicroError(
        f"{text!r:.60} names no place; write for example node0, gpu1 or node0+node1"
    )


def node(index: int) -> Place:
    """Give the place of the NUMA node with this os index."""
    return Place("node", index)


def gpus_of(*places: AnyPlace) -> tuple[Place, ...]:
    """Give the GPUs among places and sets of them, each once, ascending."""
    sets = [each.places if isinstance(each, PlaceSet) else (each,) for each in places]
    return tuple(sorted({part for parts in sets for part in parts if part.kind == "gpu"}))


@dataclass(frozen=True, slots=True, order=True)
class Route:
    """From where to where, through what, moved by what.

    For an access by CPUs `source` is the initiator (the CPUs that read or write) and `target` the
    memory. For a copy by an engine `source` is the memory read and `target` the memory written.

    Parameters
    ----------
    source, target : Place or PlaceSet
    via : Place, optional
        The node that a host-staged copy passes.
    mover : str
        cpu, copy-engine, sm-load or sm-store.
    """

    source: AnyPlace
    target: AnyPlace
    via: Place | None = None
    mover: str = "cpu"

    def __str__(self) -> str:
        via = f">{self.via}" if self.via else ""
        mover = "" if self.mover == "cpu" else f"@{self.mover}"
        return f"{self.source}{via}>{self.target}{mover}"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure. Two results are of the same thing when their cases are equal.

    What came out of it (the ISA that ran, the page size obtained) is outcome, never identity.

    Parameters
    ----------
    probe, operation : str
        For example ``bandwidth`` and ``read``.
    route : Route
    params : tuple of (name, value)
        Sorted by name: threads, bytes, pages, variant, ...
    """

    probe: str
    operation: str
    route: Route
    params: tuple[tuple[str, Param], ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A case is looked up far more often than made.
        parts = (self.probe, self.operation, self.route, self.params)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Case], tuple[object, ...]]:
        # Made anew where it is read: another process hashes texts otherwise.
        return Case, (self.probe, self.operation, self.route, self.params)

    @classmethod
    def of(cls, probe: str, operation: str, route: Route, /, **params: Param) -> Case:
        return cls(probe, operation, route, tuple(sorted(params.items())))

    def __getitem__(self, name: str) -> Param:
        return dict(self.params)[name]

    def get(self, name: str, default: Param | None = None) -> Param | None:
        return dict(self.params).get(name, default)

    def number(self, name: str) -> int:
        """Give a parameter that counts something (threads, bytes)."""
        value = self[name]
        if isinstance(value, int):
            return value
        raise NumamicroError(f"{self.probe}: parameter '{name}' is {value!r}, not a whole number")

    def having(self, /, **changes: Param) -> Case:
        """Give the same case with some parameters changed or added."""
        return Case.of(self.probe, self.operation, self.route, **(dict(self.params) | changes))

    def without(self, *names: str) -> Case:
        """Give the same case with some parameters left out."""
        params = tuple([item for item in self.params if item[0] not in names])
        return Case(self.probe, self.operation, self.route, params)

    @property
    def key(self) -> str:
        """One line that tells this case from every other."""
        params = ",".join(f"{name}={value}" for name, value in self.params)
        return f"{self.probe}/{self.operation} {self.route}" + (f" {params}" if params else "")
