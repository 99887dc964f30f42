"""A guided experiment: boots of two settings, which of them this boot is, and what to do next.

Boots are counted by the files that there are: a file that is lost is a boot that is missing, and a
machine that goes down in the middle loses the run that was under way.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from numamicro.comparison.changes import Asked, parse_changed
from numamicro.comparison.differences import moved
from numamicro.comparison.verdict import FEWEST_BASE
from numamicro.errors import NumamicroError
from numamicro.saving import save

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numamicro.comparison import Comparison

SCHEMA = 1
SIDES = ("base", "new")
_NAME = "experiment"  # no .json: what ends so in a folder is a result


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is tested, and how it was set when it began.

    Parameters
    ----------
    changed : str
        In the user's words.
    base : mapping
        The setting as text, as :func:`numamicro.comparison.differences.flat_setting` gives it.
    new : mapping or None
        The same of the other side, once a boot of it was seen.
    machine_id : str or None
        Hashed.
    boots : int
        Boots of the base side to begin with.
    options : mapping
        What to measure, the same in every boot.
    expect : tuple of str
    """

    changed: str
    base: Mapping[str, str | None]
    machine_id: str | None = None
    new: Mapping[str, str | None] | None = None
    boots: int = FEWEST_BASE
    options: Mapping[str, Any] = field(default_factory=dict)
    expect: tuple[str, ...] = ()

    @property
    def asked(self) -> Asked:
        """The change as far as it is known."""
        return parse_changed(self.changed)

    @property
    def names(self) -> dict[str, str]:
        """What to call the sides."""
        asked = self.asked
        return {
            "base": asked.before or "the first setting",
            "new": asked.after or f"the changed setting ({self.changed})",
        }


# ---- which side a boot is ------------------------------------------------------------------------


def side_of(experiment: Experiment, now: Mapping[str, str | None], told: str | None = None) -> str:
    """Give the side that this boot is of.

    Parameters
    ----------
    now : mapping
        How the machine is set.
    told : str, optional
        What the user says; needed where nothing readable shows the change.

    Raises
    ------
    NumamicroError
        Another setting moved too, or the side cannot be told or is not the one the user says.
    """
    asked = experiment.asked
    step = moved(experiment.base, now)
    strange = {key: pair for key, pair in step.items() if not asked.shows(key)}
    meant = len(step) > len(strange)
    if meant:
        strange = {key: pair for key, pair in strange.items() if not asked.follows(key)}
    if strange:
        raise NumamicroError(
            f"more than '{experiment.changed}' moved since the experiment began: {_listed(strange)}: "
            "set that back and boot again, for two changes at once cannot be told apart"
        )
    seen = "new" if meant else "base" if _is_visible(experiment.base, asked) else None
    if seen == "new" and experiment.new is not None and (other := moved(experiment.new, now)):
        raise NumamicroError(
            f"this boot is neither of the two settings: {_listed(other)} against the earlier boots "
            f"of {experiment.names['new']}"
        )
    return _agreed(seen, told, experiment)


def _agreed(seen: str | None, told: str | None, experiment: Experiment) -> str:
    if seen is None and told is None:
        raise NumamicroError(
            f"nothing that can be read here shows '{experiment.changed}': say which setting this boot "
            "has with --side base or --side new"
        )
    if seen is not None and told not in (None, seen):
        raise NumamicroError(
            f"--side {told}: this boot is set as {experiment.names[seen]}, as the machine shows it"
        )
    return seen or told or "base"


def _is_visible(base: Mapping[str, str | None], asked: Asked) -> bool:
    """Tell whether what was set at the beginning shows the change, so that standing still is seen."""
    return any(value is not None and asked.shows(key) for key, value in base.items())


def _listed(pairs: Mapping[str, tuple[str, str]]) -> str:
    texts = [f"{key} is {after}, it was {before}" for key, (before, after) in pairs.items()]
    more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
    return "; ".join(texts[:3]) + more


# ---- what to do next -----------------------------------------------------------------------------


def check_wanted(experiment: Experiment, side: str, counts: Mapping[str, int]) -> None:
    """Refuse another boot of the base where the change is what is missing.

    Raises
    ------
    NumamicroError
        The user forgot to change the setting.
    """
    if side == "base" and counts["base"] >= experiment.boots and not counts["new"]:
        raise NumamicroError(
            f"this boot still has {experiment.names['base']}, of which there are {counts['base']} boots: "
            f"set {experiment.names['new']} now, boot, and run this again"
        )


