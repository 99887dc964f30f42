"""The other exports, each read by its consumer or by a parser of its format, and the command."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families as families

from numamicro.case import Place, Route
from numamicro.commands import export as command
from numamicro.errors import NumamicroError
from numamicro.export import EXPORTS, export_named
from numamicro.export.flat import csv_text
from numamicro.export.interleave import CLOSE, FOLDER, MOST, interleave_script, weights
from numamicro.export.prometheus import prometheus_text
from numamicro.file import write_matrix
from numamicro.matrix import CostMatrix, Measurement, State
from numamicro.topology import Gpu, Note, PcieLink
from tests.cost.rigs import cell as priced
from tests.cost.rigs import rig, sentence_of
from tests.examples import cell, header, matrices, matrix, read_case

if TYPE_CHECKING:
    from pathlib import Path

ACROSS = {"source": "node0", "target": "node1"}


def numamicro(*arguments: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "numamicro", "export", *arguments]
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "two.json"
    write_matrix(matrix(), path)
    return path


# ---- Prometheus ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parse", [families, openmetrics_families])
def test_prometheus_reads_every_figure_in_base_units(parse: object) -> None:
    fast = cell(read_case(0, 1, threads=2, variant="4-stream"), 25e9)
    several = replace(matrix(label='a "b"\\c\n'), measurements=(*matrix().measurements, fast))
    samples = [s for family in parse(prometheus_text(several)) for s in family.samples]  # type: ignore[operator]
    values = {
        (s.name, s.labels["source"], s.labels["target"]): s.value
        for s in samples
        if "source" in s.labels
    }
    assert values["numamicro_latency_seconds", "node0", "node1"] == 200e-9
    assert values["numamicro_bandwidth_bytes_per_second", "node1", "node1"] == 40e9
    # The best over threads and variants is one series, whichever they are.
    assert values["numamicro_bandwidth_bytes_per_second", "node0", "node1"] == 25e9
    assert len(values) == 8
    (about,) = [s.labels for s in samples if s.name == "numamicro_file"]
    assert about["label"] == 'a "b"\\c\n'
    assert {s.labels["state"]: s.value for s in samples if s.name == "numamicro_cells"} == {"ok": 9}


def test_prometheus_has_no_time_stamps_and_one_set_of_labels_a_metric() -> None:
    text = prometheus_text(rig(2, 2))
    for family in openmetrics_families(text):  # type: ignore[no-untyped-call]
        assert all(sample.timestamp is None for sample in family.samples)
        assert len({tuple(sample.labels) for sample in family.samples}) <= 1


def test_cells_without_a_figure_are_counted_and_not_shown() -> None:
    waived = Measurement(read_case(0, 1), "B/s", State.WAIVED, Note("planted", "planted"))
    text = prometheus_text(CostMatrix(header(), (cell(read_case(0, 0), 1e9), waived)))
    assert 'numamicro_cells{state="waived"} 1' in text
    assert 'target="node1"' not in text
    with pytest.raises(NumamicroError, match="no cell of the file has one"):
        prometheus_text(CostMatrix(header(), (waived,)))


# ---- CSV -----------------------------------------------------------------------------------------


def test_csv_has_a_row_for_each_sample() -> None:
    waived = Measurement(read_case(0, 1), "B/s", State.WAIVED, Note("planted", "a, b"))
    whole = replace(matrix(), measurements=(*matrix().measurements, waived))
    rows = list(csv.DictReader(StringIO(csv_text(whole))))
    assert len(rows) == sum(len(run.samples) for c in whole.measurements for run in c.runs) + 1
    first = whole.measurements[0]
    for row, sample in zip(rows, first.runs[0].samples, strict=False):
        assert (float(row["seconds"]), int(row["amount"])) == (sample.seconds, sample.amount)
        assert float(row["value"]) == sample.value("B/s")
        assert (row["source"], row["param.threads"], row["state"]) == ("node0", "1", "ok")
    assert (rows[-1]["state"], rows[-1]["reason"], rows[-1]["value"]) == ("waived", "planted", "")


# ---- weighted interleave -------------------------------------------------------------------------


def rates_strategy() -> st.SearchStrategy[dict[int, float]]:
    return st.dictionaries(st.integers(0, 1023), st.floats(1e9, 1e12), min_size=1, max_size=8)


@given(rates_strategy())
def test_weights_are_in_the_kernels_range_and_near_the_ratios(rates: dict[int, float]) -> None:
    found = weights(rates)
    most = max(rates.values())
    assert set(found) == set(rates)
    assert all(1 <= weight <= MOST for weight in found.values())
    largest = max(found.values())
    for node, rate in rates.items():
        exact = rate / most * largest
        assert abs(found[node] - exact) <= max(CLOSE * exact, 0.5) or found[node] == 1


def test_weights_are_small_where_small_ones_do() -> None:
    assert weights({0: 40e9, 1: 40e9}) == {0: 1, 1: 1}
    assert weights({0: 30e9, 2: 10e9}) == {0: 3, 2: 1}
    assert weights({0: 555e9, 1: 2e9}) == {0: 255, 1: 1}


def test_the_script_writes_what_it_says(tmp_path: Path) -> None:
    cells = (cell(read_case(0, 0), 30e9), cell(read_case(0, 2), 10e9), cell(read_case(1, 2), 9e9))
    text = interleave_script(CostMatrix(header(), cells))
    # The real folder is the whole system's: the script runs on a copy of its shape.
    subprocess.run(["sh", "-ec", text.replace(FOLDER, str(tmp_path))], check=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "node0": "3\n",
        "node2": "1\n",
    }


# ---- launch lines and simulators -----------------------------------------------------------------


def test_launch_lines_are_words_of_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "rig.json"
    write_matrix(rig(2, 2), path)
    done = numamicro(str(path), "--to", "launch", "--model", "llama-3.1-8b", "--quant", "Q4_K_M")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("#")]
    assert len(lines) == 4
    assert all("CUDA_VISIBLE_DEVICES" in shlex.split(line)[0] for line in lines)


def test_launch_needs_a_model(kept: Path) -> None:
    done = numamicro(str(kept), "--to", "launch")
    assert done.returncode == 2
    assert "--model" in done.stderr


def with_peers() -> CostMatrix:
    """Give two GPUs whose single loads from each other were measured."""
    whole = rig(2, 2)
    route = Route(Place("gpu", 0), Place("gpu", 1), mover="sm-load")
    load = replace(priced("peer-latency", "load", route, 1.0), unit="s")
    sample = load.runs[0].samples[0]._replace(seconds=1.5e-6, amount=1)
    load = replace(load, runs=(replace(load.runs[0], samples=(sample,)),))
    return replace(whole, measurements=(*whole.measurements, load))


def test_aiconfigurator_gets_the_slowest_of_each() -> None:
    text = export_named("aiconfigurator").text(with_peers())
    found = yaml.safe_load(text)
    assert found == {
        "gpu": {"mem_bw": 1e12},
        "node": {
            "num_gpus_per_node": 2,
            "intra_node_bw": 12.5e9,
            "pcie_bw": 25e9,
            "p2p_latency": 1.5e-6,
        },
    }
    assert "mem_capacity" in text  # named as lacking


def placed() -> CostMatrix:
    """Give two GPUs on two nodes: one whose link was seen under load, one of which nobody said."""
    whole = rig(2, 2)
    known = replace(
        whole.header.machine,
        cpu_model="AMD EPYC 9000",
        gpus=(
            Gpu(
                0,
                "A",
                memory=80 * 10**9,
                pci="0000:c1:00.0",
                host_node=1,
                link=PcieLink(1, 16, 5, 16),
            ),
            Gpu(1, "A", memory=48 * 10**9, pci="0000:01:00.0", host_node=None),
        ),
    )
    cells = tuple(
        replace(
            each, runs=(replace(each.runs[0], outcome={"pcie_generation": 4, "pcie_width": 8}),)
        )
        if each.case.probe == "host-copy" and each.case.route.target == Place("gpu", 0)
        else each
        for each in with_peers().measurements
    )
    return CostMatrix(replace(whole.header, machine=known), cells)


def test_nccl_gets_links_as_trained_and_no_prolog() -> None:
    text = export_named("nccl").text(placed())
    assert text.startswith("<system")
    root = ElementTree.fromstring(text)
    lost, known = root.findall("cpu")
    assert lost.attrib == {"numaid": "-1", "arch": "x86_64", "vendor": "AuthenticAMD"}
    assert known.attrib["affinity"] == "0000ff00"
    assert [each.attrib for each in known.findall("pci")] == [
        {
            "busid": "0000:c1:00.0",
            "class": "0x030200",
            "link_speed": "16.0 GT/s PCIe",
            "link_width": "8",
        }
    ]
    assert "link_speed" not in lost.findall("pci")[0].attrib
    at_rest = replace(placed(), measurements=())
    (pci,) = ElementTree.fromstring(export_named("nccl").text(at_rest)).findall(
        ".//pci[@link_width]"
    )
    assert pci.attrib["link_speed"] == "32.0 GT/s PCIe"


def test_llm_analysis_gets_decimal_units() -> None:
    assert json.loads(export_named("llm-analysis").text(placed())) == {
        "name": "numamicro",
        "mem_per_GPU_in_GB": 48.0,
        "hbm_bandwidth_in_GB_per_sec": 1000.0,
        "intra_node_bandwidth_in_GB_per_sec": 12.5,
        "intra_node_min_message_latency": 1.5e-6,
        "peak_fp16_TFLOPS": 100.0,
    }


def test_formats_of_gpus_say_what_they_lack() -> None:
    with pytest.raises(NumamicroError, match="needs GPUs"):
        export_named("aiconfigurator").text(matrix())
    with pytest.raises(NumamicroError, match="PCI addresses"):
        export_named("nccl").text(with_peers())
    with pytest.raises(NumamicroError, match="the GPUs' memory in bytes"):
        export_named("llm-analysis").text(with_peers())


# ---- the table and the command -------------------------------------------------------------------


@pytest.mark.parametrize("export", EXPORTS, ids=lambda each: each.name)
def test_every_format_works_or_says_what_it_needs(export: object) -> None:
    assert isinstance(export, type(EXPORTS[0]))
    if export.of_model:
        return
    for each in (matrix(), rig(2, 2), CostMatrix(header(), ())):
        refusal = sentence_of(lambda each=each: export.text(each))  # type: ignore[misc]
        assert f"--to {export.name} needs" in refusal or export.text(each).endswith("\n")


@given(matrices)
def test_any_result_file_is_written_or_refused_in_one_sentence(whole: CostMatrix) -> None:
    for export in EXPORTS:
        if not export.of_model:
            refusal = sentence_of(lambda export=export: export.text(whole))  # type: ignore[misc]
            assert "\n" not in refusal
    text = csv_text(whole)
    assert list(csv.DictReader(StringIO(text))) or not whole.measurements
    if not sentence_of(lambda: prometheus_text(whole)):
        assert list(families(prometheus_text(whole)))


def test_the_list_tells_of_every_format() -> None:
    done = numamicro("--list")
    assert done.returncode == 0
    for export in EXPORTS:
        for words in (export.name, export.consumer, export.carries, export.lacks, export.needs):
            assert words in done.stdout


def test_a_file_is_written_whole_and_a_wish_that_cannot_be_met_is_one_sentence(
    kept: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.prom"
    done = numamicro(str(kept), "--to", "prometheus", "-o", str(out))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert out.read_text() == prometheus_text(matrix())
    assert sorted(os.listdir(tmp_path)) == ["out.prom", "two.json"]
    for wish in (["--to", "nothing"], [], ["--to", "llm-analysis"]):
        done = numamicro(str(kept), *wish)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def test_the_examples_in_the_help_name_formats_that_exist() -> None:
    words = command._EXAMPLES.split()
    named = [word for before, word in pairwise(words) if before == "--to"]
    assert named
    assert all(export_named(name) for name in named)
