"""``advise``: search for the best placement of a model."""

from __future__ import annotations

import argparse

from numamicro import output
from numamicro.commands.asked import add_asked, predictor_of
from numamicro.exit import Exit

_EXAMPLES = """\
examples:
  python -m numamicro advise nps4.json --model llama-3.1-70b --quant Q4_K_M
  python -m numamicro advise nps4.json --model ~/models/qwen3/config.json --by throughput --batch 8
  python -m numamicro advise nps4.json --model model.gguf --what-if "p2p=on" --assume

The naive placement is what happens when nobody binds anything: every core, all pages on the first
node, GPUs in the driver's order.

exit status: 0 done; 2 bad input, or the file lacks what a prediction needs
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "advise",
        help="where to put a model: the best placement, and how to launch it",
        description="Try every sensible placement of a model on the machine of a result file.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_asked(command)
    command.add_argument(
        "--by",
        choices=("latency", "throughput"),
        default="latency",
        help="what the best is best at (default latency)",
    )
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Search and print."""
    from numamicro.cost.advise import advise
    from numamicro.report.cost import advice_to_json, render_advice

    predictor, matrix, _ = predictor_of(arguments)
    advice = advise(predictor, by=arguments.by)
    machine = matrix.header.machine
    if arguments.format == "json":
        import json

        output.emit(json.dumps(advice_to_json(advice, machine), indent=1) + "\n")
    else:
        output.emit(render_advice(advice, machine, arguments.format))
    return Exit.DONE
