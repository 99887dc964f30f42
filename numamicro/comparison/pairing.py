"""Which figure of one side is held against which of the other: cells, roll-ups of classes, a token.

Thread count and variant are held to what is best on the base side. Nodes are matched by what they
are, never by their number; see :mod:`numamicro.comparison.places`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from math import exp, log
from typing import TYPE_CHECKING, TypeAlias

from numamicro.case import Place
from numamicro.comparison.boots import aligned, by_case
from numamicro.comparison.places import Meanings, locality
from numamicro.matrix import CHOSEN, CURVES
from numamicro.units import is_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numamicro.case import AnyPlace, Case, Param
    from numamicro.comparison.boots import Side, Value
    from numamicro.topology import Machine

Figures: TypeAlias = "tuple[float | None, ...]"
Params: TypeAlias = "tuple[tuple[str, Param], ...]"

CORE = ("bandwidth/read", "latency/load", "host-copy/h2d", "host-copy/d2h", "all-reduce")
"""Roll-ups that are tested where too few boots leave room for more: what a token depends on."""


@dataclass(frozen=True, slots=True)
class Name:
    """What a figure is of.

    Parameters
    ----------
    params : tuple
        What tells it from others of the same operation.
    where : str
        A route, or a class of routes.
    """

    probe: str
    operation: str
    params: Params
    where: str

    def __str__(self) -> str:
        params = "".join(f" {name}={value}" for name, value in self.params)
        return f"{self.probe}/{self.operation} {self.where}{params}"

    def is_called(self, text: str) -> bool:
        """Tell whether a user means it by ``h2d``, ``bandwidth/read`` or ``read.other-package``."""
        what, _, where = text.partition(".")
        names = (self.probe, self.operation, f"{self.probe}/{self.operation}")
        return what in names and where in ("", self.where.partition(" ")[0])


@dataclass(frozen=True, slots=True)
class Item:
    """A figure of both sides, one value a boot, in the base unit; None where a boot has none.

    Parameters
    ----------
    kind : str
        rollup, cell or token.
    held : str
        What both sides were held to: threads and variant.
    other : str
        What the new side calls it, where that differs.
    members : int
        Cells of the base side behind a value.
    why : str or None
        Why it cannot be compared.
    """

    kind: str
    name: Name
    unit: str
    base: Figures = ()
    new: Figures = ()
    held: str = ""
    other: str = ""
    members: int = 1
    why: str | None = None

    @property
    def is_core(self) -> bool:
        """Whether it is tested when there is room for a few figures only."""
        small = ("pages", "small") in self.name.params
        return not small and any(self.name.is_called(name) for name in CORE)


def called(items: Sequence[Item], text: str) -> list[Item]:
    """Give the items that a user means; ``h2d`` is the rate of copies, not the time of a small one."""
    found = [item for item in items if item.name.is_called(text)]
    rates = [item for item in found if is_rate(item.unit)]
    names_probe = text.partition(".")[0].partition("/")[0] in {item.name.probe for item in found}
    return rates if rates and not names_probe else found


@dataclass(frozen=True, slots=True)
class _Key:
    """What cells must have in common to be of the same thing on two sides."""

    probe: str
    operation: str
    route: tuple[str, str, str, str]
    params: Params


@dataclass(frozen=True, slots=True)
class _Table:
    """The cells of a key on one side: values a boot, by what was chosen (threads, variant)."""

    case: Case
    locality: str
    unit: str
    figures: dict[Params, Figures]
    reasons: list[str]

    def why(self) -> str:
        """Say why there is no figure, in the words of the first cell that knows."""
        return next(iter(self.reasons), "not measured")


_Tables: TypeAlias = "dict[_Key, _Table]"
_Pair: TypeAlias = "tuple[_Table, Item]"


def pair(base: Side, new: Side) -> list[Item]:
    """Give all that can be compared and all that cannot, roll-ups first."""
    here, there = by_case(aligned(base, base)), by_case(aligned(new, base))
    sized = _by_size((here, there))
    left = _tables(here, base.first.machine, sized)
    right = _tables(there, new.first.machine, sized)
    pairs: list[_Pair] = []
    alone: list[_Pair] = []
    for key, table in left.items():
        item = _paired(table, right[key]) if key in right else _unpaired(table, "new")
        (pairs if item.why is None else alone).append((table, item))
    strange = [_unpaired(table, "base") for key, table in right.items() if key not in left]
    rollups = [*_rollups(pairs), *_gpu_rollups(left, right)]
    if Meanings(base.first.machine) != Meanings(new.first.machine):
        rollups += _single_thread_rollups(left, right)
    return [
        *_token(base, new),
        *rollups,
        *(item for _, item in pairs),
        *(item for _, item in alone),
        *strange,
    ]


# ---- tables --------------------------------------------------------------------------------------


def _by_size(tables: Iterable[Mapping[Case, list[Value | None]]]) -> set[Case]:
    """Give the cases, less their bytes, of which a boot has several sizes.

    Elsewhere the size of a buffer is what the memory of that boot allowed, and no identity.
    """
    several: set[Case] = set()
    for table in tables:
        seen: dict[Case, set[int]] = defaultdict(set)
        for case, values in table.items():
            boots = {index for index, value in enumerate(values) if value}
            bare = case.without("bytes")
            if seen[bare] & boots:
                several.add(bare)
            seen[bare] |= boots
    return several


def _tables(
    cases: Mapping[Case, list[Value | None]], machine: Machine, sized: set[Case]
) -> _Tables:
    """Group the cells of a side by what they mean."""
    found: _Tables = {}
    meanings = Meanings(machine)
    for case, values in cases.items():
        key = _key(case, meanings, sized)
        unit = next(value.unit for value in values if value)
        if key not in found:
            found[key] = _Table(case, locality(case.route, machine), unit, {}, [])
        table = found[key]
        table.reasons.extend(value.why for value in values if value and value.why)
        choice = tuple(item for item in case.params if item[0] in CHOSEN)
        figures = tuple(value.center if value else None for value in values)
        # The same in another size of buffer, from another boot.
        known = table.figures.get(choice, figures)
        table.figures[choice] = tuple(a or b for a, b in zip(known, figures, strict=True))
    return found


def _key(case: Case, meanings: Meanings, sized: set[Case]) -> _Key:
    bare = case.without("bytes")
    kept = case if bare in sized else bare
    params = dict(kept.without(*CHOSEN).params)
    if isinstance(home := params.get("home"), int):
        params["home"] = meanings.node(home)
    probe, route = case.probe, case.route
    # All cores over all nodes' memory is what a machine of one node (NPS0) does in any case.
    if probe == "together" and params.get("pairing") == "interleave":
        probe = "bandwidth"
        del params["pairing"]
    ends = (meanings.of(route.source), meanings.of(route.target))
    via = meanings.of(route.via) if route.via else ""
    return _Key(probe, case.operation, (*ends, via, route.mover), tuple(sorted(params.items())))


# ---- cells ---------------------------------------------------------------------------------------


def _paired(base: _Table, new: _Table) -> Item:
    """Hold two tables against each other at the choice that is best on the base side."""
    choice = _choice(base, new)
    other = "" if str(new.case.route) == str(base.case.route) else str(new.case.route)
    item = Item("cell", _name(base.case), base.unit, other=other)
    if choice is None:
        lacking = [f"the {name} side: {t.why()}" for name, t in _lacking(base, new)]
        return replace(item, why="; ".join(lacking) or _NO_CHOICE)
    return replace(
        item,
        base=base.figures[choice],
        new=new.figures[choice],
        held=", ".join(f"{name} {value}" for name, value in choice),
    )


_NO_CHOICE = "no thread count and variant was measured on both sides"


def _lacking(base: _Table, new: _Table) -> Iterator[tuple[str, _Table]]:
    for name, table in (("base", base), ("new", new)):
        if not any(map(any, table.figures.values())):
            yield name, table


def _choice(base: _Table, new: _Table) -> Params | None:
    """Give what is best on the base side among the choices that most boots of both sides tried."""
    known: dict[Params, tuple[int, float]] = {}
    sign = 1 if is_rate(base.unit) else -1
    for choice in base.figures:
        here = [value for value in base.figures[choice] if value]
        there = [value for value in new.figures[choice] if value] if choice in new.figures else []
        if here and there:
            known[choice] = (len(here) + len(there), sign * _geometric_mean(here))
    return max(known, key=lambda choice: known[choice], default=None)


def _unpaired(table: _Table, lacking: str) -> Item:
    return Item(
        "cell", _name(table.case), table.unit, why=f"the {lacking} side has nothing of that meaning"
    )


def _name(case: Case) -> Name:
    params = case.without(*CHOSEN, "bytes").params
    return Name(case.probe, case.operation, params, str(case.route))


def _geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(log(value) for value in values) / len(values))


# ---- roll-ups ------------------------------------------------------------------------------------


def _rollups(pairs: Iterable[_Pair]) -> Iterator[Item]:
    """Give the geometric mean over each class of routes; curves have none."""
    groups: dict[Name, list[Item]] = defaultdict(list)
    for table, item in pairs:
        if any(table.case.get(name) is not None for name in CURVES):
            continue
        if table.locality != "gpu-host":
            groups[_class_name(table)].append(item)
    for name, items in groups.items():
        # One mean over both sides: they must be of the same cells.
        means = _means([item.base + item.new for item in items])
        boots = len(items[0].base)
        yield Item("rollup", name, items[0].unit, means[:boots], means[boots:], members=len(items))


def _class_name(table: _Table) -> Name:
    ends = [_kind(end) for end in (table.case.route.source, table.case.route.target)]
    kinds = "" if set(ends) <= {"node", "gpu"} else f" ({' to '.join(ends)})"
    return replace(_name(table.case), where=f"{table.locality}{kinds}")


def _kind(place: AnyPlace) -> str:
    return place.kind if isinstance(place, Place) else "all"


def _means(figures: Sequence[Figures]) -> Figures:
    """Give one mean a boot, over the cells that most boots have: a boot that lacks one of them has
    no mean, for another mixture is another figure."""
    most = max(sum(value is not None for value in row) for row in figures)
    full = [row for row in figures if sum(value is not None for value in row) == most]
    return tuple(
        _geometric_mean([value for value in column if value is not None])
        if None not in column
        else None
        for column in zip(*full, strict=True)
    )


def _gpu_rollups(left: _Tables, right: _Tables) -> Iterator[Item]:
    """Give each operation between host and GPUs at the GPU's best node and at its worst.

    Which node that is is found in each boot anew: nodes may have other numbers, or be others.
    """
    for name in dict.fromkeys(_gpu_name(table) for table in left.values() if _is_host(table)):
        tables = [
            [t for t in side.values() if _is_host(t) and _gpu_name(t) == name]
            for side in (left, right)
        ]
        if not tables[1]:
            continue
        unit = tables[0][0].unit
        for where, choose in (("best-node", _better(unit)), ("worst-node", _worse(unit))):
            base, new = (_at_node(side, choose) for side in tables)
            gpus = [gpu for gpu in base if gpu in new]
            if gpus:
                means = _means([base[gpu] + new[gpu] for gpu in gpus])
                boots = len(base[gpus[0]])
                yield Item(
                    "rollup",
                    replace(name, where=where),
                    unit,
                    means[:boots],
                    means[boots:],
                    members=len(gpus),
                )


def _is_host(table: _Table) -> bool:
    curve = any(table.case.get(name) is not None for name in (*CURVES, "transfer"))
    return table.locality == "gpu-host" and not curve


def _gpu_name(table: _Table) -> Name:
    return replace(_name(table.case), where="gpu-host")


def _better(unit: str) -> Callable[[Iterable[float]], float]:
    return max if is_rate(unit) else min


def _worse(unit: str) -> Callable[[Iterable[float]], float]:
    return min if is_rate(unit) else max


def _at_node(
    tables: Sequence[_Table], choose: Callable[[Iterable[float]], float]
) -> dict[str, Figures]:
    """Give the figure of each GPU at the node that is chosen in each boot."""
    by_gpu: dict[str, list[Figures]] = defaultdict(list)
    for table in tables:
        route = table.case.route
        gpu = next(end for end in (route.source, route.target) if "gpu" in str(end))
        by_gpu[str(gpu)] += table.figures.values()
    return {
        gpu: tuple(
            choose(known) if (known := [value for value in column if value]) else None
            for column in zip(*rows, strict=True)
        )
        for gpu, rows in by_gpu.items()
    }


def _single_thread_rollups(left: _Tables, right: _Tables) -> Iterator[Item]:
    """Give classes of routes where one core reads and nodes are not the same parts of the machine.

    One core is one core whatever its node is, and "own node" is what the setting makes of it; a
    node's whole team is not.
    """
    sides = [_single(tables) for tables in (left, right)]
    for name, here in sides[0].items():
        there = sides[1].get(name, {})
        shared = [choice for choice in here if choice in there]
        if shared:
            unit = here[shared[0]][0].unit
            sign = 1 if is_rate(unit) else -1
            means = {
                choice: _means([table.figures[choice] for table in here[choice]])
                for choice in shared
            }
            choice = max(
                shared, key=lambda c: sign * _geometric_mean([v for v in means[c] if v] or [1])
            )
            new = _means([table.figures[choice] for table in there[choice]])
            held = ", ".join(f"{key} {value}" for key, value in choice)
            yield Item("rollup", name, unit, means[choice], new, held, members=len(here[choice]))


def _single(tables: _Tables) -> dict[Name, dict[Params, list[_Table]]]:
    """Give the tables between nodes by class, and by the choices of one thread that have figures."""
    found: dict[Name, dict[Params, list[_Table]]] = defaultdict(lambda: defaultdict(list))
    for table in tables.values():
        ends = (table.case.route.source, table.case.route.target)
        curve = any(table.case.get(name) is not None for name in CURVES)
        if {_kind(end) for end in ends} != {"node"} or curve:
            continue
        name = replace(_name(table.case), where=f"{table.locality} (one core)")
        for choice, figures in table.figures.items():
            if ("threads", 1) in choice and any(figures):
                found[name][choice].append(table)
    return found


# ---- a token -------------------------------------------------------------------------------------


def _token(base: Side, new: Side) -> Iterator[Item]:
    """Give the predicted time of a token, where a model was named."""
    tokens = [boot.token for side in (base, new) for boot in side.boots if boot.token]
    if not tokens:
        return
    name = Name("token", "predicted", (), "best placement")
    item = Item("token", name, "s", _token_figures(base), _token_figures(new))
    lacking = next((token.why for token in tokens if token.why), None)
    if not (any(item.base) and any(item.new)):
        item = replace(item, why=lacking or "not predicted")
    yield item


def _token_figures(side: Side) -> Figures:
    return tuple(boot.token.center if boot.token else None for boot in side.boots)
