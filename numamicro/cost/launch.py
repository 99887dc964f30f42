"""The command line that starts an engine as a placement says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.case import node

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.cost.placement import Placement
    from numamicro.topology import Machine

MODEL = "MODEL"
"""Stands for the model's path or name, which the result file does not know."""


def launch_line(placement: Placement, engine: str, machine: Machine, layers: int) -> str:
    """Give the line to paste into a shell.

    Parameters
    ----------
    engine : str
        llama.cpp, vllm, sglang or ktransformers.
    layers : int
        How many layers the model has.
    """
    makers = {
        "llama.cpp": _llama,
        "vllm": _vllm,
        "sglang": _sglang,
        "ktransformers": _ktransformers,
    }
    words = [
        *_visible(placement),
        *_numactl(placement, machine),
        *makers[engine](placement, machine, layers),
    ]
    return " ".join(words)


def cpu_list(cpus: Sequence[int]) -> str:
    """Write CPU ids as ``0-3,8``."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _visible(placement: Placement) -> list[str]:
    gpus = [str(index) for stage in placement.stages for index in stage]
    return [f"CUDA_VISIBLE_DEVICES={','.join(gpus)}"] if gpus else []


def _cpus(placement: Placement, machine: Machine, index: int, count: int) -> tuple[int, ...]:
    return machine.usable_cpus(node(index))[:count]


def _numactl(placement: Placement, machine: Machine) -> list[str]:
    """Bind threads to CPUs, and memory as the policy says."""
    if not placement.threads:
        return []
    cpus = [
        cpu for index, count in placement.threads for cpu in _cpus(placement, machine, index, count)
    ]
    memory = ",".join(map(str, placement.memory))
    flag = {
        "interleaved": f"--interleave={memory}",
        "first-touch": f"--preferred={placement.memory[0]}",
    }.get(placement.policy, f"--membind={memory}")
    if len(placement.memory) == 1:
        flag = f"--membind={memory}"
    return ["numactl", f"--physcpubind={cpu_list(cpus)}", flag]


def _several(placement: Placement) -> bool:
    return len(placement.nodes) > 1


def _llama(placement: Placement, machine: Machine, layers: int) -> list[str]:
    words = ["llama-server", "-m", MODEL]
    if placement.threads:
        words += ["-t", str(placement.team)]
        words += [
            "--numa",
            "distribute" if _several(placement) and placement.policy == "bound" else "numactl",
        ]
    if placement.stages:
        words += ["-ngl", str(layers + 1 - placement.cpu_layers)]
        one_stage = len(placement.stages) == 1
        count = len(placement.stages[0]) if one_stage else 1
        words += ["-sm", "row" if count > 1 else "layer" if not one_stage else "none"]
        if placement.cpu_experts:
            pattern = "|".join(map(str, placement.cpu_experts))
            words += ["-ot", f"'blk\\.({pattern})\\.ffn_.*_exps=CPU'"]
    elif placement.threads:
        words += ["-ngl", "0"]
    if placement.uses_cpu:
        # A mapped file is where the page cache happens to be; a read one is placed by the policy.
        words.append("--no-mmap")
    return words


def _parallel(placement: Placement, tensor: str, pipeline: str) -> list[str]:
    words = []
    if placement.stages and len(placement.stages[0]) > 1:
        words += [tensor, str(len(placement.stages[0]))]
    if len(placement.stages) > 1:
        words += [pipeline, str(len(placement.stages))]
    return words


def _vllm(placement: Placement, machine: Machine, layers: int) -> list[str]:
    words = ["vllm", "serve", MODEL]
    if placement.stages:
        return words + _parallel(placement, "--tensor-parallel-size", "--pipeline-parallel-size")
    binding = "|".join(
        cpu_list(_cpus(placement, machine, index, count)) for index, count in placement.threads
    )
    return [f"VLLM_CPU_OMP_THREADS_BIND='{binding}'", *words]


def _sglang(placement: Placement, machine: Machine, layers: int) -> list[str]:
    words = ["python", "-m", "sglang.launch_server", "--model-path", MODEL]
    if placement.stages:
        return words + _parallel(placement, "--tp", "--pp-size") + _kt(placement)
    binding = "|".join(
        cpu_list(_cpus(placement, machine, index, count)) for index, count in placement.threads
    )
    return [f"SGLANG_CPU_OMP_THREADS_BIND='{binding}'", *words, "--device", "cpu"]


def _ktransformers(placement: Placement, machine: Machine, layers: int) -> list[str]:
    words = ["python", "-m", "sglang.launch_server", "--model-path", MODEL]
    return words + _parallel(placement, "--tp", "--pp-size") + _kt(placement)


def _kt(placement: Placement) -> list[str]:
    if not placement.threads:
        return []
    return [
        "--kt-cpuinfer",
        str(placement.team),
        "--kt-threadpool-count",
        str(len(placement.nodes)),
    ]
