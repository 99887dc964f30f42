"""The cost model against tokens per second that people published with their placements."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from bench.imported import GB, SHEETS, Score, gpu, imported, machine, matrix, read_table
from numamicro.case import Route, node
from numamicro.cost.config import from_config
from numamicro.cost.placement import Load, Placement, engine
from numamicro.cost.predict import Predictor
from numamicro.cost.presets import PRESETS, preset
from numamicro.cost.rates import Rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.imported import Row
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.placement import Engine
    from numamicro.matrix import Measurement

REMOTE_SHARE = 0.5
"""Remote over local read bandwidth of two sockets, where a row does not tell: published pairs lie
between 0.3 and 0.7."""

UNKNOWN_NODE = 100 * GB
CONTEXT = 512


@dataclass(frozen=True, slots=True)
class Told:
    """What the words of a row say."""

    row: Row

    @property
    def words(self) -> str:
        return f"{self.row['hardware']} | {self.row['placement']}".lower()

    @property
    def placed(self) -> str:
        return self.row["placement"].lower()

    @property
    def sockets(self) -> int:
        """Sockets that take part: as many as there are, unless one is bound or named."""
        one = re.search(r"-n ?0|single socket|one socket|one node", self.words)
        both = re.search(
            r"\b2x? ?(?:xeon|epyc)|\b2x |\bdual\b|\b2s\b|both sockets|dual socket", self.words
        )
        gpus_only = re.match(r"\d+x (?:rtx|a100|h100|l40)", self.row["hardware"].lower())
        if re.search(r"dual socket", self.placed):
            return 2
        same = self.row["hardware"].strip().lower() == "same"
        return 2 if (both or same) and not one and not gpus_only else 1

    @property
    def threads(self) -> int:
        """Threads on each socket."""
        match = re.search(r"(?:-t ?|, )(\d+)(?: threads)?\b|\b(\d+) threads", self.words)
        total = int(match[1] or match[2]) if match else 0
        cores = re.search(r"\b(\d+)c\b", self.words)
        each = total // self.sockets if total else int(cores[1]) if cores else 16
        return max(each, 1)

    @property
    def bandwidth(self) -> float:
        """Bytes per second of one node's memory."""
        if not self.row["bw_GBs"]:
            return UNKNOWN_NODE
        total = float(self.row["bw_GBs"]) * GB
        return total / 2 if "both" in self.row["bw_basis"] else total

    @property
    def policy(self) -> str:
        """Where the weights lie."""
        if re.search(r"mirror|replicat|use_numa|dual socket numa", self.placed):
            return "replicated"
        if "interleave" in self.placed:
            return "interleaved"
        touched_once = "cold|default numa|prompt processing|first.touch|first touch"
        if self.sockets > 1 and re.search(touched_once, self.placed):
            return "first-touch"
        return "bound"

    @property
    def gpu_rate(self) -> float | None:
        """Bytes per second of its GPU's memory: as told, or by its data sheet."""
        told = re.search(r"(?:rtx|gpu)[^|]*\((\d+) gb/s\)", self.words)
        if told:
            return float(told[1]) * GB
        return next((rate for name, rate in SHEETS.items() if name in self.words), None)

    @property
    def gpus(self) -> int:
        match = re.search(r"(\d+)x (?:rtx )?(?:3090|4090|5090|a100|h100|a6000)", self.words)
        return int(match[1]) if match else 1

    @property
    def link(self) -> float:
        """Bytes per second between two GPUs and to the host, one way."""
        if "nvlink" in self.placed:
            return 50 * GB
        return 7 * GB if "x4" in self.words else 24 * GB

    @property
    def staged(self) -> bool:
        """Whether the GPUs reach each other only through the host."""
        return bool(re.search(r"p2p off|p2p_disable", self.placed))

    def cpu_layers_of(self, layers: int) -> range:
        """Give the layers whose experts, or whose MLPs, are said to lie on the CPU."""
        if match := re.search(r"layers (\d+) ?- ?(\d+) on cpu", self.placed):
            return range(int(match[1]), min(int(match[2]) + 1, layers))
        if match := re.search(r"last (\d+) of \d+ layers on cpu", self.placed):
            return range(layers - int(match[1]), layers)
        return range(layers)

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU takes part."""
        named = self.gpu_rate is not None or "gpu" in self.words
        return named and "cpu only" not in self.placed

    @property
    def offloads(self) -> bool:
        """Whether experts stay on the CPU."""
        return self.on_gpu and bool(
            re.search("on cpu|ktransformers|socket", self.words + self._source)
        )

    @property
    def _source(self) -> str:
        return " ktransformers" if "ktransformers" in self.row["source"] else ""

    @property
    def engine(self) -> Engine:
        """The engine that is named."""
        return engine(
            "ktransformers" if "ktransformers" in self.words + self._source else "llama.cpp"
        )


_FORMATS = (
    ("fp16", "F16"),
    ("f16", "F16"),
    ("bf16", "BF16"),
    ("fp8", "FP8"),
    ("int4", "INT4"),
    ("mxfp4", "MXFP4"),
)


def format_in(text: str) -> str | None:
    """Give the first format that a text names, in the product's name."""
    if match := re.search(r"I?Q\d_(?:K_[MS]|K|\d|XXS|XS|S|NL)", text, re.IGNORECASE):
        return match[0].upper()
    return next((name for word, name in _FORMATS if word in text.lower()), None)


