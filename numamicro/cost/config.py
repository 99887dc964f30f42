"""A model from its Hugging Face `config.json`: one path for all families, by the usual keys."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from numamicro.cost.formats import Quantisation, Weights, quantisation
from numamicro.cost.model import Cache, Layer, ModelSpec, once
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# The names under which families keep one thing; the first is the usual one.
_NAMES: dict[str, tuple[str, ...]] = {
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"),
    "mlp": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size"),
    "vocabulary": ("vocab_size", "padded_vocab_size"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "active": ("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_topk"),
    "expert_mlp": ("moe_intermediate_size", "expert_ffn_hidden_size"),
    "shared": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"),
    "dense_first": ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
}
# Two matrices in the MLP, not three: these activate without a gate.
_UNGATED = frozenset(
    [
        "gpt2",
        "gpt_neo",
        "gpt_neox",
        "gptj",
        "opt",
        "falcon",
        "bloom",
        "phi",
        "starcoder2",
        "gpt_bigcode",
        "mpt",
        "nemotron",
        "codegen",
        "stablelm_alpha",
        "persimmon",
        "cohere_asr",
    ]
)
# One head of keys and values, where no key says how many.
_MULTI_QUERY = frozenset({"gpt_bigcode"})
# The layers whose cost is not that of an attention over a cache, by the key that gives them away.
_FOREIGN = {
    "ssm_cfg": "mamba",
    "mamba_d_state": "mamba",
    "state_size": "mamba",
    "hybrid_override_pattern": "mamba",
    "linear_num_value_heads": "linear attention",
    "attn_layer_period": "mamba",
    "rwkv_version": "RWKV",
    "attention_hidden_size": "RWKV",
    "block_types": "recurrent",
}
_ATTENTION_KINDS = frozenset({"full_attention", "sliding_attention", "chunked_attention"})


@dataclass(frozen=True, slots=True)
class _Config:
    """The keys of a config, asked for by what they mean."""

    keys: Mapping[str, Any]
    where: str

    def find(self, meaning: str) -> int | None:
        """Give a count under the first of its names that is there."""
        for name in _NAMES.get(meaning, (meaning,)):
            value = self.keys.get(name)
            if value is None:
                continue
            if isinstance(value, list) and value and value.count(value[0]) == len(value):
                value = value[0]
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**40:
                raise NumamicroError(
                    f"{self.where}: key '{name}' is {value!r:.40}, not a whole number from 0 on"
                )
            return value
        return None

    def need(self, meaning: str) -> int:
        """Give a count that must be there."""
        value = self.find(meaning)
        if not value:
            names = " or ".join(_NAMES.get(meaning, (meaning,)))
            what = "is 0" if value == 0 else "is missing"
            raise NumamicroError(f"{self.where}: key {names} {what}; a model needs it")
        return value

    def flag(self, name: str) -> bool | None:
        """Give a true or false, None when it is not there."""
        value = self.keys.get(name)
        return value if isinstance(value, bool) else None

    def text(self, name: str) -> str:
        """Give a text, empty when it is not there."""
        value = self.keys.get(name)
        return value if isinstance(value, str) else ""

    def items(self, name: str) -> list[Any]:
        """Give a list, empty when it is not there."""
        value = self.keys.get(name)
        return value if isinstance(value, list) else []


def read_config(path: Path, quant: str | None = None) -> ModelSpec:
    """Read a `config.json`.

    Parameters
    ----------
    quant : str, optional
        A quantisation in place of what the file says.

    Raises
    ------
    NumamicroError
        It cannot be read, a key is missing or wrong, or a layer's cost is not known.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise NumamicroError(f"{path} is no model config: it is not JSON") from error
    name = path.parent.name if path.name == "config.json" else path.stem
    return from_config(document, str(path), name or path.stem, quant)


def from_config(document: object, where: str, name: str, quant: str | None = None) -> ModelSpec:
    """Give the model that a config describes; `where` names the config in an error.

    Raises
    ------
    NumamicroError
        A key is missing or wrong, or a layer's cost is not known.
    """
    if not isinstance(document, dict):
        raise NumamicroError(f"{where} is no model config: it holds no object")
    notes = []
    inner = document
    for nested in ("text_config", "language_config", "llm_config"):
        if isinstance(document.get(nested), dict):
            inner = {**_outer(document), **document[nested]}
            notes.append("the model's other towers (vision, audio) are not counted")
            break
    config = _Config(inner, where)
    _refuse_foreign(config)
    if config.find("num_nextn_predict_layers"):
        notes.append("the layers that predict further tokens (MTP) are not counted")
    kept = quantisation(quant) if quant else _quantisation(config)
    return _Builder(config, kept).spec(name, tuple(notes))


def _outer(document: Mapping[str, Any]) -> dict[str, Any]:
    """Give what stands outside a nested config and is true of it too."""
    shared = ("quantization_config", "tie_word_embeddings", "dtype", "torch_dtype")
    return {key: document[key] for key in shared if document.get(key) is not None}


