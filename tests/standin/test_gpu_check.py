"""``./dev gpu-check`` on a simulated GPU: what it says where all is well, and where it is not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standin.machines import MACHINES
from tests.standin.play import staged

ROOT = Path(__file__).parents[2]


def gpu_check(*faults: str, machine: str = "one") -> subprocess.CompletedProcess[str]:
    with staged(MACHINES[machine].having(*faults)) as environment:
        return subprocess.run(
            [sys.executable, "-P", "-m", "bench.gpu", "--dry", "--time", "1"],
            env=environment | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )


@pytest.mark.usefixtures("compiler")
def test_every_check_holds_on_a_sound_gpu() -> None:
    done = gpu_check()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("# GPU check, simulated, ")
    assert "**21 of 21 checks hold.**" in done.stdout
    assert "FAILED" not in done.stdout


@pytest.mark.usefixtures("compiler")
def test_a_wrong_sum_fails_the_check() -> None:
    with staged(MACHINES["one"].having("wrong_sum gpu0")) as environment:
        command = [sys.executable, "-P", "-m", "bench.gpu.checks"]
        path = environment | {"PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, env=path, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            checks = (json.loads(line) for line in running.stdout)
            first = next(check for check in checks if check["name"].startswith("all-reduce"))
            running.kill()
    assert not first["passed"]
    assert "bytes wrong" in first["said"]


def test_a_machine_without_gpus_is_told_why() -> None:
    done = gpu_check("no_device")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "CUDA_ERROR_NO_DEVICE" in done.stderr
    assert "Traceback" not in done.stderr
