"""``matrix``: measure this machine."""

from __future__ import annotations

import argparse
import stat
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.commands.asked import model_of
from numamicro.commands.options import add_format, parse_numbers
from numamicro.commands.setting import add_bios_json, bios_attributes
from numamicro.commands.show import print_matrix
from numamicro.errors import NumamicroError
from numamicro.exit import Exit, status_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numamicro.cost.model import ModelSpec
    from numamicro.journal import Journal
    from numamicro.matrix import CostMatrix, Header
    from numamicro.plan import Plan
    from numamicro.runner import Progress
    from numamicro.topology import Machine
    from numamicro.wishes import Wishes

_PROGRESS_SECONDS = 5.0
"""Where standard error is a log and no terminal, progress adds a line at most this often."""

_EXAMPLES = """\
examples:
  python -m numamicro matrix --quick              first look, in half a minute
  python -m numamicro matrix -o nps4.json         measure and keep the result
  python -m numamicro matrix --list               what would be measured, and how long it takes
  python -m numamicro matrix --nodes 0,1 --only latency
  python -m numamicro matrix -o nps4.json --resume    go on after Ctrl-C
  python -m numamicro matrix --append nps4/       a file a boot, for compare

exit status: 0 done; 2 bad input; 3 done, but some cells failed; 130 ended by Ctrl-C (what was
measured is kept); 70 a fault of numamicro
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "matrix",
        help="measure bandwidth and latency from every node to every node",
        description="Measure bandwidth and latency from every node's CPUs to every node's memory.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add_wishes(command)
    add("--list", action="store_true", help="print the cases and the estimate, measure nothing")
    add("-o", "--output", metavar="FILE", help="keep the result; without it nothing is written")
    add(
        "--append",
        metavar="DIR",
        help="keep one file a boot in DIR; another run of the same boot adds processes to it",
    )
    add("--resume", action="store_true", help="go on with the unfinished run beside the output")
    add("--label", metavar="TEXT", help="a name for this setting, kept in the file")
    add("--model", metavar="NAME", help="whose token is predicted at the end (as for predict)")
    add("--quant", metavar="NAME", help="formats of its weights: Q4_K_M, F16, ...")
    add("-q", "--quiet", action="store_true", help="no progress on standard error")
    add_bios_json(command)
    add_format(command)
    command.set_defaults(run=run)


WISHES = ("level", "time", "only", "nodes", "threads", "memory", "seed")
"""What :func:`add_wishes` brings: all that decides what is measured."""


def add_wishes(command: argparse.ArgumentParser) -> None:
    """Add the options that say what to measure and how long it may take."""
    add = command.add_argument
    level = command.add_mutually_exclusive_group()
    for name, text in (
        ("quick", "reads and latency only, one process a cell: indicative"),
        ("thorough", "more processes and samples"),
    ):
        level.add_argument(f"--{name}", dest="level", action="store_const", const=name, help=text)
    add(
        "--time",
        metavar="T",
        help="budget for measuring: 90, 2m, 1h (default 60 quick, 300, 1h thorough; twice as "
        "much with GPUs)",
    )
    add("--only", metavar="PROBE", action="append", default=[], help="bandwidth, latency/load, ...")
    add("--nodes", metavar="LIST", help="only these nodes, as 0,2-3")
    add("--threads", metavar="LIST", help="only these team sizes, as 1,8,16")
    add("--memory", metavar="SIZE", help="size of each buffer: 512M, 1G")
    add("--seed", metavar="N", type=int, default=1, help="for data and order (default 1)")
    command.set_defaults(level="default")


def run(arguments: argparse.Namespace) -> int:
    """Plan, measure, save and print."""
    from numamicro.plan import make_plan
    from numamicro.probes import all_probes
    from numamicro.topology import discover

    wishes = wishes_of(arguments)
    if arguments.label is not None and not arguments.label.isprintable():
        raise NumamicroError("--label: write one line of plain text")
    model = model_of(arguments)  # one that is none is refused before anything is measured
    machine = discover()
    plan = make_plan(machine, wishes.on(machine), all_probes())
    if arguments.list:
        return _print_plan(plan, machine, arguments.format)
    target = _boot_target(arguments) or _target(
        arguments.output, quiet=arguments.quiet or arguments.resume
    )
    if output.is_closed() and target is None:
        raise NumamicroError("standard output is closed: name a file with -o to keep the result")
    return _measure(plan, machine, arguments, target, model)


def _boot_target(arguments: argparse.Namespace) -> Path | None:
    """Give this boot's file in the folder of --append; None without one."""
    if arguments.append is None:
        return None
    if arguments.output is not None:
        raise NumamicroError("-o and --append were both given: choose one")
    from numamicro.append import boot_file
    from numamicro.identity import boot_id

    return boot_file(Path(arguments.append), boot_id())


