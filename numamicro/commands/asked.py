"""What `predict` and `advise` share: a model, a load and an engine on the machine of a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.commands.options import add_format
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    import argparse

    from numamicro.cost.model import ModelSpec
    from numamicro.cost.predict import Predictor
    from numamicro.cost.what_if import WhatIf
    from numamicro.matrix import CostMatrix


def add_asked(command: argparse.ArgumentParser) -> None:
    """Add the options of a model, a load and an engine."""
    add = command.add_argument
    add(
        "file", metavar="FILE", help="a result file of numamicro matrix, of this machine or another"
    )
    add(
        "--model",
        metavar="NAME",
        required=True,
        help="a preset (llama-3.1-8b, ...), a config.json or a GGUF file",
    )
    add("--quant", metavar="NAME", help="formats of the weights: Q4_K_M, F16, Q8_0,experts=Q2_K")
    add("--cache", metavar="FORMAT", default="F16", help="format of the cache (default F16)")
    add("--batch", metavar="N", type=int, default=1, help="sequences together (default 1)")
    add("--context", metavar="N", type=int, default=2048, help="depth of a token (default 2048)")
    add("--prompt", metavar="N", type=int, default=512, help="tokens of a prompt (default 512)")
    add(
        "--engine",
        metavar="NAME",
        default="llama.cpp",
        help="llama.cpp, vllm, sglang, ktransformers",
    )
    add("--assume", action="store_true", help="take labelled defaults for what the file lacks")
    add("--ignore-capacity", action="store_true", help="predict what would not fit, too")
    add(
        "--what-if",
        metavar="CHANGE",
        action="append",
        default=[],
        help="h2d*2, node1.read*1.5, p2p=on: as if that were so",
    )
    add_format(command)


def predictor_of(arguments: argparse.Namespace) -> tuple[Predictor, CostMatrix, WhatIf]:
    """Read the file and the model, and give what predicts.

    Raises
    ------
    NumamicroError
        One of them is no such thing.
    """
    from numamicro.cost.formats import bits_of
    from numamicro.cost.placement import Load, engine
    from numamicro.cost.predict import Predictor
    from numamicro.cost.rates import Rates
    from numamicro.cost.sources import find_model
    from numamicro.cost.what_if import parse_what_if, scaled
    from numamicro.file import read_matrix

    what_if = parse_what_if(arguments.what_if)
    model = find_model(arguments.model, arguments.quant)
    matrix = scaled(read_matrix(Path(arguments.file)), what_if)
    kept = arguments.cache.upper()
    bits_of(kept)
    load = Load(arguments.batch, arguments.context, arguments.prompt, kept)
    rates = Rates(matrix, assume=arguments.assume, peer=what_if.peer)
    predictor = Predictor(
        model, load, engine(arguments.engine), rates, ignore_capacity=arguments.ignore_capacity
    )
    return predictor, matrix, what_if


def model_of(arguments: argparse.Namespace) -> ModelSpec | None:
    """Give the model that --model and --quant name; None where none is named.

    Raises
    ------
    NumamicroError
        There is no such model, or formats are named without one.
    """
    from numamicro.cost.sources import find_model

    if arguments.model is None:
        if arguments.quant is not None:
            raise NumamicroError("--quant says the formats of a model: name one with --model")
        return None
    return find_model(arguments.model, arguments.quant)
