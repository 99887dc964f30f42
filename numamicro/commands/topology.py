"""``topology``: draw the machine."""

from __future__ import annotations

import argparse

from numamicro import output
from numamicro.commands.options import checked_root
from numamicro.exit import Exit

_EXAMPLES = """\
examples:
  python -m numamicro topology
  python -m numamicro topology --json
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "topology",
        help="draw the machine: packages, nodes, caches, CPUs",
        description="Draw the machine as the kernel numbers it, and say what is hidden.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("--format", choices=("plain", "json"), default="plain", help="default plain")
    add("--json", dest="format", action="store_const", const="json", help="same as --format json")
    add(
        "--root", metavar="FOLDER", default="/", help="read a copy of /sys and /proc kept in FOLDER"
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Discover the machine and draw it."""
    from numamicro.topology import discover

    machine = discover(checked_root(arguments.root))
    if arguments.format == "json":
        import json

        output.emit(json.dumps(machine.to_json(), indent=1) + "\n")
    else:
        from numamicro.report.tree import render_machine

        output.emit(render_machine(machine))
    return Exit.DONE
