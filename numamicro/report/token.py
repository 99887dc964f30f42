"""The line that a matrix ends with: what a token costs here, placed best and worst."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.cost.advise import advise
from numamicro.cost.placement import Load, engine
from numamicro.cost.predict import Predictor
from numamicro.cost.presets import preset
from numamicro.cost.rates import Rates
from numamicro.cost.terms import ASSUMED
from numamicro.errors import NumamicroError
from numamicro.report.cost import placement_text, seconds_text

if TYPE_CHECKING:
    from numamicro.cost.advise import Advice
    from numamicro.cost.model import ModelSpec
    from numamicro.matrix import CostMatrix

USUAL = (("llama-3.1-8b", "Q8_0"), ("llama-3.1-8b", "Q4_K_M"), ("llama-3.1-8b", "Q2_K"))
"""What stands for a model when none is named: the first that fits."""


def closing_line(matrix: CostMatrix, model: ModelSpec | None) -> str:
    """Give the line: a model's token at the best and at the worst placement, or why there is none.

    Parameters
    ----------
    model : ModelSpec, optional
        None: the first of USUAL that fits.
    """
    try:
        return advice_line(usual_advice(matrix, model)[0])
    except NumamicroError as error:
        return f"A token: not predicted: {error}"


def usual_advice(matrix: CostMatrix, model: ModelSpec | None) -> tuple[Advice, Predictor]:
    """Give where to put a model, or the first of USUAL that fits, and what predicted that; defaults
    stand in for what the file lacks.

    Raises
    ------
    NumamicroError
        Nothing fits, or the file lacks what every placement needs.
    """
    models = [model] if model else [_named(*usual) for usual in USUAL]
    why = NumamicroError("no model was tried")
    for each in models:
        rates = Rates(matrix, assume=True)
        predictor = Predictor(each, Load(), engine("llama.cpp"), rates)
        try:
            return advise(predictor), predictor
        except NumamicroError as error:
            why = error
    raise why


def _named(name: str, quant: str) -> ModelSpec:
    return preset(name, quant).renamed(f"{name} {quant}")


def advice_line(advice: Advice) -> str:
    """Say what a token takes where it is placed best and where it is placed worst."""
    best, worst = advice.best, advice.worst
    line = f"A token of {best.model.name} here: {_told(best.decode.seconds)}"
    if worst.placement == best.placement:
        line += f" ({placement_text(best.placement)})"
    else:
        line += (
            f" placed best ({placement_text(best.placement)}), {_told(worst.decode.seconds)} placed "
            f"worst ({placement_text(worst.placement)})"
        )
    if any(leaf.figure and leaf.figure.origin == ASSUMED for leaf in best.decode.leaves()):
        line += "; in part from defaults, as predict --assume tells"
    if "simulated" in best.origins:
        line += "; simulated figures: no machine was measured"
    return f"{line}."


def _told(seconds: float) -> str:
    return f"{seconds_text(seconds)}, {1 / seconds:.3g} tokens/s,"
