"""A model from the header of a GGUF file: every tensor with its own format. Reads no weights.

The layout is that of the published GGUF specification, version 2 and 3. The header alone is enough,
and it is read here in place of a package's reader, which wants the weights to be there too.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, BinaryIO

from numamicro.cost.formats import GGML_TYPES, Weights
from numamicro.cost.model import Cache, Layer, ModelSpec, once, summed
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

MAGIC = b"GGUF"

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
# Bounds of what a sane header holds: a damaged count must not ask for all memory.
_MOST_TENSORS, _MOST_KEYS, _MOST_ITEMS, _MOST_TEXT = 1_000_000, 100_000, 10_000_000, 2**26
_KEPT_ITEMS = 4096
"""Longer arrays (the vocabulary) are passed over; only their length is kept."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One entry of the table of tensors."""

    name: str
    shape: tuple[int, ...]
    format: str

    @property
    def weights(self) -> Weights:
        """Its parameters in their format."""
        return Weights.of(self.format, prod(self.shape))


@dataclass(frozen=True, slots=True)
class Header:
    """Keys and tensors of one file; an array that was passed over is its length."""

    keys: Mapping[str, Any]
    tensors: tuple[Tensor, ...]


class _Reader:
    """Reads little or big endian values and turns a file that ends early into a sentence."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.file = file
        self.where = where
        self.order = "<"

    def bad(self, what: str) -> NumamicroError:
        return NumamicroError(f"{self.where} is no whole GGUF header: {what}")

    def take(self, count: int) -> bytes:
        data = self.file.read(count)
        if len(data) < count:
            raise self.bad(f"it breaks off after {self.file.tell()} bytes")
        return data

    def value(self, code: str) -> Any:
        return struct.unpack(self.order + code, self.take(struct.calcsize(self.order + code)))[0]

    def count(self, most: int, what: str) -> int:
        found: int = self.value("Q")
        if found > most:
            raise self.bad(f"it claims {found} {what}")
        return found

    def text(self) -> str:
        size = self.count(_MOST_TEXT, "bytes in a text")
        return self.take(size).decode("utf-8", "replace")

    def item(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.value(_SCALARS[kind])
        if kind == _ARRAY:
            return self.array()
        raise self.bad(f"it holds a value of type {kind}, which no version has")

    def array(self) -> Any:
        kind = self.value("I")
        count = self.count(_MOST_ITEMS, "items in an array")
        if count <= _KEPT_ITEMS and kind != _ARRAY:
            return [self.item(kind) for _ in range(count)]
        if kind in _SCALARS:
            self.take(count * struct.calcsize(_SCALARS[kind]))
        else:
            for _ in range(count):
                self.item(kind)
        return count

    def tensor(self) -> Tensor:
        name = self.text()
        dimensions = self.value("I")
        if not 0 < dimensions <= 8:
            raise self.bad(f"tensor {name:.60} has {dimensions} dimensions")
        shape = tuple(self.value("Q") for _ in range(dimensions))
        kind = self.value("I")
        self.value("Q")  # where its data are
        if prod(shape) >= 2**50:
            raise self.bad(f"tensor {name:.60} claims {prod(shape)} values")
        if kind not in GGML_TYPES:
            raise NumamicroError(
                f"{self.where}: tensor {name:.60} has the type {kind}, which is not known here"
            )
        return Tensor(name, shape, GGML_TYPES[kind])


def read_header(path: Path) -> Header:
    """Read keys and tensor table of one file, whose weights need not follow.

    Raises
    ------
    NumamicroError
        It cannot be read, is no GGUF file, or is cut short within the header.
    """
    try:
        with path.open("rb") as file:
            return _header(_Reader(file, str(path)))
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error


def _header(reader: _Reader) -> Header:
    if reader.file.read(4) != MAGIC:
        raise NumamicroError(f"{reader.where} is no GGUF file: it does not begin with GGUF")
    version = reader.value("I")
    if version and not version & 0xFFFF:  # written on a machine of the other byte order
        reader.order, version = ">", struct.unpack(">I", struct.pack("<I", version))[0]
    if version not in (2, 3):
        raise NumamicroError(
            f"{reader.where} has GGUF version {version}, and this numamicro reads 2 and 3"
        )
    tensors = reader.count(_MOST_TENSORS, "tensors")
    keys = {}
    for _ in range(reader.count(_MOST_KEYS, "keys")):
        name = reader.text()
        keys[name] = reader.item(reader.value("I"))
    return Header(keys, tuple(reader.tensor() for _ in range(tensors)))


def read_gguf(path: Path) -> ModelSpec:
    """Read a model from a GGUF file, or from all parts of a split one when given any of them.

    Raises
    ------
    NumamicroError
        A part is missing or damaged, a key is missing, or a layer's cost is not known.
    """
    headers = [read_header(part) for part in _parts(path)]
    keys = headers[0].keys
    tensors = {tensor.name: tensor for header in headers for tensor in header.tensors}
    return _Model(keys, tensors, str(path)).spec(path.stem)


def _parts(path: Path) -> list[Path]:
    match = re.fullmatch(r"(.+)-(\d{5})-of-(\d{5})\.gguf", path.name)
    if not match or not 1 <= int(match[3]) <= 9999:
        return [path]
    total = int(match[3])
    parts = [path.with_name(f"{match[1]}-{i:05}-of-{match[3]}.gguf") for i in range(1, total + 1)]
    missing = [part.name for part in parts if not os.path.exists(part)]
    if missing:
        raise NumamicroError(f"{path} is one of {total} parts, and {missing[0]} is missing")
    return parts


_BLOCK = re.compile(r"blk\.(\d+)\.(.+)")
_FOREIGN = re.compile(r"(ssm|time_mix|channel_mix|shortconv|recurrent)")


class _Model:
    """What the keys and tensors of a header say of a model."""

    def __init__(self, keys: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str) -> None:
        self.keys = keys
        self.tensors = tensors
        self.where = where
        self.family = self._text("general.architecture")
        self.blocks: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if match := _BLOCK.match(name):
                self.blocks.setdefault(int(match[1]), {})[match[2]] = tensor

    def spec(self, name: str) -> ModelSpec:
        """Give the model."""
        self._refuse_foreign()
        # Blocks beyond these predict further tokens and take no part in a plain step.
        extra = self._maybe("nextn_predict_layers") or 0
        count = self._need("block_count") - extra
        missing = [index for index in range(count) if index not in self.blocks]
        if missing:
            raise NumamicroError(
                f"{self.where}: block_count is {count} and there are no tensors of block "
                f"{missing[0]}; give every part of a split model"
            )
        embedding = self._tensor("token_embd.weight")
        head = self.tensors.get("output.weight")
        kv_heads = self._per_layer("attention.head_count_kv") or self._per_layer(
            "attention.head_count"
        )
        assert kv_heads is not None
        return ModelSpec(
            name=name,
            layers=once(self._layer(index) for index in range(count)),
            embedding=embedding.weights,
            head=(head or embedding).weights,
            tied=head is None,
            hidden=self._need("embedding_length"),
            vocabulary=embedding.shape[-1],
            heads=max(self._heads(index) for index in range(count)),
            kv_heads=1 if self._rank() else max(kv_heads),
            notes=("the layers that predict further tokens (MTP) are not counted",)
            if extra
            else (),
        )

    def _refuse_foreign(self) -> None:
        for index, block in self.blocks.items():
            for name in block:
                if match := _FOREIGN.match(name):
                    raise NumamicroError(
                        f"{self.where}: block {index} is of a kind whose cost is not known here "
                        f"({match[1]}); only attention over a cache is"
                    )

    def _layer(self, index: int) -> Layer:
        block = self.blocks[index]
        dim = self._maybe("attention.key_length") or self._need("embedding_length") // self._heads(
            index
        )
        value = self._maybe("attention.value_length") or dim
        rank = self._rank()
        if rank:
            rope = self._need("rope.dimension_count")
            cache = Cache(
                rank + rope, 1, self._heads(index) * (2 * rank + rope), self._window(index)
            )
            dim = self._maybe("attention.key_length_mla") or dim
            value = self._maybe("attention.value_length_mla") or value
        else:
            kv = self._kv_heads(index)
            work = self._heads(index) * (dim + value)
            cache = Cache(kv * (dim + value), kv, work, self._window(index))
        experts = self._maybe("expert_count") or 0
        routed = _all(block, lambda name: name.startswith("ffn_") and "_exps" in name)
        sparse = bool(experts and routed.parameters)
        router = _all(block, lambda name: name.startswith("ffn_gate_inp"))
        mlp = _all(
            block,
            lambda name: (
                name.startswith("ffn_")
                and "_exps" not in name
                and not name.startswith("ffn_gate_inp")
            ),
        )
        return Layer(
            attention=_all(block, lambda name: not name.startswith("ffn_")),
            mlp=mlp,
            cache=cache,
            width=self._heads(index) * (dim + value) // 2,
            router=router,
            expert=routed * (1 / experts) if sparse else Weights(),
            experts=experts if sparse else 0,
            active=self._need("expert_used_count") if sparse else 0,
            normed=2 * self._need("embedding_length"),
            rotated=2 * (self._maybe("rope.dimension_count") or dim),
        )

    def _window(self, index: int) -> int | None:
        window = self._maybe("attention.sliding_window")
        if not window:
            return None
        pattern = self.keys.get(f"{self.family}.attention.sliding_window_pattern")
        if isinstance(pattern, list) and pattern:
            return window if pattern[index % len(pattern)] else None
        every = pattern if isinstance(pattern, int) and pattern else _EVERY.get(self.family, 1)
        return None if every > 1 and (index + 1) % every == 0 else window

    def _rank(self) -> int | None:
        return self._maybe("attention.kv_lora_rank")

    def _heads(self, index: int) -> int:
        heads = self._per_layer("attention.head_count")
        if not heads:
            raise self._missing("attention.head_count")
        return heads[min(index, len(heads) - 1)] or 1

    def _kv_heads(self, index: int) -> int:
        heads = self._per_layer("attention.head_count_kv")
        return heads[min(index, len(heads) - 1)] if heads else self._heads(index)

    def _per_layer(self, key: str) -> list[int] | None:
        """Give a count that a file keeps once, or once for each layer."""
        value = self.keys.get(f"{self.family}.{key}")
        values: list[Any] = value if isinstance(value, list) else [value]
        if value is None or not values:
            return None
        if not all(type(count) is int and 0 <= count < 2**20 for count in values):
            raise NumamicroError(f"{self.where}: key {self.family}.{key} counts nothing")
        return values

    def _maybe(self, key: str) -> int | None:
        values = self._per_layer(key)
        return values[0] if values else None

    def _need(self, key: str) -> int:
        value = self._maybe(key)
        if not value:
            raise self._missing(key)
        return value

    def _missing(self, key: str) -> NumamicroError:
        return NumamicroError(f"{self.where}: key {self.family}.{key} is missing; a model needs it")

    def _text(self, key: str) -> str:
        value = self.keys.get(key)
        if not isinstance(value, str) or not value:
            raise NumamicroError(f"{self.where}: key {key} is missing; a model needs it")
        return value

    def _tensor(self, name: str) -> Tensor:
        if name not in self.tensors:
            raise NumamicroError(f"{self.where}: tensor {name} is missing; a model needs it")
        return self.tensors[name]


# Every how many layers one looks at everything, for families that write no pattern.
_EVERY = {"gemma2": 2, "gemma3": 6, "gpt-oss": 2, "cohere2": 4, "llama4": 4}


def _all(block: Mapping[str, Tensor], wanted: Callable[[str], bool]) -> Weights:
    return summed(tensor.weights for name, tensor in block.items() if wanted(name))
