"""Outputs as the tools write them, of figures that a test chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.imports import import_outputs
from numamicro.imports.text import Output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.case import AnyPlace, Param
    from numamicro.imports import Imported
    from numamicro.matrix import CostMatrix

Grid = list[list[float | None]]
"""Figures as they are printed; None on the diagonal, or where nothing was measured."""


def between(count: int, base: float, step: float) -> Grid:
    """Give a grid of `count` rows and columns whose entries all differ, without a diagonal."""
    return [
        [None if row == column else base + step * (row * count + column) for column in range(count)]
        for row in range(count)
    ]


def _cells(row: Sequence[float | None], width: int) -> str:
    return "".join(f"{'N/A' if each is None else f'{each:.2f}':>{width}}" for each in row)


# ---- nvbandwidth ---------------------------------------------------------------------------------

ARROWS = {
    "host_to_device_memcpy_ce": "CPU(row) -> GPU(column)",
    "device_to_host_memcpy_ce": "CPU(row) <- GPU(column)",
    "device_to_device_memcpy_read_ce": "GPU(row) -> GPU(column)",
    "device_to_device_memcpy_write_ce": "GPU(row) <- GPU(column)",
    "device_to_device_memcpy_read_sm": "GPU(row) -> GPU(column)",
    "device_to_device_memcpy_write_sm": "GPU(row) <- GPU(column)",
    "device_to_device_latency_sm": "GPU(row) <-> GPU(column)",
    "device_to_device_bidirectional_memcpy_read_ce": "GPU(row) <-> GPU(column)",
}


def _described(test: str) -> str:
    if test.endswith("latency_sm"):
        return f"memory latency SM {ARROWS[test]} (ns)"
    return f"memcpy {test[-2:].upper()} {ARROWS[test]} bandwidth (GB/s)"


def nvbandwidth(tests: dict[str, Grid], buses: Sequence[str] = ("17",)) -> str:
    """Give the text that nvbandwidth prints; `buses` are the PCI buses of the GPUs that it lists."""
    lines = [
        "nvbandwidth Version: v0.8",
        "Built from Git version: v0.8",
        "",
        "CUDA Runtime Version: 12080",
        "Driver Version: 570.10",
        "",
        *(f"Device {i}: NVIDIA Example (00000000:{bus}:00)" for i, bus in enumerate(buses)),
        "",
    ]
    for test, grid in tests.items():
        lines += [f"Running {test}.", _described(test)]
        lines.append(" " * 2 + "".join(f"{column:10d}" for column in range(len(grid[0]))))
        lines += [f"{row:2d}{_cells(values, 10)}" for row, values in enumerate(grid)]
        total = sum(value for row in grid for value in row if value)
        lines += ["", f"SUM {test} {total:.2f}", ""]
    lines += ["Running multinode_device_to_device_memcpy_read_ce.", "Waived: ", ""]
    return "\n".join(lines)


def nvbandwidth_json(tests: dict[str, Grid]) -> str:
    """Give the JSON that nvbandwidth prints, its numbers as texts."""
    import json

    cases = [
        {
            "bandwidth_description": _described(test),
            "bandwidth_matrix": [
                ["N/A" if value is None else f"{value:.6g}" for value in row] for row in grid
            ],
            "name": test,
            "status": "Passed",
            "sum": 1.5,
        }
        for test, grid in tests.items()
    ]
    cases.append({"name": "host_to_all_memcpy_ce", "status": "Waived"})
    about = {"CUDA Runtime Version": 12080, "git_version": "v0.8", "testcases": cases}
    return json.dumps({"nvbandwidth": about}, indent="\t")


# ---- p2pBandwidthLatencyTest ---------------------------------------------------------------------


def _p2p_grid(corner: str, grid: Grid) -> list[str]:
    lines = [f"   {corner}" + "".join(f"{column:6d} " for column in range(len(grid)))]
    return lines + [
        f"{row:6d} " + " ".join(f"{value or 0:6.2f}" for value in values) + " "
        for row, values in enumerate(grid)
    ]


def p2p(
    disabled: Grid, enabled: Grid, latency: Grid, linked: Sequence[Sequence[int]] | None
) -> str:
    """Give the text of the sample, without its diagonal's figures."""
    count = len(disabled)
    lines = ["[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]"]
    lines += [
        f"Device: {index}, NVIDIA Example, pciBusID: {16 * index + 1:x}, pciDeviceID: 0, "
        "pciDomainID:0"
        for index in range(count)
    ]
    if linked is not None:
        lines += ["P2P Connectivity Matrix", "     D\\D" + "".join(f"{c:6d}" for c in range(count))]
        lines += [
            f"{row:6d}\t" + "".join(f"{value:6d}" for value in values)
            for row, values in enumerate(linked)
        ]
    lines += ["Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)", *_p2p_grid("D\\D", disabled)]
    lines += ["Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)"]
    lines += _p2p_grid("D\\D", enabled)
    lines += ["P2P=Enabled Latency (P2P Writes) Matrix (us)", *_p2p_grid("GPU", latency), ""]
    lines += [*_p2p_grid("CPU", latency), "", "NOTE: The CUDA Samples are not meant for ...", ""]
    return "\n".join(lines)


