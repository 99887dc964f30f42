"""What the machine is, and who else used it while a turn was taken."""

from __future__ import annotations

import os
import re
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from numamicro.setting import read_setting

if TYPE_CHECKING:
    from numamicro.case import Param
    from numamicro.topology import Machine


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds since boot: what this program and its ended children used, everyone, stolen."""

    at: float
    own: float
    busy: float
    stolen: float

    @classmethod
    def now(cls) -> Used:
        """Read the counters."""
        tick = os.sysconf("SC_CLK_TCK")
        user, nice, system, _, _, irq, softirq, stolen = (
            int(text) / tick for text in Path("/proc/stat").read_text().split()[1:9]
        )
        both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        own = sum(usage.ru_utime + usage.ru_stime for usage in both)
        return cls(time.monotonic(), own, user + nice + system + irq + softirq, stolen)

    def since(self, before: Used, also: float = 0.0) -> tuple[float, float]:
        """Give the shares of all CPU time since `before`: used by other programs, and stolen.

        `also` are CPU seconds of a program that counts as our own.
        """
        whole = (self.at - before.at) * (os.cpu_count() or 1)
        foreign = (self.busy - before.busy) - (self.own - before.own) - also
        return max(foreign / whole, 0.0), (self.stolen - before.stolen) / whole


def cpu_flags() -> frozenset[str]:
    """Give what the first CPU can do, in the kernel's words."""
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", _cpuinfo(), re.MULTILINE)
    return frozenset(found[1].split() if found else ())


def describe(machine: Machine) -> dict[str, Param | None]:
    """Give the machine in a few plain words, without host name or serial."""
    setting = read_setting()
    family, model = (re.search(rf"^{key}\s*:\s*(\d+)", _cpuinfo(), re.MULTILINE) for key in _CPUID)
    return {
        "cpu": machine.cpu_model,
        "family/model": f"{family[1]}/{model[1]}" if family and model else None,
        "nodes": len(machine.nodes),
        "cpus": sum(cpu.usable for cpu in machine.cpus),
        "cores": len({cpu.core for cpu in machine.cpus if cpu.usable}),
        "last-level cache": machine.llcs[0].bytes if machine.llcs else None,
        "widest vectors": widest_vectors(),
        "memory": sum(node.memory or 0 for node in machine.nodes),
        "hypervisor": machine.hypervisor,
        "container": machine.container,
        "kernel": setting["kernel.release"],
        "transparent huge pages": setting["thp.enabled"],
        "clock": setting["clock.source"],
    }


def widest_vectors() -> str:
    """Give the widest instruction set that numamicro's kernels use here."""
    from numamicro._cpu import kernels

    return kernels()[0][1]


_CPUID = (r"cpu family", r"model")


def _cpuinfo() -> str:
    return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
