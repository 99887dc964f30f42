"""The command line of the bench: ``python -m bench``."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contests import LOOPS, contests, hold
from bench.keep import keep, kept, machine_name, slug
from bench.peers import compile_native
from bench.report import Session, newest, spliced, to_json, to_markdown
from bench.state import describe
from numamicro import __version__
from numamicro.errors import NumamicroError
from numamicro.saving import save
from numamicro.topology import discover
from numamicro.units import scale

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.contests import Contest, Outcome
    from bench.pairs import Turn

README = Path(__file__).parents[1] / "README.md"


def main(arguments: Sequence[str]) -> int:
    """Hold the contests that were asked for, print the page and keep it."""
    asked = _parser().parse_args(arguments)
    if asked.pairs < 1:
        raise NumamicroError(f"--pairs {asked.pairs}: a contest needs at least one round")
    if asked.name and asked.name != slug(asked.name):
        raise NumamicroError(f"--name {asked.name}: small letters, digits and single dashes only")
    machine = discover()
    described = describe(machine)
    with tempfile.TemporaryDirectory() as programs:
        compile_native(Path(programs))
        known = contests(machine, Path(programs))
        outcomes = [_held(known[name](), asked) for name in select(asked.contests, tuple(known))]
    session = Session(
        tool=f"numamicro {__version__}",
        command=shlex.join(["python", "-m", "bench", *arguments]),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=asked.seed,
        machine=described,
        notes=asked.note,
    )
    page = to_markdown(session, outcomes)
    print(page, end="")
    if asked.name or not (asked.dry or asked.contests):
        machine_kind = machine_name(described)
        keep(asked.name or machine_kind, page, to_json(session, outcomes))
        block = newest(kept(machine_kind))
        save(spliced(README.read_text("utf-8"), machine_kind, block), README)
    return 0


def select(asked: Sequence[str], known: Sequence[str]) -> list[str]:
    """Give the contests that were asked for: by name, or an operation's at every team size.

    Raises
    ------
    NumamicroError
        There is none of that name.
    """
    for word in asked:
        if not any(word in (name, name.rpartition("-")[0]) for name in known):
            raise NumamicroError(f"there is no contest {word} here: choose of {', '.join(known)}")
    return [
        name
        for name in known
        if not asked or any(word in (name, name.rpartition("-")[0]) for word in asked)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    add = parser.add_argument
    add(
        "contests",
        nargs="*",
        metavar="CONTEST",
        help=f"{', '.join(LOOPS)}, latency, core-to-core, barrier; with -1 or -all behind it for "
        "one team size (default: all; a part is printed and kept only under a --name)",
    )
    add("--pairs", type=int, default=12, metavar="N", help="rounds of each contest (default 12)")
    add(
        "--most",
        type=int,
        default=0,
        metavar="N",
        help="rounds after which there is an end for those between whom the first decided nothing "
        "(default: no more rounds)",
    )
    add("--seed", type=int, default=1, metavar="N", help="for the order of turns (default 1)")
    add("--name", metavar="NAME", help="of the files in bench/results/ (default: the machine's)")
    add("--note", action="append", default=[], metavar="TEXT", help="a line to keep in the result")
    add("--dry", action="store_true", help="print the page and write nothing")
    return parser


def _held(contest: Contest, asked: argparse.Namespace) -> Outcome:
    print(contest.title, file=sys.stderr)
    most = max(asked.pairs, asked.most)
    return hold(contest, asked.pairs, most, asked.seed, _teller(contest.unit))


def _teller(unit: str) -> Callable[[Turn], None]:
    shown = scale(unit)

    def tell(turn: Turn) -> None:
        value = shown.text(turn.reading.value)
        print(f"  {turn.round + 1:3} {turn.contender:24} {value:>8} {shown.label}", file=sys.stderr)

    return tell


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NumamicroError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("bench: ended by Ctrl-C; nothing of this run is kept", file=sys.stderr)
        sys.exit(130)
