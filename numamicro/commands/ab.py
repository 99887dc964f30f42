"""``ab``: a guided experiment on one setting: measure, change it, measure again, and be told."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.commands import matrix
from numamicro.commands.compare import add_question, options_of, print_comparison
from numamicro.commands.options import add_format
from numamicro.commands.setting import add_bios_json, bios_attributes
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.comparison import Comparison
    from numamicro.comparison.experiment import Experiment

_EXAMPLES = """\
examples:
  python -m numamicro ab start --changed "NPS1 -> NPS4" --expect latency.local=down
  python -m numamicro ab run            after each boot; it says what to do next
  python -m numamicro ab status         which setting this boot has, and how far it is

The files lie in the folder ab (or --folder): a file a boot, in base and new.

exit status: 0 done; 1 something is worse; 2 bad input, or another setting moved; 3 some cells failed;
4 not comparable; 130 ended by Ctrl-C (run it again with --resume)
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "ab",
        help="test one setting over several boots, step by step",
        description="Measure boots of two settings, and say what the change brought.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    steps = command.add_subparsers(metavar="STEP", required=True)
    start = steps.add_parser("start", help="begin: this boot has the first setting")
    start.add_argument(
        "--changed", metavar="TEXT", required=True, help='what will be changed, as "NPS1 -> NPS4"'
    )
    start.add_argument(
        "--boots", metavar="N", type=int, default=5, help="boots of the first setting (default 5)"
    )
    start.add_argument("--expect", metavar="NAME=DIRECTION", action="append", default=[])
    matrix.add_wishes(start)
    start.set_defaults(run=begin)
    go = steps.add_parser("run", help="measure this boot and say what to do next")
    go.add_argument("--side", choices=("base", "new"), help="which setting this boot has")
    go.add_argument("--resume", action="store_true", help="go on with this boot's unfinished run")
    go.add_argument("-q", "--quiet", action="store_true", help="no progress on standard error")
    go.set_defaults(run=measure)
    status = steps.add_parser("status", help="say how far the experiment is")
    status.add_argument("--side", choices=("base", "new"), help="which setting this boot has")
    status.set_defaults(run=tell)
    for step in (start, go, status):
        step.add_argument("--folder", metavar="DIR", default="ab", help="default: ab")
        add_bios_json(step)
    for step in (go, status):
        add_question(step)
        add_format(step)


def begin(arguments: argparse.Namespace) -> int:
    """Note how the machine is set, and what will be measured."""
    from numamicro.commands.matrix import WISHES
    from numamicro.comparison.expect import parse_expectations
    from numamicro.comparison.experiment import Experiment, keep, next_step, state_file
    from numamicro.identity import machine_id

    folder = Path(arguments.folder)
    if state_file(folder).exists():
        raise NumamicroError(
            f"{folder} holds an experiment: go on with ab run, or name another folder with --folder"
        )
    if arguments.boots < 1 or not arguments.changed.isprintable():
        raise NumamicroError("--boots is at least 1, and --changed one line of plain text")
    parse_expectations(arguments.expect)
    matrix.wishes_of(arguments)
    experiment = Experiment(
        changed=arguments.changed,
        base=_now(arguments),
        machine_id=machine_id(),
        boots=arguments.boots,
        options={name: getattr(arguments, name) for name in WISHES},
        expect=tuple(arguments.expect),
    )
    keep(experiment, folder)
    output.emit(
        output.printable(f"{_seen(experiment)}\n{next_step(experiment, 'base', _NOTHING)}\n")
    )
    return Exit.DONE


_NOTHING = {"base": 0, "new": 0}


def measure(arguments: argparse.Namespace) -> int:
    """Measure this boot, and compare what there is."""
    from numamicro.comparison.experiment import check_wanted, keep, side_of, with_new

    folder = Path(arguments.folder)
    experiment, now = _taken_up(arguments)
    side = side_of(experiment, now, arguments.side)
    if not _boot_file(folder, side).exists():
        check_wanted(experiment, side, _counts(folder))
    if side == "new" and experiment.new is None:
        experiment = with_new(experiment, now)
        keep(experiment, folder)
    _forget_cut_runs(folder)
    status = matrix.run(_asked_of_matrix(experiment, arguments, folder / side))
    if status not in (Exit.DONE, Exit.FAILED_CELLS):
        return status
    return max(_told(experiment, side, arguments), status)


