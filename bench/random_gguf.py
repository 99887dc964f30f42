"""GGUF models of any shape with random weights, for engines that are timed and not read.

Needs the `gguf` package. The weights are sane numbers in each format; what such a model says is noise,
and what it costs is what a trained one of its shape costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

VALUES = {"F16": 1, "Q8_0": 32, "Q4_0": 32, "Q4_K": 256}
"""Values in a block of each format that can be written."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A llama: `experts` of which `active` take part in a token make it sparse; 0 is dense."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    mlp: int
    vocabulary: int = 8192
    experts: int = 0
    active: int = 0

    @property
    def head(self) -> int:
        """Length of a head."""
        return self.hidden // self.heads

    def tensors(self) -> dict[str, tuple[int, ...]]:
        """Give the matrices by name, in the order of rows and columns."""
        kv = self.kv_heads * self.head
        found: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (self.vocabulary, self.hidden),
            "output.weight": (self.vocabulary, self.hidden),
        }
        stack = (self.experts,) if self.experts else ()
        kind = "_exps" if self.experts else ""
        for layer in range(self.layers):
            block = f"blk.{layer}."
            found |= {
                f"{block}attn_q.weight": (self.hidden, self.hidden),
                f"{block}attn_k.weight": (kv, self.hidden),
                f"{block}attn_v.weight": (kv, self.hidden),
                f"{block}attn_output.weight": (self.hidden, self.hidden),
                f"{block}ffn_gate{kind}.weight": (*stack, self.mlp, self.hidden),
                f"{block}ffn_up{kind}.weight": (*stack, self.mlp, self.hidden),
                f"{block}ffn_down{kind}.weight": (*stack, self.hidden, self.mlp),
            }
        return found

    def plain(self) -> dict[str, tuple[int, ...]]:
        """Give what is kept in 32 bits."""
        found: dict[str, tuple[int, ...]] = {"output_norm.weight": (self.hidden,)}
        for layer in range(self.layers):
            found[f"blk.{layer}.attn_norm.weight"] = (self.hidden,)
            found[f"blk.{layer}.ffn_norm.weight"] = (self.hidden,)
            if self.experts:
                found[f"blk.{layer}.ffn_gate_inp.weight"] = (self.experts, self.hidden)
        return found


def write_model(path: Path, shape: Shape, kind: str, seed: int = 1) -> None:
    """Write a model whose matrices are all in one format."""
    import gguf
    import numpy as np

    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(shape.layers)
    writer.add_context_length(16384)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.mlp)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.head)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_tokenizer_model("none")
    if shape.experts:
        writer.add_expert_count(shape.experts)
        writer.add_expert_used_count(shape.active)
    number = gguf.GGMLQuantizationType[kind]
    for name, size in shape.tensors().items():
        writer.add_tensor(name, _blocks(rng, size, kind), raw_dtype=number)
    for name, size in shape.plain().items():
        values = rng.normal(0, 0.02, size) if "inp" in name else np.ones(size)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _blocks(rng: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Give random blocks: weights of about 1 / sqrt(columns), whatever their format.

    Their mean is 0: else all activations would grow along one direction, the scores of the attention
    with them, and an engine would spend its time on exponentials that underflow.
    """
    import gguf
    import numpy as np

    values, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]]
    *rows, columns = shape
    count = int(np.prod(rows)) * columns // values
    unit = np.float16(columns**-0.5)
    if kind == "F16":
        few = (rng.normal(0, 1, 2**20) * unit).astype(np.float16)
        return np.resize(few, shape)
    few = rng.integers(0, 256, (min(count, 2**15), size), dtype=np.uint8)
    few[:, 0:2] = np.frombuffer(_scale(kind, unit).tobytes(), np.uint8)
    if kind == "Q4_K":  # the minima's unit: a quant is 7.5 in the mean
        few[:, 2:4] = np.frombuffer((7.5 * _scale(kind, unit)).tobytes(), np.uint8)
    if kind == "Q4_0":  # quants from -7 to 7
        quants = few[:, 2:]
        quants[quants & 15 == 0] += 8
        quants[quants >> 4 == 0] += 128
    blocks = np.resize(few, (count, size))
    return blocks.reshape(*rows, columns // values * size)


def _scale(kind: str, unit: Any) -> Any:
    """Give a block's scale that makes its quants about `unit` large."""
    import numpy as np

    return np.float16(unit / {"Q8_0": 70, "Q4_0": 4.3, "Q4_K": 256}[kind])
