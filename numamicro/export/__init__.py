"""A matrix as other programs read it: one small file a format. EXPORTS is the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numamicro.errors import NumamicroError
from numamicro.export.aiconfigurator import aiconfigurator_yaml
from numamicro.export.flat import csv_text
from numamicro.export.hwloc import hwloc_xml
from numamicro.export.interleave import interleave_script
from numamicro.export.launch import launch_lines
from numamicro.export.llm_analysis import llm_analysis_json
from numamicro.export.nccl import nccl_xml
from numamicro.export.prometheus import prometheus_text
from numamicro.export.virtual import libvirt_xml, qemu_arguments

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Export:
    """A format of another program.

    Parameters
    ----------
    name : str
        What ``--to`` takes.
    consumer : str
        Who reads it, and how it is handed over.
    carries, lacks : str
        What of a matrix it holds, and what it has no words for.
    needs : str
        What a matrix must have to be written so.
    text : callable
        Gives the whole text of a matrix; of a matrix and a model where `of_model` is true.
    """

    name: str
    consumer: str
    carries: str
    lacks: str
    needs: str
    text: Callable[..., str]
    of_model: bool = False


EXPORTS = (
    Export(
        "csv",
        "a spreadsheet or a data frame",
        "every sample of every cell, with its parameters and state",
        "machine, setting, placement of pages",
        "nothing",
        csv_text,
    ),
    Export(
        "hwloc",
        "hwloc 2 and 3: lstopo -i FILE, or HWLOC_XMLFILE=FILE HWLOC_THISSYSTEM=1",
        "packages, nodes, caches, cores; read and write bandwidth and load latency as memory "
        "attributes; firmware and measured distances",
        "spread, threads, GPUs; values are whole MiB/s and ns; distances only of nodes that have "
        "both CPUs and memory",
        "CPUs of the machine; bandwidth or latency between nodes",
        hwloc_xml,
    ),
    Export(
        "prometheus",
        "node_exporter's textfile collector, or any reader of OpenMetrics",
        "the best figure of every route over threads and variants; cells by state",
        "samples and spread; why a cell has no figure",
        "a cell with a figure",
        prometheus_text,
    ),
    Export(
        "weighted-interleave",
        "Linux 6.9 and later, and numactl --weighted-interleave: sh FILE as root",
        "one weight a node, in proportion to its best read bandwidth",
        "who reads: the kernel has one weight for all",
        "read bandwidth of nodes",
        interleave_script,
    ),
    Export(
        "launch",
        "a shell: llama.cpp, vLLM, SGLang, ktransformers",
        "the best placement of a model: CPUs, nodes, GPUs, how it is split",
        "what the prediction leaves out; the model's path (MODEL stands for it)",
        "what predict needs; --model",
        launch_lines,
        of_model=True,
    ),
    Export(
        "qemu-hmat",
        "QEMU 5 and later (Proxmox: args)",
        "load latency and read bandwidth between nodes, as the guest's HMAT",
        "CPUs and memory of the guest's nodes, caches, writes; whole ns, and 16 bits of MiB/s",
        "latency or read bandwidth of nodes",
        qemu_arguments,
    ),
    Export(
        "libvirt-hmat",
        "libvirt 6.6 and later: below cpu/numa of a domain",
        "load latency and read bandwidth between nodes, as the guest's HMAT",
        "as qemu-hmat",
        "latency or read bandwidth of nodes",
        libvirt_xml,
    ),
    Export(
        "nccl",
        "NCCL: NCCL_TOPO_FILE=FILE",
        "the node next to each GPU, and its PCIe link as it is trained under load",
        "any measured rate: between CPUs NCCL has constants of its own; PCI switches",
        "GPUs with their PCI addresses",
        nccl_xml,
    ),
    Export(
        "aiconfigurator",
        "aiconfigurator: laid over a YAML file of its folder systems",
        "bandwidth of GPU memory, links and PCIe, latency between GPUs: the slowest of each",
        "which GPU, which link, which node; arithmetic, other nodes, power",
        "a GPU, and one of these figures",
        aiconfigurator_yaml,
    ),
    Export(
        "llm-analysis",
        "llm-analysis: a file of its folder gpu_configs",
        "memory, its bandwidth, arithmetic, link and its latency: the slowest of each",
        "which GPU, which link, the host",
        "memory of the GPUs, its read bandwidth, a matrix product; of several, peer copies",
        llm_analysis_json,
    ),
)
"""In the order in which `export --list` shows them."""


def export_named(name: str) -> Export:
    """Give the format of that name.

    Raises
    ------
    NumamicroError
        There is none; the sentence names those that exist.
    """
    for each in EXPORTS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in EXPORTS)
    raise NumamicroError(f"--to {name:.40}: there is no such format; choose one of {names}")
