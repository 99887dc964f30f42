"""Where results of a bench are kept: a page to read and the document behind it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numamicro.errors import NumamicroError
from numamicro.saving import save

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULTS = Path(__file__).with_name("results")


def slug(words: str) -> str:
    """Give words as the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def machine_name(described: Mapping[str, Any]) -> str:
    """Give the name of results from machines of this kind, as `bench.state.describe` has them."""
    return slug(f"{described['cpu'] or 'machine'}-{described['cores']}-cores")


def kept(machine: str) -> dict[str, Any]:
    """Give the documents of contests that were held on machines of that name, by their own.

    Raises
    ------
    NumamicroError
        A file among the results is cut or is no JSON.
    """
    documents = {path.stem: _read(path) for path in RESULTS.glob("*.json")}
    return {
        name: document
        for name, document in documents.items()
        if "contests" in document and machine_name(document["machine"]) == machine
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise NumamicroError(f"{path} is no result of the bench: {error}") from error
    assert isinstance(document, dict)
    return document


def keep(name: str, page: str, document: Mapping[str, Any]) -> None:
    """Write both, and say where."""
    RESULTS.mkdir(exist_ok=True)
    save(page, RESULTS / f"{name}.md")
    save(json.dumps(document, indent=1) + "\n", RESULTS / f"{name}.json")
    print(f"kept in bench/{RESULTS.name}/{name}.md and .json", file=sys.stderr)
