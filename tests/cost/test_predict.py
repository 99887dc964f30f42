"""Times of tokens: against arithmetic by hand, and what must hold of any."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numamicro.case import Route, node
from numamicro.cost.placement import POLICIES, Load, Placement
from numamicro.cost.predict import Predictor
from numamicro.cost.presets import preset
from numamicro.cost.rates import Rates
from numamicro.cost.terms import Term
from numamicro.cost.verdict import domains, sentence
from numamicro.units import GIB, MIB
from tests.cost.rigs import PLAIN, SPARSE, STEP, cell, on_node, predictor, rig, small_model

if TYPE_CHECKING:
    from numamicro.matrix import CostMatrix, Measurement

MODEL = small_model()
WEIGHTS = MODEL.active().bytes
HEAD = MODEL.head.bytes
LAYERS = WEIGHTS - HEAD
CACHE = MODEL.cache_bytes(2048)
DENSE = PLAIN.attention_meetings + PLAIN.mlp_meetings
STEPS = (2 * (2 * 1024 + 2 * 128) + 1024) * STEP


def seconds(
    matrix: CostMatrix, placement: Placement, load: Load | None = None, **options: bool
) -> float:
    return predictor(matrix, None, load, **options).decode(placement).seconds


# ---- by hand -------------------------------------------------------------------------------------


def test_one_node_reads_all_weights_at_its_rate() -> None:
    # 8 threads take 80 GB/s of dot products, so that the memory's 40 GB/s bind.
    attended = 2 * 2 * 2048 * (2 * 8 * 128)
    expected = WEIGHTS / 40e9 + max(CACHE / 40e9, attended / 80e9) + 2 * DENSE * 1e-6 + STEPS
    assert seconds(rig(), on_node(0)) == pytest.approx(expected)


def test_few_threads_are_bound_by_their_arithmetic() -> None:
    attended = 2 * 2 * 2048 * (2 * 8 * 128)
    norms = 4 * 1024 * 2
    assert norms < WEIGHTS
    expected = WEIGHTS / 10e9 + attended / 10e9 + STEPS
    assert seconds(rig(cores=2), on_node(0, threads=1)) == pytest.approx(expected)


def streaming(matrix: CostMatrix, setting: str) -> CostMatrix:
    """Give the matrix with products that wait for memory: 8 GB/s a thread, 30 GB/s together."""
    home = Route(node(0), node(0))
    cells = [
        cell("dot-stream", "vector", home, rate, threads=threads, format="F16", pages=pages)
        for threads, small in ((1, 8e9), (8, 30e9))
        for pages, rate in (("small", small), ("auto", 1.2 * small))
    ]
    header = replace(matrix.header, setting={"thp.enabled": setting})
    return replace(matrix, header=header, measurements=(*matrix.measurements, *cells))


@pytest.mark.parametrize(
    ("setting", "threads", "rate"),
    [
        ("madvise", 8, 30e9),
        ("always", 8, 36e9),
        ("madvise", 1, 8e9),
        ("madvise", 3, 24e9),  # no more than three single threads
        ("madvise", 6, 30e9),  # nor than the next larger team that was measured
    ],
)
def test_weights_go_no_faster_than_their_products_let_them(
    setting: str, threads: int, rate: float
) -> None:
    term = predictor(streaming(rig(), setting)).decode(on_node(0, threads))
    through = [leaf for leaf in term.leaves() if leaf.name == "F16 through the cores"]
    assert through
    assert all(leaf.figure and leaf.figure.value == pytest.approx(rate) for leaf in through)
    assert term.seconds >= WEIGHTS / rate


def test_a_matrix_ends_when_the_last_thread_does() -> None:
    """The first MiB of each matrix goes at the rate of threads that meet so often."""
    matrix = streaming(rig(), "madvise")
    whole = seconds(matrix, on_node(0))
    home = Route(node(0), node(0))
    parts = [
        cell(
            "dot-stream",
            "vector",
            home,
            rate,
            threads=8,
            format="F16",
            pages="small",
            value=value,
        )
        for value, rate in (("whole", 30e9), ("by-MiB", 20e9))
    ]
    others = [each for each in matrix.measurements if each.case.probe != "dot-stream"]
    ends = seconds(replace(matrix, measurements=(*others, *parts)), on_node(0))
    products = 2 * MODEL.layers[0].products
    assert products * MIB < LAYERS
    assert HEAD > MIB
    assert ends - whole == pytest.approx((products + 1) * MIB * (1 / 20e9 - 1 / 30e9))


def test_a_plain_loop_makes_eight_bits_for_blocks_of_256() -> None:
    """Of what queries, keys, values and two of an MLP's matrices take in, the heads and the inner state."""
    taken = 2 * (5 * 1024 + 8 * 128 + 4096) + 1024
    for kind, values in (("Q8_0", 0), ("Q4_K_S", taken)):
        without, within = (
            Predictor(small_model(kind), Load(), engine, Rates(rig())).decode(on_node(0)).seconds
            for engine in (PLAIN, replace(PLAIN, quantizes_plainly=True))
        )
        # Norms are kept in 32 bits.
        assert within - without == pytest.approx(values * STEP, rel=1e-3)


