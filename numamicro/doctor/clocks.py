"""Rules on what takes time from a measurement, or bends the time it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.doctor.rule import number, word
from numamicro.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.doctor.rule import Rule, Setting
    from numamicro.topology import Machine

_CPU = "/sys/devices/system/cpu"
_CLOCK = "/sys/devices/system/clocksource/clocksource0"

_SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "pit", "refined-jiffies")
_GUEST_CLOCKS = ("kvm-clock", "xen", "hyperv", "vmware")

# With these drivers "powersave" only means that the hardware chooses, by its preference.
_SELF_DRIVEN = ("intel_pstate", "amd-pstate-epp")

_FOLLOWING = ("ondemand", "conservative", "schedutil", "interactive")

# Per cent of the last 10 s in which some process had to wait for a CPU, or for memory.
_CPU_PRESSURE, _MEMORY_PRESSURE = 5, 1


def busy(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """Other programs run, or ran in the last minute."""
    cpus = sum(cpu.online for cpu in machine.cpus)
    load, waiting = number(setting, "now.load"), number(setting, "now.cpu_pressure")
    loaded = load is not None and load > 0.5 + 0.05 * cpus
    if loaded or (waiting is not None and waiting > _CPU_PRESSURE):
        seen = [f"/proc/loadavg starts with {load:g}, on {cpus} CPUs"] if load is not None else []
        seen += [f"/proc/pressure/cpu: some avg10={waiting:g}"] if waiting is not None else []
        yield Finding(
            "busy",
            Severity.SPOILS,
            f"other programs keep the machine busy (load {load:g})"
            if loaded
            else "programs wait for a CPU here",
            "; ".join(seen),
            "they share caches, memory and clocks with what is measured",
            "end them (top shows them), wait a minute and look again",
        )


def thrashing(setting: Setting, _: Machine) -> Iterator[Finding]:
    """Programs wait for memory."""
    waiting = number(setting, "now.memory_pressure")
    if waiting is not None and waiting > _MEMORY_PRESSURE:
        yield Finding(
            "memory-pressure",
            Severity.SPOILS,
            "programs wait for memory here",
            f"/proc/pressure/memory: some avg10={waiting:g}",
            "pages are reclaimed while figures are taken",
            "end what uses much memory (ps aux --sort=-rss | head)",
        )


def governor(setting: Setting, _: Machine) -> Iterator[Finding]:
    """The frequency governor keeps clocks low, or lets them follow the load."""
    chosen, driver = word(setting, "cpu.governor"), word(setting, "cpu.driver")
    preference = word(setting, "cpu.preference")
    sparing = "power" in preference.split("_") or driver not in _SELF_DRIVEN
    also = f", energy_performance_preference is {preference}" * bool(preference)
    evidence = f"scaling_governor in {_CPU}/cpuN/cpufreq is {chosen}{also}"
    remedy = "cpupower frequency-set -g performance as root"
    what = f"the CPU frequency governor is {chosen}"
    if "powersave" in chosen and sparing:
        effect = "clocks stay low, or rise only in the middle of a figure"
        yield Finding("governor", Severity.SPOILS, what, evidence, effect, remedy)
    elif any(name in chosen for name in _FOLLOWING):
        effect = "clocks follow the load, so that the first samples may be slower"
        yield Finding("governor", Severity.REMARK, what, evidence, effect, remedy)


def steady_clocks(setting: Setting, _: Machine) -> Iterator[Finding]:
    """Turbo is off."""
    if word(setting, "cpu.turbo") == "off":
        yield Finding(
            "turbo-off",
            Severity.REMARK,
            "turbo is off",
            f"{_CPU}/intel_pstate/no_turbo is 1, or {_CPU}/cpufreq/boost is 0",
            "figures are steadier, and latency is higher than with it",
            f"echo 1 > {_CPU}/cpufreq/boost (or 0 > {_CPU}/intel_pstate/no_turbo) as root",
        )


def clock(setting: Setting, _: Machine) -> Iterator[Finding]:
    """The clock is not the CPU's own counter."""
    source = word(setting, "clock.source")
    if source in _SLOW_CLOCKS:
        yield Finding(
            "clock",
            Severity.SPOILS,
            f"the clock source is {source}",
            f"{_CLOCK}/current_clocksource is {source}",
            "it is slow to read and coarse",
            "boot with tsc=reliable if the machine's TSC is sound",
        )
    elif source.startswith(_GUEST_CLOCKS):
        yield Finding(
            "guest-clock",
            Severity.REMARK,
            f"the clock source is the hypervisor's ({source})",
            f"{_CLOCK}/current_clocksource is {source}",
            "it follows the host, also when the guest is moved or halted",
            f"echo tsc > {_CLOCK}/current_clocksource as root, where available_clocksource has it",
        )


def siblings(setting: Setting, machine: Machine) -> Iterator[Finding]:
    """SMT is off, or the other half of a core is somebody else's."""
    control = word(setting, "cpu.smt")
    if control in ("off", "forceoff"):
        flags = word(setting, "kernel.flags")
        nosmt = "; the kernel's command line asks for it" * ("nosmt" in flags)
        yield Finding(
            "smt-off",
            Severity.REMARK,
            "SMT is off",
            f"{_CPU}/smt/control is {control}{nosmt}",
            "one thread a core is measured; bandwidth seldom needs more",
            f"echo on > {_CPU}/smt/control as root" * (control == "off"),
        )
    mine = {cpu.core for cpu in machine.cpus if cpu.usable and cpu.core is not None}
    others = sum(cpu.online and not cpu.allowed and cpu.core in mine for cpu in machine.cpus)
    if others:
        yield Finding(
            "shared-cores",
            Severity.SPOILS,
            f"{others} SMT siblings of the CPUs used here are not this process' own",
            f"thread_siblings_list in {_CPU}/cpuN/topology, against the allowed CPUs",
            "whoever runs there takes a part of the same cores",
            "widen the cpuset or affinity to whole cores",
        )


RULES: tuple[Rule, ...] = (busy, thrashing, governor, clock, siblings, steady_clocks)
