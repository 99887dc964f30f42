"""``doctor``: say what spoils or limits the figures here."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.commands.options import add_format, checked_root
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from numamicro.doctor.rule import Setting
    from numamicro.finding import Finding

_EXAMPLES = """\
examples:
  python -m numamicro doctor
  python -m numamicro doctor nps4.json          what was so when that file was measured
  python -m numamicro doctor --format github    a table to paste into an issue
  python -m numamicro doctor --json

A finding is no error: the exit status is 0. Nothing is changed.
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "doctor",
        help="say what spoils or limits the figures here",
        description="Say what spoils or limits the figures here, with evidence, effect and remedy.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("file", metavar="FILE", nargs="?", help="judge this result file instead")
    command.add_argument(
        "--root", metavar="FOLDER", help="read a copy of /sys and /proc kept in FOLDER"
    )
    add_format(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read setting and machine, apply every rule, and print what they found."""
    from numamicro.doctor import unknown

    setting, findings = _judged(arguments.file, arguments.root)
    if arguments.format == "json":
        import json
        from dataclasses import asdict

        document = {"findings": [asdict(each) for each in findings], "unknown": unknown(setting)}
        output.emit(json.dumps(document, indent=1) + "\n")
    else:
        from numamicro.report.findings import render_findings

        output.emit(output.printable(render_findings(findings, unknown(setting), arguments.format)))
    return Exit.DONE


def _judged(file: str | None, root: str | None) -> tuple[Setting, tuple[Finding, ...]]:
    """Give setting and findings of a result file, of a copied tree, or of this machine."""
    from numamicro.doctor import diagnose, diagnose_matrix

    if file is not None and root is not None:
        raise NumamicroError("FILE and --root were both given: choose one")
    if file is not None:
        from numamicro.file import read_matrix

        matrix = read_matrix(Path(file))
        return matrix.header.setting, diagnose_matrix(matrix)
    from numamicro.setting import read_setting
    from numamicro.topology import discover

    tree = checked_root(root or "/")
    setting = read_setting(tree)
    return setting, diagnose(setting, discover(tree))
