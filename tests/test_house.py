"""The house rules: imports point only back, nothing prints below the top, start-up is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(__file__).parents[1] / "numamicro"
MODULES = sorted(PACKAGE.rglob("*.py"))

# A layer is one module or one folder. It may import itself and what stands before it.
LAYERS = (
    "errors",
    "bulk",
    "_cpu",
    "_gpu",
    "_gpu_data",
    "finding",
    "units",
    "stats",
    "case",
    "identity",
    "topology",
    "rights",
    "setting",
    "matrix",
    "plausibility",
    "saving",
    "wire",
    "file",
    "append",
    "census",
    "wishes",
    "probes",
    "plan",
    "doctor",
    "journal",
    "stop",
    "worker",
    "runner",
    "session",
    "cost",
    "comparison",
    "report",
    "export",
    "imports",
    "api",
    "exit",
    "output",
    "commands",
    "cli",
    "__main__",
)
SPEAKING = ("report", "output", "commands", "cli", "__main__")
MOST_LINES = 500


def dotted(path: Path) -> str:
    """Give the name of a module: numamicro.topology.machine."""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def layer(module: str) -> str | None:
    """Give the layer of a module of numamicro; None for the package itself."""
    inner = module.split(".")[1:]
    return inner[0] if inner and inner[0] != "__init__" else None


def at_run_time(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a tree without what stands below ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_run_time(child)


def imported(path: Path) -> Iterator[str]:
    """Give the dotted names that a module imports when it runs."""
    package = dotted(path).split(".")[:-1]
    for found in at_run_time(ast.parse(path.read_text())):
        if isinstance(found, ast.Import):
            yield from (alias.name for alias in found.names)
        elif isinstance(found, ast.ImportFrom):
            start = package[: len(package) + 1 - found.level] if found.level else []
            origin = ".".join([*start, *filter(None, [found.module])])
            yield from (f"{origin}.{alias.name}" for alias in found.names)


def loaded_by(code: str) -> set[str]:
    """Give the modules that a fresh interpreter holds after it ran `code`."""
    report = "\nimport sys; sys.stderr.write('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code + report], capture_output=True, text=True, check=True
    )
    return set(done.stderr.split())


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_imports_point_only_back(path: Path) -> None:
    own = layer(dotted(path))
    assert own is None or own in LAYERS, f"say in LAYERS where {own} stands"
    for name in imported(path):
        other = layer(name) if name.startswith("numamicro.") else None
        if own and other in LAYERS:
            assert LAYERS.index(other) <= LAYERS.index(own), f"{own} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_only_the_top_layers_print(path: Path) -> None:
    if layer(dotted(path)) in SPEAKING:
        return
    for found in ast.walk(ast.parse(path.read_text())):
        if isinstance(found, ast.Name | ast.Attribute):
            spoken = ast.unparse(found) in ("print", "sys.stdout", "sys.stderr")
            assert not spoken, f"line {found.lineno}"


@pytest.mark.parametrize("path", [*MODULES, *PACKAGE.glob("*.pyx")], ids=dotted)
def test_no_file_is_two_rooms_in_one(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MOST_LINES


def test_the_package_alone_is_light() -> None:
    loaded = loaded_by("import numamicro")
    assert "numamicro" in loaded
    assert loaded.isdisjoint({"numpy", "tabulate", "argparse", "subprocess"})


def test_help_needs_neither_numpy_nor_the_kernels() -> None:
    loaded = loaded_by(
        "import runpy, sys\n"
        "sys.argv = ['numamicro', '--help']\n"
        "try: runpy.run_module('numamicro', run_name='__main__', alter_sys=True)\n"
        "except SystemExit as stop: assert not stop.code\n"
    )
    assert "numamicro.cli" in loaded
    assert loaded.isdisjoint({"numpy", "tabulate", "numamicro._cpu"})


def readers() -> list[str]:
    """Give the layers that work on a result file of any machine."""
    names = ("cost", "comparison", "report", "export", "imports")
    return [name for name in names if any(layer(dotted(path)) == name for path in MODULES)]


@pytest.mark.parametrize("name", readers())
def test_what_reads_a_file_never_touches_the_kernels(name: str) -> None:
    code = f"import pkgutil, numamicro.{name} as top\n"
    code += "for found in pkgutil.walk_packages(getattr(top, '__path__', []), top.__name__ + '.'):"
    code += " __import__(found.name)\n"
    assert loaded_by(code).isdisjoint({"numamicro._cpu", "numamicro.worker", "numamicro.runner"})
