"""Headers of GGUF files: as another writer writes them, cut short, damaged, and split."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from numamicro.cost.gguf import read_gguf, read_header
from numamicro.cost.sources import find_model
from numamicro.errors import NumamicroError
from tests.cost.rigs import sentence_of

np = pytest.importorskip("numpy", reason="numpy is not installed")
gguf = pytest.importorskip("gguf", reason="gguf is not installed (pip install gguf)")

if TYPE_CHECKING:
    from pathlib import Path

HIDDEN, HEADS, KV, DIM, MLP, VOCAB, LAYERS, EXPERTS = 256, 4, 2, 64, 512, 1000, 2, 4


def write(
    path: Path, *, sparse: bool = False, tied: bool = False, extra: dict[str, int] | None = None
) -> None:
    """Write a small llama with the `gguf` package: Q8_0 blocks of zeros, F32 norms."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_feed_forward_length(MLP)
    writer.add_token_list([f"token {index}" for index in range(VOCAB)])
    if sparse:
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(2)
    for name, value in (extra or {}).items():
        writer.add_uint32(name, value)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCAB, HIDDEN)}
    if not tied:
        shapes["output.weight"] = (VOCAB, HIDDEN)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        shapes |= {
            f"{block}attn_q.weight": (HEADS * DIM, HIDDEN),
            f"{block}attn_k.weight": (KV * DIM, HIDDEN),
            f"{block}attn_v.weight": (KV * DIM, HIDDEN),
            f"{block}attn_output.weight": (HIDDEN, HEADS * DIM),
        }
        for part, shape in (
            ("gate", (MLP, HIDDEN)),
            ("up", (MLP, HIDDEN)),
            ("down", (HIDDEN, MLP)),
        ):
            if sparse:
                shapes[f"{block}ffn_{part}_exps.weight"] = (EXPERTS, *shape)
            else:
                shapes[f"{block}ffn_{part}.weight"] = shape
        if sparse:
            writer.add_tensor(
                f"{block}ffn_gate_inp.weight", np.zeros((EXPERTS, HIDDEN), np.float32)
            )
        writer.add_tensor(f"{block}attn_norm.weight", np.ones(HIDDEN, np.float32))
    for name, (*others, columns) in shapes.items():
        rows = np.zeros((*others, columns // 32 * 34), np.uint8)
        writer.add_tensor(name, rows, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "dense.gguf"
    write(path)
    return path


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "sparse.gguf"
    write(path, sparse=True)
    return path


def test_totals_are_those_that_another_reader_finds(dense: Path, sparse: Path) -> None:
    for path in (dense, sparse):
        tensors = gguf.GGUFReader(path).tensors
        model = read_gguf(path)
        assert model.parameters == pytest.approx(sum(int(t.n_elements) for t in tensors))
        assert model.total.bytes == pytest.approx(sum(int(t.n_bytes) for t in tensors))


def test_a_dense_model(dense: Path) -> None:
    model = find_model(str(dense))
    assert (model.hidden, model.heads, model.kv_heads, model.vocabulary) == (
        HIDDEN,
        HEADS,
        KV,
        VOCAB,
    )
    assert model.cache_bytes(1) == LAYERS * 2 * KV * DIM * 2
    assert not model.tied
    assert model.layers[0].mlp.parameters == 3 * HIDDEN * MLP
    assert model.layers[0].attention.bytes == 2 * HIDDEN * (HEADS + KV) * DIM * 8.5 / 8 + 4 * HIDDEN


def test_a_sparse_model(sparse: Path) -> None:
    layer = read_gguf(sparse).layers[0]
    assert (layer.experts, layer.active) == (EXPERTS, 2)
    assert layer.expert.parameters == 3 * HIDDEN * MLP
    assert layer.router.parameters == EXPERTS * HIDDEN


def test_a_tied_head_is_read_and_kept_once(tmp_path: Path) -> None:
    write(tmp_path / "tied.gguf", tied=True)
    write(tmp_path / "free.gguf")
    tied, free = read_gguf(tmp_path / "tied.gguf"), read_gguf(tmp_path / "free.gguf")
    assert tied.active().bytes == free.active().bytes
    assert free.parameters - tied.parameters == VOCAB * HIDDEN


def test_the_header_alone_is_enough(dense: Path, tmp_path: Path) -> None:
    data_start = gguf.GGUFReader(dense).data_offset
    head = tmp_path / "dense.gguf"
    head.write_bytes(dense.read_bytes()[:data_start])
    assert read_gguf(head) == read_gguf(dense)


def test_a_window_is_read_and_a_pattern_by_family(tmp_path: Path) -> None:
    path = tmp_path / "window.gguf"
    write(path, extra={"llama.attention.sliding_window": 128})
    assert [layer.cache.window for layer in read_gguf(path).layers] == [128, 128]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_cut_or_damaged_header_is_a_sentence(
    dense: Path, tmp_path: Path, data: st.DataObject
) -> None:
    whole = dense.read_bytes()[: gguf.GGUFReader(dense).data_offset]
    path = tmp_path / "damaged.gguf"
    damaged = bytearray(whole[: data.draw(st.integers(0, len(whole) - 64))])
    for _ in range(data.draw(st.integers(0, 3)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    with pytest.raises(NumamicroError) as caught:
        read_gguf(path)
    assert "\n" not in str(caught.value)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_flipped_bytes_give_a_model_or_a_sentence(
    dense: Path, tmp_path: Path, data: st.DataObject
) -> None:
    damaged = bytearray(dense.read_bytes()[: gguf.GGUFReader(dense).data_offset])
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "flipped.gguf"
    path.write_bytes(damaged)
    assert "\n" not in sentence_of(lambda: read_gguf(path))


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bare.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(NumamicroError, match=r"llama\.block_count"):
        read_gguf(path)


def test_layers_of_another_kind_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mamba.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_block_count(1)
    writer.add_tensor("blk.0.ssm_in.weight", np.zeros((32, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(NumamicroError, match="ssm"):
        read_gguf(path)


def test_a_split_model_needs_every_part(tmp_path: Path) -> None:
    whole = tmp_path / "whole.gguf"
    write(whole)
    parts = [tmp_path / f"big-0000{index}-of-00002.gguf" for index in (1, 2)]
    tensors = gguf.GGUFReader(whole).tensors
    for index, path in enumerate(parts):
        writer = gguf.GGUFWriter(path, "llama")
        if index == 0:
            writer.add_block_count(LAYERS)
            writer.add_embedding_length(HIDDEN)
            writer.add_head_count(HEADS)
            writer.add_head_count_kv(KV)
        for tensor in tensors[index::2]:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    assert read_gguf(parts[0]).total.bytes == pytest.approx(read_gguf(whole).total.bytes)
    assert read_gguf(parts[1]).parameters == read_gguf(parts[0]).parameters
    parts[1].unlink()
    with pytest.raises(NumamicroError, match="big-00002-of-00002"):
        read_gguf(parts[0])


def test_a_newer_version_is_refused(dense: Path, tmp_path: Path) -> None:
    data = bytearray(dense.read_bytes()[:4096])
    data[4] = 9
    path = tmp_path / "new.gguf"
    path.write_bytes(data)
    with pytest.raises(NumamicroError, match="version 9"):
        read_header(path)


def test_a_gguf_has_formats_of_its_own(dense: Path) -> None:
    with pytest.raises(NumamicroError, match="formats of its own"):
        find_model(str(dense), "Q4_0")