def quant_of(row: Row) -> str:
    """Give the quantisation that a row tells, as the product writes it."""
    text = row["quant"]
    rest = re.search(r"non-expert bpw assumed ([\d.]+)", row["note"])
    if match := re.search(r"([\d.]+) bpw", text):
        return f"{rest[1] if rest else match[1]}bpw,experts={match[1]}bpw"
    experts, _, others = text.partition(" experts/")
    if others:
        return f"{format_in(others)},experts={format_in(experts)}"
    found = format_in(text) or "Q4_K_M"
    # "Unsloth dynamic": few bits for the experts alone, eight for the rest.
    return f"Q8_0,experts={found}" if text.startswith("UD-") else found


def model_of(row: Row) -> ModelSpec:
    """Give the model of a row: a preset, or a dense one with the parameters that its name tells."""
    name = re.sub(r"\s+671b$", "", row["model"].lower().strip()).replace("llama-3-", "llama-3.1-")
    name = {"deepseek-r1": "deepseek-v3"}.get(name, name)
    if name in PRESETS:
        return preset(name, quant_of(row))
    billions = re.search(r"(\d+(?:\.\d+)?)b", name)
    width = round(((float(billions[1]) if billions else 30) * 1e9 / 48 / 10.5) ** 0.5 / 256) * 256
    keys = {
        "num_hidden_layers": 48,
        "hidden_size": width,
        "num_attention_heads": width // 128,
        "num_key_value_heads": width // 128,
        "intermediate_size": round(2.2 * width),
        "vocab_size": 150_000,
    }
    return from_config(keys, name, name, quant_of(row))


def told_bytes(row: Row, model: ModelSpec, placement: Placement) -> ModelSpec:
    """Give the model with its weights on the CPUs scaled to the bytes that the row tells."""
    if not row["bytes_per_token_GB"] or not placement.uses_cpu:
        return model
    moved = placement.cpu_experts if placement.stages else range(len(model.layers))
    routed = sum(model.layers[index].routed(1).bytes for index in moved)
    others = 0.0 if placement.stages else model.active().bytes - routed
    wanted = float(row["bytes_per_token_GB"]) * GB - others
    if not routed or wanted <= 0:
        return model
    layers = tuple(
        replace(layer, expert=layer.expert * (wanted / routed)) if layer.experts else layer
        for layer in model.layers
    )
    return replace(model, layers=layers)


def cells_of(told: Told) -> Iterator[Measurement]:
    """Give what a row tells of its machine."""
    nodes = [node(index) for index in range(told.sockets)]
    for source in nodes:
        for target in nodes:
            rate = told.bandwidth * (1 if source == target else REMOTE_SHARE)
            yield imported("bandwidth", "read", Route(source, target), rate, threads=told.threads)
    if told.gpu_rate and told.on_gpu:
        for index in range(told.gpus):
            route = Route(gpu(index), gpu(index), mover="sm-load")
            yield imported("gpu-memory", "read", route, told.gpu_rate)
    if told.gpus > 1:
        for size in (8192, 2**26):
            yield from _pair_reduces(told, size)


def _pair_reduces(told: Told, size: int) -> Iterator[Measurement]:
    """Give a direct all-reduce of a pair, and one through the host: two copies more, twice the start."""
    direct = Route(gpu(0), gpu(1), mover="sm-load")
    yield imported("all-reduce", "peer", direct, 1e-5 + size / told.link, message=size)
    staged = replace(direct, via=node(0))
    link = min(told.link, 24 * GB)
    yield imported("all-reduce", "staged", staged, 2e-5 + 2 * size / link, message=size)


def placement_of(told: Told, model: ModelSpec) -> Placement:
    """Give the placement of a row."""
    nodes = tuple(range(told.sockets))
    cpus = {"threads": tuple((index, told.threads) for index in nodes), "memory": nodes}
    if not told.on_gpu:
        return Placement(policy=told.policy, **cpus)  # type: ignore[arg-type]
    stages = (tuple(range(told.gpus)),)
    if not told.offloads:
        return Placement(stages=stages, peer=not told.staged)
    moved = told.cpu_layers_of(len(model.layers))
    experts = tuple(index for index in moved if model.layers[index].experts)
    return Placement(stages=stages, cpu_experts=experts, policy=told.policy, **cpus)  # type: ignore[arg-type]


def token_score(row: Row) -> Score:
    """Predict one published figure."""
    told = Told(row)
    model = model_of(row)
    placement = placement_of(told, model)
    model = told_bytes(row, model, placement)
    rates = Rates(matrix(machine(told.sockets, told.threads), cells_of(told)), assume=True)
    predictor = Predictor(model, Load(context=CONTEXT), told.engine, rates, ignore_capacity=True)
    return Score(row["id"], float(row["ms"]) / 1e3, predictor.decode(placement).seconds)


def score_tokens(folder: Path) -> tuple[list[Score], dict[str, list[Score]]]:
    """Score the rows whose figure counts, and those of which only the order does, by group."""
    values, groups = [], defaultdict(list)
    for row in read_table(folder / "numa_tokens.csv"):
        if row["use"] == "value":
            values.append(token_score(row))
        elif row["use"].startswith("order:"):
            groups[row["use"].removeprefix("order:")].append(token_score(row))
    return values, dict(groups)


def in_order(scores: Sequence[Score]) -> bool:
    """Tell whether predictions stand in the order of the published figures."""
    ordered = sorted(scores, key=lambda score: score.published)
    predicted = [score.predicted for score in ordered]
    return all(a < b for a, b in pairwise(predicted))
