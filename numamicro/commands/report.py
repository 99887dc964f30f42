"""``report``: a result file as one page of HTML."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.comparison import Comparison
    from numamicro.cost.model import ModelSpec

_EXAMPLES = """\
examples:
  python -m numamicro report nps4.json -o nps4.html
  python -m numamicro report nps4/*.json -o changed.html --base nps1/*.json    and what changed
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
    add("files", metavar="FILE", nargs="+", help="the first is shown; with --base all are compared")
    add("-o", "--output", metavar="PAGE", required=True, help="the page to write")
    add(
        "--base", metavar="FILE", nargs="+", default=[], help="files and folders of another setting"
    )
    add("--changed", metavar="TEXT", help='what was changed, as "NPS1 -> NPS4"')
    add("--model", metavar="NAME", help="whose token is predicted (as for predict)")
    add("--quant", metavar="NAME", help="formats of its weights: Q4_K_M, F16, ...")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the file and write its page."""
    from numamicro.commands.asked import model_of
    from numamicro.comparison.boots import files_of
    from numamicro.file import read_matrix
    from numamicro.report.page import render_page
    from numamicro.saving import save

    target = _target(arguments.output)
    files = files_of(arguments.files)
    if len(files) > 1 and not arguments.base:
        raise NumamicroError("a page is of one file: several are compared, with --base FILE ...")
    matrix, model = read_matrix(files[0]), model_of(arguments)
    comparison = _comparison(files, arguments, model) if arguments.base else None
    save(render_page(matrix, model, _library(), comparison), target)
    return Exit.DONE


def _comparison(
    files: Sequence[Path], arguments: argparse.Namespace, model: ModelSpec | None
) -> Comparison:
    from numamicro.comparison import Options, compare
    from numamicro.comparison.boots import files_of
    from numamicro.comparison.token import TokenOf

    token = TokenOf(model) if model else None
    options = Options(changed=arguments.changed, token=token)
    return compare(files_of(arguments.base), files, options)


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
    from numamicro.report.page.plotly_js import plotly_source

    try:
        return plotly_source()
    except NumamicroError as error:
        output.say(str(error))
        return ""
