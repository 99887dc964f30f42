"""What goes wrong on a machine with GPUs ends in the right state, in its own cell."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from numamicro.doctor import diagnose, diagnose_matrix
from numamicro.file import matrix_from_json
from numamicro.finding import Severity
from numamicro.matrix import State
from numamicro.wire import measurement_from_json
from tests import examples
from tests.gpu.conftest import cells, command, discovered, numamicro
from tests.standin.machines import MACHINES

if TYPE_CHECKING:
    from pathlib import Path

    from numamicro.finding import Finding
    from numamicro.matrix import Measurement
    from tests.standin.machines import Machine

ONE, TWO, FOUR = MACHINES["one"], MACHINES["two-without-p2p"], MACHINES["four-on-two-sockets"]


def document(machine: Machine, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Give exit status and result of the product on a machine."""
    done = numamicro(machine, "matrix", "--quick", "--memory", "2M", "-q", "--json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def notes(result: dict[str, Any]) -> dict[str, str]:
    """Give what the machine's own notes say, by their codes."""
    return {note["code"]: note["what"] for note in result["machine"]["notes"]}


def findings(result: dict[str, Any]) -> dict[str, Finding]:
    """Give what doctor makes of a result, by codes."""
    return {each.code: each for each in diagnose_matrix(matrix_from_json(result, "result"))}


def told(found: list[Measurement]) -> dict[str, Finding]:
    """Give what doctor makes of cells, by codes."""
    matrix = replace(examples.matrix(), measurements=tuple(found))
    return {each.code: each for each in diagnose_matrix(matrix)}


def run(machine: Machine, deadline: float, pattern: str, *probes: str) -> list[Measurement]:
    done = command(machine, "tests.gpu.run", str(deadline), pattern, *probes)
    assert done.returncode == 0, done.stderr
    return [measurement_from_json(cell, "cells") for cell in json.loads(done.stdout)]


# --- Peers that lie ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["p2p_drop", "p2p_mirror"])
def test_data_that_do_not_arrive_are_wrong_whatever_the_speed(fault: str) -> None:
    machine = FOUR.having(f"{fault} gpu0 gpu1")
    all_cells = cells(machine, "peer-copy", "/copy.*direct")
    found = {str(cell.case.route): cell for cell in all_cells}
    bad = found.pop("gpu0>gpu1@copy-engine")
    assert bad.state is State.WRONG
    assert bad.reason is not None
    assert bad.reason.code == "data"
    assert bad.summary() is None
    assert {cell.state for cell in found.values()} == {State.OK}
    finding = told(all_cells)["peer-access-false"]
    assert finding.severity is Severity.SPOILS
    assert "between gpu0 and gpu1" in finding.what
    assert "peer-copy/copy gpu0>gpu1@copy-engine" in finding.evidence


def test_an_all_reduce_over_a_pair_that_drops_writes_is_wrong_before_it_is_timed() -> None:
    machine = FOUR.having("p2p_drop gpu0 gpu1")
    found = cells(machine, "all-reduce", "gpu0>(node0>)?gpu1@.*message=16384")
    by_operation = {cell.case.operation: cell for cell in found}
    assert by_operation["peer"].state is State.WRONG
    assert by_operation["staged"].state is State.OK  # it needs no peer access


def test_a_sum_that_is_not_the_sum_is_wrong() -> None:
    for cell in cells(FOUR.having("wrong_sum"), "all-reduce", "gpu0>.*gpu1@.*message=16384"):
        assert cell.state is State.WRONG
        assert cell.reason is not None
        assert cell.reason.code == "sum"


def test_access_that_is_claimed_and_refused_is_an_error_with_the_drivers_own_name() -> None:
    for cell in cells(FOUR.having("enable_fails gpu0 gpu1"), "peer-copy", "/copy gpu0>gpu1"):
        assert cell.state is State.ERROR
        assert cell.reason is not None
        assert cell.reason.code == "driver"
        assert "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" in cell.reason.text


def test_access_is_given_pair_by_pair_so_that_sixteen_gpus_are_not_too_many() -> None:
    found = cells(MACHINES["sixteen"], "peer-copy", "/copy gpu0>.*direct")
    assert len(found) == 15
    assert {cell.state for cell in found} == {State.OK}


def test_a_group_of_more_than_a_gpu_can_reach_is_waived() -> None:
    (cell,) = cells(MACHINES["sixteen"], "all-reduce", r"peer gpu0\+gpu1\+.*message=4096,.*=pull")
    assert cell.state is State.WAIVED
    assert cell.reason is not None
    assert cell.reason.code == "too-many-peers"
    assert "CUDA_ERROR_TOO_MANY_PEERS" in cell.reason.text


def test_a_hang_costs_its_deadline_and_the_rest_is_measured() -> None:
    machine = FOUR.having("p2p_hang gpu0 gpu1")
    found = run(machine, 4.0, "copy gpu(0>gpu1|2>gpu3)@|h2d node.>gpu0", "peer-copy", "host-copy")
    by_state = {str(cell.case.route): cell.state for cell in found}
    assert by_state.pop("gpu0>gpu1@copy-engine") is State.HANG
    assert len(by_state) == 3
    assert {*by_state.values()} == {State.OK}


# --- What the driver says, and what it does not ------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no_device", "CUDA_ERROR_NO_DEVICE"),
        ("driver_mismatch", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("driver_too_old", "of CUDA"),
    ],
)
def test_without_a_driver_that_works_gpus_are_left_out_with_a_sentence(
    fault: str, says: str
) -> None:
    status, result = document(ONE.having(fault), "--only", "host-copy")
    assert (status, result["measurements"]) == (0, [])
    assert says in notes(result)["no-gpu"]
    assert "1 NVIDIA GPU is on the PCI bus" in notes(result)["no-gpu"]
    listed = numamicro(ONE.having(fault), "matrix", "--list")
    assert listed.returncode == 0
    assert says in listed.stdout


