"""``report``: a result file as one page of HTML."""

from __future__ import annotations

import argparse
from pathlib import Path

from numamicro import output
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

_EXAMPLES = """\
examples:
  python -m numamicro report nps4.json -o nps4.html
  python -m numamicro report nps4.json -o nps4.html --model qwen3-30b-a3b --quant Q4_K_M

The page needs no network and no other file. Curves are drawn where Plotly is installed
(pip install 'numamicro[report]'); without it they are tables.

exit status: 0 done; 2 bad input, or the page cannot be written
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "report",
        help="a result file as one page of HTML: machine, heat maps, curves, the cost of a token",
        description="Write a result file as one page of HTML that opens anywhere, offline.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("file", metavar="FILE")
    add("-o", "--output", metavar="PAGE", required=True, help="the page to write")
    add("--model", metavar="NAME", help="whose token is predicted (as for predict)")
    add("--quant", metavar="NAME", help="formats of its weights: Q4_K_M, F16, ...")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file and write its page."""
    from numamicro.commands.asked import model_of
    from numamicro.file import read_matrix
    from numamicro.report.page import render_page
    from numamicro.saving import save

    target = _target(arguments.output)
    matrix = read_matrix(Path(arguments.file))
    save(render_page(matrix, model_of(arguments), _library()), target)
    return Exit.DONE


def _target(name: str) -> Path:
    """Give the file to write; one that holds something else than a page is not overwritten."""
    from numamicro.report.page import START

    target = Path(name)
    try:
        if target.is_dir():
            raise NumamicroError(f"-o '{name}' is a folder: name a file in it")
        head = b""
        if target.is_file():
            with target.open("rb") as file:
                head = file.read(len(START))
    except OSError as error:
        raise NumamicroError(f"cannot write {name[:200]}: {error.strerror}") from error
    if head and head != START.encode():
        raise NumamicroError(f"{name} exists and is no report: name another file")
    return target


def _library() -> str:
    """Give the library that draws curves; without it a page has tables alone, and that is said."""
    from numamicro.report.page.library import library_source

    try:
        return library_source()
    except NumamicroError as error:
        output.say(str(error))
        return ""
