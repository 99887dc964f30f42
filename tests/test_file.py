"""The result file: it holds all of a matrix, and is what the schema and the document say."""

from __future__ import annotations

import ast
import copy
import json
import os
import re
import resource
import subprocess
import sys
import textwrap
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings

from numamicro import file
from numamicro.case import Place, Route, node
from numamicro.errors import NumamicroError
from numamicro.file import SCHEMA, matrix_text, read_matrix, write_matrix
from numamicro.matrix import CostMatrix, Measurement, State
from numamicro.topology import Gpu, GpuDriver, GpuPair, Note, PcieLink
from tests import examples
from tests.test_cli import SHORT, numamicro

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[1] / "docs"
VALIDATOR = jsonschema.Draft202012Validator(json.loads((DOCS / "result.schema.json").read_text()))


def full_matrix() -> CostMatrix:
    """Give a matrix that has something under every key of the file."""
    cell = examples.cell(examples.read_case(0, 1, threads=2, ratio=0.5, nt=True), 1e9)
    run = replace(cell.runs[0], outcome={"isa": "avx2", "turbo": None}, warnings=(Note("w", "x"),))
    failed = examples.failed_run(State.VOID, process=1)
    staged = Route(Place("gpu", 0), Place("gpu", 1), via=node(0), mover="copy-engine")
    machine = replace(
        examples.machine((0,)),
        gpus=(Gpu(0, "Example GPU", link=PcieLink(1, 16, 5, 16)),),
        gpu_pairs=(GpuPair((0, 1), "SYS"),),
        gpu_driver=GpuDriver("595.71.05", "13.2"),
    )
    return CostMatrix(
        examples.header(machine, label="all"),
        (
            replace(cell, runs=(run,), origin="imported"),
            Measurement.of_runs(examples.read_case(0, 0), "B/s", (run, failed)),
            replace(cell, case=replace(cell.case, route=staged)),
            Measurement(examples.load_case(1, 1), "s", State.SKIPPED, Note("budget", "spent")),
        ),
    )


DOCUMENT: dict[str, Any] = json.loads(matrix_text(full_matrix()))


def problems(document: object) -> list[str]:
    """Give what the schema says against a document."""
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(document)]


Path_ = tuple[str | int, ...]
"""The keys that lead to a value of a document."""