# ---- Intel MLC -----------------------------------------------------------------------------------


def mlc(latency: Sequence[Sequence[float]], bandwidth: Sequence[Sequence[float]]) -> str:
    """Give the text that mlc prints, rows by initiator: fewer than columns with memory-only nodes."""

    def table(rows: Sequence[Sequence[float]]) -> list[str]:
        head = "".join(f"{column:6d}\t" for column in range(len(rows[0])))
        return ["\t\tNuma node", f"Numa node\t{head}"] + [
            f"{index:8d}\t" + "".join(f"{value:.1f}\t" for value in row)
            for index, row in enumerate(rows)
        ]

    lines = ["Intel(R) Memory Latency Checker - v3.11", "Measuring idle latencies (in ns)..."]
    lines += [*table(latency), ""]
    lines += [
        "Measuring Peak Injection Memory Bandwidths for the system",
        "ALL Reads        :\t9.9\t",
    ]
    lines += ["", "Measuring Memory Bandwidths between nodes within system "]
    lines += ["Bandwidths are in MB/sec (1 MB/sec = 1,000,000 Bytes/sec)"]
    lines += ["Using all the threads from each core if Hyper-threading is enabled"]
    lines += ["Using Read-only traffic type", *table(bandwidth), ""]
    return "\n".join(lines)


# ---- nccl-tests ----------------------------------------------------------------------------------


def nccl(times: dict[int, float], ranks: int = 2, test: str = "all_reduce_perf") -> str:
    """Give the text of an nccl-test: microseconds by message size."""
    lines = [
        f"# Collective test starting: {test}",
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 128 step: 2(factor) warmup iters: 5 iters: 20",
        "#",
        "# Using devices",
    ]
    lines += [
        f"#  Rank  {rank} Group  0 Pid  10{rank} on     box device  {rank} [0000:{17 + rank}:00] "
        "NVIDIA Example"
        for rank in range(ranks)
    ]
    lines += [
        "#",
        "#                                                              out-of-place        in-place",
        "#       size         count      type   redop    root     time   algbw   busbw #wrong"
        "     time   algbw   busbw #wrong",
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)       "
        "     (us)  (GB/s)  (GB/s)       ",
    ]
    for size, time in times.items():
        rate = size / time / 1e3
        columns = f"{time:8.2f} {rate:7.2f} {rate * 2 * (ranks - 1) / ranks:7.2f}      0"
        lines.append(f"{size:12d} {size // 4:12d}     float     sum      -1 {columns} {columns}")
    lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 1.5", "#", ""]
    return "\n".join(lines)


# ---- topologies ----------------------------------------------------------------------------------


