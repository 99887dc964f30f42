"""Number formats of weights and caches: the bytes that so many values take."""

from __future__ import annotations

import re
from dataclasses import dataclass

from numamicro.errors import NumamicroError

# Values in a block and bytes of a block. From the block structures of ggml (`ggml-common.h`); below
# them formats of other engines, whose scales are part of the block.
_BLOCKS: dict[str, tuple[int, int]] = {
    "F64": (1, 8),
    "F32": (1, 4),
    "F16": (1, 2),
    "BF16": (1, 2),
    "I64": (1, 8),
    "I32": (1, 4),
    "I16": (1, 2),
    "I8": (1, 1),
    "Q4_0": (32, 18),
    "Q4_1": (32, 20),
    "Q5_0": (32, 22),
    "Q5_1": (32, 24),
    "Q8_0": (32, 34),
    "Q2_K": (256, 84),
    "Q3_K": (256, 110),
    "Q4_K": (256, 144),
    "Q5_K": (256, 176),
    "Q6_K": (256, 210),
    "IQ1_S": (256, 50),
    "IQ1_M": (256, 56),
    "IQ2_XXS": (256, 66),
    "IQ2_XS": (256, 74),
    "IQ2_S": (256, 82),
    "IQ3_XXS": (256, 98),
    "IQ3_S": (256, 110),
    "IQ4_XS": (256, 136),
    "IQ4_NL": (32, 18),
    "TQ1_0": (256, 54),
    "TQ2_0": (256, 66),
    "MXFP4": (32, 17),
    "NVFP4": (64, 36),
    # DeepSeek's 128 x 128 blocks with an F32 scale; per-tensor scales are as good as nothing.
    "FP8": (128 * 128, 128 * 128 + 4),
    # GPTQ and AWQ in groups of 128: an F16 scale and a 4-bit zero point each.
    "INT4": (256, 133),
    "INT8": (1, 1),
}

_NUMBERED = (
    "F32 F16 Q4_0 Q4_1 - - Q5_0 Q5_1 Q8_0 - Q2_K Q3_K Q4_K Q5_K Q6_K - IQ2_XXS IQ2_XS IQ3_XXS IQ1_S"
    " IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16"
)
GGML_TYPES: dict[int, str] = {
    **{number: name for number, name in enumerate(_NUMBERED.split()) if name != "-"},
    34: "TQ1_0",
    35: "TQ2_0",
    39: "MXFP4",
    40: "NVFP4",
}
"""Number of a tensor type in a GGUF file -> name."""


_BITS = re.compile(r"(\d{1,2}(?:\.\d{1,9})?)bpw", re.ASCII | re.IGNORECASE)


def bits_of(name: str) -> float:
    """Give the bits that one value of a format takes, its share of the scales included.

    A format may also be its bits alone, as ``2.5bpw``.

    Raises
    ------
    NumamicroError
        The format is not known.
    """
    if match := _BITS.fullmatch(name):
        return float(match[1])
    if name not in _BLOCKS:
        raise NumamicroError(f"there is no format '{name:.40}'; choose one of {', '.join(_BLOCKS)}")
    values, size = _BLOCKS[name]
    return 8 * size / values


# Formats that go through the same kind of loop, for those that no probe measures.
_SIMILAR = {
    "F32": "F16",
    "BF16": "F16",
    "F16": "BF16",
    "Q8_K": "Q8_0",
    "INT8": "Q8_0",
    "FP8": "Q8_0",
    "Q5_0": "Q4_0",
    "Q5_1": "Q4_0",
    "Q4_1": "Q4_0",
    "IQ4_NL": "Q4_0",
    "MXFP4": "Q4_0",
    "NVFP4": "Q4_0",
    "INT4": "Q4_0",
    "Q2_K": "Q4_K",
    "Q3_K": "Q4_K",
    "Q5_K": "Q4_K",
    "Q6_K": "Q4_K",
    "IQ4_XS": "Q4_K",
    "IQ3_S": "Q4_K",
    "IQ3_XXS": "Q4_K",
    "IQ2_S": "Q4_K",
    "IQ2_XS": "Q4_K",
    "IQ2_XXS": "Q4_K",
    "IQ1_S": "Q4_K",
    "IQ1_M": "Q4_K",
    "TQ1_0": "Q4_K",
    "TQ2_0": "Q4_K",
}


def similar(name: str) -> str:
    """Give the format whose loop a format goes through that no probe measures; empty if none."""
    return _SIMILAR.get(name, "Q4_K" if name.upper().endswith("BPW") else "")


def in_super_blocks(name: str) -> bool:
    """Tell whether a format's weights stand in blocks of 256 (Q4_K, IQ4_XS)."""
    return _BLOCKS.get(name, (1, 1))[0] == 256


