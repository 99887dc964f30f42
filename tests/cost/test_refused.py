"""What cannot be predicted is refused in a sentence, or assumed and said to be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from numamicro.cost.placement import Placement
from numamicro.cost.presets import preset
from numamicro.cost.rates import Lacking
from numamicro.cost.verdict import sentence
from numamicro.errors import NumamicroError
from numamicro.matrix import CostMatrix, Measurement, State
from numamicro.units import GIB
from tests.cost.rigs import gpu, on_node, predictor, rig, small_model

if TYPE_CHECKING:
    from collections.abc import Callable


def without(matrix: CostMatrix, wanted: Callable[[Measurement], bool]) -> CostMatrix:
    """Give the matrix with some cells failed."""
    from numamicro.topology import Note

    cells = tuple(
        replace(cell, state=State.VOID, reason=Note("misplaced", "planted"), runs=())
        if wanted(cell)
        else cell
        for cell in matrix.measurements
    )
    return replace(matrix, measurements=cells)


@pytest.mark.parametrize(
    ("probe", "operation", "placement", "says"),
    [
        ("bandwidth", "read", on_node(0), "bandwidth/read to node0"),
        ("barrier", "wait", on_node(0), "barrier/wait"),
        ("dot", "vector", on_node(0), "dot/F16"),
        ("attention", "decode", on_node(0), "attention"),
        ("gpu-memory", "read", Placement(stages=((0,),)), "memory read of gpu0"),
        ("all-reduce", "peer", Placement(stages=((0, 1),)), "all-reduce of gpu0 and gpu1"),
        ("peer-copy", "copy", Placement(stages=((0,), (1,))), "peer copy from gpu0 to gpu1"),
        ("host-copy", "d2h", Placement(stages=((0,),)), "gpu0"),
    ],
)
def test_what_the_file_lacks_is_named_or_assumed(
    probe: str, operation: str, placement: Placement, says: str
) -> None:
    failed = without(
        rig(gpus=2),
        lambda cell: (
            cell.case.probe == probe
            and (cell.case.operation == operation or probe in ("dot", "all-reduce", "peer-copy"))
        ),
    )
    with pytest.raises(Lacking, match=says):
        predictor(failed).cost(placement)
    if operation == "read" and probe == "bandwidth":
        with pytest.raises(Lacking):
            predictor(failed, assume=True).cost(placement)
        return
    cost = predictor(failed, assume=True).cost(placement)
    assert cost.assumptions
    assert "assumed" in cost.origins


def test_what_only_a_prompt_needs_does_not_stop_a_token() -> None:
    failed = without(rig(), lambda cell: cell.case.probe == "gemm")
    cost = predictor(failed).cost(on_node(0))
    assert cost.decode.seconds
    assert isinstance(cost.prefill, str)
    assert "gemm" in cost.prefill
    assert cost.prompt_rate is None
    assert isinstance(cost.loading, str)
    assert "drive" in cost.loading


def test_what_does_not_fit_is_refused_with_the_bytes() -> None:
    model = preset("llama-3.1-70b")
    with pytest.raises(NumamicroError, match=r"node0 has 64 GiB and would hold 131\.4 GiB"):
        predictor(rig(), model).cost(on_node(0))
    assert predictor(rig(), model, ignore_capacity=True).cost(on_node(0)).decode.seconds > 3
    both = Placement(threads=((0, 8), (1, 8)), policy="bound", memory=(0, 1))
    with pytest.raises(NumamicroError, match="does not fit"):
        predictor(rig(), model).cost(both)
    assert predictor(rig(memory=80 * GIB), model).cost(both).decode.seconds > 1
    with pytest.raises(NumamicroError, match="does not fit"):
        predictor(rig(memory=80 * GIB), model).cost(replace(both, policy="replicated"))


@pytest.mark.parametrize(
    ("placement", "says"),
    [
        (Placement(stages=((0, 1, 2),)), "3 GPUs cannot split the 8 heads"),
        (Placement(stages=((0,), (0,))), "twice"),
        (Placement(stages=((0,), (1,), (2,))), "too few"),
        (Placement(stages=((),)), "0 GPUs"),
        (Placement(), "threads"),
        (Placement(stages=((0,),), cpu_experts=(0,), threads=((0, 1),), memory=(0,)), "no routed"),
        (
            Placement(stages=((0,),), cpu_experts=(9,), threads=((0, 1),), memory=(0,)),
            "layers 0 to 1",
        ),
        (Placement(threads=((0, 1),), memory=(0,), policy="near"), "policy"),
    ],
)
def test_a_placement_that_is_none_is_one_sentence(placement: Placement, says: str) -> None:
    with pytest.raises(NumamicroError, match=says) as caught:
        predictor(rig(gpus=3)).cost(placement)
    assert "\n" not in str(caught.value)


def test_a_gpu_that_binds_says_that_nodes_do_not_matter() -> None:
    big = small_model(num_hidden_layers=64)
    cost = predictor(rig(gpus=1), big).cost(Placement(stages=((0,),)))
    assert "NUMA placement does not matter here" in sentence(cost, 2)
    cpu = predictor(rig(), big).cost(on_node(0))
    assert "memory of node0 binds" in sentence(cpu, 2)
    assert "one node with memory" in sentence(cpu, 1)
    assert gpu(0) not in {room.place for room in cpu.rooms}
