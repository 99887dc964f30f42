"""What every import keeps to: cells name their line, and what is malformed is one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.case import node
from numamicro.file import matrix_from_json, matrix_text, write_matrix
from numamicro.imports import READERS
from numamicro.imports.text import Output
from numamicro.report.table import render
from numamicro.units import MIB
from tests.cost.rigs import sentence_of
from tests.exchange.outputs import (
    ALL,
    LIKWID,
    NUMACTL,
    TWO_NODES,
    between,
    imported,
    mlc,
    nccl,
    nvbandwidth,
    values,
)

if TYPE_CHECKING:
    from numamicro.matrix import Measurement

SCHEMA = json.loads(Path(__file__).parents[2].joinpath("docs/result.schema.json").read_text())

TOPOLOGIES = ("nvidia-smi topo -m", "likwid-topology", "numactl -H")


def test_every_reader_knows_its_own_output_and_no_other() -> None:
    assert {reader.name for reader in READERS} == set(ALL)
    for reader in READERS:
        assert [name for name, text in ALL.items() if reader.has(Output.of("x", text))] == [
            reader.name
        ]


def test_one_file_may_hold_many_outputs_and_prose() -> None:
    everything = "\n# prose\n".join(text for name, text in ALL.items() if "json" not in name)
    apart = imported(*(text for name, text in ALL.items() if "json" not in name))
    together = imported(everything)
    assert {c.case for c in together.matrix.measurements} == {
        c.case for c in apart.matrix.measurements
    }


def test_cells_name_their_tool_file_and_line() -> None:
    text = ALL["Intel MLC"]
    for cell in imported(text).matrix.measurements:
        (run,) = cell.runs
        assert run.outcome["tool"] == "Intel MLC v3.11"
        assert run.outcome["file"] == "out0.txt"
        line = text.split("\n")[int(str(run.outcome["line"])) - 1]
        assert line.strip() == run.outcome["text"]
        figure = sample_text(cell)
        assert figure in line


def sample_text(cell: Measurement) -> str:
    summary = cell.summary()
    assert summary
    scale = 1e-9 if cell.unit == "s" else 1e6
    return f"{summary.center / scale:.1f}"


@pytest.mark.parametrize("name", [name for name in ALL if name not in TOPOLOGIES])
def test_a_matrix_of_imported_cells_is_a_result_file(name: str) -> None:
    matrix = imported(ALL[name]).matrix
    document = json.loads(matrix_text(matrix))
    assert matrix.header.origin == "imported"
    assert matrix_from_json(document, "x") == matrix
    assert not list(jsonschema.Draft202012Validator(SCHEMA).iter_errors(document))
    assert "imported" in render(matrix)


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.floats(0.1, 9e5), min_size=n, max_size=n), min_size=n, max_size=n
        )
    )
)
def test_mlc_is_read_as_it_is_printed(grid: list[list[float]]) -> None:
    matrix = imported(mlc(grid, grid)).matrix
    for row, line in enumerate(grid):
        for column, value in enumerate(line):
            printed = float(f"{value:.1f}")
            found = values(matrix, "bandwidth", "read").get((node(row), node(column)))
            assert found == (pytest.approx(printed * 1e6) if printed else None)


# ---- malformed -----------------------------------------------------------------------------------

MALFORMED = [
    ("Intel MLC", "140.0", "one", "'one' is no figure"),
    ("Intel MLC", "\t140.0", "", "1 figures stand where the table has 2 columns"),
    ("Intel MLC", "Numa node\t     0", "Numa node\t     x", "no table of NUMA nodes follows"),
    ("nvbandwidth", "     11.00", "", "1 figures stand where the table has 2 columns"),
    ("nvbandwidth", "(GB/s)", "(MB/s)", "the table is not in (GB/s)"),
    ("nvbandwidth", "\n 1     12.00", "\n x     12.00", "the table breaks off"),
    ("nvbandwidth --json", '"10"', '"ten"', "'ten' is no figure"),
    ("nvbandwidth --json", '"testcases"', '"cases"', "no 'testcases'"),
    ("nvbandwidth --json", "],", "", "this is not JSON"),
    ("p2pBandwidthLatencyTest", " 51.00", " 51,00", "'51,00' is no figure"),
    ("nccl-tests", " float", "", "12 words stand where the table has 13 columns"),
    ("nccl-tests", "# Using devices\n#  Rank  0", "# Using devices\n#", "do not tell two GPUs"),
    (
        "likwid-topology",
        "3               0             3",
        "3               0",
        "has not the 5 ids",
    ),
    ("likwid-topology", "Distances:\t\t10 21", "Distances:\t\t10", "1 distances stand for 2"),
    ("numactl -H", "node 1 cpus", "node 1 cpu", "3 nodes are announced, and 2 have CPU lines"),
    ("numactl -H", "  1:  21  10  32", "  1:  21  10", "2 figures stand where the table has 3"),
    ("nvidia-smi topo -m", "NV4", "XX4", "'XX4' is no connection"),
    ("nvidia-smi topo -m", "\nGPU2", "\n", "the row of GPU2, with 4 entries, is due"),
]


@pytest.mark.parametrize(("name", "old", "new", "said"), MALFORMED)
def test_a_malformed_output_is_one_sentence_with_the_line(
    name: str, old: str, new: str, said: str
) -> None:
    text = ALL[name]
    assert old in text
    sentence = sentence_of(lambda: imported(text.replace(old, new, 1)))
    assert said in sentence
    assert re.match(r"out0\.txt: line \d+: ", sentence), sentence
    assert "\n" not in sentence


def test_what_is_no_output_is_refused_by_name(tmp_path: Path) -> None:
    assert "nccl-tests" in sentence_of(lambda: imported("just words\n"))
    assert "no figure to import" in sentence_of(lambda: imported(NUMACTL))
    done = command(str(tmp_path / "missing.txt"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot read" in done.stderr


def test_ranks_on_several_hosts_and_other_ratios_are_refused() -> None:
    text = nccl({1048576: 10.0})
    elsewhere = text.replace("101 on     box", "101 on   other")
    assert "several hosts" in sentence_of(lambda: imported(elsewhere))
    untitled = text.replace("# Collective test starting: all_reduce_perf", "")
    assert imported(untitled).matrix.measurements
    halved = untitled.replace(" 104.86  104.86", " 104.86   52.43")
    assert "not that of an all-reduce" in sentence_of(lambda: imported(halved))


# ---- the command, prediction and real outputs ----------------------------------------------------


def command(*arguments: str, name: str = "import") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "numamicro", name, *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_command_writes_a_file_that_predict_show_and_export_take(tmp_path: Path) -> None:
    bandwidth = [[100000.0, 50000.0], [50000.0, 100000.0]]
    (tmp_path / "mlc.txt").write_text(mlc([[90.0, 140.0], [140.0, 90.0]], bandwidth))
    (tmp_path / "likwid.txt").write_text(
        LIKWID.replace("1000 MB", "99000 MB")
        .replace("2000 MB", "99000 MB")
        .replace("900.5 MB", "98000 MB")
    )
    out = str(tmp_path / "out.json")
    done = command(str(tmp_path / "mlc.txt"), str(tmp_path / "likwid.txt"), "-o", out)
    assert done.returncode == 0, done.stderr
    assert "passed over: Measuring Peak Injection Memory Bandwidths" in done.stderr
    asked = (out, "--model", "llama-3.1-8b", "--quant", "Q4_K_M")
    assert "100.0" in command(out, name="show").stdout
    refused = command(*asked, name="predict")
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "--assume" in refused.stderr
    predicted = command(*asked, "--assume", name="predict")
    assert predicted.returncode == 0, predicted.stderr
    assert "imported" in predicted.stdout
    exported = command(out, "--to", "hwloc", name="export")
    assert exported.returncode == 0, exported.stderr
    assert f'value="{round(50e9 / MIB)}"' in exported.stdout


def test_gpus_of_imported_outputs_can_be_predicted(tmp_path: Path) -> None:
    text = nvbandwidth(
        {
            "host_to_device_memcpy_ce": [[20.0, 21.0, 22.0]],
            "device_to_host_memcpy_ce": [[20.0, 21.0, 22.0]],
            "device_to_device_memcpy_write_ce": between(3, 100, 1),
        }
    )
    path = tmp_path / "gpus.json"
    write_matrix(imported(text, TWO_NODES, nccl({1024: 10.0, 67108864: 900.0})).matrix, path)
    asked = (str(path), "--model", "llama-3.1-8b", "--gpus", "0+1", "--assume")
    done = command(*asked, name="predict")
    assert done.returncode == 0, done.stderr
    assert "all-reduce/nccl" in done.stdout