def _refuse_foreign(config: _Config) -> None:
    kinds = {*map(str, config.items("layer_types"))} - _ATTENTION_KINDS
    kinds |= {kind for key, kind in _FOREIGN.items() if config.keys.get(key) is not None}
    if kinds:
        names = ", ".join(sorted(kind[:40] for kind in kinds))
        raise NumamicroError(
            f"{config.where}: it has layers of a kind whose cost is not known here ({names}); "
            "only attention over a cache is"
        )
    if config.flag("is_encoder_decoder"):
        raise NumamicroError(f"{config.where}: an encoder with a decoder is not modelled here")


_DTYPES = {"float16": "F16", "bfloat16": "BF16", "float32": "F32", "float8_e4m3fn": "FP8"}


def _quantisation(config: _Config) -> Quantisation:
    """Give the formats that the config itself names."""
    plain = _DTYPES.get(config.text("dtype") or config.text("torch_dtype"), "BF16")
    given = config.keys.get("quantization_config")
    if not isinstance(given, dict):
        return Quantisation(plain)
    method = str(given.get("quant_method", "")).lower()
    bits = given.get("bits", given.get("w_bit", given.get("num_bits")))
    if method == "mxfp4":
        return Quantisation(plain, experts="MXFP4")
    if method in ("fp8", "fbgemm_fp8", "modelopt"):
        return Quantisation("FP8", head=plain)
    if method in ("gptq", "awq", "auto-round", "autoround") and bits in (4, 8, None):
        return Quantisation("INT8" if bits == 8 else "INT4", head=plain)
    if method == "bitsandbytes":
        return Quantisation("INT4" if given.get("load_in_4bit") else "INT8", head=plain)
    if method in ("compressed-tensors", "compressed_tensors"):
        return Quantisation(_compressed(config, given), head=plain)
    raise NumamicroError(
        f"{config.where}: quantization_config has the method {method!r:.40}, which is not known "
        "here; name the quantisation with --quant"
    )


def _compressed(config: _Config, given: Mapping[str, Any]) -> str:
    groups = given.get("config_groups")
    first: Any = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    kept: dict[str, Any] = weights if isinstance(weights, dict) else {}
    bits, kind = kept.get("num_bits"), kept.get("type")
    if bits == 8:
        return "FP8" if kind == "float" else "INT8"
    if bits == 4:
        return "NVFP4" if kind == "float" else "INT4"
    raise NumamicroError(
        f"{config.where}: quantization_config names no number of bits that is known here; name "
        "the quantisation with --quant"
    )


