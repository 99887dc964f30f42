"""Readers of one value: what most keys of the setting are made of."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from numamicro.topology.cpus import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numamicro.topology.sysfs import Tree

Value: TypeAlias = "str | int | None"
Reader: TypeAlias = "Callable[[Tree], Value]"

LONGEST = 200
"""What one file may say at most; a garbled one must not swell the result file."""


def text(path: str) -> Reader:
    """Read the text of a file."""

    def read(tree: Tree) -> Value:
        found = tree.text(path)
        return found[:LONGEST] if found else None

    return read


def number(path: str) -> Reader:
    """Read the whole number in a file."""
    return lambda tree: tree.number(path)


def choice(path: str) -> Reader:
    """Read the word that stands in brackets, as in ``always [madvise] never``."""

    def read(tree: Tree) -> Value:
        words = (tree.text(path) or "").split()
        return next((w[1:-1][:LONGEST] for w in words if w[:1] == "[" and w[-1:] == "]"), None)

    return read


def over_cpus(file: str) -> Reader:
    """Read a word that each CPU has; where they differ, each word with the number of its CPUs."""

    def read(tree: Tree) -> Value:
        return alike(tree.text(f"{CPU}/cpu{id}/{file}") for id in tree.numbered(CPU, "cpu"))

    return read


def alike(texts: Iterable[str | None]) -> Value:
    """Give the word that all have, or where they differ each word with its number."""
    known = list(texts)
    kinds = {word[:LONGEST] for word in known if word}
    return counted(known) if len(kinds) > 1 else next(iter(kinds), None)


def counted(texts: Iterable[str | None]) -> Value:
    """Give the words with the number of each, as in ``DMA x 12, identity x 3``."""
    counts = Counter(word[:LONGEST] for word in texts if word)
    return ", ".join(f"{word} x {counts[word]}" for word in sorted(counts))[:LONGEST] or None


def found(path: str, pattern: str) -> Reader:
    """Read what the first group of a pattern finds in a file."""

    def read(tree: Tree) -> Value:
        match = re.search(pattern, tree.text(path) or "", re.MULTILINE)
        return match[1][:LONGEST] if match else None

    return read
