"""The search: that it finds what brute force finds, in time, and says how to launch it."""

from __future__ import annotations

import time
from itertools import combinations

import pytest

from numamicro.cost.advise import advise
from numamicro.cost.cells import ok_cells
from numamicro.cost.launch import cpu_list, launch_line
from numamicro.cost.placement import POLICIES, Load, Placement, engine
from numamicro.cost.predict import Predictor
from numamicro.cost.presets import PRESETS, preset
from numamicro.cost.rates import Rates
from numamicro.cost.ring import slowest_of_ring
from numamicro.cost.terms import Figure
from numamicro.cost.what_if import parse_what_if, scaled
from numamicro.errors import NumamicroError
from numamicro.units import GIB
from tests.cost.rigs import SPARSE, predictor, rig, sentence_of, small_model
from tests.examples import machine


def test_cpus_are_searched_whole() -> None:
    asked = predictor(rig(), small_model(num_hidden_layers=8))
    advice = advise(asked)
    every = []
    for nodes in ((0,), (1,), (0, 1)):
        for count in (1, 4, 8):
            threads = tuple((index, count) for index in nodes)
            for policy in POLICIES:
                for memory in ((0,), (1,), (0, 1)):
                    placement = Placement(threads=threads, policy=policy, memory=memory)
                    every.append(asked.decode(placement).seconds)
    assert advice.best.decode.seconds == pytest.approx(min(every), rel=0.005)
    assert advice.best.placement.nodes == (0, 1)
    assert advice.best.placement.policy == "bound"
    seconds = [item.seconds for item in advice.ranked[1:]]
    assert seconds == sorted(seconds)
    assert advice.worst.decode.seconds == max(seconds)


def test_the_naive_default_touches_all_pages_on_the_first_node() -> None:
    advice = advise(predictor(rig(remote=10e9), small_model(num_hidden_layers=8)))
    assert advice.naive is not None
    assert advice.naive.placement == Placement(
        threads=((0, 8), (1, 8)), policy="first-touch", memory=(0,)
    )
    assert advice.naive.decode.seconds > 1.5 * advice.best.decode.seconds


def test_a_pair_within_a_node_beats_one_across() -> None:
    model = small_model(num_hidden_layers=4, hidden_size=8192, intermediate_size=28672)
    advice = advise(predictor(rig(gpus=4, gpu_read=1e11), model))
    assert len(advice.best.placement.stages[0]) == 4
    pairs = {
        item.placement.stages[0]: item.seconds
        for item in advice.ranked
        if [len(stage) for stage in item.placement.stages] == [2] and item.placement.replicas == 1
    }
    assert set(pairs) == set(combinations(range(4), 2))
    assert max(pairs[0, 1], pairs[2, 3]) < min(pairs[0, 2], pairs[1, 3])


def test_slow_links_make_one_gpu_the_best() -> None:
    advice = advise(predictor(rig(gpus=4, reduce=1e-2)))
    assert advice.best.placement.stages == ((0,),)


def test_throughput_prefers_replicas() -> None:
    advice = advise(predictor(rig(gpus=4, reduce=1e-2)), by="throughput")
    assert advice.best.placement.replicas == 4
    assert advice.best.tokens_per_second == pytest.approx(4 / advice.best.decode.seconds)


def test_a_model_too_large_for_the_gpus_leaves_experts_on_the_cpus() -> None:
    model = small_model(num_hidden_layers=16, **SPARSE | {"moe_intermediate_size": 4096})
    matrix = rig(gpus=1)
    size = model.total.bytes

    class Tight(Rates):
        def gpu_memory(self, index: int) -> int | None:
            return int(size / 2)

    advice = advise(Predictor(model, Load(), engine("llama.cpp"), Tight(matrix)))
    best = advice.best.placement
    assert best.stages == ((0,),)
    assert 6 <= len(best.cpu_experts) <= 10
    assert all(room.fits for room in advice.best.rooms)
    fewer = Placement(
        stages=best.stages,
        cpu_experts=best.cpu_experts[1:],
        threads=best.threads,
        policy=best.policy,
        memory=best.memory,
    )
    assert "gpu0 has" in sentence_of(
        lambda: Predictor(model, Load(), engine("llama.cpp"), Tight(matrix)).cost(fewer)
    )


def test_what_fits_nowhere_is_one_sentence() -> None:
    with pytest.raises(NumamicroError, match="fit"):
        advise(predictor(rig(memory=4 * GIB), preset("llama-3.1-70b")))


@pytest.mark.parametrize("name", PRESETS)
def test_the_largest_machines_are_searched_in_time(name: str) -> None:
    matrix = rig(nodes=8, gpus=8, memory=2048 * GIB)
    asked = predictor(matrix, preset(name, "Q4_K_M"))
    start = time.process_time()
    advise(asked)
    # The bound of the project is on an idle machine; processor time does not see the others.
    assert time.process_time() - start < 2.0


def test_a_ring_goes_round_the_slow_link() -> None:
    def cost(one: int, other: int) -> Figure:
        slow = 9.0 if (one, other) == (0, 1) else 1.0 + one + other
        return Figure(slow, slow, slow, "test", "measured")

    def brute() -> float:
        from itertools import permutations

        rings = ((0, *rest) for rest in permutations((1, 2, 3)))
        return min(
            max(cost(min(a, b), max(a, b)).value for a, b in zip(r, (*r[1:], r[0]), strict=True))
            for r in rings
        )

    assert slowest_of_ring((0, 1, 2, 3), cost).value == brute()


