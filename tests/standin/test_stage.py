"""The stage: a process on it sees the simulated machine, and its NVML says the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.standin.conftest import act
from tests.standin.machines import MACHINES


def look(name: str, *faults: str) -> dict[str, Any]:
    found: dict[str, Any] = act(MACHINES[name].having(*faults), "look")
    return found


def test_the_machine_is_the_simulated_one() -> None:
    machine = MACHINES["eight-behind-switches"]
    found = look(machine.name)
    assert found["simulation"] == machine.name
    assert found["nodes"] == [0, 1, 2, 3]
    assert found["cpus"] == list(range(8))
    assert found["packages"] == [0, 1]
    assert found["host_nodes"] == [gpu.node for gpu in machine.gpus]


@pytest.mark.parametrize("policy", ["bind", "default", "interleave"])
def test_pages_are_where_they_were_put(policy: str) -> None:
    counts = act(MACHINES["two-without-p2p"], "pages", policy)
    expected = {"bind": {"1": 64}, "default": {"0": 64}, "interleave": {"0": 32, "1": 32}}
    assert counts == expected[policy]


def test_a_node_that_is_not_there_takes_nothing() -> None:
    assert act(MACHINES["one"], "pages", "absent") == {"errno": 22}


def test_nvml_and_the_driver_speak_of_the_same_gpus() -> None:
    pytest.importorskip("pynvml", reason="no nvidia-ml-py here")
    machine = MACHINES["sixteen"]
    found = act(machine, "nvml")
    assert [gpu["pci"] for gpu in found["gpus"]] == sorted(
        f"0000{gpu.pci.upper()}" for gpu in machine.gpus
    )
    assert {gpu["uuid"] for gpu in found["gpus"]} == {
        f"GPU-{uuid}" for uuid in found["driver_uuids"]
    }
    # The driver counts another way round.
    assert found["gpus"][0]["uuid"] != f"GPU-{found['driver_uuids'][0]}"


def test_an_idle_link_sleeps_and_work_wakes_it() -> None:
    pytest.importorskip("pynvml", reason="no nvidia-ml-py here")
    assert act(MACHINES["one"], "nvml")["generations"] == [1, 4, 1]
    assert act(MACHINES["one"].having("downtrained gpu0"), "nvml")["generations"] == [1, 1, 1]


def test_nvml_that_does_not_match_says_so() -> None:
    pytest.importorskip("pynvml", reason="no nvidia-ml-py here")
    found = act(MACHINES["one"].having("nvml_mismatch"), "nvml")
    assert found == {"error": 18}
    assert "error" in act(MACHINES["one"].having("nvml_absent"), "nvml")
