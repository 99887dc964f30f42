"""The second account of where pages are: /proc/self/numa_maps, read apart from the product."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mapping:
    """A mapping of this process: where it starts, its policy, and its bytes by node."""

    start: int
    policy: str
    held: Counter[int]


def read_mappings() -> list[Mapping]:
    """Give the mappings in ascending order."""
    lines = Path("/proc/self/numa_maps").read_text().splitlines()
    return [_mapping(*line.split()) for line in lines]


def _mapping(start: str, policy: str, *words: str) -> Mapping:
    unit = next((int(word[18:]) * 1024 for word in words if word.startswith("kernelpagesize")), 0)
    pages = (re.fullmatch(r"N(\d+)=(\d+)", word) for word in words)
    held = Counter({int(each[1]): int(each[2]) * unit for each in pages if each})
    return Mapping(int(start, 16), policy, held)


def mapping_of(address: int, mappings: list[Mapping]) -> Mapping:
    """Give the mapping that begins at an address: every arena is one of its own."""
    return next(each for each in mappings if each.start == address)