def nodes_of(document: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Give every value in a document with the keys that lead to it."""
    yield path, document
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in items:
            yield from nodes_of(value, (*path, key))


def put(document: Any, path: Path_, value: object) -> Any:
    """Give a copy of a document with another value in one place."""
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = put(document[path[0]], path[1:], value) if path[1:] else value
    return changed


def without(document: Any, path: Path_) -> Any:
    """Give a copy of a document that lacks one value."""
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    lacking = copy.copy(parent)
    del lacking[path[-1]]
    return put(document, path[:-1], lacking)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a file that the program itself wrote from a short run on this machine."""
    path = tmp_path_factory.mktemp("measured") / "nps4.json"
    done = numamicro(*SHORT, "--label", "BIOS A", "-o", str(path))
    assert done.returncode in (0, 3), done.stderr
    return path


# ---- what is written -----------------------------------------------------------------------------


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(VALIDATOR.schema)
    assert VALIDATOR.schema["properties"]["schema"] == {
        "const": SCHEMA,
        "description": "Version of this format.",
    }
    assert VALIDATOR.schema["$defs"]["state"]["enum"] == [state.value for state in State]


def test_a_measured_file_is_what_the_schema_says(measured: Path) -> None:
    document = json.loads(measured.read_text())
    assert problems(document) == []
    assert [cell for cell in document["measurements"] if cell["state"] == "ok"]
    assert document["label"] == "BIOS A"


def test_a_measured_file_reads_back_as_it_is(measured: Path) -> None:
    assert matrix_text(read_matrix(measured)) == measured.read_text()
    assert not measured.with_name(f"{measured.name}.part").exists()


def test_a_file_is_read_in_little_memory(measured: Path) -> None:
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from numamicro.file import read_matrix\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))\n"
        "print(len(read_matrix(Path(sys.argv[1])).measurements))\n"
    )
    command = [sys.executable, "-c", code, str(measured)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"{len(read_matrix(measured).measurements)}\n", done.stderr


def test_a_file_tells_nobodys_name(measured: Path) -> None:
    text = measured.read_text()
    names = {os.uname().nodename, os.environ.get("USER", ""), str(Path.home()), str(Path.cwd())}
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        with suppress(OSError):
            names.add(Path(path).read_text().strip())
    for name in names:
        assert len(name) < 5 or name not in text


@settings(max_examples=60)
@given(examples.matrices)
def test_every_matrix_survives_the_file(matrix: CostMatrix) -> None:
    document = json.loads(matrix_text(matrix))
    assert file.matrix_from_json(document, "file") == matrix
    assert problems(document) == []


def test_the_schema_knows_every_key() -> None:
    assert problems(DOCUMENT) == []
    for path, value in nodes_of(DOCUMENT):
        if isinstance(value, dict) and not {"plan", "setting", "params", "outcome"} & set(path):
            more = put(DOCUMENT, (*path, "surprise"), {})
            assert problems(more), f"{path} may hold anything"
            for key in value:
                if not str(key).isdecimal() and key != "origin":
                    assert problems(without(DOCUMENT, (*path, key))), f"{path} may lack {key}"


def test_a_cell_is_one_line_so_that_files_can_be_diffed() -> None:
    lines = matrix_text(full_matrix()).splitlines()
    cells = [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"probe"')]
    assert cells == DOCUMENT["measurements"]


def test_the_text_is_ascii_whatever_the_label() -> None:
    matrix = CostMatrix(examples.header(label="läbel \u2028 \ud800"), ())
    assert matrix_text(matrix).isascii()
    assert file.matrix_from_json(json.loads(matrix_text(matrix)), "file") == matrix


# ---- how it is written ---------------------------------------------------------------------------


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Make each write fail that would grow a file beyond `size` bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_matrix(examples.matrix(), path)
    write_matrix(full_matrix(), path)
    assert read_matrix(path) == full_matrix()
    assert os.listdir(tmp_path) == ["out.json"]


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path, size: int) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with files_end_at(size), pytest.raises(NumamicroError, match="cannot write"):
        write_matrix(full_matrix(), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_matrix(full_matrix(), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.json"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    link, real = tmp_path / "link.json", tmp_path / "kept" / "real.json"
    link.symlink_to("kept/real.json")
    for matrix in (examples.matrix(), full_matrix()):  # at first it leads nowhere
        write_matrix(matrix, link)
        assert link.is_symlink()
        assert not real.is_symlink()
        assert read_matrix(real) == matrix
    assert os.listdir(tmp_path / "kept") == ["real.json"]


def test_a_link_to_itself_is_no_place_to_lose_a_result(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to("loop.json")
    write_matrix(full_matrix(), loop)
    assert read_matrix(loop) == full_matrix()


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        write_matrix(full_matrix(), pipe)
        assert reader.communicate()[0] == matrix_text(full_matrix())
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent/out.json", "No such file or directory"),
        ("plain/out.json", "Not a directory"),
        ("", "Is a directory"),
        ("x" * 300, "File name too long"),
        ("/dev/full", "No space left on device"),
        ("/proc/out.json", "No such file or directory"),
    ],
    ids=["no-folder", "file-as-folder", "folder", "long", "full", "proc"],
)
def test_where_nothing_can_be_written_is_said_in_a_sentence(
    tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "plain").write_text("old")
    path = tmp_path / name
    with pytest.raises(NumamicroError) as caught:
        write_matrix(full_matrix(), path)
    assert str(caught.value) == f"cannot write {path}: {reason}"
    assert os.listdir(tmp_path) == ["plain"]


@pytest.mark.parametrize("name", [".", "..", "/", "", "folder"])
def test_a_folder_is_refused_before_anything_is_measured(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "numamicro", "matrix", "-o", name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == f"numamicro: -o '{name}' is a folder: name a file in it\n"
    assert os.listdir(tmp_path) == ["folder"]


# ---- readers -------------------------------------------------------------------------------------


def test_a_file_is_read_and_shown_without_kernels_or_numpy(measured: Path) -> None:
    code = """
        import sys
        class Barred:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "numpy" or name == "numamicro._cpu":
                    raise ImportError(f"{name} is not for readers")
        sys.meta_path.insert(0, Barred())
        from numamicro.cli import main
        sys.exit(main(["show", sys.argv[1]]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(measured)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Read bandwidth" in done.stdout


# ---- the document --------------------------------------------------------------------------------

FORMAT = (DOCS / "FORMAT.md").read_text()


def block(language: str) -> str:
    """Give the first example in that language."""
    return FORMAT.partition(f"```{language}\n")[2].partition("```")[0]


def codes() -> Iterator[str]:
    """Give every code of a note, a finding or a failure that stands in the source."""
    for path in Path(file.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            name = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
            at = {"Note": 0, "Finding": 0, "_on": 1, "CaseFailed": 1}.get(name)
            if isinstance(call, ast.Call) and at is not None and len(call.args) > at:
                code = call.args[at]
                if isinstance(code, ast.Constant) and isinstance(code.value, str):
                    yield code.value


def test_the_document_names_every_code_and_no_other() -> None:
    chapter = FORMAT.partition("## States and reasons")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z-]+)`", chapter)) - {state.value for state in State}
    assert named - {"setting"} == set(codes())


def test_the_document_names_every_key_and_state() -> None:
    shapes = [VALIDATOR.schema, *VALIDATOR.schema["$defs"].values()]
    keys = {key for shape in shapes for key in shape.get("properties", ())}
    assert [key for key in sorted(keys) if f"`{key}`" not in FORMAT] == []
    assert [state for state in State if f"| `{state}` |" not in FORMAT] == []
    assert f"| {SCHEMA} | " in FORMAT.partition("## History")[2]


def test_the_example_cell_is_one() -> None:
    assert problems(DOCUMENT | {"measurements": [json.loads(block("json"))]}) == []


def test_the_example_reads_a_file(measured: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", block("python")],
        cwd=measured.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    said = r"\d+\.\d GB/s, as cell bandwidth/read node0>node0 \S+ says\n"
    assert re.fullmatch(said, done.stdout), done.stderr
