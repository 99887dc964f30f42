"""aiconfigurator: the measured keys of a system, to lay over the YAML of a system of its own.

Keys and units are those of the files in its folder `systems`: bytes, bytes per second, seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.export.gpus import gpu_node

if TYPE_CHECKING:
    from numamicro.matrix import CostMatrix


def aiconfigurator_yaml(matrix: CostMatrix) -> str:
    """Give `gpu` and `node` of a system, with the keys that were measured.

    Raises
    ------
    NumamicroError
        The file tells of no GPU, or of none of the keys.
    """
    found = gpu_node(matrix, "aiconfigurator")
    gpu = {"mem_bw": found.read, "mem_capacity": found.memory}
    node = {
        "num_gpus_per_node": found.count,
        "intra_node_bw": found.peer,
        "pcie_bw": found.host,
        "p2p_latency": found.peer_latency,
    }
    missing = [key for key, value in (gpu | node).items() if value is None]
    if len(missing) == len(gpu) + len(node) - 1:
        raise NumamicroError(
            f"--to aiconfigurator needs one of {', '.join(missing)}, and the file has none of them"
        )
    lines = [
        "# Bytes, bytes per second and seconds; of several GPUs or links the slowest.",
        "# Lay these over a system's file: data_dir, flops, inter_node_bw and misc stay as there.",
    ]
    if missing:
        lines.append(f"# Not in the file: {', '.join(missing)}.")
    for name, keys in (("gpu", gpu), ("node", node)):
        known = {key: value for key, value in keys.items() if value is not None}
        if known:
            lines += [f"{name}:", *(f"  {key}: {_number(value)}" for key, value in known.items())]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Write a number so that YAML 1.1 takes it for one: an exponent needs a point and a sign."""
    if value == int(value):
        return str(int(value))
    text = repr(float(value))
    return text.replace("e", ".0e") if "e" in text and "." not in text else text