class _Builder:
    """Weights and caches from the counts of a config.

    Formulas: attention ``2*H*nh*dh + 2*H*nkv*dh``, MLA ``H*rq + rq*nh*(dn+dr) + H*(rkv+dr) +
    rkv*nh*(dn+dv) + nh*dv*H``, MLP ``3*H*F`` gated and ``2*H*F`` without, an expert ``3*H*Fe``, a
    router ``E*H``; norms and biases are left out but for the two norms of a layer.
    """

    def __init__(self, config: _Config, kept: Quantisation) -> None:
        self.config = config
        self.kept = kept
        self.hidden = config.need("hidden")
        self.heads = config.need("heads")
        self.count = config.need("layers")
        if self.count > 10_000:
            raise NumamicroError(f"{config.where}: {self.count} layers are more than any model has")
        self.matrices = 2 if config.text("model_type") in _UNGATED else 3
        self.is_mla = bool(config.find("kv_lora_rank"))
        self.kv_heads = 1 if self.is_mla else self._kv_heads()

    def spec(self, name: str, notes: tuple[str, ...]) -> ModelSpec:
        """Give the whole model."""
        vocabulary = self.config.need("vocabulary")
        table = vocabulary * self.hidden
        tied = self.config.flag("tie_word_embeddings")
        return ModelSpec(
            name=name,
            layers=once(self._layer(index) for index in range(self.count)),
            embedding=self.kept.weights("embedding", table),
            head=self.kept.weights("head", table),
            tied=self._tied_by_habit() if tied is None else tied,
            hidden=self.hidden,
            vocabulary=vocabulary,
            heads=self.heads,
            kv_heads=self.kv_heads,
            notes=notes,
        )

    def _tied_by_habit(self) -> bool:
        """Tell what a family does whose config is silent: its library's default."""
        kind = self.config.text("model_type")
        return kind.startswith(("gemma", "gpt2", "bloom", "opt", "cohere", "falcon", "starcoder2"))

    def _kv_heads(self) -> int:
        if self.config.text("model_type") in _MULTI_QUERY or (
            self.config.flag("multi_query") and self.config.find("kv_heads") is None
        ):
            return 1
        count = self.config.find("kv_heads") or self.heads
        if self.heads % count:
            raise NumamicroError(
                f"{self.config.where}: {self.heads} heads cannot share {count} key-value heads"
            )
        return count

    def _layer(self, index: int) -> Layer:
        norms = self.kept.weights("plain", 2 * self.hidden)
        cache, width, attention = self._mla() if self.is_mla else self._grouped()
        cache = replace(cache, window=self._window(index))
        kept = self.kept.weights("attention", attention) + norms
        rotated = 2 * (self.config.find("qk_rope_head_dim") or width // self.heads)
        experts = self.config.find("experts") or 0
        if not experts or not self._is_sparse(index):
            return Layer(
                kept,
                self._dense(),
                cache,
                width,
                normed=2 * self.hidden,
                rotated=rotated,
            )
        return Layer(
            kept,
            self._shared(),
            cache,
            width,
            router=self.kept.weights("plain", experts * self.hidden),
            expert=self.kept.weights("experts", 3 * self.hidden * self._expert_mlp()),
            experts=experts,
            active=self._active(experts),
            normed=2 * self.hidden,
            rotated=rotated,
        )

    def _active(self, experts: int) -> int:
        active = self.config.need("active")
        if active > experts:
            raise NumamicroError(
                f"{self.config.where}: a token takes {active} experts and there are {experts}"
            )
        return active

    def _grouped(self) -> tuple[Cache, int, int]:
        dim = self.config.find("head_dim") or self.hidden // self.heads
        if not dim:
            raise NumamicroError(
                f"{self.config.where}: {self.heads} heads do not fit a hidden size of {self.hidden}"
            )
        width = self.heads * dim
        parameters = 2 * self.hidden * (width + self.kv_heads * dim)
        return Cache(2 * self.kv_heads * dim, self.kv_heads, 2 * width), width, parameters

    def _mla(self) -> tuple[Cache, int, int]:
        need = self.config.need
        rank, rope, plain = (
            need(f"{n}") for n in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim")
        )
        value, low_rank = need("v_head_dim"), self.config.find("q_lora_rank")
        query = self.heads * (plain + rope)
        parameters = (
            (self.hidden * low_rank + low_rank * query if low_rank else self.hidden * query)
            + self.hidden * (rank + rope)
            + rank * self.heads * (plain + value)
            + self.heads * value * self.hidden
        )
        cache = Cache(rank + rope, 1, self.heads * (2 * rank + rope))
        return cache, self.heads * (plain + rope + value) // 2, parameters

    def _window(self, index: int) -> int | None:
        window = self.config.find("sliding_window")
        if not window or self.config.flag("use_sliding_window") is False:
            return None
        kinds = self.config.items("layer_types")
        if kinds:
            return window if kinds[index % len(kinds)] == "sliding_attention" else None
        every = self.config.find("sliding_window_pattern") or self._habit()
        if every:
            return None if (index + 1) % every == 0 else window
        first = self.config.find("max_window_layers")
        if self.config.flag("use_sliding_window") and first is not None:
            return window if index >= first else None
        return window

    def _habit(self) -> int:
        """Give every how many layers one looks at everything, for families that do not say."""
        return {"gemma2": 2, "gemma3": 6, "gemma3_text": 6}.get(self.config.text("model_type"), 0)

    def _is_sparse(self, index: int) -> bool:
        """Tell whether a layer has experts: the first few, or all but every n-th, may be dense."""
        if index < (self.config.find("dense_first") or 0):
            return False
        if index in self.config.items("mlp_only_layers"):
            return False
        moe_layers = self.config.items("moe_layers")
        if moe_layers:
            return index in moe_layers
        for key, offset in (
            ("decoder_sparse_step", 1),
            ("interleave_moe_layer_step", 1),
            ("moe_layer_freq", 0),
        ):
            step = self.config.find(key) if not self.config.items(key) else None
            if step:
                return (index + offset) % step == 0
        freq = self.config.items("moe_layer_freq")
        return bool(freq[index]) if index < len(freq) else True

    def _dense(self) -> Weights:
        # Llama 4 keeps the width of its dense layers under a key of its own.
        width = self.config.find("intermediate_size_mlp") or self.config.find("mlp")
        if not width and self.config.text("model_type") in _UNGATED:
            width = 4 * self.hidden
        return self.kept.weights(
            "mlp", self.matrices * self.hidden * (width or self.config.need("mlp"))
        )

    def _expert_mlp(self) -> int:
        return self.config.find("expert_mlp") or self.config.need("mlp")

    def _shared(self) -> Weights:
        width = self.config.find("shared_expert_intermediate_size")
        if width is None:
            width = (self.config.find("shared") or 0) * self._expert_mlp()
        if not width and self.config.text("model_type").startswith("llama4"):
            width = self.config.need("mlp")
        return self.kept.weights("mlp", 3 * self.hidden * width)