def _target(name: str | None, *, quiet: bool) -> Path | None:
    """Give the file to write; what cannot be one is refused before anything is measured."""
    if name is None:
        return None
    target = Path(name)
    try:
        kind = target.stat().st_mode if target.name else stat.S_IFDIR
        head = target.open("rb").read(64) if stat.S_ISREG(kind) else b""
    except FileNotFoundError:
        return target
    except OSError as error:
        raise NumamicroError(f"cannot write {name[:200]}: {error.strerror}") from error
    if stat.S_ISDIR(kind):
        raise NumamicroError(f"-o '{name}' is a folder: name a file in it")
    if head and b'"schema"' not in head:
        raise NumamicroError(f"{name} exists and is no result of numamicro: name another file")
    if head and not quiet:
        output.say(f"{name} holds an earlier result, which this run will replace when it ends")
    return target


def _beside(target: Path | None) -> Path | None:
    """Give where the journal stands: nowhere for a pipe or a device, which nobody resumes."""
    if target is None or (target.exists() and not target.is_file()):
        return None
    return target.with_name(f"{target.name}.part")


def wishes_of(arguments: argparse.Namespace) -> Wishes:
    """Give what :func:`add_wishes` brought as wishes.

    Raises
    ------
    NumamicroError
        An option makes no sense.
    """
    from numamicro.units import parse_bytes, parse_seconds
    from numamicro.wishes import LEVELS, Wishes

    if not 0 <= arguments.seed < 2**63:
        raise NumamicroError(f"--seed {arguments.seed}: write a whole number from 0 to 2^63 - 1")
    return Wishes(
        level=LEVELS[arguments.level],
        seconds=parse_seconds(arguments.time) if arguments.time is not None else None,
        only=tuple(name for text in arguments.only for name in text.split(",")),
        nodes=parse_numbers(arguments.nodes, "--nodes") if arguments.nodes is not None else (),
        threads=parse_numbers(arguments.threads, "--threads")
        if arguments.threads is not None
        else (),
        memory=parse_bytes(arguments.memory) if arguments.memory is not None else None,
        seed=arguments.seed,
    )


def _measure(
    plan: Plan,
    machine: Machine,
    arguments: argparse.Namespace,
    target: Path | None,
    model: ModelSpec | None,
) -> int:
    from numamicro.append import added
    from numamicro.journal import Journal
    from numamicro.report.token import closing_line
    from numamicro.runner import Runner
    from numamicro.session import header_of, matrix_of
    from numamicro.stop import StopRequest

    header = header_of(plan, machine, arguments.label, bios_attributes(arguments.bios_json))
    earlier = _earlier(target, header) if arguments.append is not None else None
    journal = Journal(_beside(target))
    identity = {
        "plan": header.plan,
        "boot_id": header.boot_id,
        "tool": header.tool,
        "usable_cpus": [cpu.id for cpu in machine.cpus if cpu.usable],
        "targets": [each.id for each in machine.targets],
    }
    journal.label = arguments.label
    if arguments.resume:
        journal.resume(identity)
    else:
        journal.start(identity)
    header = replace(header, label=journal.label)
    stop = StopRequest()
    # Until the end: a second Ctrl-C must not lose what the first one kept.
    with stop.listening():
        with _progress(arguments.quiet) as observe:
            finished = Runner(plan, machine, journal, observe, stop).run()
        matrix = matrix_of(header, plan, journal)
        if earlier is not None and finished:
            matrix = added(earlier, matrix)
        unsaved = _save(matrix, journal, target, finished, whole=arguments.append is not None)
        if arguments.format is not None:
            print_matrix(matrix, arguments.format, "numamicro doctor")
        if arguments.format not in ("json", None):
            output.emit(f"\n{closing_line(matrix, model)}\n")
    if unsaved is not None:
        raise unsaved
    if stop.signum is not None and not finished:
        return Exit.SIGNAL + stop.signum
    return status_of(matrix)


