"""``show``: print a result file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.commands.options import add_format
from numamicro.exit import Exit

if TYPE_CHECKING:
    from numamicro.matrix import CostMatrix

_EXAMPLES = """\
examples:
  python -m numamicro show nps4.json
  python -m numamicro show nps4.json --format github    tables to paste into an issue
  python -m numamicro show nps4.json --format csv       a line a cell, in base units
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "show",
        help="print a result file",
        description="Print a result file as tables.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("file", metavar="FILE")
    add_format(command, "csv")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file and print it."""
    from numamicro.file import read_matrix

    print_matrix(read_matrix(Path(arguments.file)), arguments.format)
    return Exit.DONE


def print_matrix(matrix: CostMatrix, style: str, doctor: str = "numamicro doctor FILE") -> None:
    """Write a matrix to standard output: as tables, as the document a file holds, or as
    records of a line each.

    `doctor` is the command that shows all findings.
    """
    if style == "json":
        from numamicro.file import matrix_text

        output.emit(matrix_text(matrix))
        return
    if style == "csv":
        from numamicro.report.records import records_csv

        output.emit(output.printable(records_csv(matrix)))
        return
    from numamicro.report.shade import CODES
    from numamicro.report.table import render

    shaded = style == "plain" and output.has_color()
    text = render(matrix, style, doctor, shaded=shaded)
    output.emit(output.printable(text, CODES if shaded else ()))
