"""Machines with round figures for tests of costs, and small models."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

from numamicro.case import Case, Place, PlaceSet, Route, node
from numamicro.cost.config import from_config
from numamicro.cost.placement import Engine, Load, Placement
from numamicro.cost.predict import Predictor
from numamicro.cost.rates import Rates
from numamicro.errors import NumamicroError
from numamicro.matrix import CostMatrix, Measurement, Run, Sample
from numamicro.units import GIB, is_rate
from tests.examples import header, machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numamicro.cost.model import ModelSpec

STEP = 1e-9
PLAIN = Engine("llama.cpp", overlap=False, host_samples=True)


def cell(
    probe: str, operation: str, route: Route, value: float, /, **params: int | str
) -> Measurement:
    """Give a cell of one sample with this value in its base unit."""
    unit = "s" if probe in ("barrier", "all-reduce", "host-latency", "step") else "B/s"
    amount = 2**30
    seconds = amount / value if is_rate(unit) else amount * value
    run = Run(0, (Sample(seconds, amount),))
    return Measurement.of_runs(Case.of(probe, operation, route, **params), unit, (run,))


def gpu(index: int) -> Place:
    return Place("gpu", index)


def cpu_cells(
    nodes: int, local: float, remote: float, cores: int, dot: float, barrier: float
) -> Iterator[Measurement]:
    """Give what the memory part measures, with a rate that grows with threads up to the node's."""
    places = [node(index) for index in range(nodes)]
    for source in places:
        for target in places:
            best = local if source == target else remote
            for threads in sorted({1, max(1, cores // 2), cores}):
                rate = best * min(1.0, 2 * threads / cores)
                route = Route(source, target)
                yield cell("bandwidth", "read", route, rate, threads=threads, variant="1-stream")
        yield cell("bandwidth", "copy", Route(source, source), local, threads=cores)
        yield cell("barrier", "wait", Route(source, source), barrier, team=cores)
        for name in ("F16", "BF16", "Q8_0", "Q4_0", "Q4_K"):
            yield cell("dot", "vector", Route(source, source), dot, threads=1, format=name)
            yield cell("gemm", "matrix", Route(source, source), 20 * dot, threads=1, format=name)
        shape = {"heads": 2, "positions": 2048, "threads": 1}
        yield cell("attention", "decode", Route(source, source), dot, **shape)
        for kind in ("norm", "rotate", "quantize"):
            yield cell("step", "value", Route(source, source), STEP, kind=kind, values=128)
    if nodes > 1:
        everywhere = Route(PlaceSet(tuple(places)), PlaceSet(tuple(places)))
        yield cell("barrier", "wait", everywhere, 3 * barrier, team=nodes * cores)


def gpu_cells(
    nodes: int, gpus: int, near: float, far: float, read: float, reduce: float, *, peer: bool
) -> Iterator[Measurement]:
    """Give GPUs that hang at the nodes in turn: copies, own memory, and all-reduces of each pair."""
    for index in range(gpus):
        yield cell("gpu-memory", "read", Route(gpu(index), gpu(index), mover="sm-load"), read)
        yield cell("gpu-gemm", "matrix", Route(gpu(index), gpu(index), mover="sm-load"), 1e14)
        for place in range(nodes):
            rate = near if place == index * nodes // gpus else far
            for operation, ends in (
                ("h2d", (node(place), gpu(index))),
                ("d2h", (gpu(index), node(place))),
            ):
                route = Route(*ends, mover="copy-engine")
                yield cell("host-copy", operation, route, rate, bytes=2**26, memory="pinned")
                yield cell("host-latency", operation, route, 1e-5, bytes=4096, memory="pinned")
    for one, other in permutations(range(gpus), 2):
        close = one * nodes // gpus == other * nodes // gpus
        slower = 1.0 if close else 2.0
        for size in (4096, 2**26):
            time = reduce * slower * (1 + size / 2**16)
            if one < other and peer:
                route = Route(gpu(one), gpu(other), mover="sm-load")
                yield cell("all-reduce", "peer", route, time, message=size, timing="graph")
            if one < other:
                route = Route(gpu(one), gpu(other), via=node(0), mover="sm-load")
                yield cell("all-reduce", "staged", route, 4 * time, message=size)
        if peer:
            route = Route(gpu(one), gpu(other), mover="copy-engine")
            yield cell("peer-copy", "copy", route, near / slower, bytes=2**26, path="direct")
            yield cell("peer-copy", "read", route, 4096 / 5e-6, bytes=4096, path="direct")


def rig(
    nodes: int = 2,
    gpus: int = 0,
    *,
    local: float = 40e9,
    remote: float = 20e9,
    cores: int = 8,
    dot: float = 10e9,
    barrier: float = 1e-6,
    near: float = 25e9,
    far: float = 20e9,
    gpu_read: float = 1e12,
    reduce: float = 1e-5,
    peer: bool = True,
    memory: int = 64 * GIB,
) -> CostMatrix:
    """Give the matrix of a machine: nodes of eight cores, and GPUs spread over them."""
    cells = [*cpu_cells(nodes, local, remote, cores, dot, barrier)]
    cells += gpu_cells(nodes, gpus, near, far, gpu_read, reduce, peer=peer)
    return CostMatrix(header(machine(range(nodes), cores, memory)), tuple(cells))


def small_model(quant: str | None = None, /, **changes: object) -> ModelSpec:
    """Give a dense model of two layers, or of what `changes` say, in 16 bits or a quantisation."""
    keys: dict[str, object] = {
        "num_hidden_layers": 2,
        "hidden_size": 1024,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "intermediate_size": 4096,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
        "dtype": "float16",
    }
    return from_config(keys | changes, "test", "small", quant)


SPARSE = {"num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 512}


def predictor(
    matrix: CostMatrix, model: ModelSpec | None = None, load: Load | None = None, **options: bool
) -> Predictor:
    """Give what predicts a small model on a matrix."""
    rates = Rates(matrix, assume=options.pop("assume", False))
    return Predictor(model or small_model(), load or Load(), PLAIN, rates, **options)


def on_node(index: int = 0, threads: int = 8, memory: int | None = None) -> Placement:
    """Give a placement on one node, its weights there or on another."""
    target = index if memory is None else memory
    policy = "bound" if target == index else "first-touch"
    return Placement(threads=((index, threads),), policy=policy, memory=(target,))


def sentence_of(action: Callable[[], object]) -> str:
    """Give what an action says when it refuses; empty when it does not."""
    try:
        action()
    except NumamicroError as error:
        return str(error)
    return ""