def attending() -> CostMatrix:
    """Give a matrix whose attention is slower for deeper caches, and for more heads side by side."""
    home = Route(node(0), node(0))
    cells = [
        cell("attention", "decode", home, rate, heads=heads, positions=positions, threads=8)
        for heads, positions, rate in (
            (2, 2048, 80e9),
            (2, 8192, 40e9),
            (8, 2048, 20e9),
            (8, 8192, 10e9),
        )
    ]
    others = [each for each in rig().measurements if each.case.probe != "attention"]
    return replace(rig(), measurements=(*others, *cells))


@pytest.mark.parametrize(
    ("threads", "heads", "head_bytes", "rate"),
    [
        (8, 2, MIB, 80e9),
        (8, 2, 4 * MIB, 40e9),
        (8, 8, 4 * MIB, 10e9),
        (8, 2, 2 * MIB, 40e9 * 2**0.5),  # a power law between what was measured
        (8, 4, 2 * MIB, 20e9 * 2**0.5),
        (8, 1, 100, 80e9),  # level outside
        (8, 64, 1e12, 10e9),
        (4, 2, MIB, 40e9),  # each core has caches of its own
        (16, 2, MIB, 160e9),
    ],
)
def test_attention_goes_by_heads_and_bytes_of_each(
    threads: int, heads: int, head_bytes: float, rate: float
) -> None:
    assert Rates(attending()).attention(threads, heads, head_bytes).value == pytest.approx(rate)


def test_layers_with_a_window_attend_at_their_own_rate() -> None:
    """Of four layers with two cached heads each, two look back at 2,048 positions and two at 8,192."""
    kinds = ["sliding_attention", "full_attention"] * 2
    model = small_model(num_hidden_layers=4, sliding_window=2048, layer_types=kinds)
    term = predictor(attending(), model, Load(context=8192)).decode(on_node(0))
    found = {
        leaf.name: (leaf.amount, leaf.figure.value if leaf.figure else 0)
        for leaf in term.leaves()
        if leaf.name.startswith("attention")
    }
    taken = 2 * (2 * 8 * 128 * 2) * 2048
    assert found == {
        "attention, 1 MiB a head": (taken, 80e9),
        "attention, 4 MiB a head": (4 * taken, 40e9),
    }


def test_remote_pages_go_at_the_links_rate() -> None:
    near, far = seconds(rig(), on_node(0)), seconds(rig(), on_node(0, memory=1))
    assert far - near == pytest.approx(
        (WEIGHTS + CACHE) / 20e9 - WEIGHTS / 40e9 - max(CACHE / 40e9, 8 * CACHE / 80e9 / 2)
    )


def test_a_row_for_each_policy() -> None:
    """Two nodes of 8 threads: bound and replicated read at home, interleaved half over the link."""
    threads = ((0, 8), (1, 8))
    waits = 2 * DENSE * 3e-6 + STEPS
    attention = 8 * CACHE / 2 / 160e9
    times = {
        policy: seconds(rig(), Placement(threads=threads, policy=policy, memory=(0, 1)))
        for policy in POLICIES
    }
    home = WEIGHTS / 80e9 + max(CACHE / 80e9, attention) + waits
    assert times["bound"] == times["replicated"] == pytest.approx(home)
    # A thread takes half from each: its rate is the harmonic mean of 40 and 20 GB/s.
    mixed = (0.5 / 40e9 + 0.5 / 20e9) / 2
    assert times["interleaved"] == pytest.approx(
        WEIGHTS * mixed + max(CACHE * mixed, attention) + waits
    )
    # All pages on one node: its memory gives 40 GB/s, and half of them pass the link.
    one = 1 / 40e9
    assert times["first-touch"] == pytest.approx(
        WEIGHTS * one + max(CACHE * one, attention) + waits
    )