@dataclass(frozen=True, slots=True)
class Weights:
    """Parameters by the format they are kept in, sorted by its name.

    `a + b` is both; `weights * share` is a part of each format.
    """

    by_format: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, name: str, parameters: float) -> Weights:
        """Give so many parameters of one format."""
        return cls(((name, parameters),)) if parameters else cls()

    @property
    def parameters(self) -> float:
        """How many there are."""
        return sum(count for _, count in self.by_format)

    @property
    def bytes(self) -> float:
        """What they take, scales included."""
        return sum(count * bits_of(name) / 8 for name, count in self.by_format)

    def __add__(self, other: Weights) -> Weights:
        counts = dict(self.by_format)
        for name, count in other.by_format:
            counts[name] = counts.get(name, 0.0) + count
        return Weights(tuple(sorted(counts.items())))

    def __mul__(self, share: float) -> Weights:
        return Weights(tuple((name, count * share) for name, count in self.by_format if share))

    @property
    def super_share(self) -> float:
        """The share of parameters that stand in blocks of 256."""
        inside = sum(count for name, count in self.by_format if in_super_blocks(name))
        return inside / self.parameters if inside else 0.0

    def bytes_by_format(self) -> dict[str, float]:
        """Give the bytes of each format."""
        return {name: count * bits_of(name) / 8 for name, count in self.by_format}


@dataclass(frozen=True, slots=True)
class Quantisation:
    """Which format each class of weights gets.

    Parameters
    ----------
    rest : str
        What is not named otherwise.
    better : str
        Format of the sensitive part: a share of the attention's (its values) and of the MLP's
        (its down projection) parameters.
    attention_share, mlp_share : float
        How large that part is, within 0 and 1.
    head, attention, experts : str, optional
    """

    rest: str
    better: str = ""
    attention_share: float = 0.0
    mlp_share: float = 0.0
    head: str = ""
    attention: str = ""
    experts: str = ""

    def weights(self, part: str, parameters: float) -> Weights:
        """Give the weights of one class.

        Parameters
        ----------
        part : str
            attention, mlp, experts, head, embedding or plain (norms and routers: never quantised).
        """
        if part == "plain":
            return Weights.of("F32", parameters)
        base = {"attention": self.attention, "experts": self.experts, "head": self.head}.get(part)
        shares = {"attention": self.attention_share, "mlp": self.mlp_share}
        share = shares.get("mlp" if part == "experts" else part, 0.0) if self.better else 0.0
        return Weights.of(base or self.rest, parameters * (1 - share)) + Weights.of(
            self.better, parameters * share
        )


# The mixtures of llama.cpp's quantiser keep the values of the attention (about a tenth of it) and
# the down projection (a third of an MLP) better in half of the layers, and the head in Q6_K.
_MIXTURES: dict[str, Quantisation] = {
    "Q2_K": Quantisation("Q2_K", "Q3_K", 0.1, 1 / 3, head="Q6_K"),
    "Q3_K_M": Quantisation("Q3_K", "Q4_K", 0.1, 1 / 3, head="Q6_K"),
    "Q4_K_S": Quantisation("Q4_K", "Q5_K", 0.05, 1 / 24, head="Q6_K"),
    "Q4_K_M": Quantisation("Q4_K", "Q6_K", 0.05, 1 / 6, head="Q6_K"),
    "Q5_K_S": Quantisation("Q5_K", head="Q6_K"),
    "Q5_K_M": Quantisation("Q5_K", "Q6_K", 0.05, 1 / 6, head="Q6_K"),
    "Q4_0": Quantisation("Q4_0", head="Q6_K"),
    "Q4_K": Quantisation("Q4_K", head="Q6_K"),
    # The published gpt-oss weights: the experts alone are in MXFP4.
    "MXFP4": Quantisation("BF16", experts="MXFP4"),
}


def quantisation(name: str) -> Quantisation:
    """Give the quantisation of that name: a mixture, or one format for everything.

    A name is written as the engines write it: ``Q4_K_M``, ``f16``, ``fp8``. A mixture of one's own is
    ``FORMAT`` for all and ``part=FORMAT`` for experts, attention or head: ``Q8_0,experts=Q2_K``.

    Raises
    ------
    NumamicroError
        There is no such name.
    """
    first, *others = name.upper().split(",")
    found = _MIXTURES.get(first)
    if found is None:
        bits_of(first)
        found = Quantisation(first)
    parts = dict(other.partition("=")[::2] for other in others)
    for part, kind in parts.items():
        if part not in ("EXPERTS", "ATTENTION", "HEAD"):
            raise NumamicroError(
                f"quantisation {name!r:.60}: write for example Q4_K_M or Q8_0,experts=Q2_K"
            )
        bits_of(kind)
    return Quantisation(
        found.rest,
        found.better,
        found.attention_share,
        found.mlp_share,
        head=parts.get("HEAD", found.head),
        attention=parts.get("ATTENTION", found.attention),
        experts=parts.get("EXPERTS", found.experts),
    )
