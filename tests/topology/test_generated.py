"""Machines made up from facts, each with what must be seen, written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numamicro.case import Place, node
from numamicro.errors import NumamicroError
from numamicro.topology import Machine, discover
from tests.topology.trees import CPU, GIB_IN_KB, NODE, Facts, Node, files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

GIB = 1 << 30


def codes(machine: Machine) -> set[str]:
    return {note.code for note in machine.notes}


def text_of(machine: Machine, code: str) -> str:
    return next(note.text for note in machine.notes if note.code == code)


def test_two_nodes(tmp_path: Path) -> None:
    machine = discover(plant(tmp_path, files_of(uniform(2, 4, threads=2))))
    assert [n.id for n in machine.initiators] == [n.id for n in machine.targets] == [0, 1]
    assert machine.packages == (0, 1)
    assert machine.node(1).cpus == (4, 5, 6, 7)
    assert machine.node(1).memory == 8 * GIB
    assert machine.available(1) == 6 * GIB
    assert machine.node(1).distances == {0: 20, 1: 10}
    assert machine.usable_cpus(node(1)) == (4, 6, 5, 7)
    assert machine.cores(node(1)) == 2
    assert machine.llc_bytes(range(4)) == 32 << 20
    assert machine.llc_bytes(range(8)) == 64 << 20
    assert codes(machine) == set()


def test_sparse_ids_beyond_every_word(tmp_path: Path) -> None:
    facts = Facts(
        nodes=(Node(0, (0, 1)), Node(8, (5000, 5001)), Node(2047)),
        distances=((10, 40, 80), (40, 10, 80), (80, 80, 10)),
    )
    machine = discover(plant(tmp_path, files_of(facts)))
    assert [n.id for n in machine.nodes] == [0, 8, 2047]
    assert [n.id for n in machine.initiators] == [0, 8]
    assert [n.id for n in machine.targets] == [0, 8, 2047]
    assert machine.node(8).distances == {0: 40, 8: 10, 2047: 80}
    assert machine.usable_cpus(node(8)) == (5000, 5001)
    assert machine.locality(node(8), node(2047)) == "memory-only"
    with pytest.raises(NumamicroError, match="no node1 here; choose one of: 0, 8, 2047"):
        machine.node(1)


def test_cpus_without_memory_and_a_phantom(tmp_path: Path) -> None:
    # The kernel's own list of allowed nodes leaves out those without memory.
    facts = Facts(
        nodes=(Node(0, (0,)), Node(1, (1,), memory=0, free=0), Node(2, (), memory=0)),
        allowed_mems="0",
    )
    machine = discover(plant(tmp_path, files_of(facts)))
    assert [n.id for n in machine.initiators] == [0, 1]
    assert [n.id for n in machine.targets] == [0]
    assert machine.node(2).phantom
    assert not machine.node(1).phantom
    assert codes(machine) == {"no-memory", "phantom"}
    assert text_of(machine, "no-memory").startswith("node 1:")


def test_offline_cpus(tmp_path: Path) -> None:
    facts = uniform(2, 4, threads=2, offline=frozenset({0, 4, 5, 6, 7}))
    machine = discover(plant(tmp_path, files_of(facts)))
    assert [n.id for n in machine.initiators] == [0]
    assert machine.usable_cpus(node(0)) == (1, 2, 3)
    assert machine.cores(node(0)) == 2
    assert machine.node(1).cpus == ()
    assert [c.node for c in machine.cpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert "CPUs 0,4-7: offline" in text_of(machine, "offline-cpus")
    assert machine.usable_cpus(node(1)) == ()


def test_an_old_kernel_without_lists(tmp_path: Path) -> None:
    files = files_of(uniform(2, 2))
    for path in (f"{CPU}/online", f"{NODE}/online", f"{NODE}/has_cpu", f"{NODE}/has_memory"):
        del files[path]
    for id, mask in ((0, "00000000,00000003"), (1, "00000000,0000000c")):
        del files[f"{NODE}/node{id}/cpulist"]
        files[f"{NODE}/node{id}/cpumap"] = mask
        del files[f"{NODE}/node{id}/distance"]
    machine = discover(plant(tmp_path, files))
    assert machine.node(0).cpus == (0, 1)
    assert machine.node(1).cpus == (2, 3)
    assert machine.node(0).distances == {}
    assert codes(machine) == {"distances-unknown"}


def test_distances_that_fit_no_node_are_unknown(tmp_path: Path) -> None:
    files = files_of(uniform(2, 2)) | {f"{NODE}/node1/distance": "10 20 30"}
    machine = discover(plant(tmp_path, files))
    assert machine.node(0).distances == {0: 10, 1: 20}
    assert machine.node(1).distances == {}
    assert "node 1:" in text_of(machine, "distances-unknown")


def test_a_cpuset(tmp_path: Path) -> None:
    facts = uniform(2, 4, allowed_cpus="1-2,4-7", allowed_mems="1")
    cpuset = {
        "proc/self/cgroup": "0::/box",
        "proc/self/mounts": "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
        "sys/fs/cgroup/box/cpuset.cpus.effective": "1-2,4-7",
        "sys/fs/cgroup/box/cpuset.mems.effective": "1",
    }
    machine = discover(plant(tmp_path, files_of(facts) | cpuset))
    assert [n.id for n in machine.initiators] == [0, 1]
    assert [n.id for n in machine.targets] == [1]
    assert machine.usable_cpus(node(0)) == (1, 2)
    assert "--cpuset-cpus" in text_of(machine, "cpus-not-allowed")
    assert "node 0: visible, but" in text_of(machine, "nodes-not-allowed")


def test_an_affinity_is_no_cpuset(tmp_path: Path) -> None:
    machine = discover(plant(tmp_path, files_of(uniform(2, 4, allowed_cpus="0-3"))))
    assert [n.id for n in machine.initiators] == [0]
    assert "taskset" in text_of(machine, "cpus-not-allowed")


def test_allowed_lists_may_name_what_is_not_there(tmp_path: Path) -> None:
    facts = uniform(2, 2, allowed_cpus="0-8191", allowed_mems="0-1023")
    machine = discover(plant(tmp_path, files_of(facts)))
    assert machine.usable_cpus(node(1)) == (2, 3)
    assert codes(machine) == set()


def test_no_node_folder(tmp_path: Path) -> None:
    files = files_of(Facts(cpus=(0, 1, 2, 3), llc=0))
    files["proc/meminfo"] = "MemTotal: 4194304 kB\nMemFree: 1048576 kB\nMemAvailable: 2097152 kB"
    machine = discover(plant(tmp_path, files))
    assert [n.id for n in machine.nodes] == [0]
    assert machine.node(0).cpus == (0, 1, 2, 3)
    assert machine.node(0).memory == 4 * GIB
    assert machine.available(0) == 2 * GIB
    assert machine.locality(node(0), node(0)) == "local"
    assert machine.llc_bytes([0]) == 0
    assert codes(machine) == {"no-nodes", "llc-unknown"}


def test_one_node_counts_the_whole_memory(tmp_path: Path) -> None:
    """A kernel that initialises memory lazily shows far too little in the node's own file."""
    files = files_of(Facts(nodes=(Node(0, (0, 1), memory=3 * GIB_IN_KB, free=2 * GIB_IN_KB),)))
    files["proc/meminfo"] = "MemTotal: 25165824 kB\nMemFree: 1024 kB\nMemAvailable: 23068672 kB"
    machine = discover(plant(tmp_path, files))
    assert machine.node(0).memory == 24 * GIB
    assert machine.available(0) == 22 * GIB