def test_both_sockets_on_one_nodes_pages_lose_to_one_socket() -> None:
    """Where a link gives less than half of the memory's rate, as published tables show."""
    both = Placement(threads=((0, 8), (1, 8)), policy="first-touch", memory=(0,))
    assert seconds(rig(remote=15e9), both) > seconds(rig(remote=15e9), on_node(0))


def test_a_batch_shares_weights_and_not_cache() -> None:
    one = predictor(rig(), load=Load(batch=1)).decode(on_node(0, threads=8))
    four = predictor(rig(dot=1e12), load=Load(batch=4)).decode(on_node(0, threads=8))
    cache = [
        part
        for part in four.leaves()
        if part.name == "memory of node0" and part.amount == 4 * CACHE
    ]
    assert cache
    assert four.seconds < 4 * one.seconds


def test_a_sparse_model_reads_what_a_token_takes() -> None:
    sparse = small_model(**SPARSE)
    term = predictor(rig(), sparse).decode(on_node(0))
    read = [part.amount for part in term.leaves() if part.name == "memory of node0"]
    assert read[0] == pytest.approx(sparse.active().bytes - sparse.head.bytes)


def test_a_gpu_reads_its_weights_and_pays_for_each_layer() -> None:
    term = predictor(rig(gpus=1)).decode(Placement(stages=((0,),)))
    memory = (WEIGHTS + CACHE) / (0.83 * 1e12)
    logits = 1e-5 + 32000 * 4 / 25e9
    assert term.seconds == pytest.approx(memory + 2 * PLAIN.gpu_layer_seconds + logits)


def test_tensor_parallel_splits_weights_and_reduces_twice_a_layer() -> None:
    matrix = rig(gpus=2, nodes=1)
    term = predictor(matrix).decode(Placement(stages=((0, 1),)))
    parts = {part.name: part for part in term.leaves()}
    assert parts["weights"].amount == pytest.approx(WEIGHTS / 2)
    assert parts["cache"].amount == pytest.approx(CACHE / 2)
    assert parts["all-reduces"].amount == 4
    # 2 KiB of activations are less than the smallest size measured.
    assert parts["all-reduces"].figure is not None
    assert parts["all-reduces"].figure.value == pytest.approx(1e-5 * (1 + 4096 / 2**16))


@given(st.integers(1, 16), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]))
def test_the_cache_is_split_by_at_most_its_heads(ranks: int, kv: int, context: int) -> None:
    from numamicro.cost.demand import demand

    model = small_model(num_key_value_heads=kv)
    asked = demand(model.layers, Load(context=context))
    assert asked.cache_bytes(ranks) == pytest.approx(model.cache_bytes(context) / min(ranks, kv))


def test_mla_keeps_its_cache_on_every_rank() -> None:
    from numamicro.cost.demand import demand

    asked = demand(preset("deepseek-v3").layers, Load(context=100))
    assert asked.cache_bytes(8) == asked.cache_bytes(1) == pytest.approx(70_272 * 100)


def test_a_chain_of_stages_pays_a_hop_through_a_node_without_peer_access() -> None:
    matrix = rig(gpus=2, peer=False)
    chain = Placement(stages=((0,), (1,)), peer=False, via=0)
    term = predictor(matrix).decode(chain)
    size = 1024 * 2
    expected = 1e-5 + size / 25e9 + 1e-5 + size / 20e9
    hop = next(part for part in term.parts if part.name.startswith("gpu0 to gpu1"))
    assert hop.seconds == pytest.approx(expected)


def test_experts_on_the_cpus_add_their_time_and_hops() -> None:
    sparse = small_model(**SPARSE)
    whole = predictor(rig(gpus=1), sparse).decode(Placement(stages=((0,),)))
    placement = Placement(stages=((0,),), cpu_experts=(0, 1), threads=((0, 8),), memory=(0,))
    split = predictor(rig(gpus=1), sparse).decode(placement)
    moved = sum(layer.routed(1).bytes for layer in sparse.layers)
    hop = 1e-5 + 1024 * 4 / 25e9
    waits = 2 * (PLAIN.expert_meetings + 1) * 1e-6
    operations = 2 * (PLAIN.expert_meetings + 1)
    gained = moved / (0.83 * 1e12) + operations / DENSE * PLAIN.gpu_layer_seconds
    assert split.seconds == pytest.approx(whole.seconds - gained + moved / 40e9 + waits + 4 * hop)


