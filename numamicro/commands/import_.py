"""``import``: make a result file of what other programs measured."""

from __future__ import annotations

import argparse
from pathlib import Path

from numamicro import output
from numamicro.commands.options import add_format
from numamicro.commands.show import print_matrix
from numamicro.exit import Exit

_EXAMPLES = """\
examples:
  python -m numamicro import mlc.txt likwid.txt -o imported.json
  python -m numamicro import nvbandwidth.json topo.txt -o imported.json --label "rack 7"
  python -m numamicro import p2p.txt                     print it, and write nothing

All files are of one machine. What they do not tell is unknown and never guessed: nvidia-smi topo -m
tells the node next to each GPU, likwid-topology or numactl -H the CPUs.

exit status: 0 done; 2 a file holds no output that is known, or a malformed one
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "import",
        help="make a result file of outputs of nvbandwidth, MLC, nccl-tests, ...",
        description="Make a result file of what other programs measured: nvbandwidth (text, JSON), "
        "p2pBandwidthLatencyTest, Intel MLC, nccl-tests, nvidia-smi topo -m, likwid-topology, "
        "numactl -H.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("files", metavar="FILE", nargs="+", help="the output of such a program")
    command.add_argument("-o", dest="output", metavar="OUT", help="write a result file there")
    command.add_argument("--label", metavar="TEXT", help="a name for this machine or setting")
    add_format(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read the outputs; write the result file, or print it."""
    from numamicro.file import write_matrix
    from numamicro.imports import import_files

    imported = import_files([Path(name) for name in arguments.files], arguments.label)
    if arguments.output is None:
        print_matrix(imported.matrix, arguments.format)
    else:
        write_matrix(imported.matrix, Path(arguments.output))
        count = len(imported.matrix.measurements)
        output.say(f"{arguments.output} holds {count} imported cells")
    if imported.passed:
        output.say(output.printable(f"passed over: {', '.join(imported.passed)}"))
    return Exit.DONE
