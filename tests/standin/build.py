"""Compiles the stand-in: a driver, an NVML and the stage, in C alone, each into one library."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "src/gpu/kernels"
FLAGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-O2",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    "-fvisibility=hidden",
    "-pthread",
    f"-I{HERE}",
)
ENGINE = ("engine", "half", "machine", "memory")
LIBRARIES = {
    "libcuda.so.1": (*ENGINE, "buffers", "devices", "entry", "modules", "simulation", "work"),
    "libnvidia-ml.so.1": ("nvml", "machine"),
    "libstage.so": ("stage",),
}


def build(kernels: Path = KERNELS) -> Path:
    """Give a folder with the libraries, made anew where a source has changed.

    Parameters
    ----------
    kernels : Path
        The folder of the kernels; a test gives a copy with a fault planted.
    """
    folder = Path(tempfile.gettempdir()) / f"numamicro-standin-{os.getuid()}-{_digest(kernels)}"
    if not folder.exists():
        making = Path(tempfile.mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
        for name, parts in LIBRARIES.items():
            _link(making / name, parts, kernels if name == "libcuda.so.1" else None)
        _settle(making, folder)
    return folder


class Program:
    """An executable of some parts and the kernels, whose parts are compiled once.

    Parameters
    ----------
    folder : Path
        Where the objects go.
    flags : str
        More flags, as for a sanitizer.
    """

    def __init__(self, folder: Path, parts: tuple[str, ...], *flags: str) -> None:
        self._flags = flags
        self._objects = [folder / f"{part}.o" for part in parts]
        for part, target in zip(parts, self._objects, strict=True):
            _run("-c", HERE / f"{part}.c", "-o", target, *flags, f"-I{KERNELS}")

    def link(self, target: Path, kernels: Path = KERNELS) -> Path:
        """Compile the kernels of a folder and give the program with them."""
        source = ("-x", "c", kernels / "kernels.cu", "-x", "none")
        _run("-o", target, *self._flags, *source, *self._objects, f"-I{kernels}", "-lm", "-ldl")
        return target


def _link(target: Path, parts: tuple[str, ...], kernels: Path | None) -> None:
    sources: list[str | Path] = [HERE / f"{part}.c" for part in parts]
    if kernels:
        sources += ["-x", "c", kernels / "kernels.cu", "-x", "none"]
    _run(
        "-shared",
        f"-Wl,-soname,{target.name}",
        "-o",
        target,
        *sources,
        f"-I{kernels or KERNELS}",
        "-lm",
        "-ldl",
    )


def _run(*arguments: str | Path) -> None:
    command = [os.environ.get("CC", "cc"), *FLAGS, *map(str, arguments)]
    subprocess.run(command, check=True)


def _digest(kernels: Path) -> str:
    known = hashlib.sha256(repr(FLAGS).encode())
    for path in sorted([*HERE.glob("*.[ch]"), *kernels.glob("*.h"), *kernels.glob("*.cu")]):
        known.update(path.name.encode() + path.read_bytes())
    return known.hexdigest()[:16]


def _settle(making: Path, folder: Path) -> None:
    """Put a finished folder in its place, unless another process was first."""
    try:
        making.rename(folder)
    except OSError:
        shutil.rmtree(making)
