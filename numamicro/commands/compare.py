"""``compare``: say what changed between two settings of a machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.commands.options import add_format
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from numamicro.comparison import Comparison, Options
    from numamicro.comparison.token import TokenOf

_EXAMPLES = """\
examples:
  python -m numamicro compare nps1/ nps4/                         two folders, a file a boot
  python -m numamicro compare --base a*.json --new b*.json --changed "NPS1 -> NPS4"
  python -m numamicro compare nps1/ nps4/ --expect h2d=up,latency.other-package=down
  python -m numamicro compare nps1/ nps4/ --model llama-3.1-8b    and what it does to a token
  python -m numamicro compare quiet/ busy/ --unit file            runs within one boot

What is compared is one figure a boot. One boot against one is indicative only; five of the base and
one of the new setting make a first verdict, four a side test every cell.

exit status: 0 done; 1 something is worse; 2 bad input; 4 not comparable
"""

_TAILS = {"median": 0.5, "p95": 0.95, "p99": 0.99}


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "compare",
        help="say what changed between two settings",
        description="Compare result files of two settings of one machine.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("sides", metavar="FILE", nargs="*", help="base and new: a result file or a folder each")
    add("--base", metavar="FILE", nargs="+", default=[], help="files and folders of one setting")
    add("--new", metavar="FILE", nargs="+", default=[], help="files and folders of the other")
    add_question(command)
    add("--unit", choices=("boot", "file"), default="boot", help="file: runs within one boot")
    add("--changed", metavar="TEXT", help='what was changed, as "NPS1 -> NPS4"')
    add("--all", action="store_true", help="list cells that did not change, too")
    add_format(command)
    command.set_defaults(run=run)


def add_question(command: argparse.ArgumentParser) -> None:
    """Add what `compare` and `ab` ask of a comparison."""
    add = command.add_argument
    add(
        "--expect",
        metavar="NAME=DIRECTION",
        action="append",
        default=[],
        help="h2d=up, latency=down, read.other-package=same: test that first",
    )
    add("--model", metavar="NAME", help="compare a token of this model, too (as for predict)")
    add("--quant", metavar="NAME", help="formats of its weights: Q4_K_M, F16, ...")
    add(
        "--at",
        choices=tuple(_TAILS),
        default="median",
        help="compare a tail in place of the median of each boot",
    )


def run(arguments: argparse.Namespace) -> int:
    """Read both sides, compare and print."""
    from numamicro.comparison import compare
    from numamicro.comparison.boots import files_of

    base, new = (files_of(names) for names in _sides(arguments))
    comparison = compare(base, new, options_of(arguments, arguments.unit, arguments.changed))
    return print_comparison(comparison, arguments.format, every=arguments.all)


def _sides(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    named, base, new = arguments.sides, arguments.base, arguments.new
    if len(named) == 2 and not (base or new):
        return [named[0]], [named[1]]
    if base and new and not named:
        return base, new
    raise NumamicroError(
        "compare takes two files or folders, or several with --base FILE ... --new FILE ..."
    )


def options_of(arguments: argparse.Namespace, unit: str, changed: str | None) -> Options:
    """Give the options of a comparison.

    Raises
    ------
    NumamicroError
        One of them makes no sense.
    """
    from numamicro.comparison import Options
    from numamicro.comparison.expect import parse_expectations

    return Options(
        unit=unit,
        changed=changed,
        expected=parse_expectations(arguments.expect),
        share=_TAILS[arguments.at],
        token=_token(arguments.model, arguments.quant),
    )


def _token(name: str | None, quant: str | None) -> TokenOf | None:
    if name is None:
        if quant is not None:
            raise NumamicroError("--quant says the formats of a model: name one with --model")
        return None
    from numamicro.comparison.token import TokenOf
    from numamicro.cost.sources import find_model

    return TokenOf(find_model(name, quant))


def print_comparison(comparison: Comparison, style: str, *, every: bool = False) -> int:
    """Print a comparison and give the exit status that it means."""
    from numamicro.report.compare import comparison_to_json, render_comparison

    if style == "json":
        import json

        output.emit(json.dumps(comparison_to_json(comparison), indent=1) + "\n")
    else:
        output.emit(output.printable(render_comparison(comparison, style, every=every)))
    if comparison.why_not is not None:
        return Exit.NOT_COMPARABLE
    return Exit.WORSE if comparison.is_worse else Exit.DONE
