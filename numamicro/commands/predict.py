"""``predict``: what a token of a model costs at a placement."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from numamicro import output
from numamicro.commands.asked import add_asked, predictor_of
from numamicro.commands.options import parse_numbers
from numamicro.errors import NumamicroError
from numamicro.exit import Exit

if TYPE_CHECKING:
    from numamicro.cost.placement import Placement
    from numamicro.cost.predict import Predictor

_EXAMPLES = """\
examples:
  python -m numamicro predict nps4.json --model llama-3.1-8b --quant Q4_K_M
  python -m numamicro predict nps4.json --model qwen3-30b-a3b --nodes 0,1 --threads 16 --memory interleaved
  python -m numamicro predict nps4.json --model llama-3.1-70b --gpus 0+1,2+3      TP 2, then PP 2
  python -m numamicro predict nps4.json --model deepseek-v3 --gpus 0 --cpu-experts 3-60 --engine ktransformers
  python -m numamicro predict nps4.json --model llama-3.1-8b --what-if "node1.read*1.5"

Without a placement the best one is searched for, as by advise.

exit status: 0 done; 2 bad input, or the file lacks what a prediction needs
"""


def add_to(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command's arguments."""
    command = subparsers.add_parser(
        "predict",
        help="what a token of a model costs on the machine of a result file",
        description="Predict load, prompt and token times of a model, term by term.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_asked(command)
    add = command.add_argument_group("placement").add_argument
    add("--gpus", metavar="LIST", help="GPUs: 0+1 split every layer, 0,1 follow one another")
    add("--cpu-layers", metavar="N", type=int, help="the first N layers run on the CPUs")
    add("--cpu-experts", metavar="LIST", help="layers whose experts lie on the CPUs, as 3-60")
    add("--nodes", metavar="LIST", help="nodes whose CPUs compute")
    add("--threads", metavar="N", type=int, help="threads on each of them (default: its cores)")
    add("--memory", metavar="POLICY", help="bound, interleaved, first-touch or replicated")
    add("--memory-nodes", metavar="LIST", help="nodes that hold the weights (default: as --nodes)")
    add("--cache-node", metavar="N", type=int, help="the node that holds the CPUs' cache")
    add("--staged", metavar="NODE", type=int, help="GPUs pass data through this node's memory")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Predict and print."""
    from numamicro.report.cost import cost_to_json, render_cost

    predictor, matrix, _ = predictor_of(arguments)
    machine = matrix.header.machine
    cost = predictor.cost(_placement(arguments, predictor))
    if arguments.format == "json":
        import json

        output.emit(json.dumps(cost_to_json(cost, machine), indent=1) + "\n")
    else:
        output.emit(render_cost(cost, machine, arguments.format))
    return Exit.DONE


_PLACING = (
    *("gpus", "cpu_layers", "cpu_experts", "nodes", "threads"),
    *("memory", "memory_nodes", "cache_node", "staged"),
)


def _placement(arguments: argparse.Namespace, predictor: Predictor) -> Placement:
    from numamicro.cost.advise import advise
    from numamicro.cost.placement import Placement

    if all(getattr(arguments, name) is None for name in _PLACING):
        return advise(predictor).best.placement
    stages = _stages(arguments.gpus) if arguments.gpus is not None else ()
    missing = {index for stage in stages for index in stage} - set(predictor.rates.gpus())
    if missing:
        known = ", ".join(f"gpu{index}" for index in predictor.rates.gpus()) or "none"
        raise NumamicroError(f"--gpus: the file has no gpu{min(missing)}; it has {known}")
    threads = _threads(arguments, predictor) if _needs_cpu(arguments) else ()
    nodes = tuple(index for index, _ in threads)
    memory = nodes
    if arguments.memory_nodes is not None:
        memory = parse_numbers(arguments.memory_nodes, "--memory-nodes")
    elif arguments.memory == "interleaved" and threads:
        memory = predictor.rates.memory_nodes()
    others = [i for i in (arguments.cache_node, arguments.staged) if i is not None]
    for index in (*nodes, *memory, *others):
        predictor.rates.machine.node(index)
    direct = all(predictor.rates.has_links(stage) for stage in stages)
    return Placement(
        stages=stages,
        cpu_layers=arguments.cpu_layers or 0,
        cpu_experts=_numbers(arguments.cpu_experts, "--cpu-experts"),
        threads=threads,
        policy=arguments.memory or "bound",
        memory=memory,
        cache_node=arguments.cache_node,
        peer=direct and arguments.staged is None,
        via=arguments.staged,
    )


def _needs_cpu(arguments: argparse.Namespace) -> bool:
    named = (arguments.cpu_layers, arguments.cpu_experts, arguments.nodes, arguments.threads)
    return arguments.gpus is None or any(value is not None for value in named)


def _stages(text: str) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(index for part in stage.split("+") for index in parse_numbers(part, "--gpus"))
        for stage in text.split(",")
    )


def _numbers(text: str | None, option: str) -> tuple[int, ...]:
    return () if text is None else parse_numbers(text, option)


def _threads(arguments: argparse.Namespace, predictor: Predictor) -> tuple[tuple[int, int], ...]:
    from numamicro.case import node

    machine = predictor.rates.machine
    nodes = _numbers(arguments.nodes, "--nodes") or tuple(n.id for n in machine.initiators[:1])
    threads = []
    for index in nodes:
        cpus = len(machine.usable_cpus(node(index)))
        count = machine.cores(node(index)) if arguments.threads is None else arguments.threads
        if not 1 <= count <= cpus:
            raise NumamicroError(f"--threads {count}: node{index} has {cpus} usable CPUs")
        threads.append((index, count))
    return tuple(threads)
