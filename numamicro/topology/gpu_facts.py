"""What the driver and NVML say of the GPUs, asked in a process of its own.

A driver that hangs or crashes then costs a deadline and not the run. The answer is plain JSON; what
it means together with sysfs is worked out by :mod:`numamicro.topology.gpus`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from itertools import combinations, permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numamicro.errors import GpuError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numamicro._gpu import Driver

Facts = dict[str, Any]

DEADLINE_SECONDS = 20.0
"""A driver that wakes its GPUs takes some seconds; one that takes longer does not answer at all."""
_END_SECONDS = 2.0

_ROOT = str(Path(__file__).parents[2])
# -P and the root last: a json.py in the caller's folder must not be taken for the module.
_START = "import sys; sys.path.append(sys.argv[1]); from numamicro.topology import gpu_facts; "
_START += "gpu_facts.main()"

_MOST_NVLINKS = 18
_NODE_SCOPE = 0
_MASK_WORDS = 8


def ask_gpus(deadline: float = DEADLINE_SECONDS) -> Facts:
    """Give what driver and NVML say, or ``{"error": why}``.

    The child inherits the environment, CUDA_VISIBLE_DEVICES above all.
    """
    from numamicro._gpu import Driver

    try:
        Driver()  # finds the library and calls nothing: without one, no process need be started
    except GpuError as error:
        return {"error": str(error)}
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _START, _ROOT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        answer, _ = child.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        child.kill()
        # One that is stuck inside the driver cannot be ended and is left behind.
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=_END_SECONDS)
        return {"error": f"the NVIDIA driver gave no answer within {deadline:.0f} s"}
    if child.returncode:
        return {"error": f"the NVIDIA driver ended the process that asked ({child.returncode})"}
    facts: Facts = json.loads(answer)
    return facts


def gather() -> Facts:
    """Ask libcuda, then NVML; what NVML lacks is left out."""
    from numamicro._gpu import Driver

    driver = Driver()
    try:
        version, count = driver.start()
    except GpuError as error:
        return {"error": str(error), "code": error.name}
    return {
        "simulation": driver.simulation,
        "cuda": version,
        "gpus": [driver.facts(ordinal) for ordinal in range(count)],
        "peers": list(_peers(driver, count)),
        "nvml": _nvml_facts(),
    }


def _peers(driver: Driver, count: int) -> Iterator[Facts]:
    for source, target in permutations(range(count), 2):
        access, atomics = driver.peer(source, target)
        yield {"source": source, "target": target, "access": access, "atomics": atomics}


def _nvml_facts() -> Facts:
    try:
        import pynvml as nvml
    except ImportError:
        return {"error": "the Python package nvidia-ml-py is not installed"}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return {"error": str(error)}
    count = _said(nvml, nvml.nvmlDeviceGetCount) or 0
    handles = [_said(nvml, nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)]
    return {
        "version": _said(nvml, nvml.nvmlSystemGetDriverVersion),
        "gpus": [{"index": i, **_nvml_gpu(nvml, handle)} for i, handle in enumerate(handles)],
        "pairs": [
            {"gpus": [a, b], "level": _said(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, *both)}
            for (a, b) in combinations(range(count), 2)
            for both in [(handles[a], handles[b])]
        ],
    }


def _said(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Give what NVML answers; None where this GPU, or this driver, does not know the question."""
    try:
        return ask(*arguments)
    except nvml.NVMLError:
        return None


def _nvml_gpu(nvml: Any, handle: Any) -> Facts:
    def said(name: str, *arguments: Any) -> Any:
        return _said(nvml, getattr(nvml, f"nvmlDeviceGet{name}"), handle, *arguments)

    pci, bar1, mig = said("PciInfo"), said("BAR1MemoryInfo"), said("MigMode")
    return {
        "uuid": said("UUID"),
        "pci": pci and str(pci.busId),
        "affinity": list(said("MemoryAffinity", _MASK_WORDS, _NODE_SCOPE) or ()),
        "memory_node": said("NumaNodeId"),
        "bar1": bar1 and bar1.bar1Total,
        "generation": said("CurrPcieLinkGeneration"),
        "width": said("CurrPcieLinkWidth"),
        "max_generation": said("MaxPcieLinkGeneration"),
        "max_width": said("MaxPcieLinkWidth"),
        "mig": mig and bool(mig[0]),
        "display": _any(said("DisplayMode"), said("DisplayActive")),
        "nvlinks": [
            remote and str(remote.busId)
            for link in range(_MOST_NVLINKS)
            if said("NvLinkState", link)
            for remote in [said("NvLinkRemotePciInfo", link)]
        ],
    }


def _any(*flags: int | None) -> bool | None:
    known = [bool(flag) for flag in flags if flag is not None]
    return any(known) if known else None


def main() -> None:
    """Answer on standard output; what a library prints goes to standard error instead."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    json.dump(gather(), answers)
    answers.flush()
    os._exit(0)  # a library's own clean-up may hang or crash, and nothing of it is wanted