def next_step(
    experiment: Experiment,
    side: str,
    counts: Mapping[str, int],
    comparison: Comparison | None = None,
) -> str:
    """Say what to do after a boot of this side.

    Parameters
    ----------
    counts : mapping
        Boots by side.
    comparison : Comparison, optional
        Of the boots so far; None while one side has none.
    """
    names = experiment.names
    missing = experiment.boots - counts["base"]
    if not any(counts.values()):
        rest = f", and again after each of {_boots(missing - 1)}" if missing > 1 else ""
        return f"Next: ab run now{rest} of {names['base']}"
    if not counts["new"] and missing > 0:
        times = f", {missing} times" if missing > 1 else ""
        return f"Next: {_boots(missing)} of {names['base']}: boot and run this again{times}"
    if not counts["new"]:
        return f"Next: set {names['new']}, boot, and run this again"
    if comparison is None or comparison.why_not is not None:
        return "Next: nothing more to do: the two settings cannot be compared"
    more = dict(zip(SIDES, comparison.more, strict=True))
    here, there = side, SIDES[side == "base"]
    if more[here]:
        rest = f", then {_boots(more[there])} of {names[there]}" if more[there] else ""
        return f"Next: {_boots(more[here])} of {names[here]}{rest} will settle this"
    if more[there]:
        return f"Next: set it back to {names[there]}; {_boots(more[there])} of it will settle this"
    return "Settled: no more boots are needed"


def _boots(count: int) -> str:
    return f"{count} more boot{'s' if count != 1 else ''}"


# ---- keeping it ----------------------------------------------------------------------------------


def state_file(folder: Path) -> Path:
    """Give the file that keeps an experiment."""
    return folder / _NAME


def keep(experiment: Experiment, folder: Path) -> None:
    """Write an experiment.

    Raises
    ------
    NumamicroError
        It cannot be written.
    """
    document = {
        "experiment": SCHEMA,
        "changed": experiment.changed,
        "machine_id": experiment.machine_id,
        "boots": experiment.boots,
        "options": dict(experiment.options),
        "expect": list(experiment.expect),
        "base": dict(experiment.base),
        "new": None if experiment.new is None else dict(experiment.new),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise NumamicroError(f"cannot make the folder {folder}: {error.strerror}") from error
    save(json.dumps(document, indent=1) + "\n", state_file(folder))


def take_up(folder: Path) -> Experiment:
    """Read an experiment.

    Raises
    ------
    NumamicroError
        There is none, or its file is damaged.
    """
    path = state_file(folder)
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise NumamicroError(
            f"there is no experiment in {folder}: begin one with ab start, or name its folder with "
            "--folder"
        ) from error
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise NumamicroError(f"{path} is damaged: it is not JSON; {_AGAIN}") from error
    try:
        if document["experiment"] != SCHEMA:
            raise NumamicroError(f"{path} is of another version of numamicro; {_AGAIN}")
        return _checked(
            Experiment(
                changed=document["changed"],
                base=document["base"],
                machine_id=document["machine_id"],
                new=document["new"],
                boots=document["boots"],
                options=document["options"],
                expect=tuple(document["expect"]),
            ),
            path,
        )
    except (KeyError, TypeError) as error:
        raise NumamicroError(f"{path} is damaged: a key is missing; {_AGAIN}") from error


_AGAIN = "its results are whole: compare the folders base and new in it, or begin again elsewhere"


def _checked(experiment: Experiment, path: Path) -> Experiment:
    settings = [experiment.base] + ([] if experiment.new is None else [experiment.new])
    sound = (
        isinstance(experiment.changed, str)
        and isinstance(experiment.boots, int)
        and isinstance(experiment.options, dict)
        and all(isinstance(text, str) for text in experiment.expect)
        and all(isinstance(setting, dict) for setting in settings)
        and all(isinstance(v, str | None) for setting in settings for v in setting.values())
    )
    if not sound:
        raise NumamicroError(f"{path} is damaged: a key holds another type; {_AGAIN}")
    return experiment


def with_new(experiment: Experiment, now: Mapping[str, str | None]) -> Experiment:
    """Give the experiment that knows how its other side is set."""
    return replace(experiment, new=dict(now))
