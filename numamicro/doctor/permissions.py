"""Rules on what the kernel, or a container's filter, does not let this process do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.doctor.rule import number, word
from numamicro.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.doctor.rule import Rule, Setting
    from numamicro.topology import Machine

BIND_REMEDY = (
    "docker run --cap-add SYS_NICE (Kubernetes: capabilities: add: [SYS_NICE]; else a seccomp "
    "profile that allows mbind and get_mempolicy)"
)
"""What lets a container bind memory."""
PIN_REMEDY = (
    "allow sched_setaffinity in the seccomp profile (docker --security-opt seccomp=FILE; Docker's own "
    "profile allows it)"
)
"""What lets a container pin threads."""


def binding(setting: Setting, _: Machine) -> Iterator[Finding]:
    """Memory cannot be bound."""
    answer = word(setting, "rights.mbind")
    if answer in ("EPERM", "EACCES"):
        yield Finding(
            "bind-forbidden",
            Severity.LIMITS,
            "memory may not be bound to a node",
            f"mbind or get_mempolicy gives {answer}{_filtered(setting)}",
            "pages are placed by first touch from their own node's CPUs, so nodes without CPUs and "
            "interleaving are left out",
            BIND_REMEDY,
        )
    elif answer not in ("", "yes"):
        yield Finding(
            "bind-fails",
            Severity.LIMITS,
            "memory cannot be bound to a node",
            f"mbind or get_mempolicy gives {answer}{_filtered(setting)}",
            "pages are placed by first touch from their own node's CPUs, so nodes without CPUs and "
            "interleaving are left out",
            "run a kernel with CONFIG_NUMA, and a cpuset with a node that has memory",
        )


def asking(setting: Setting, _: Machine) -> Iterator[Finding]:
    """The kernel does not tell where a page is."""
    answer = word(setting, "rights.move_pages")
    if answer not in ("", "yes"):
        yield Finding(
            "asking-forbidden",
            Severity.REMARK,
            "the kernel may not be asked for the node of a page",
            f"move_pages gives {answer}{_filtered(setting)}",
            "placement is proven by /proc/self/numa_maps instead, where that can be read",
            "docker run --security-opt seccomp=FILE with a profile that allows move_pages (Docker's own "
            "does not, whatever the capabilities)",
        )


def pinning(setting: Setting, _: Machine) -> Iterator[Finding]:
    """Threads cannot be pinned."""
    answer = word(setting, "rights.affinity")
    if answer not in ("", "yes"):
        yield Finding(
            "pinning-forbidden",
            Severity.LIMITS,
            "threads may not be pinned to CPUs",
            f"sched_setaffinity gives {answer}{_filtered(setting)}",
            "nothing can be measured: nobody could say whose figures they are",
            PIN_REMEDY,
        )


def counting(setting: Setting, _: Machine) -> Iterator[Finding]:
    """Hardware events cannot be counted."""
    answer = word(setting, "rights.perf")
    if answer in ("EPERM", "EACCES"):
        level = number(setting, "kernel.perf_event_paranoid")
        told = "" if level is None else f"; /proc/sys/kernel/perf_event_paranoid is {level:g}"
        yield Finding(
            "counting-forbidden",
            Severity.REMARK,
            "hardware events may not be counted",
            f"perf_event_open gives {answer}{_filtered(setting)}{told}",
            "no figure here needs them, but perf cannot explain one",
            "docker run --cap-add PERFMON, or sysctl kernel.perf_event_paranoid=2 as root",
        )


def _filtered(setting: Setting) -> str:
    return ", under a seccomp filter" if word(setting, "rights.seccomp") == "on" else ""


RULES: tuple[Rule, ...] = (pinning, binding, asking, counting)
