"""llm-analysis: a GPU's configuration, as its folder `gpu_configs` holds one (GPUConfig)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.export.gpus import gpu_node

if TYPE_CHECKING:
    from numamicro.matrix import CostMatrix

_GB = 1e9
_TERA = 1e12


def llm_analysis_json(matrix: CostMatrix) -> str:
    """Give the configuration of the file's slowest GPU and link.

    Raises
    ------
    NumamicroError
        The file tells of no GPU, or lacks a figure that GPUConfig cannot do without.
    """
    found = gpu_node(matrix, "llm-analysis")
    needed = {
        "gpu-memory/read": found.read,
        "the GPUs' memory in bytes": found.memory,
        "gemm/matrix of a GPU": found.gemm,
    }
    # A node with one GPU has no link, and its latency is never asked for.
    if found.count > 1:
        needed |= {"peer-copy/copy": found.peer, "peer-latency/load": found.peer_latency}
    missing = [what for what, value in needed.items() if value is None]
    if missing:
        raise NumamicroError(
            f"--to llm-analysis needs {', '.join(missing)}, and the file does not tell"
        )
    config = {
        "name": matrix.header.label or "numamicro",
        "mem_per_GPU_in_GB": _in(found.memory, _GB),
        "hbm_bandwidth_in_GB_per_sec": _in(found.read, _GB),
        "intra_node_bandwidth_in_GB_per_sec": _in(found.peer, _GB),
        "intra_node_min_message_latency": _in(found.peer_latency, 1.0),
        "peak_fp16_TFLOPS": _in(found.gemm, _TERA),
    }
    return json.dumps(config, indent=4) + "\n"


def _in(value: float | None, unit: float) -> float:
    return 0.0 if value is None else value / unit