def _earlier(target: Path | None, header: Header) -> CostMatrix | None:
    """Give what earlier runs of this boot brought, if this one may be added to it."""
    from numamicro.append import check_same
    from numamicro.file import read_matrix

    if target is None or not target.exists():
        return None
    earlier = read_matrix(target)
    check_same(earlier.header, header, target)
    return earlier


def _save(
    matrix: CostMatrix, journal: Journal, target: Path | None, finished: bool, *, whole: bool
) -> NumamicroError | None:
    """Write the result, and give what stood in the way rather than raise: it can still be shown.

    Where a boot's file keeps `whole` runs only, an unfinished one stays in its journal.
    """
    from numamicro.file import write_matrix

    if target is None:
        return None
    if not finished and not any(cell.runs for cell in matrix.measurements):
        journal.discard()  # nothing was measured, and an earlier result is worth more than that
        return None
    if whole and not finished:
        journal.close()
        return None
    try:
        write_matrix(matrix, target)
    except NumamicroError as error:
        journal.close()
        return error
    if finished:
        journal.discard()
    else:
        journal.close()
    return None


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """Give the function that says how far a run is: one line, rewritten on a terminal."""
    terminal = sys.stderr.isatty()
    last = -_PROGRESS_SECONDS

    def observe(progress: Progress) -> None:
        nonlocal last
        if quiet or (not terminal and progress.elapsed - last < _PROGRESS_SECONDS):
            return
        last = progress.elapsed
        text = f"[{progress.done}/{progress.total}] {progress.elapsed:.0f} s  {progress.case.key}"
        output.tell(f"\r\033[K{text[: _width()]}" if terminal else f"{text}\n")

    try:
        yield observe
    finally:
        if terminal and not quiet:
            output.tell("\r\033[K")


def _width() -> int:
    from shutil import get_terminal_size

    return get_terminal_size().columns - 1


def _print_plan(plan: Plan, machine: Machine, style: str) -> int:
    """Print what would be measured, most important first, and what has no part in it."""
    left_out = [note.text for note in machine.notes if note.code == "no-gpu"]
    rows = [
        {
            "priority": item.priority.name.lower(),
            "case": item.case.key,
            "seconds": round(item.seconds * plan.wishes.level.processes, 1),
            "waived": item.waived.text if item.waived else None,
        }
        for item in plan.planned
    ]
    estimate = f"about {plan.seconds:.0f} s"
    if plan.wanted > plan.wishes.budget:
        estimate += f", the budget: all of it would take {plan.wanted:.0f} s (see --time)"
    if style == "json":
        import json

        document = {
            "seconds": plan.seconds,
            "wanted": plan.wanted,
            "budget": plan.wishes.budget,
            "cases": rows,
            "notes": left_out,
        }
        output.emit(json.dumps(document, indent=1) + "\n")
        return Exit.DONE
    from tabulate import tabulate

    shown = [[row["priority"], row["case"], row["waived"] or f"{row['seconds']} s"] for row in rows]
    table = tabulate(shown, headers=["first", "case", "estimate"], tablefmt=style)
    notes = "".join(f"\nnote: {text}\n" for text in left_out)
    output.emit(f"{table}\n\n{len(plan.to_measure)} cases, {estimate}\n{notes}")
    return Exit.DONE