def test_without_gpus_the_memory_part_is_measured_and_the_screen_says_what_is_left_out() -> None:
    options = ("--only", "core-to-core,host-copy", "--quick", "-q")
    done = numamicro(ONE.having("no_device"), "matrix", *options)
    assert done.returncode == 0
    assert "numamicro 0" in done.stdout
    assert "quick level · measured" in done.stdout
    assert "note: no GPU can be used (" in done.stdout
    assert "core-to-core" in done.stdout


def test_memory_that_cannot_be_had_is_an_error_and_the_driver_says_which() -> None:
    status, result = document(ONE.having("out_of_memory"), "--only", "host-copy/h2d")
    assert status == 3
    (cell,) = result["measurements"]
    assert cell["state"] == "error"
    assert "CUDA_ERROR_OUT_OF_MEMORY" in cell["reason"]["text"]
    assert cell["runs"][0]["samples"] == []


def test_instances_have_no_peers_and_that_is_no_failure() -> None:
    status, result = document(TWO.having("mig"), "--only", "peer-copy", "--only", "host-copy/h2d")
    assert status == 0
    assert {gpu["mig"] for gpu in result["machine"]["gpus"]} == {True}
    reasons = {
        cell["reason"]["code"] for cell in result["measurements"] if cell["state"] == "waived"
    }
    assert reasons == {"mig"}
    assert "mig" in findings(result)
    assert "no-peer-access" not in findings(result)


def test_a_link_that_stays_slow_under_load_is_said() -> None:
    (cell,) = cells(ONE.having("downtrained gpu0"), "host-copy", "h2d")
    (run,) = cell.runs
    assert [warning.code for warning in run.warnings] == ["slow-link"]
    assert "generation 1 x8" in run.warnings[0].text
    assert (run.outcome["pcie_generation"], run.outcome["pcie_width"]) == (1, 8)
    finding = told([cell])["link-downtrained"]
    assert finding.severity is Severity.SPOILS
    assert "gpu0 stays at generation 1 x8 under load" in finding.what
    (healthy,) = cells(ONE, "host-copy", "h2d")
    assert healthy.warnings == ()
    assert healthy.runs[0].outcome["pcie_generation"] == 4


@pytest.mark.parametrize("fault", ["nvml_absent", "nvml_mismatch"])
def test_without_nvml_the_run_goes_on(fault: str) -> None:
    machine = discovered(TWO.having(fault))
    assert "nvml" in {note.code for note in machine.notes}
    assert [gpu.host_node for gpu in machine.gpus] == [0, 1]  # by sysfs
    assert machine.gpus[1].link is not None
    assert machine.gpus[1].link.max_generation == 4
    found = cells(TWO.having(fault), "host-copy", "h2d node0")
    assert [cell.state for cell in found] == [State.OK, State.OK]


def test_a_node_that_nobody_tells_is_null_and_every_node_is_measured() -> None:
    machine = discovered(TWO.having("no_host_node"))
    assert [gpu.host_node for gpu in machine.gpus] == [None, None]
    (finding,) = (each for each in diagnose({}, machine) if each.code == "gpu-node-unknown")
    assert "gpu0, gpu1" in finding.what
    found = cells(TWO.having("no_host_node"), "host-copy", "h2d")
    assert {str(cell.case.route) for cell in found} == {
        f"node{node}>gpu{gpu}@copy-engine" for node in (0, 1) for gpu in (0, 1)
    }
    assert {cell.state for cell in found} == {State.OK}


def test_gpus_too_old_for_kernels_have_copies() -> None:
    status, result = document(
        MACHINES["pascal-pair"], "--only", "peer-copy", "--only", "host-copy/h2d"
    )
    assert status == 0
    by_mover = {
        cell["route"]["mover"]: (cell["state"], (cell["reason"] or {}).get("code"))
        for cell in result["measurements"]
    }
    assert by_mover == {
        "copy-engine": ("ok", None),
        "sm-load": ("waived", "no-gpu-kernels"),
        "sm-store": ("waived", "no-gpu-kernels"),
    }


def test_what_a_stand_in_gave_is_called_simulated_everywhere(tmp_path: Path) -> None:
    file, model = tmp_path / "one.json", ("--model", "qwen3-8b", "--quant", "Q2_K")
    probes = "host-copy,host-latency,gpu-memory"
    options = ("--quick", "--memory", "2M", "-q", "-o", str(file), *model)
    done = numamicro(ONE, "matrix", "--only", probes, *options)
    assert done.returncode == 0, done.stderr
    assert "simulated (one)" in done.stdout
    assert "the GPUs are simulated" in done.stdout
    assert "simulated figures: no machine was measured" in done.stdout.splitlines()[-1]
    result = json.loads(file.read_text())
    assert result["origin"] == "simulated"
    assert result["machine"]["gpu_driver"]["simulation"] == "one"
    assert findings(result)["simulated"].severity is Severity.SPOILS
    predict = [sys.executable, "-m", "numamicro", "predict", str(file), *model]
    asked = ["--gpus", "0", "--assume", "--context", "256", "--prompt", "64"]
    told = subprocess.run([*predict, *asked], capture_output=True, text=True, check=True).stdout
    assert "note: simulated figures: no machine was measured" in told
    assert "gpu-memory/read gpu0" in told