def topo(levels: Sequence[Sequence[str]], nodes: Sequence[int], cpus: Sequence[str]) -> str:
    """Give the table of nvidia-smi topo -m, as a terminal shows it: underlined, tabs astray."""
    names = [f"GPU{index}" for index in range(len(levels))]
    head = "\t".join([*names, "NIC0", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\t\x1b[4m{head}\x1b[0m"]
    for name, row, node, own in zip(names, levels, nodes, cpus, strict=True):
        lines.append(
            "\t".join([name, *(f" {level} " for level in row), "NODE", own, f"{node}\t", "N/A"])
        )
    lines += ["NIC0\t" + "SYS\t" * len(names) + " X ", "", "Legend:", "", "  X    = Self", ""]
    return "\n".join(lines)


NUMACTL = """\
available: 3 nodes (0-1,4)
node 0 cpus: 0 1 4 5
node 0 size: 1000 MB
node 0 free: 900 MB
node 1 cpus: 2 3 6 7
node 1 size: 2000 MB
node 1 free: 1900 MB
node 4 cpus:
node 4 size: 4000 MB
node 4 free: 3900 MB
node distances:
node   0   1   4
  0:  10  21  31
  1:  21  10  32
  4:  31  32  10
"""

LIKWID = """\
--------------------------------------------------------------------------------
CPU name:	Example CPU 9000
CPU stepping:	1
********************************************************************************
Hardware Thread Topology
********************************************************************************
Sockets:		2
Cores per socket:	2
Threads per core:	2
--------------------------------------------------------------------------------
HWThread        Thread        Core        Die        Socket        Available
0               0             0           0          0             *
1               0             1           0          0             *
2               0             2           0          1             *
3               0             3           0          1             *
4               1             0           0          0             *
5               1             1           0          0             *
6               1             2           0          1             *
7               1             3           0          1
--------------------------------------------------------------------------------
Socket 0:		( 0 4 1 5 )
Socket 1:		( 2 6 3 7 )
--------------------------------------------------------------------------------
********************************************************************************
Cache Topology
********************************************************************************
Level:			1
Size:			32 kB
Cache groups:		( 0 4 ) ( 1 5 ) ( 2 6 ) ( 3 7 )
--------------------------------------------------------------------------------
Level:			3
Size:			16 MB
Cache groups:		( 0 4 1 5 ) ( 2 6 3 7 )
--------------------------------------------------------------------------------
********************************************************************************
NUMA Topology
********************************************************************************
NUMA domains:		2
--------------------------------------------------------------------------------
Domain:			0
Processors:		( 0 4 1 5 )
Distances:		10 21
Free memory:		900.5 MB
Total memory:		1000 MB
--------------------------------------------------------------------------------
Domain:			1
Processors:		( 2 6 3 7 )
Distances:		21 10
Free memory:		1900 MB
Total memory:		2000 MB
--------------------------------------------------------------------------------
"""


TWO_NODES = topo(
    [[" X ", "NV4", "SYS"], ["NV4", "X", "SYS"], ["SYS", "SYS", "X"]],
    (0, 0, 1),
    ("0-1,4-5", "0-1,4-5", "2-3"),
)

ALL = {
    "nvbandwidth": nvbandwidth({"device_to_device_memcpy_write_ce": between(2, 10, 1)}),
    "nvbandwidth --json": nvbandwidth_json({"device_to_device_memcpy_write_ce": between(2, 9, 1)}),
    "p2pBandwidthLatencyTest": p2p(
        between(2, 9, 1), between(2, 50, 1), between(2, 2, 1), [[1, 1], [1, 1]]
    ),
    "Intel MLC": mlc([[90.0, 140.0]], [[1000.0, 500.0]]),
    "nccl-tests": nccl({1024: 10.0}),
    "nvidia-smi topo -m": TWO_NODES,
    "likwid-topology": LIKWID,
    "numactl -H": NUMACTL,
}
"""An output of every tool."""


def imported(*texts: str) -> Imported:
    return import_outputs([Output.of(f"out{i}.txt", text) for i, text in enumerate(texts)])


def values(
    matrix: CostMatrix, probe: str, operation: str, **params: Param
) -> dict[tuple[AnyPlace, AnyPlace], float]:
    return {
        (cell.case.route.source, cell.case.route.target): summary.center
        for cell in matrix.cells(probe, operation, None, None, **params)
        if (summary := cell.summary())
    }
