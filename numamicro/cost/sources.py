"""Where a model comes from: a preset's name, a `config.json`, or a GGUF file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.cost.config import read_config
from numamicro.cost.gguf import MAGIC, read_gguf
from numamicro.cost.presets import PRESETS, preset
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from numamicro.cost.model import ModelSpec


def find_model(name: str, quant: str | None = None) -> ModelSpec:
    """Give the model that a user names.

    Parameters
    ----------
    name : str
        A preset, or the path of a `config.json`, of a folder with one, or of a GGUF file.
    quant : str, optional
        A quantisation in place of the published one; a GGUF file has its own.

    Raises
    ------
    NumamicroError
        There is no such model, or its file does not say what is needed.
    """
    if name in PRESETS:
        return preset(name, quant)
    path = Path(name)
    if not path.exists():
        return preset(name, quant)  # which says what there is
    if path.is_dir():
        path = path / "config.json"
    if not _is_gguf(path):
        return read_config(path, quant)
    if quant:
        raise NumamicroError(f"--quant {quant}: {path} is a GGUF file and has formats of its own")
    return read_gguf(path)


def _is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return path.suffix == ".gguf" or file.read(len(MAGIC)) == MAGIC
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