def tell(arguments: argparse.Namespace) -> int:
    """Say which setting this boot has and what to do next."""
    from numamicro.comparison.experiment import side_of

    experiment, now = _taken_up(arguments)
    side = side_of(experiment, now, arguments.side)
    return _told(experiment, side, arguments)


def _taken_up(arguments: argparse.Namespace) -> tuple[Experiment, dict[str, str | None]]:
    from numamicro.comparison.experiment import take_up
    from numamicro.identity import machine_id

    experiment = take_up(Path(arguments.folder))
    if None not in (experiment.machine_id, machine_id()) and experiment.machine_id != machine_id():
        raise NumamicroError(f"the experiment in {arguments.folder} is of another machine")
    return experiment, _now(arguments)


def _now(arguments: argparse.Namespace) -> dict[str, str | None]:
    from numamicro.comparison.differences import flat_setting
    from numamicro.setting import read_setting
    from numamicro.topology import discover

    return flat_setting(read_setting() | bios_attributes(arguments.bios_json), discover())


def _boot_file(folder: Path, side: str) -> Path:
    from numamicro.append import boot_file
    from numamicro.identity import boot_id

    return boot_file(folder / side, boot_id())


def _counts(folder: Path) -> dict[str, int]:
    return {side: len(list((folder / side).glob("*.json"))) for side in _NOTHING}


def _forget_cut_runs(folder: Path) -> None:
    """Remove the journals of boots that are over: nothing can go on with them."""
    for path in folder.glob("*/*.json.part"):
        if path.name.partition(".")[0] != _boot_file(folder, path.parent.name).stem:
            output.say(f"the run of an earlier boot was cut short and is left out ({path.name})")
            path.unlink(missing_ok=True)


def _asked_of_matrix(
    experiment: Experiment, arguments: argparse.Namespace, folder: Path
) -> argparse.Namespace:
    """Give what `matrix` is asked for in every boot of an experiment."""
    return argparse.Namespace(
        **experiment.options,
        list=False,
        output=None,
        append=str(folder),
        resume=arguments.resume,
        label=None,
        model=None,
        quant=None,
        quiet=arguments.quiet,
        bios_json=arguments.bios_json,
        format=None,
    )


def _told(experiment: Experiment, side: str, arguments: argparse.Namespace) -> int:
    """Print the comparison so far and the next step; give the status that it means."""
    from numamicro.comparison.experiment import next_step

    counts = _counts(Path(arguments.folder))
    comparison = _comparison(experiment, counts, arguments)
    status: int = Exit.DONE
    if comparison is not None:
        status = print_comparison(comparison, arguments.format)
    if arguments.format != "json":
        step = next_step(experiment, side, counts, comparison)
        here = f"This boot: {experiment.names[side]} ({side}). Boots so far: {_counted(counts)}."
        gap = "\n" if comparison is not None else ""
        output.emit(output.printable(f"{gap}{here}\n{step}\n"))
    return status


def _comparison(
    experiment: Experiment, counts: Mapping[str, int], arguments: argparse.Namespace
) -> Comparison | None:
    from numamicro.comparison import compare
    from numamicro.comparison.boots import files_of

    if not all(counts.values()):
        return None
    arguments.expect = [*experiment.expect, *arguments.expect]
    folder = Path(arguments.folder)
    base, new = (files_of([str(folder / name)]) for name in ("base", "new"))
    return compare(base, new, options_of(arguments, "boot", experiment.changed))


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {side}" for side, count in counts.items())


def _seen(experiment: Experiment) -> str:
    """Say what of the change can be seen on this machine."""
    asked = experiment.asked
    keys = [f"{k} is {v}" for k, v in experiment.base.items() if v is not None and asked.shows(k)]
    if keys:
        return f"'{experiment.changed}' is seen by: {', '.join(keys[:5])}"
    return (
        f"'{experiment.changed}': nothing that can be read here shows it, so that every ab run needs "
        "--side base or --side new"
    )
