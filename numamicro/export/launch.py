"""Launch lines: how to start each engine with the placement that is best for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.cost.advise import advise
from numamicro.cost.launch import launch_line
from numamicro.cost.placement import ENGINES, Load
from numamicro.cost.predict import Predictor
from numamicro.cost.rates import Rates
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.placement import Engine
    from numamicro.matrix import CostMatrix


def launch_lines(matrix: CostMatrix, model: ModelSpec, *, assume: bool = False) -> str:
    """Give a line for a shell for each engine, below what a token takes there.

    Parameters
    ----------
    assume : bool
        Whether labelled defaults may stand in for what the file lacks.

    Raises
    ------
    NumamicroError
        The file lacks what every engine's prediction needs.
    """
    found = [_line(matrix, model, engine, assume=assume) for engine in ENGINES.values()]
    refusals = [text for text in found if isinstance(text, NumamicroError)]
    if len(refusals) == len(found):
        raise refusals[0]
    blocks = [f"# {text}" if isinstance(text, NumamicroError) else text for text in found]
    return "\n".join([f"# {model.name}", *blocks]) + "\n"


def _line(
    matrix: CostMatrix, model: ModelSpec, engine: Engine, *, assume: bool
) -> str | NumamicroError:
    """Give an engine's line below what it brings, or why there is none."""
    try:
        rates = Rates(matrix, assume=assume)
        best = advise(Predictor(model, Load(), engine, rates)).best
    except NumamicroError as error:
        return error
    line = launch_line(best.placement, engine.name, matrix.header.machine, len(model.layers))
    return f"# {engine.name}: {best.decode.seconds:.4g} s a token as predicted\n{line}"
