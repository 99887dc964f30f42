"""Models known by name: the keys of their published configs that count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numamicro.cost.config import from_config
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from numamicro.cost.model import ModelSpec

_MLA = {
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "quantization_config": {"quant_method": "fp8"},
}


def _dense(layers: int, hidden: int, heads: int, kv: int, mlp: int, vocab: int) -> dict[str, Any]:
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "intermediate_size": mlp,
        "vocab_size": vocab,
        "head_dim": 128,
        "tie_word_embeddings": False,
    }


def _sparse(experts: int, active: int, width: int, **more: Any) -> dict[str, Any]:
    return {
        "num_experts": experts,
        "num_experts_per_tok": active,
        "moe_intermediate_size": width,
        **more,
    }


def _gpt_oss(layers: int, experts: int) -> dict[str, Any]:
    return {
        **_dense(layers, 2880, 64, 8, 2880, 201088),
        **_sparse(experts, 4, 2880),
        "head_dim": 64,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * (layers // 2),
        "quantization_config": {"quant_method": "mxfp4"},
    }


PRESETS: dict[str, dict[str, Any]] = {
    "llama-3.1-8b": _dense(32, 4096, 32, 8, 14336, 128256),
    "llama-3.1-70b": _dense(80, 8192, 64, 8, 28672, 128256),
    "llama-3.1-405b": _dense(126, 16384, 128, 8, 53248, 128256),
    "qwen3-8b": _dense(36, 4096, 32, 8, 12288, 151936),
    "qwen3-32b": _dense(64, 5120, 64, 8, 25600, 151936),
    "qwen3-30b-a3b": {**_dense(48, 2048, 32, 4, 6144, 151936), **_sparse(128, 8, 768)},
    "qwen3-235b-a22b": {**_dense(94, 4096, 64, 4, 12288, 151936), **_sparse(128, 8, 1536)},
    "deepseek-v3": {
        **_dense(61, 7168, 128, 128, 18432, 129280),
        **_sparse(256, 8, 2048, n_shared_experts=1, first_k_dense_replace=3),
        **_MLA,
    },
    "kimi-k2": {
        **_dense(61, 7168, 64, 64, 18432, 163840),
        **_sparse(384, 8, 2048, n_shared_experts=1, first_k_dense_replace=1),
        **_MLA,
    },
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
    "mixtral-8x7b": {**_dense(32, 4096, 32, 8, 14336, 32000), **_sparse(8, 2, 14336)},
}


def preset(name: str, quant: str | None = None) -> ModelSpec:
    """Give the model of that name, in its published formats or in `quant`.

    Raises
    ------
    NumamicroError
        There is no such preset.
    """
    if name not in PRESETS:
        raise NumamicroError(
            f"there is no model '{name:.60}': name one of {', '.join(PRESETS)}, or give the path "
            "of a config.json or a GGUF file"
        )
    return from_config(PRESETS[name], name, name, quant)
