"""``export``: write a result file as another program reads it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from numamicro.export import Export
    from numamicro.matrix import CostMatrix

_EXAMPLES = """\
examples:
  python -m numamicro export --list
  python -m numamicro export nps4.json --to hwloc -o nps4.xml
  python -m numamicro export nps4.json --to prometheus -o /var/lib/node_exporter/numamicro.prom
  python -m numamicro export nps4.json --to launch --model llama-3.1-8b --quant Q4_K_M

exit status: 0 done; 2 bad input, or the file lacks what the format needs
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "export",
        help="write a result file for another program: hwloc, Prometheus, QEMU, ...",
        description="Write a result file as another program reads it.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    add("file", metavar="FILE", nargs="?", help="a result file")
    add("--to", metavar="NAME", help="the format; --list names all")
    add("-o", dest="output", metavar="OUT", help="write there (default: standard output)")
    add("--list", action="store_true", help="say of each format who reads it and what it carries")
    add("--model", metavar="NAME", help="for --to launch: a preset, a config.json or a GGUF file")
    add("--quant", metavar="NAME", help="for --to launch: formats of the weights")
    add("--assume", action="store_true", help="for --to launch: defaults for what the file lacks")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List the formats, or write one."""
    from numamicro.export import EXPORTS, export_named
    from numamicro.file import read_matrix
    from numamicro.saving import save

    if arguments.list:
        output.emit("\n".join(_described(each) for each in EXPORTS))
        return Exit.DONE
    if arguments.file is None or arguments.to is None:
        raise NumamicroError("name a result file and a format (--to), or ask for --list")
    export = export_named(arguments.to)
    text = _text(export, read_matrix(Path(arguments.file)), arguments)
    if arguments.output is None:
        output.emit(text)
    else:
        save(text, Path(arguments.output))
    return Exit.DONE


def _text(export: Export, matrix: CostMatrix, arguments: argparse.Namespace) -> str:
    if not export.of_model:
        return export.text(matrix)
    if arguments.model is None:
        raise NumamicroError(f"--to {export.name} needs a model: name one with --model")
    from numamicro.cost.sources import find_model

    model = find_model(arguments.model, arguments.quant)
    return export.text(matrix, model, assume=arguments.assume)


def _described(export: Export) -> str:
    lines = [
        export.name,
        f"  read by:       {export.consumer}",
        f"  carries:       {export.carries}",
        f"  cannot say:    {export.lacks}",
        f"  needs:         {export.needs}",
    ]
    return "\n".join(lines) + "\n"