def test_an_engine_that_overlaps_hides_the_shared_experts() -> None:
    sparse = small_model(**SPARSE, n_shared_experts=4)
    placement = Placement(stages=((0,),), cpu_experts=(0, 1), threads=((0, 8),), memory=(0,))
    summed = predictor(rig(gpus=1), sparse)
    overlapped = predictor(rig(gpus=1), sparse)
    overlapped.engine = replace(PLAIN, overlap=True)
    shared = sum(layer.mlp.bytes for layer in sparse.layers) / (0.83 * 1e12)
    gain = summed.decode(placement).seconds - overlapped.decode(placement).seconds
    assert gain == pytest.approx(shared)


def test_a_prompt_is_products_and_the_square_of_its_tokens() -> None:
    cost = predictor(rig(), load=Load(prompt=512)).cost(on_node(0))
    assert isinstance(cost.prefill, Term)
    layers = sum(layer.every_token.parameters for layer in MODEL.layers)
    work = 2 * layers * 512 + 2 * 2 * 1024 * 512**2
    steps = 512 / 8 * 2 * (2 * 1024 + 2 * 128) * STEP
    assert cost.prefill.seconds == pytest.approx(work / (8 * 20 * 10e9) + steps)
    assert isinstance(cost.first_token, Term)
    assert cost.first_token.seconds > cost.prefill.seconds


def test_each_operation_of_an_engine_is_dispatched() -> None:
    quick, slow = predictor(rig()), predictor(rig())
    slow.engine = replace(PLAIN, dispatch_seconds=3e-6)
    placement = Placement(threads=((0, 8),), memory=(0,))
    more = slow.decode(placement).seconds - quick.decode(placement).seconds
    assert more == pytest.approx(PLAIN.meetings(2, 2, 0, 0) * 3e-6)


def test_llama_takes_each_token_of_a_prompt_through_its_experts_by_itself() -> None:
    sparse = small_model(**SPARSE)
    placement = Placement(threads=((0, 8),), memory=(0,))
    slow = rig(dot=1e9)  # so that the arithmetic binds either way
    as_matrix, singly = (predictor(slow, sparse, Load(prompt=64)) for _ in range(2))
    singly.engine = replace(PLAIN, experts_singly=True)
    routed = [layer.expert * (layer.active * 64) for layer in sparse.layers]
    saved = sum(2 * each.parameters for each in routed) / (8 * 20 * 1e9)
    taken = sum(each.bytes for each in routed) / (8 * 1e9)
    together, apart = (each.cost(placement).prefill for each in (as_matrix, singly))
    assert isinstance(together, Term)
    assert isinstance(apart, Term)
    assert apart.seconds - together.seconds == pytest.approx(taken - saved)


def test_llama_streams_experts_to_the_gpu_for_a_prompt() -> None:
    sparse = small_model(**SPARSE)
    placement = Placement(stages=((0,),), cpu_experts=(0, 1), threads=((0, 8),), memory=(0,))
    engine = replace(PLAIN, streams=True)
    streaming = predictor(rig(gpus=1), sparse)
    streaming.engine = engine
    cost = streaming.cost(placement)
    assert isinstance(cost.prefill, Term)
    sent = next(leaf for leaf in cost.prefill.leaves() if "CPUs to the GPU" in leaf.name)
    chunk = replace(streaming.load, batch=512)
    assert sent.amount == pytest.approx(
        sum(layer.routed(chunk.batch).bytes for layer in sparse.layers)
    )


# ---- what must hold ------------------------------------------------------------------------------

PLACEMENTS = [
    on_node(0),
    on_node(1),
    on_node(0, threads=3),
    on_node(0, memory=1),
    *(Placement(threads=((0, 8), (1, 8)), policy=policy, memory=(0, 1)) for policy in POLICIES),
    Placement(stages=((0,),)),
    Placement(stages=((0, 1),)),
    Placement(stages=((0, 1, 2, 3),)),
    Placement(stages=((0, 1), (2, 3))),
    Placement(stages=((0, 1),), peer=False),
    Placement(stages=((0,),), cpu_experts=(0,), threads=((0, 8),), memory=(0,)),
    Placement(stages=((0,), (3,)), cpu_layers=1, threads=((1, 4),), memory=(1,), peer=False),
]
placements = st.sampled_from(PLACEMENTS)
RIG = rig(gpus=4)
SPARSE_MODEL = small_model(num_hidden_layers=4, **SPARSE)
loads = st.builds(
    Load,
    batch=st.integers(1, 64),
    context=st.integers(1, 10_000),
    prompt=st.integers(1, 2_000),
)


def slowed(cell: Measurement, factor: float) -> Measurement:
    runs = tuple(
        replace(run, samples=tuple(s._replace(seconds=s.seconds * factor) for s in run.samples))
        for run in cell.runs
    )
    return replace(cell, runs=runs)


