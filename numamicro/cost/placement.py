"""Where a model lies and runs: GPUs, CPUs, memory, cache; and how an engine goes about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from numamicro.cost.model import ModelSpec

POLICIES = ("bound", "interleaved", "first-touch", "replicated")
"""How weights lie over the nodes' memory.

bound: each node's threads read what lies on their own node (the only node, or a slice each).
interleaved: pages go round over all memory nodes, and every thread reads all of them.
first-touch: one thread touched all pages, so that they lie on one node.
replicated: a whole copy on each node.
"""


@dataclass(frozen=True, slots=True)
class Engine:
    """What an engine adds to what the hardware takes.

    Parameters
    ----------
    overlap : bool
        Whether experts on the CPU run beside shared experts on the GPU.
    gpu_efficiency : float
        Share of the GPU's read bandwidth that its matrix-vector products reach.
    gpu_layer_seconds : float
        Launches, norms and other small kernels of a dense layer; a layer with routed experts takes
        more in proportion to its operations.
    attention_meetings, mlp_meetings, expert_meetings : int
        Barriers of a layer on the CPUs: around its attention, in a dense MLP, in routed experts.
        Counted in the engine's graph: one after every operation, and one within a product.
    dispatch_seconds : float
        What each of these costs beside the wait: to find the next operation and to set it up.
    sums_experts : bool
        Whether each further expert of a token is added in an operation of its own.
    streams : bool
        Whether a long prompt takes the CPUs' weights to the GPU rather than to the CPUs' cores.
    host_samples : bool
        Whether the logits go to the host to choose a token; else only the token does.
    prefill_chunk : int
        Tokens of a prompt that go through the layers together.
    experts_singly : bool
        Whether on the CPUs each token of a prompt goes through its experts by itself, as if decoded.
    quantizes_plainly : bool
        Whether a plain loop makes 8 bits of what products with weights in blocks of 256 take in.
    """

    name: str
    overlap: bool
    gpu_efficiency: float = 0.83
    gpu_layer_seconds: float = 33e-6
    attention_meetings: int = 18
    mlp_meetings: int = 7
    expert_meetings: int = 16
    dispatch_seconds: float = 0.0
    sums_experts: bool = True
    streams: bool = False
    host_samples: bool = False
    prefill_chunk: int = 512
    experts_singly: bool = False
    quantizes_plainly: bool = False

    def meetings(self, layers: int, dense: int, sparse: int, summed: int) -> int:
        """Give the barriers of so many attentions, dense MLPs and sets of routed experts."""
        return (
            layers * self.attention_meetings
            + dense * self.mlp_meetings
            + sparse * self.expert_meetings
            + (summed if self.sums_experts else 0)
        )


ENGINES: dict[str, Engine] = {
    engine.name: engine
    for engine in (
        # 1 us: 0.3 ms of a token through 12 layers (300 meetings) of next to no weights, one thread.
        Engine(
            "llama.cpp",
            overlap=False,
            dispatch_seconds=1e-6,
            streams=True,
            host_samples=True,
            experts_singly=True,
            quantizes_plainly=True,
        ),
        # Whole attentions and MLPs are one task for each thread.
        Engine(
            "ktransformers",
            overlap=True,
            attention_meetings=6,
            mlp_meetings=2,
            expert_meetings=4,
            sums_experts=False,
        ),
        Engine("vllm", overlap=False, prefill_chunk=2048),
        Engine(
            "sglang",
            overlap=True,
            attention_meetings=6,
            mlp_meetings=2,
            expert_meetings=4,
            sums_experts=False,
            prefill_chunk=8192,
        ),
    )
}
"""By name. The efficiency and the time of a layer are one pair for all GPUs, fitted once to the kernel
tables that aiconfigurator publishes (see docs/COST-MODEL.md); the rest is counted or stated."""


def engine(name: str) -> Engine:
    """Give the engine of that name.

    Raises
    ------
    NumamicroError
        There is no such engine.
    """
    if name not in ENGINES:
        raise NumamicroError(f"there is no engine '{name:.40}'; choose one of {', '.join(ENGINES)}")
    return ENGINES[name]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where everything is for one copy of a model.

    Parameters
    ----------
    stages : tuple of tuple of int
        The GPUs of each pipeline stage; those of one stage split every layer between them (TP).
        Empty: all on the CPUs.
    cpu_layers : int
        The first so many layers run on the CPUs, attention and cache included; the rest on GPUs.
    cpu_experts : tuple of int
        The layers whose routed experts lie on the CPUs while the rest is on a GPU.
    threads : tuple of (node, threads)
        The CPUs that compute.
    policy : str
        One of POLICIES.
    memory : tuple of int
        The nodes that hold the weights of the CPUs.
    cache_node : int, optional
        The node that holds the CPUs' key-value cache; None: as the weights.
    peer : bool
        Whether GPUs copy to each other directly; else through the memory of a node.
    via : int, optional
        That node; None: the fastest.
    replicas : int
        Independent copies of the model, each with GPUs (or nodes) of its own like these.
    """

    stages: tuple[tuple[int, ...], ...] = ()
    cpu_layers: int = 0
    cpu_experts: tuple[int, ...] = ()
    threads: tuple[tuple[int, int], ...] = ()
    policy: str = "bound"
    memory: tuple[int, ...] = ()
    cache_node: int | None = None
    peer: bool = True
    via: int | None = None
    replicas: int = 1

    @property
    def team(self) -> int:
        """Threads on all nodes together."""
        return sum(count for _, count in self.threads)

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that compute."""
        return tuple(index for index, _ in self.threads)

    @property
    def uses_cpu(self) -> bool:
        """Whether any weights are read by CPUs."""
        return not self.stages or self.cpu_layers > 0 or bool(self.cpu_experts)

    def shares(self) -> dict[tuple[int, int], float]:
        """Give the share of a step's weights that each node's threads read from each node.

        Rows are handed out evenly over threads, so that a node's part is that of its threads.
        """
        shares: dict[tuple[int, int], float] = {}
        for reader, count in self.threads:
            part = count / self.team
            for target, fraction in self._sources(reader).items():
                shares[reader, target] = part * fraction
        return shares

    def _sources(self, reader: int) -> dict[int, float]:
        if self.policy == "first-touch":
            return {self.memory[0]: 1.0}
        if self.policy in ("bound", "replicated") and reader in self.memory:
            return {reader: 1.0}
        return {target: 1 / len(self.memory) for target in self.memory}

    def held(self) -> dict[int, float]:
        """Give how much of the CPUs' weights each memory node holds: 1 is all of them."""
        if self.policy == "first-touch":
            return {self.memory[0]: 1.0}
        if self.policy == "replicated":
            return dict.fromkeys(self.memory, 1.0)
        held = dict.fromkeys(self.memory, 0.0)
        for (_, target), share in self.shares().items():
            held[target] += share
        return held


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked of a model.

    Parameters
    ----------
    batch : int
        Sequences that decode together.
    context : int
        Positions in the cache when a token is decoded.
    prompt : int
        Tokens of the prompt.
    cache_format : str
    """

    batch: int = 1
    context: int = 2048
    prompt: int = 512
    cache_format: str = "F16"


def check(model: ModelSpec, placement: Placement, load: Load) -> None:
    """Refuse a placement that is none.

    Raises
    ------
    NumamicroError
        A TP group does not divide the heads, a layer is not there, a GPU is named twice.
    """
    named = [index for stage in placement.stages for index in stage]
    if len(set(named)) < len(named):
        raise NumamicroError("a GPU is named twice: each belongs to one stage")
    for stage in placement.stages:
        if not stage or model.heads % len(stage):
            raise NumamicroError(
                f"{len(stage)} GPUs cannot split the {model.heads} heads of {model.name} evenly"
            )
    count = len(model.layers)
    if len(placement.stages) > count:
        raise NumamicroError(f"{model.name} has {count} layers, too few for so many stages")
    if not 0 <= placement.cpu_layers <= count or any(
        not 0 <= index < count for index in placement.cpu_experts
    ):
        raise NumamicroError(f"{model.name} has the layers 0 to {count - 1}")
    dense = [index for index in placement.cpu_experts if not model.layers[index].experts]
    if dense:
        raise NumamicroError(f"layer {dense[0]} of {model.name} has no routed experts")
    if placement.policy not in POLICIES:
        raise NumamicroError(
            f"there is no policy '{placement.policy:.40}'; choose one of {', '.join(POLICIES)}"
        )
    if placement.uses_cpu and not (placement.team and placement.memory):
        raise NumamicroError("weights on the CPUs need threads, and nodes that hold them")
    if min(load.batch, load.context, load.prompt) < 1:
        raise NumamicroError("batch, context and prompt are at least 1")