# ---- what if -------------------------------------------------------------------------------------


def test_a_faster_memory_is_hypothetical_and_only_its_own() -> None:
    matrix = rig()
    changed = scaled(matrix, parse_what_if(["node1.read*1.5"]))
    assert Rates(changed).memory(1).value == pytest.approx(1.5 * Rates(matrix).memory(1).value)
    assert Rates(changed).memory(0) == Rates(matrix).memory(0)
    assert Rates(changed).memory(1).origin == "hypothetical"
    one = predictor(changed).cost(Placement(threads=((1, 8),), memory=(1,)))
    assert one.is_hypothetical
    assert not predictor(matrix).cost(Placement(threads=((1, 8),), memory=(1,))).is_hypothetical


def test_a_route_and_a_time_can_be_scaled() -> None:
    matrix = rig(gpus=2)
    changed = Rates(
        scaled(matrix, parse_what_if(["node0>node1.read*2", "barrier*4", "gpu1.h2d*3"]))
    )
    plain = Rates(matrix)
    assert changed.link(0, 1).value == pytest.approx(2 * plain.link(0, 1).value)
    assert changed.link(1, 0).value == plain.link(1, 0).value
    assert changed.barrier((0,), 8).value == pytest.approx(plain.barrier((0,), 8).value / 4)
    assert changed.to_gpu(0, 1).value == pytest.approx(3 * plain.to_gpu(0, 1).value)
    assert changed.to_gpu(0, 0).value == plain.to_gpu(0, 0).value


def test_peer_access_can_be_switched_on_in_thought() -> None:
    matrix = rig(gpus=2, peer=False)
    assert not Rates(matrix).has_links((0, 1))
    assert Rates(matrix, peer=True).has_links((0, 1))


def test_an_assumed_all_reduce_grows_with_its_bytes() -> None:
    apart = Rates(rig(gpus=2, peer=False), assume=True, peer=True)
    small, large = (apart.all_reduce((0, 1), size) for size in (1024, 2**26))
    assert small.origin == large.origin == "assumed"
    assert large.value - small.value == pytest.approx((2**26 - 1024) / 24e9)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h2d",
        "h2d*",
        "h2d*0",
        "h2d*-1",
        "*2",
        "warp*2",
        "node1.read*x",
        "p2p=maybe",
        "nodex.read*2",
    ],
)
def test_a_what_if_that_is_none_is_one_sentence(text: str) -> None:
    assert sentence_of(lambda: parse_what_if([text]))


def test_a_what_if_of_nothing_is_refused() -> None:
    with pytest.raises(NumamicroError, match="no cell"):
        scaled(rig(), parse_what_if(["h2d*2"]))


def test_cells_that_failed_are_not_there() -> None:
    from dataclasses import replace

    from numamicro.matrix import State

    matrix = rig()
    failed = replace(
        matrix, measurements=tuple(replace(c, state=State.VOID) for c in matrix.measurements)
    )
    assert ok_cells(failed) == {}


# ---- launch lines --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("placement", "name", "says"),
    [
        (
            Placement(threads=((0, 2),), memory=(0,)),
            "llama.cpp",
            "numactl --physcpubind=0-1 --membind=0 llama-server -m MODEL -t 2 --numa numactl -ngl 0 --no-mmap",
        ),
        (
            Placement(threads=((0, 2), (1, 2)), policy="interleaved", memory=(0, 1)),
            "llama.cpp",
            "numactl --physcpubind=0-3 --interleave=0,1 llama-server",
        ),
        (
            Placement(stages=((1, 3),)),
            "vllm",
            "CUDA_VISIBLE_DEVICES=1,3 vllm serve MODEL --tensor-parallel-size 2",
        ),
        (
            Placement(stages=((0, 1), (2, 3))),
            "sglang",
            "CUDA_VISIBLE_DEVICES=0,1,2,3 python -m sglang.launch_server --model-path MODEL --tp 2 --pp-size 2",
        ),
        (
            Placement(threads=((0, 2), (1, 1)), memory=(0, 1)),
            "vllm",
            "VLLM_CPU_OMP_THREADS_BIND='0-1|2'",
        ),
        (
            Placement(stages=((0,),), cpu_experts=(3, 4), threads=((0, 2), (1, 2)), memory=(0, 1)),
            "ktransformers",
            "--kt-cpuinfer 4 --kt-threadpool-count 2",
        ),
        (
            Placement(stages=((0,),), cpu_experts=(3, 4), threads=((0, 2),), memory=(0,)),
            "llama.cpp",
            r"-ngl 33 -sm none -ot 'blk\.(3|4)\.ffn_.*_exps=CPU' --no-mmap",
        ),
    ],
)
def test_launch_lines(placement: Placement, name: str, says: str) -> None:
    assert says in launch_line(placement, name, machine(), 32)


def test_cpus_are_written_as_numactl_reads_them() -> None:
    assert cpu_list((5, 0, 1, 2, 8, 9)) == "0-2,5,8-9"