@settings(max_examples=150)
@given(placements, loads, st.integers(0, len(RIG.measurements) - 1), st.floats(1.0, 50.0))
def test_no_cost_falls_when_a_rate_falls(
    placement: Placement, load: Load, index: int, factor: float
) -> None:
    cells = list(RIG.measurements)
    cells[index] = slowed(cells[index], factor)
    before = predictor(RIG, SPARSE_MODEL, load).cost(placement)
    after = predictor(replace(RIG, measurements=tuple(cells)), SPARSE_MODEL, load).cost(placement)
    for name in ("decode", "prefill", "first_token"):
        old, new = getattr(before, name), getattr(after, name)
        assert new.seconds >= old.seconds * (1 - 1e-9), name
        assert new.high >= old.high * (1 - 1e-9), name


@settings(max_examples=60)
@given(placements, loads, st.integers(1, 8), st.integers(1, 3), st.sampled_from([1, 2, 4]))
def test_no_cost_falls_when_bytes_grow(
    placement: Placement, load: Load, batch: int, longer: int, wider: int
) -> None:
    def token(model: object, asked: Load) -> float:
        return predictor(RIG, model, asked).decode(placement).seconds  # type: ignore[arg-type]

    now = token(SPARSE_MODEL, load)
    assert token(SPARSE_MODEL, replace(load, context=load.context * longer)) >= now * (1 - 1e-9)
    assert token(SPARSE_MODEL, replace(load, batch=load.batch + batch)) >= now * (1 - 1e-9)
    grown = small_model(num_hidden_layers=4, **SPARSE | {"moe_intermediate_size": 512 * wider})
    assert token(grown, load) >= now * (1 - 1e-9)


@given(st.floats(1e9, 1e11), st.floats(0.01, 1.0), st.integers(1, 8))
def test_a_farther_node_never_helps(local: float, share: float, threads: int) -> None:
    matrix = rig(local=local, remote=local * share)
    near = seconds(matrix, on_node(0, threads))
    assert seconds(matrix, on_node(0, threads, memory=1)) >= near * (1 - 1e-9)


def check_sums(term: Term) -> None:
    assert term.low <= term.seconds * (1 + 1e-9)
    assert term.high >= term.seconds * (1 - 1e-9)
    if term.how == "sum":
        assert term.seconds == pytest.approx(sum(part.seconds for part in term.parts))
    elif term.how == "max":
        assert term.seconds == max(part.seconds for part in term.parts)
    else:
        assert term.figure is not None
        assert term.amount is not None
        rate = term.figure.value
        expected = term.amount * rate if term.unit == "times" else term.amount / rate
        assert term.seconds == pytest.approx(expected)
    for part in term.parts:
        check_sums(part)


@settings(max_examples=60)
@given(placements, loads)
def test_terms_add_up_and_say_what_binds(placement: Placement, load: Load) -> None:
    cost = predictor(RIG, SPARSE_MODEL, load).cost(placement)
    for term in (cost.decode, cost.prefill, cost.first_token):
        assert isinstance(term, Term)
        check_sums(term)
    assert sum(domains(cost.decode).values()) == pytest.approx(cost.decode.seconds)
    assert sentence(cost, 2).endswith(".")


def test_an_interval_is_that_of_the_cells() -> None:
    matrix = rig()
    wide = [
        replace(
            cell,
            runs=tuple(
                replace(
                    run,
                    samples=run.samples * 3
                    + tuple(
                        s._replace(seconds=s.seconds * f) for s in run.samples for f in (0.8, 1.25)
                    ),
                )
                for run in cell.runs
            ),
        )
        if cell.case.operation == "read"
        and cell.case.route.source == node(0) == cell.case.route.target
        else cell
        for cell in matrix.measurements
    ]
    term = predictor(replace(matrix, measurements=tuple(wide))).decode(on_node(0))
    leaf = next(leaf for leaf in term.leaves() if leaf.name == "memory of node0")
    assert leaf.low == pytest.approx(0.8 * leaf.seconds)
    assert leaf.high == pytest.approx(1.25 * leaf.seconds)
    assert term.low < term.seconds < term.high


def test_gigabytes_are_decimal_and_gibibytes_are_not() -> None:
    """10^9 bytes at 1 GB/s take a second; a GiB takes longer by 7 %."""
    from numamicro.cost.terms import Figure, at_rate

    rate = Figure(1e9, 1e9, 1e9, "test", "measured")
    assert at_rate("", 1e9, "B", rate, "").seconds == 1.0
    assert at_rate("", GIB, "B", rate, "").seconds == 2**30 / 1e9
