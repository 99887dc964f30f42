"""What differs between two settings: what was meant to, what follows from it, and what else moved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeAlias

from numamicro.setting import KEYS, facts_of, is_volatile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numamicro.comparison.boots import Side
    from numamicro.comparison.changes import Asked
    from numamicro.matrix import Header
    from numamicro.topology import Machine

Values: TypeAlias = "tuple[str, ...]"


class Kind(StrEnum):
    """What a difference means, in the order in which it is told."""

    UNEXPECTED = "unexpected"  # something else than what was meant to be changed
    INTENDED = "intended"
    IMPLIED = "implied"  # it follows from what was changed
    UNKNOWN = "unknown"  # one side could not read it: never "the same"
    VOLATILE = "volatile"  # it moves by itself


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose values differ, between sides or within one.

    Parameters
    ----------
    base, new : tuple of str
        The values that a side's files have, each once; ``?`` where a file does not tell.
    """

    key: str
    kind: Kind
    base: Values
    new: Values

    @property
    def is_mixed(self) -> bool:
        """Whether the files of one side do not agree, so that it is no one setting."""
        return self.kind is not Kind.VOLATILE and max(len(self.base), len(self.new)) > 1

    def __str__(self) -> str:
        return f"{self.key}: {' / '.join(self.base)} -> {' / '.join(self.new)}"


UNTOLD = "?"

_CLOSE = {"machine.memory": 0.02}
"""Keys that firmware's own needs move by a little, and the share that is no difference."""


def differences(base: Side, new: Side, asked: Asked | None = None) -> list[Difference]:
    """Give every key that differs, the unexpected ones first.

    Parameters
    ----------
    asked : Asked, optional
        What was meant to be changed; without it every lasting difference is unexpected.
    """
    sides = [[flat(boot.header) for boot in side.boots] for side in (base, new)]
    keys = dict.fromkeys(key for side in sides for setting in side for key in setting)
    found = [
        difference
        for key in keys
        if (difference := _difference(key, _values(key, sides[0]), _values(key, sides[1]), asked))
    ]
    order = tuple(Kind)
    return sorted(found, key=lambda each: (order.index(each.kind), each.key))


def unknown_on_both(base: Side, new: Side) -> list[str]:
    """Give the keys that no file of either side tells: nobody can say that they are the same."""
    settings = [flat(boot.header) for side in (base, new) for boot in side.boots]
    keys = dict.fromkeys(key for setting in settings for key in setting)
    silent = [key for key in keys if all(setting.get(key) is None for setting in settings)]
    return [key for key in silent if not is_volatile(key)]


def flat(header: Header) -> dict[str, str | None]:
    """Give all that tells how a file was taken, as text, by dotted name: the setting, what the
    machine shows of it, and how it was measured."""
    known: dict[str, object] = {"run.tool": header.tool}
    known |= {f"run.{name}": header.plan.get(name) for name in ("level", "memory")}
    how = {key: _text(key, value) for key, value in known.items()}
    return flat_setting(header.setting, header.machine) | how


def flat_setting(
    setting: Mapping[str, str | int | None], machine: Machine
) -> dict[str, str | None]:
    """Give a setting as text, each flag of the kernel's command line as a key of its own."""
    known: dict[str, object] = {**setting, **facts_of(machine)}
    for word in str(known.pop("kernel.flags", None) or "").split():
        name, _, value = word.partition("=")
        known[f"kernel.flag.{name}"] = value or "set"
    return {key: _text(key, value) for key, value in known.items()}


def _text(key: str, value: object) -> str | None:
    if value is not None:
        return str(value)
    if key == "run.memory":
        return "usual"
    return "none" if key in KEYS and KEYS[key].or_none else None


def _values(key: str, settings: Iterable[Mapping[str, str | None]]) -> Values:
    return tuple(dict.fromkeys(value_of(key, setting) for setting in settings))


def value_of(key: str, setting: Mapping[str, str | None]) -> str:
    """Give the value of a key, UNTOLD where there is none.

    A flag that is not on the command line is not set; any other key that is missing is not told.
    """
    value = setting.get(key)
    lacking = "not set" if key.startswith("kernel.flag.") else UNTOLD
    return lacking if value is None else value


def moved(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> dict[str, tuple[str, str]]:
    """Give the lasting keys that both settings tell and that differ."""
    pairs = {key: (value_of(key, before), value_of(key, after)) for key in {**before, **after}}
    return {
        key: pair
        for key, pair in pairs.items()
        if pair[0] != pair[1]
        and UNTOLD not in pair
        and not is_volatile(key)
        and not _is_close(key, pair)
    }


def _difference(key: str, base: Values, new: Values, asked: Asked | None) -> Difference | None:
    if base == new and len(base) == 1:
        return None
    told = [value for value in dict.fromkeys(base + new) if value != UNTOLD]
    if len(told) > 1 and _is_close(key, told):
        return None
    if is_volatile(key):
        return Difference(key, Kind.VOLATILE, base, new) if len(told) > 1 else None
    if len(told) <= 1:
        return Difference(key, Kind.UNKNOWN, base, new)
    kind = Kind.UNEXPECTED
    # Only a clean step from one value to another is what somebody meant.
    if asked is not None and not {*base} & {*new} - {UNTOLD}:
        if asked.shows(key):
            kind = Kind.INTENDED
        elif asked.follows(key):
            kind = Kind.IMPLIED
    return Difference(key, kind, base, new)


def _is_close(key: str, values: Sequence[str]) -> bool:
    share = _CLOSE.get(key)
    if share is None or not all(value.isdecimal() for value in values):
        return False
    numbers = [int(value) for value in values]
    return max(numbers) - min(numbers) <= share * max(numbers)


def not_seen(found: Sequence[Difference], base: Side, new: Side, asked: Asked) -> str | None:
    """Say when what was meant to be changed does not show, or shows the other way round."""
    if not asked.changes:
        return f"'{asked.text}' is no setting known by name: what shows it cannot be told"
    blind = [change.name for change in asked.changes if not change.shows]
    if any(each.kind is Kind.INTENDED for each in found):
        return _swapped(base, new, asked)
    if blind:
        return f"nothing that can be read here shows {', '.join(blind)}: that it changed is taken on trust"
    patterns = [pattern for change in asked.changes for pattern in change.shows]
    seen = [
        f"{key} is {value}"
        for key, value in flat(base.first).items()
        if value is not None and any(fnmatchcase(key, pattern) for pattern in patterns)
    ]
    if not seen:
        return f"'{asked.text}' could not be seen: what would show it was not read"
    return f"'{asked.text}' does not show: {', '.join(seen)} on both sides"


def _swapped(base: Side, new: Side, asked: Asked) -> str | None:
    """Say when words such as NPS1 name the other side's nodes."""
    nodes = [flat(side.first).get("machine.nodes_per_package") for side in (base, new)]
    words = [_nodes_in(asked.before), _nodes_in(asked.after)]
    if None in words or nodes == words or nodes[::-1] != words:
        return None
    return (
        f"the sides are swapped: '{asked.text}', and the base side has {nodes[0]} nodes a package, "
        f"the new side {nodes[1]}"
    )


def _nodes_in(words: str) -> str | None:
    name = words.lower().replace("-", "").replace(" ", "")
    number = name.removeprefix("nps").removeprefix("snc")
    return number if number != name and number.isdecimal() else None
