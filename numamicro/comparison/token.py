"""The predicted time of a token, as one more figure that a boot has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.comparison.boots import Value
from numamicro.cost.advise import advise
from numamicro.cost.placement import Load, engine
from numamicro.cost.predict import Predictor
from numamicro.cost.rates import Rates
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from numamicro.cost.model import ModelSpec
    from numamicro.matrix import CostMatrix


@dataclass(frozen=True, slots=True)
class TokenOf:
    """Gives the seconds of a model's token at the best placement that a matrix offers.

    The best is searched for in each file anew: the nodes that a placement names may be gone.
    """

    model: ModelSpec

    def __call__(self, matrix: CostMatrix) -> Value:
        rates = Rates(matrix, assume=True)
        try:
            best = advise(Predictor(self.model, Load(), engine("llama.cpp"), rates)).best
        except NumamicroError as error:
            return Value("s", why=str(error))
        return Value("s", (best.decode.seconds,))
