"""Weighted interleave: how many pages each node gets in turn, so that all finish together.

Linux 6.9 and later hold one weight a node, 1 to 255, for the whole system
(Documentation/ABI/testing/sysfs-kernel-mm-mempolicy-weighted-interleave).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.export.values import bandwidths, need

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.matrix import CostMatrix

FOLDER = "/sys/kernel/mm/mempolicy/weighted_interleave"
MOST = 255
CLOSE = 0.02
"""Weights this near to the measured ratios will do: small ones spread pages more finely."""


def interleave_script(matrix: CostMatrix) -> str:
    """Give the shell lines that set the weights. Writing them needs root; nothing here does it.

    Raises
    ------
    NumamicroError
        The file has no read bandwidth of nodes.
    """
    reads = need(bandwidths(matrix), "weighted-interleave", "read bandwidth of nodes")
    rates: dict[int, float] = {}
    for (_, target), rate in reads.items():
        rates[target] = max(rate, rates.get(target, 0.0))
    nodes = ",".join(map(str, sorted(rates)))
    lines = [
        "# Weights in proportion to the most that any node's CPUs read from each node's memory.",
        f"# Run as root; then: numactl --weighted-interleave={nodes} COMMAND",
    ]
    for node, weight in weights(rates).items():
        lines.append(f"echo {weight} > {FOLDER}/node{node}")
    return "\n".join(lines) + "\n"


def weights(rates: Mapping[int, float]) -> dict[int, int]:
    """Give the smallest whole weights whose ratios are close to those of the rates.

    Parameters
    ----------
    rates : mapping of node to bytes per second
        All above zero.
    """
    most = max(rates.values())
    found = {}
    for largest in range(1, MOST + 1):
        found = {node: max(1, round(rate / most * largest)) for node, rate in sorted(rates.items())}
        if all(
            abs(weight * most / (largest * rates[node]) - 1) <= CLOSE
            for node, weight in found.items()
        ):
            break
    return found
