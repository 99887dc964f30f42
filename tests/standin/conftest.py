"""What the tests of the stand-in share: images of the kernels, and scenes on simulated machines."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numamicro import _gpu_data
from tests.standin.build import KERNELS
from tests.standin.play import staged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from tests.standin.machines import Machine

ROOT = Path(__file__).parents[2]
SECONDS = 300
"""How long a scene may take where many run at once."""


def act(machine: Machine, scene: str, *arguments: str, **environment: str) -> Any:
    """Let a scene play on a machine, in a process of its own, and give what it found."""
    with staged(machine) as stage:
        done = subprocess.run(
            [sys.executable, "-m", "tests.standin.scenes", scene, *arguments],
            env=stage | environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def compiler() -> Any:
    """The compiler of the kernels; skips where the environment has none."""
    try:
        return compiler_module().Compiler()
    except SystemExit as missing:
        pytest.skip(str(missing))


def compiler_module() -> ModuleType:
    """Give src/gpu/kernels/compile.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("kernel_compiler", KERNELS / "compile.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Images:
    """The images of the kernels that the product was built with, as files."""

    def __init__(self, images: Mapping[str, bytes], folder: Path) -> None:
        self._images = images
        self._folder = folder

    def path(self, architecture: str) -> str:
        """Give the file with the image for ``sm_90`` or ``compute_70``."""
        file = self._folder / architecture
        file.write_bytes(self._images[architecture])
        return str(file)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    built = _gpu_data.images()
    if not built:
        pytest.skip("numamicro was built without kernels for GPUs")
    return Images(built, tmp_path_factory.mktemp("images"))
