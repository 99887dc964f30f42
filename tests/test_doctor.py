"""What spoils or limits figures: every rule on the traces it goes by, and on none."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given

from numamicro.doctor import RULES, diagnose, unknown
from numamicro.file import write_matrix
from numamicro.finding import Finding, Severity
from numamicro.report.findings import finding_lines, render_findings
from numamicro.report.table import render
from numamicro.setting import read_setting
from numamicro.topology import Cgroup, Machine, discover
from numamicro.units import GIB, MIB
from tests import examples
from tests.topology.trees import CPU, Facts, Node, files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

THP = "sys/kernel/mm/transparent_hugepage"
SYSCTL = "proc/sys"
CLOCK = "sys/devices/system/clocksource/clocksource0/current_clocksource"
PCI = "sys/bus/pci/devices/0000:01:00.0"
Files: TypeAlias = "dict[str, str | bytes]"

GUEST: Files = {"proc/cpuinfo": "flags: fpu hypervisor"}
UNPLACED: Files = {f"{PCI}/class": "0x030200", f"{PCI}/numa_node": "-1"}
ONE_CHANNEL: Files = {
    "sys/devices/system/edac/mc/mc0/dimm0/size": "16384",
    "sys/devices/system/edac/mc/mc0/dimm0/dimm_location": "channel 0 slot 0",
}
ONE_MODULE: Files = {"run/udev/data/+dmi:id": "E:MEMORY_DEVICE_1_SIZE=34359738368"}

# On a sound machine of two nodes with two CPUs each: these files, and what they lead to.
FOUND: list[tuple[str, Files]] = [
    ("autonuma", {f"{SYSCTL}/kernel/numa_balancing": "1"}),
    ("zone-reclaim", {f"{SYSCTL}/vm/zone_reclaim_mode": "1"}),
    ("demotion", {"sys/kernel/mm/numa/demotion_enabled": "true"}),
    ("damon", {"sys/module/damon_reclaim/parameters/enabled": "Y"}),
    ("ksm", {"sys/kernel/mm/ksm/run": "1"}),
    ("thp-never", {f"{THP}/enabled": "always madvise [never]"}),
    ("thp-defrag-never", {f"{THP}/defrag": "always defer [never]"}),
    ("governor", {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave"}),
    (
        "governor",
        {
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
            f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate",
            f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_power",
        },
    ),
    ("governor", {f"{CPU}/cpu1/cpufreq/scaling_governor": "schedutil"}),
    ("turbo-off", {f"{CPU}/intel_pstate/no_turbo": "1"}),
    ("swap", {"proc/meminfo": "SwapTotal: 8388608 kB\nSwapFree: 4194304 kB"}),
    ("clock", {CLOCK: "hpet"}),
    ("busy", {"proc/loadavg": "3.10 1.00 1.00 4/200 99"}),
    ("busy", {"proc/pressure/cpu": "some avg10=40.00 avg60=1.00"}),
    ("memory-pressure", {"proc/pressure/memory": "some avg10=12.00 avg60=1.00"}),
    ("smt-off", {f"{CPU}/smt/control": "forceoff"}),
    ("old-kernel", {f"{SYSCTL}/kernel/osrelease": "4.18.0-553.el8.x86_64"}),
    ("devices-unplaced", UNPLACED),
    ("iommu-translation", {"sys/kernel/iommu_groups/7/type": "DMA-FQ"}),
    ("single-channel", ONE_CHANNEL),
    ("single-channel", ONE_MODULE),
]

HARMLESS: list[Files] = [
    {},
    {f"{SYSCTL}/kernel/numa_balancing": "0", f"{SYSCTL}/vm/zone_reclaim_mode": "0"},
    {f"{THP}/enabled": "always [madvise] never", f"{THP}/defrag": "always [madvise] never"},
    {
        f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
        f"{CPU}/cpu0/cpufreq/scaling_driver": "intel_pstate",
        f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_performance",
    },
    {f"{CPU}/cpu0/cpufreq/scaling_governor": "performance", f"{CPU}/cpufreq/boost": "1"},
    {"proc/meminfo": "SwapTotal: 8388608 kB\nSwapFree: 8380000 kB"},
    {"proc/loadavg": "0.12 3.00 9.00 1/200 99", "proc/pressure/cpu": "some avg10=0.50 avg60=99"},
    {"proc/pressure/memory": "some avg10=0.00 avg60=80.00"},
    {f"{CPU}/smt/control": "on", CLOCK: "tsc", "sys/kernel/mm/ksm/run": "0"},
    {f"{SYSCTL}/kernel/osrelease": "6.1.0-13-amd64"},
    {f"{SYSCTL}/kernel/osrelease": "10.2-future"},
    {f"{PCI}/class": "0x030200", f"{PCI}/numa_node": "1"},
    {"sys/kernel/iommu_groups/7/type": "identity"},
    {"sys/module/damon_reclaim/parameters/enabled": "N"},
    # The second channel is one of a second controller.
    ONE_CHANNEL
    | {
        "sys/devices/system/edac/mc/mc1/dimm0/size": "16384",
        "sys/devices/system/edac/mc/mc1/dimm0/dimm_location": "channel 0 slot 0",
        "sys/devices/system/edac/mc/mc1/dimm1/size": "16384",
        "sys/devices/system/edac/mc/mc1/dimm1/dimm_location": "channel 1 slot 0",
    },
]


def found(root: Path, files: Files, facts: Facts | None = None) -> list[Finding]:
    plant(root, {**files_of(facts or uniform(2, 2)), **files})
    return list(diagnose(read_setting(root), discover(root)))


def is_told(finding: Finding) -> bool:
    """Whether a finding says all it must, with its values filled in."""
    texts = (finding.what, finding.evidence, finding.effect)
    whole = " ".join((*texts, finding.remedy))
    return all(texts) and not re.search(r"[{}]|\bNone\b|\n", whole)


@pytest.mark.parametrize(("code", "files"), FOUND)
def test_what_spoils_or_limits_is_found(tmp_path: Path, code: str, files: Files) -> None:
    (finding,) = found(tmp_path, files)
    assert finding.code == code
    assert is_told(finding)


@pytest.mark.parametrize("files", HARMLESS)
def test_what_does_not_is_not(tmp_path: Path, files: Files) -> None:
    assert found(tmp_path, files) == []


@pytest.mark.parametrize("code", ["autonuma", "zone-reclaim", "devices-unplaced"])
def test_what_is_of_several_nodes_is_nothing_on_one(tmp_path: Path, code: str) -> None:
    files = dict(FOUND)[code]
    assert found(tmp_path, files, uniform(1, 2)) == []


def test_a_guest(tmp_path: Path) -> None:
    files = {**GUEST, **UNPLACED, **ONE_MODULE, CLOCK: "kvm-clock"}
    codes = {each.code for each in found(tmp_path, files, uniform(1, 128, llc=128))}
    # The table of modules is an invention of the hypervisor, so nothing is made of it.
    assert codes == {"virtual-machine", "devices-unplaced", "guest-clock"}


def test_many_cpus_on_one_node_of_a_guest_are_wondered_at(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, {**GUEST}, uniform(1, 128, llc=128))
    assert "128 CPUs are many for one" in finding.what


def test_a_sibling_that_is_not_ours(tmp_path: Path) -> None:
    codes = [
        each.code for each in found(tmp_path, {}, uniform(1, 4, threads=2, allowed_cpus="0-2"))
    ]
    assert codes == ["shared-cores", "cpus-not-allowed"]


def test_a_whole_core_is_ours_alone(tmp_path: Path) -> None:
    facts = uniform(1, 4, threads=2, allowed_cpus="0-1")
    assert [each.code for each in found(tmp_path, {}, facts)] == ["cpus-not-allowed"]


def test_the_node_with_too_little_memory_is_named_with_numbers(tmp_path: Path) -> None:
    # Four times 32 MiB of cache, in the share of the available memory that a buffer may take.
    nodes = (Node(0, (0, 1)), Node(3, (2, 3), free=200 * 1024))
    (finding,) = found(tmp_path, {}, Facts(nodes))
    assert finding.code == "little-memory"
    assert "node 3 has 200 MiB available" in finding.what
    assert "320 MiB" in finding.what


def test_a_control_group_leaves_too_little_on_every_node() -> None:
    machine = examples.machine()
    tight = replace(machine, cgroup=Cgroup(2, memory_limit=GIB, memory_left=100 * MIB))
    assert [each.code for each in diagnose({}, tight)] == ["little-memory"] * 2
    assert diagnose({}, machine) == ()


@pytest.mark.parametrize(
    ("key", "answer", "code", "way"),
    [
        ("rights.mbind", "EPERM", "bind-forbidden", "--cap-add SYS_NICE"),
        ("rights.mbind", "EACCES", "bind-forbidden", "--cap-add SYS_NICE"),
        ("rights.mbind", "ENOSYS", "bind-fails", "CONFIG_NUMA"),
        ("rights.move_pages", "EPERM", "asking-forbidden", "--security-opt seccomp="),
        ("rights.affinity", "EPERM", "pinning-forbidden", "sched_setaffinity"),
        ("rights.perf", "EACCES", "counting-forbidden", "--cap-add PERFMON"),
    ],
)
def test_a_right_that_is_missing(key: str, answer: str, code: str, way: str) -> None:
    (finding,) = diagnose({key: answer, "rights.seccomp": "on"}, examples.machine())
    assert finding.code == code
    assert is_told(finding)
    assert answer in finding.evidence
    assert "seccomp" in finding.evidence
    assert way in finding.remedy


def test_rights_that_are_there_and_hardware_that_is_not() -> None:
    setting = {"rights.mbind": "yes", "rights.move_pages": "yes", "rights.perf": "ENOENT"}
    assert diagnose(setting, examples.machine()) == ()


def test_the_gravest_comes_first(tmp_path: Path) -> None:
    files = {**dict(FOUND)["old-kernel"], **dict(FOUND)["thp-never"], **dict(FOUND)["busy"]}
    kinds = [each.severity for each in found(tmp_path, files)]
    assert kinds == [Severity.SPOILS, Severity.LIMITS, Severity.REMARK]


def test_what_could_not_be_read_is_said() -> None:
    setting = {"cpu.governor": None, "thp.enabled": "madvise", "hypervisor": None}
    assert unknown(setting) == ("cpu.governor",)
    assert "cpu.governor" in render_findings((), unknown(setting))


@given(examples.headers)
def test_any_setting_and_machine_of_a_file_can_be_judged(header: Any) -> None:
    for rule in RULES:
        for finding in rule(header.setting, header.machine):
            assert finding.evidence
    assert set(diagnose(header.setting, header.machine)) >= set(header.machine.notes)


# ---- as text -------------------------------------------------------------------------------------


def some(count: int) -> list[Finding]:
    return [
        Finding(f"code{i}", Severity.SPOILS, f"what {i}", "seen", "effect", "do this")
        for i in range(count)
    ]


def test_three_lines_are_shown_and_the_rest_is_counted() -> None:
    assert finding_lines(some(3), "numamicro doctor") == [
        f"spoils: what {i}: effect; do this" for i in range(3)
    ]
    assert finding_lines(some(5), "numamicro doctor")[3:] == ["… and 2 more: numamicro doctor"]
    assert finding_lines([], "numamicro doctor") == []


@pytest.mark.parametrize("style", ["plain", "github", "tsv"])
def test_the_screen_has_every_part_of_a_finding(style: str) -> None:
    text = render_findings(some(2), (), style)
    for part in ("2 findings: 2 spoil figures", "what 1", "seen", "effect", "do this"):
        assert part in text


def test_a_matrix_ends_with_its_findings() -> None:
    matrix = examples.matrix()
    spoilt = replace(
        matrix, header=replace(matrix.header, setting={"kernel.numa_balancing": 1, "vm.ksm": 1})
    )
    lines = render(spoilt).splitlines()
    assert [line.partition(":")[0] for line in lines[-2:]] == ["spoils", "spoils"]
    assert "AutoNUMA" in lines[-2]
    assert "spoils" not in render(matrix)


# ---- the command ---------------------------------------------------------------------------------


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "numamicro", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_command_on_a_tree(tmp_path: Path) -> None:
    found(tmp_path, {f"{SYSCTL}/kernel/numa_balancing": "1"})
    result = doctor("--root", str(tmp_path))
    assert result.returncode == 0
    assert result.stderr == ""
    assert "spoils: AutoNUMA is on" in result.stdout
    assert "/proc/sys/kernel/numa_balancing is 1" in result.stdout
    document = json.loads(doctor("--root", str(tmp_path), "--json").stdout)
    assert [each["code"] for each in document["findings"]] == ["autonuma"]
    assert set(document["findings"][0]) == {
        "code",
        "severity",
        "what",
        "evidence",
        "effect",
        "remedy",
    }
    assert "cpu.governor" in document["unknown"]


def test_the_command_on_a_file(tmp_path: Path) -> None:
    matrix = examples.matrix()
    path = tmp_path / "out.json"
    spoilt = replace(matrix.header, setting={"kernel.numa_balancing": 1})
    write_matrix(replace(matrix, header=spoilt), path)
    assert "AutoNUMA is on" in doctor(str(path)).stdout


def test_the_command_here() -> None:
    result = doctor("--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["findings"] is not None
    name = os.uname().nodename
    assert len(name) < 4 or name not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--root", "/no/such"], "/no/such"),
        (["/no/such.json"], "/no/such.json"),
        (["x.json", "--root", "/"], "choose one"),
        (["--format", "nonsense"], "nonsense"),
    ],
)
def test_bad_input_gets_one_sentence(arguments: list[str], says: str) -> None:
    result = doctor(*arguments)
    assert result.returncode == 2
    assert says in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_notes_survive_a_file() -> None:
    machine = replace(examples.machine(), notes=tuple(some(2)))
    assert Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine
