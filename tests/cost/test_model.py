"""Models from their configs: published totals, families, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.cost.config import from_config, read_config
from numamicro.cost.formats import GGML_TYPES, Weights, bits_of, quantisation
from numamicro.cost.presets import PRESETS, preset
from numamicro.cost.sources import find_model
from numamicro.errors import NumamicroError
from tests.cost.rigs import SPARSE, sentence_of, small_model

if TYPE_CHECKING:
    from pathlib import Path

    from numamicro.cost.model import ModelSpec

# As their authors publish them, in units of 1e9; the second the parameters that a token uses.
PUBLISHED = {
    "llama-3.1-8b": (8.03, 8.03),
    "llama-3.1-70b": (70.6, 70.6),
    "llama-3.1-405b": (405.9, 405.9),
    "qwen3-8b": (8.2, 8.2),
    "qwen3-32b": (32.8, 32.8),
    "qwen3-30b-a3b": (30.5, 3.3),
    "qwen3-235b-a22b": (235.0, 22.0),
    "deepseek-v3": (671.0, 37.0),
    "kimi-k2": (1026.0, 32.0),
    "gpt-oss-20b": (20.9, 3.6),
    "gpt-oss-120b": (116.8, 5.1),
    "mixtral-8x7b": (46.7, 12.9),
}


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_are_those_published(name: str) -> None:
    model = preset(name)
    total, active = PUBLISHED[name]
    assert model.parameters / 1e9 == pytest.approx(total, rel=0.01)
    used = model.active_parameters + (0 if model.tied else model.embedding.parameters)
    # Some authors count the embedding among what a token uses and some do not.
    assert model.active_parameters <= active * 1e9 * 1.015
    assert used >= active * 1e9 * 0.985


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("qwen3-30b-a3b", 98_304),
        ("deepseek-v3", 70_272),
    ],
)
def test_cache_of_a_position_is_that_published(name: str, size: int) -> None:
    assert preset(name).cache_bytes(1) == size


def test_a_sliding_window_ends_the_growth_of_a_cache() -> None:
    model = preset("gpt-oss-20b")
    assert model.cache_bytes(128) == 24 * 128 * 2048
    assert model.cache_bytes(1128) == 24 * 128 * 2048 + 12 * 1000 * 2048


@pytest.mark.parametrize(
    ("name", "gigabytes"),
    # Sizes of the files that llama.cpp's quantiser makes of Llama-3.1-8B.
    [
        ("Q4_K_M", 4.92),
        ("Q4_0", 4.66),
        ("Q8_0", 8.54),
        ("Q4_K_S", 4.69),
        ("Q5_K_M", 5.73),
        ("Q2_K", 3.18),
    ],
)
def test_quantised_sizes_are_those_of_the_files(name: str, gigabytes: float) -> None:
    assert preset("llama-3.1-8b", name).total.bytes / 1e9 == pytest.approx(gigabytes, rel=0.03)


def test_bits_are_those_of_the_gguf_package() -> None:
    gguf = pytest.importorskip("gguf", reason="gguf is not installed (pip install gguf)")
    for number, name in GGML_TYPES.items():
        kind = gguf.GGMLQuantizationType(number)
        values, size = gguf.GGML_QUANT_SIZES[kind]
        assert kind.name == name
        assert bits_of(name) == 8 * size / values


@given(st.integers(1, 256), st.integers(1, 256), st.floats(1, 4096))
def test_a_batch_reads_between_one_tokens_experts_and_all(a: int, b: int, batch: float) -> None:
    experts, active = max(a, b), min(a, b)
    layer = small_model(**SPARSE | {"num_experts": experts, "num_experts_per_tok": active}).layers[
        0
    ]
    unique = layer.unique_experts(batch)
    assert layer.unique_experts(1) == pytest.approx(active)
    assert active * (1 - 1e-9) <= unique <= experts
    assert unique <= active * batch * (1 + 1e-9)
    assert layer.unique_experts(batch + 1) >= unique


@given(st.floats(0, 1e12), st.floats(0, 1e12))
def test_weights_add_up(one: float, other: float) -> None:
    both = Weights.of("Q4_K", one) + Weights.of("Q8_0", other) + Weights.of("Q4_K", other)
    assert both.parameters == pytest.approx(one + 2 * other)
    assert both.bytes == pytest.approx(one * 4.5 / 8 + other * (4.5 + 8.5) / 8)


# ---- families ------------------------------------------------------------------------------------


def test_names_of_other_families_mean_the_same() -> None:
    old = from_config(
        {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "model_type": "gpt2"},
        "test",
        "gpt2",
    )
    assert old.tied
    assert old.parameters == pytest.approx(124e6, rel=0.01)


def test_a_nested_text_config_is_what_counts() -> None:
    inner = {
        "hidden_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "intermediate_size": 4096,
        "vocab_size": 32000,
    }
    model = from_config({"text_config": inner, "tie_word_embeddings": True}, "test", "vision")
    assert model.tied
    assert len(model.layers) == 2
    assert any("towers" in note for note in model.notes)


@pytest.mark.parametrize(
    ("keys", "sparse"),
    [
        ({"first_k_dense_replace": 2}, [2, 3, 4, 5]),
        ({"decoder_sparse_step": 2}, [1, 3, 5]),
        ({"mlp_only_layers": [0, 5]}, [1, 2, 3, 4]),
        ({"moe_layer_freq": [0, 1, 1, 1, 0, 1]}, [1, 2, 3, 5]),
        ({}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_dense_layers_among_sparse_ones(keys: dict[str, object], sparse: list[int]) -> None:
    model = small_model(num_hidden_layers=6, **SPARSE, **keys)
    assert [index for index, layer in enumerate(model.layers) if layer.experts] == sparse


def test_shared_experts_are_read_by_every_token() -> None:
    plain = small_model(**SPARSE)
    shared = small_model(**SPARSE, n_shared_experts=2)
    more = shared.layers[0].every_token.parameters - plain.layers[0].every_token.parameters
    assert more == 2 * 3 * 1024 * 512


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "fp8"}, 8.0),
        ({"quant_method": "gptq", "bits": 4}, 4.16),
        ({"quant_method": "awq", "bits": 4}, 4.16),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4.16),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            8.0,
        ),
    ],
)
def test_quantisation_is_read_from_the_config(config: dict[str, object], bits: float) -> None:
    attention = small_model(quantization_config=config).layers[0].mlp
    assert 8 * attention.bytes / attention.parameters == pytest.approx(bits, rel=0.01)


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": None}, "num_hidden_layers"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"vocab_size": "many"}, "vocab_size"),
        ({"intermediate_size": None}, "intermediate_size"),
        ({"num_hidden_layers": True}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "layers"),
        ({"num_key_value_heads": 3}, "3 key-value heads"),
        ({"num_experts": 8}, "num_experts_per_tok"),
        ({"num_experts": 2, "num_experts_per_tok": 4, "moe_intermediate_size": 8}, "4 experts"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
        ({"layer_types": ["mamba", "full_attention"]}, "mamba"),
        ({"layer_types": ["linear_attention"]}, "linear_attention"),
        ({"mamba_d_state": 16}, "mamba"),
        ({"is_encoder_decoder": True}, "encoder"),
        ({"quantization_config": {"quant_method": "magic"}}, "magic"),
    ],
)
def test_a_config_that_does_not_say_enough_is_one_sentence(
    changes: dict[str, object], says: str
) -> None:
    with pytest.raises(NumamicroError, match=says) as caught:
        small_model(**changes)
    assert "\n" not in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(st.data())
def test_any_json_gives_a_model_or_a_sentence(data: st.DataObject) -> None:
    keys = [*PRESETS["deepseek-v3"], *PRESETS["gpt-oss-20b"], "moe_layer_freq", "mlp_only_layers"]
    name = data.draw(st.sampled_from(sorted(PRESETS)))
    changes = data.draw(st.dictionaries(st.sampled_from(keys), json_values, max_size=4))
    made: list[ModelSpec] = []
    said = sentence_of(lambda: made.append(from_config(PRESETS[name] | changes, "test", name)))
    assert made or said
    assert "\n" not in said
    for model in made:
        assert model.parameters > 0
        assert model.total.bytes >= model.active().bytes * (1 - 1e-9)


@pytest.mark.parametrize("kind", [[], {}, None, 1, "mamba"], ids=str)
def test_a_layer_of_no_known_kind_is_named(kind: object) -> None:
    with pytest.raises(NumamicroError, match=r"layers of a kind whose cost is not known here \("):
        from_config(PRESETS["deepseek-v3"] | {"layer_types": [kind]}, "test", "x")


def test_files_that_are_no_config(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for text in ("", "{", "[]", "null", "[" * 100_000):
        path.write_text(text)
        with pytest.raises(NumamicroError, match="config"):
            read_config(path)
    with pytest.raises(NumamicroError, match="cannot read"):
        read_config(tmp_path / "none.json")


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(PRESETS["qwen3-8b"]))
    model = find_model(str(folder))
    assert (model.name, model.parameters) == ("my-model", preset("qwen3-8b").parameters)


@pytest.mark.parametrize("name", ["Q4_Q", "", "Q8_0,experts=Q9", "Q8_0,tail=Q4_0"])
def test_an_unknown_quantisation_is_one_sentence(name: str) -> None:
    with pytest.raises(NumamicroError):
        quantisation(name)


def test_an_unknown_model_names_those_there_are() -> None:
    with pytest.raises(NumamicroError, match=r"llama-3\.1-8b"):
        find_model("llama-9")
