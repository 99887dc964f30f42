"""What spoils or limits figures on a machine as it is set: rules over setting and machine.

:func:`diagnose` applies them. A rule is a function of both that gives findings; it reads no file,
so that the setting and machine of a result file can be judged anywhere. Another rule is one more
entry in :data:`RULES`. :func:`diagnose_matrix` adds what the cells of a file tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.doctor import clocks, gpus, kernel, memory, permissions
from numamicro.doctor.measured import MEASURED_RULES
from numamicro.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numamicro.doctor.rule import Rule, Setting
    from numamicro.matrix import CostMatrix
    from numamicro.topology import Machine

RULES: tuple[Rule, ...] = (
    *clocks.RULES,
    *kernel.RULES,
    *permissions.RULES,
    *memory.RULES,
    *gpus.RULES,
)

_ORDER = tuple(Severity)

# Here None says that there is none, or no rule asks: the rest is for comparisons.
_NEVER_MISSED = (
    *("hypervisor", "container", "bios.", "board.", "product.", "amd.", "nvidia."),
    *("now.uptime", "now.steal", "now.temperature", "now.throttles", "now.link"),
    *("pci.links", "pci.bar1", "pci.aspm", "iommu.groups", "iommu.shared", "memory.slots"),
    *("cpu.pstate", "cpu.frequency", "cpu.idle", "cpu.uncore", "cpu.microcode"),
    *("vm.weighted_interleave", "kernel.isolated"),
)


def diagnose(setting: Setting, machine: Machine) -> tuple[Finding, ...]:
    """Give all that a reader of figures must know, gravest first.

    Parameters
    ----------
    setting : mapping
        As :func:`numamicro.setting.read_setting` gives it; what is None or missing is unknown, and
        no rule finds anything in it.
    machine : Machine
        Its own notes are among the findings.
    """
    found = [finding for rule in RULES for finding in rule(setting, machine)]
    return _gravest_first([*found, *machine.notes])


def diagnose_matrix(matrix: CostMatrix) -> tuple[Finding, ...]:
    """Give what :func:`diagnose` finds in a matrix's header, and what its cells tell besides."""
    seen = [finding for rule in MEASURED_RULES for finding in rule(matrix)]
    return _gravest_first([*seen, *diagnose(matrix.header.setting, matrix.header.machine)])


def _gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: _ORDER.index(each.severity)))


def unknown(setting: Setting) -> tuple[str, ...]:
    """Give the keys that could not be read, on which no rule can say anything."""
    missing = (key for key, value in setting.items() if value is None)
    return tuple(key for key in missing if not key.startswith(_NEVER_MISSED))
