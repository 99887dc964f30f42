"""Files that lack something: the search gives advice, or says in one sentence why there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from numamicro.cost.advise import advise
from numamicro.cost.placement import ENGINES, Load
from numamicro.cost.predict import Predictor
from numamicro.cost.rates import Rates
from numamicro.errors import NumamicroError
from tests.cost.rigs import SPARSE, rig, small_model

if TYPE_CHECKING:
    from numamicro.case import Route
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.placement import Engine

RIG = rig(2, 2)
MODELS = (small_model(), small_model(**SPARSE))
ENDS = tuple({cell.case.route for cell in RIG.measurements})
PROBES = tuple({cell.case.probe for cell in RIG.measurements})


@settings(max_examples=60)
@given(
    model=st.sampled_from(MODELS),
    lost_routes=st.sets(st.sampled_from(ENDS), max_size=4),
    lost_probes=st.sets(st.sampled_from(PROBES), max_size=4),
    node_memory=st.tuples(*[st.sampled_from((None, 0, 2**40))] * 2),
    node_cpus=st.tuples(st.booleans(), st.booleans()),
    nodes=st.integers(0, 2),
    assume=st.booleans(),
    engine=st.sampled_from(tuple(ENGINES.values())),
)
def test_whatever_a_file_lacks(
    model: ModelSpec,
    lost_routes: set[Route],
    lost_probes: set[str],
    node_memory: tuple[int | None, ...],
    node_cpus: tuple[bool, bool],
    nodes: int,
    assume: bool,
    engine: Engine,
) -> None:
    whole = RIG.header.machine
    kept = tuple(
        replace(each, memory=memory, cpus=each.cpus if has_cpus else ())
        for each, memory, has_cpus in zip(whole.nodes, node_memory, node_cpus, strict=True)
    )[:nodes]
    matrix = replace(
        RIG,
        header=replace(RIG.header, machine=replace(whole, nodes=kept)),
        measurements=tuple(
            cell
            for cell in RIG.measurements
            if cell.case.route not in lost_routes and cell.case.probe not in lost_probes
        ),
    )
    predictor = Predictor(model, Load(), engine, Rates(matrix, assume=assume))
    try:
        advice = advise(predictor)
    except NumamicroError as error:
        sentence = str(error)
        assert sentence
        assert "\n" not in sentence
    else:
        assert advice.best.decode.seconds > 0
