"""Outputs that were cut, mixed up or hit by noise: read, or refused in one sentence that names a line."""

from __future__ import annotations

import json
import random
import re
from typing import TYPE_CHECKING

import pytest

from numamicro.file import matrix_from_json, matrix_text
from numamicro.imports import import_outputs
from numamicro.imports.text import Output
from numamicro.report.table import render
from tests.cost.rigs import sentence_of
from tests.exchange.outputs import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numamicro.matrix import CostMatrix

EACH = 130
"""Mutants of each of the eight outputs: a thousand and some."""

_NOISE = (
    *(
        "",
        "-1",
        "nan",
        "inf",
        "1e999",
        "1e308",
        "0",
        "0.00",
        "N/A",
        "x",
        "9" * 30,
        "\x00",
        "é",
        "\t",
    ),
    *("GPU0", "node", "Running", "[]", "{}", "null", "-", "0-3", "5-1", "0-99999999", "٣", "²"),
)


def _cut(text: str, choose: random.Random) -> str:
    return text[: choose.randrange(len(text) + 1)]


def _without_a_line(text: str, choose: random.Random) -> str:
    lines = text.split("\n")
    del lines[choose.randrange(len(lines))]
    return "\n".join(lines)


def _lines_swapped(text: str, choose: random.Random) -> str:
    lines = text.split("\n")
    a, b = choose.randrange(len(lines)), choose.randrange(len(lines))
    lines[a], lines[b] = lines[b], lines[a]
    return "\n".join(lines)


def _line_twice(text: str, choose: random.Random) -> str:
    lines = text.split("\n")
    at = choose.randrange(len(lines))
    return "\n".join([*lines[:at], lines[at], *lines[at:]])


def _word_replaced(text: str, choose: random.Random) -> str:
    words = list(re.finditer(r"[^\s,\"]+", text))
    if not words:
        return choose.choice(_NOISE)
    word = choose.choice(words)
    return text[: word.start()] + choose.choice(_NOISE) + text[word.end() :]


def _letters_changed(text: str, choose: random.Random) -> str:
    letters = list(text)
    for _ in range(choose.randrange(1, 6)):
        letters[choose.randrange(len(letters))] = chr(choose.randrange(1, 0x250))
    return "".join(letters)


_HITS: Sequence[Callable[[str, random.Random], str]] = (
    *(_cut, _without_a_line, _lines_swapped, _line_twice),
    *(_word_replaced, _word_replaced, _word_replaced, _letters_changed),
)


@pytest.mark.parametrize("name", ALL)
def test_a_mutant_is_read_or_refused_in_one_sentence(name: str) -> None:
    refused = 0
    for seed in range(EACH):
        choose = random.Random(f"{name} {seed}")
        text = ALL[name]
        for _ in range(choose.randrange(1, 4)):
            text = choose.choice(_HITS)(text or " ", choose)
        # Another output beside it: then what is read of a topology becomes part of a matrix too.
        other = ALL["Intel MLC" if seed % 2 else "nccl-tests"]
        outputs = [Output.of("mutant.txt", text), Output.of("other.txt", other)]
        found: list[CostMatrix] = []
        sentence = sentence_of(lambda: found.append(import_outputs(outputs).matrix))  # noqa: B023
        if sentence:
            refused += 1
            assert re.match(r"mutant\.txt: line \d+: |.*: there is no figure", sentence), seed
            assert "\n" not in sentence
        else:
            assert matrix_from_json(json.loads(matrix_text(found[0])), "mutant") == found[0], seed
            assert render(found[0])
    assert 0 < refused < EACH