def test_page_cache_counts_as_available(tmp_path: Path) -> None:
    files = files_of(uniform(2, 1))
    amounts = {"MemTotal": 100, "MemFree": 10, "FilePages": 50, "Shmem": 5, "Dirty": 4}
    amounts |= {"Writeback": 1, "Mlocked": 10, "SReclaimable": 8}
    lines = (f"Node 1 {name}: {amount} kB" for name, amount in amounts.items())
    files[f"{NODE}/node1/meminfo"] = "\n".join(lines)
    assert discover(plant(tmp_path, files)).available(1) == (10 + 50 - 5 - 4 - 1 - 10 + 4) * 1024


@pytest.mark.parametrize("evidence", ["pmu", "capacity", "frequency"])
def test_two_kinds_of_core(tmp_path: Path, evidence: str) -> None:
    files = files_of(uniform(1, 8, threads=2, llc=8))
    for cpu in range(4, 8):
        files[f"{CPU}/cpu{cpu}/topology/thread_siblings_list"] = str(cpu)
    if evidence == "pmu":
        files |= {"sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": "4-7"}
    for cpu in range(8) if evidence == "capacity" else ():
        files[f"{CPU}/cpu{cpu}/cpu_capacity"] = "1024" if cpu < 4 else "446"
    for cpu in range(8) if evidence == "frequency" else ():
        files[f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq"] = "5000000" if cpu < 4 else "3900000"
    machine = discover(plant(tmp_path, files))
    assert [c.kind for c in machine.cpus] == ["performance"] * 4 + ["efficiency"] * 4
    # One a core, fast ones first; then the siblings.
    assert machine.usable_cpus(node(0)) == (0, 2, 4, 5, 6, 7, 1, 3)
    assert codes(machine) == {"hybrid"}


def test_favoured_cores_are_no_other_kind(tmp_path: Path) -> None:
    files = files_of(uniform(1, 4))
    for cpu, speed in enumerate((5700000, 5600000, 5300000, 5300000)):
        files[f"{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq"] = str(speed)
    assert {c.kind for c in discover(plant(tmp_path, files)).cpus} == {None}


def test_threads_spread_over_the_caches(tmp_path: Path) -> None:
    machine = discover(plant(tmp_path, files_of(uniform(1, 16, threads=2, llc=4))))
    assert machine.usable_cpus(node(0)) == (0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15)
    assert machine.usable_cpus(Place("llc", 1)) == (4, 6, 5, 7)
    assert machine.cores(Place("llc", 1)) == 2
    assert [llc.cpus for llc in machine.llcs][3] == (12, 13, 14, 15)


def test_an_uneven_cpuset_still_takes_a_core_once(tmp_path: Path) -> None:
    facts = uniform(1, 8, threads=2, llc=4, allowed_cpus="1-3,6-7")
    machine = discover(plant(tmp_path, files_of(facts)))
    assert machine.usable_cpus(node(0)) == (1, 6, 2, 3, 7)
    assert machine.cores(node(0)) == 3


def test_localities(tmp_path: Path) -> None:
    facts = Facts(
        nodes=(*uniform(4, 4).nodes, Node(4)), llc=2, packages={0: 0, 1: 0, 2: 1, 3: 1}, threads=2
    )
    machine = discover(plant(tmp_path, files_of(facts)))

    def locality(source: str, a: int, target: str, b: int) -> str:
        return machine.locality(Place(source, a), Place(target, b))

    assert locality("node", 0, "node", 0) == "local"
    assert locality("node", 0, "node", 1) == "same-package"
    assert locality("node", 0, "node", 2) == "other-package"
    assert locality("node", 0, "node", 4) == "memory-only"
    assert locality("node", 4, "node", 0) == "memory-only"
    assert locality("node", 4, "node", 4) == "local"
    assert locality("cpu", 0, "cpu", 1) == "same-llc"
    assert locality("cpu", 0, "cpu", 2) == "local"
    assert locality("cpu", 0, "cpu", 7) == "same-package"
    assert locality("cpu", 0, "cpu", 8) == "other-package"
    assert locality("core", 0, "node", 0) == "local"
    assert locality("llc", 1, "node", 1) == "same-package"
    assert locality("package", 0, "node", 0) == "same-package"
    assert locality("package", 0, "package", 1) == "other-package"


def test_places_that_are_not_there(tmp_path: Path) -> None:
    machine = discover(plant(tmp_path, files_of(uniform(1, 4, llc=2))))
    with pytest.raises(NumamicroError, match="no llc7 here; choose one of: 0, 1"):
        machine.usable_cpus(Place("llc", 7))
    with pytest.raises(NumamicroError, match="no cpu9 here; choose one of: 0, 1, 2, 3"):
        machine.locality(node(0), Place("cpu", 9))
    with pytest.raises(NumamicroError, match="drive0 holds no CPUs"):
        machine.cores(Place("drive", 0))
    with pytest.raises(NumamicroError, match="no gpu0 here; choose one of: none"):
        machine.cores(Place("gpu", 0))


def test_sixty_four_nodes(tmp_path: Path) -> None:
    machine = discover(plant(tmp_path, files_of(uniform(64, 2))))
    assert len(machine.initiators) == len(machine.targets) == 64
    assert machine.usable_cpus(node(63)) == (126, 127)
    assert machine.node(63).distances[62] == 20


def test_4096_cpus(tmp_path: Path) -> None:
    machine = discover(plant(tmp_path, files_of(uniform(8, 512, threads=2, llc=0))))
    assert len(machine.cpus) == 4096
    assert machine.usable_cpus(node(7))[:3] == (3584, 3586, 3588)
    assert machine.cores(node(7)) == 256


def test_what_the_firmware_promises(tmp_path: Path) -> None:
    facts = Facts(nodes=(Node(0, (0, 1)), Node(1)))
    there = f"{NODE}/node1"
    promises = {
        f"{there}/access0/initiators/node0/": "",
        f"{there}/access0/initiators/read_bandwidth": "28000",
        f"{there}/access0/initiators/write_bandwidth": "0",
        f"{there}/access0/initiators/read_latency": "250",
        f"{there}/memory_side_cache/index1/size": str(16 << 30),
        f"{there}/hugepages/hugepages-2048kB/nr_hugepages": "512",
        f"{there}/hugepages/hugepages-2048kB/free_hugepages": "500",
        f"{there}/hugepages/hugepages-1048576kB/nr_hugepages": "1",
        "sys/devices/virtual/memory_tiering/memory_tier4/nodelist": "0",
        "sys/devices/virtual/memory_tiering/memory_tier22/nodelist": "1",
    }
    machine = discover(plant(tmp_path, files_of(facts) | promises))
    far = machine.node(1)
    assert far.side_cache == 16 * GIB
    assert (machine.node(0).tier, far.tier) == (4, 22)
    assert [(p.page_bytes, p.total, p.free) for p in far.huge_pools] == [
        (2 << 20, 512, 500),
        (1 << 30, 1, 0),
    ]
    (access,) = far.access
    assert (access.level, access.initiators) == (0, (0,))
    assert access.read_bandwidth == pytest.approx(28e9)
    assert access.read_latency == pytest.approx(250e-9)
    assert access.write_bandwidth is None
    assert access.write_latency is None
    assert codes(machine) == {"side-cache"}


def test_offline_memory(tmp_path: Path) -> None:
    facts = Facts(nodes=(Node(0, (0,)), Node(1, memory=0)))
    blocks = {
        f"{NODE}/node1/memory8/": "",
        f"{NODE}/node1/memory9/": "",
        "sys/devices/system/memory/block_size_bytes": "8000000",
        "sys/devices/system/memory/memory8/state": "offline",
        "sys/devices/system/memory/memory9/state": "offline",
    }
    machine = discover(plant(tmp_path, files_of(facts) | blocks))
    assert machine.node(1).offline_memory == 256 << 20
    assert codes(machine) == {"offline-memory"}


def test_gpu_memory_and_dax_nodes(tmp_path: Path) -> None:
    facts = Facts(nodes=(Node(0, (0,)), Node(2), Node(254)))
    files = files_of(facts) | {
        "proc/driver/nvidia/gpus/0004:04:00.0/numa_status": "Node: 254\nStatus: online",
        "sys/devices/platform/hmem.1/dax1.0/target_node": "2",
        "sys/bus/dax/drivers/kmem/dax1.0/": "",
        "sys/bus/dax/devices/": "",
    }
    plant(tmp_path, files)
    link = tmp_path / "sys/bus/dax/devices/dax1.0"
    link.symlink_to("../../../devices/platform/hmem.1/dax1.0")
    machine = discover(tmp_path)
    assert [n.backing for n in machine.nodes] == [None, "special-purpose", "gpu"]
    assert codes(machine) == {"gpu-memory"}


def test_emulated_nodes(tmp_path: Path) -> None:
    files = files_of(uniform(2, 2))
    files |= {f"{NODE}/node{id}/cpulist": "0-3" for id in (0, 1)}
    machine = discover(plant(tmp_path, files))
    assert machine.usable_cpus(node(1)) == (0, 1, 2, 3)
    assert [c.node for c in machine.cpus] == [0, 0, 1, 1]
    assert "emulated-nodes" in codes(machine)


def test_unknown_packages(tmp_path: Path) -> None:
    files = files_of(uniform(2, 2))
    files |= {f"{CPU}/cpu{cpu}/topology/physical_package_id": "-1" for cpu in range(4)}
    machine = discover(plant(tmp_path, files))
    assert machine.packages == ()
    assert machine.locality(node(0), node(1)) == "other-package"
    assert codes(machine) == {"packages-unknown"}


def test_a_cache_of_unknown_size_makes_the_sum_unknown(tmp_path: Path) -> None:
    files = files_of(uniform(1, 8)) | {f"{CPU}/cpu4/cache/index3/size": "0K"}
    machine = discover(plant(tmp_path, files))
    assert machine.llc_bytes([0]) == 32 << 20
    assert machine.llc_bytes([0, 4]) == 0
    assert "CPUs 4-7" in text_of(machine, "llc-unknown")


def test_huge_ranges_are_refused_and_said(tmp_path: Path) -> None:
    files = files_of(uniform(1, 2)) | {f"{CPU}/online": "0-4000000000"}
    machine = discover(plant(tmp_path, files))
    assert machine.usable_cpus(node(0)) == (0, 1)
    assert f"/{CPU}/online" in text_of(machine, "garbled")


def test_no_machine_at_all(tmp_path: Path) -> None:
    with pytest.raises(NumamicroError, match="no CPU is listed below"):
        discover(tmp_path)


def test_the_last_level_is_each_cpus_own(tmp_path: Path) -> None:
    """Low-power cores may lack the level that the others share; instructions are no data."""
    files = files_of(uniform(1, 4, llc=0))

    def add(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
        texts = {"level": str(level), "type": kind, "size": size, "shared_cpu_list": shared}
        folder = f"{CPU}/cpu{cpu}/cache/index{index}"
        files.update({f"{folder}/{name}": text for name, text in texts.items()})

    for cpu in range(4):
        add(cpu, 0, 1, "Data", "48K", str(cpu))
        add(cpu, 1, 2, "Unified", "2M", "2-3" if cpu > 1 else str(cpu))
        add(cpu, 2, 4, "Instruction", "1G", "0-3")
    for cpu in (0, 1):
        add(cpu, 3, 3, "Unified", "24576K", "0-1")
    machine = discover(plant(tmp_path, files))
    assert [(llc.id, llc.cpus, llc.bytes) for llc in machine.llcs] == [
        (0, (0, 1), 24 << 20),
        (1, (2, 3), 2 << 20),
    ]
    assert machine.llc_bytes([1, 2]) == 26 << 20
    assert [(c.level, c.kind, c.bytes, c.shared_by, c.count) for c in machine.caches] == [
        (1, "data", 48 << 10, 1, 4),
        (2, "unified", 2 << 20, 1, 2),
        (2, "unified", 2 << 20, 2, 1),
        (3, "unified", 24 << 20, 2, 1),
        (4, "instruction", 1 << 30, 4, 1),
    ]
