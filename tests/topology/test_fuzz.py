"""Any broken tree gives a machine or one clear error, and the machine can be used."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from numamicro.case import node
from numamicro.doctor import diagnose
from numamicro.errors import NumamicroError
from numamicro.setting import read_setting
from numamicro.topology import Machine, discover
from tests.topology.trees import CPU, NODE, Facts, Node, files_of, plant

# More examples in a longer run: set the variable.
EXAMPLES = int(os.environ.get("NUMAMICRO_FUZZ", "300"))

ids = st.integers(0, 12) | st.sampled_from([63, 64, 250, 1023, 4095])


@st.composite
def facts(draw: st.DrawFn) -> Facts:
    """Describe a sound machine with odd ids."""
    node_ids = draw(st.lists(ids, unique=True, max_size=4))
    cpus = draw(st.lists(ids, unique=True, max_size=8))
    homes = [draw(st.sampled_from(node_ids)) for _ in cpus] if node_ids else []
    nodes = tuple(
        Node(
            id,
            tuple(cpu for cpu, home in zip(cpus, homes, strict=True) if home == id),
            memory=draw(st.sampled_from([0, 1 << 20])),
        )
        for id in node_ids
    )
    return Facts(
        nodes=nodes,
        cpus=tuple(cpus),
        threads=draw(st.sampled_from([1, 2, 4])),
        llc=draw(st.sampled_from([0, 1, 4])),
        offline=frozenset(draw(st.lists(st.sampled_from(cpus), max_size=3)) if cpus else ()),
        allowed_cpus=draw(st.none() | st.just("0-3")),
        allowed_mems=draw(st.none() | st.just("0,64")),
    )


# Files that the sound machine has no need of, but that a reader looks for.
RARE = (
    f"{NODE}/node0/access0/initiators/read_bandwidth",
    f"{NODE}/node0/memory_side_cache/index1/size",
    f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages",
    f"{NODE}/node0/hugepages/hugepages-99999999999999999kB/nr_hugepages",
    f"{NODE}/node0/memory0/state",
    "sys/devices/system/memory/memory0/state",
    f"{CPU}/cpu0/cpufreq/cpuinfo_max_freq",
    f"{CPU}/cpu0/cpu_capacity",
    f"{CPU}/cpu0/cache/index99999999/level",
    "sys/devices/cpu_atom/cpus",
    "sys/devices/cpu_core/cpus",
    "sys/devices/system/memory/block_size_bytes",
    "sys/devices/virtual/memory_tiering/memory_tier4/nodelist",
    "sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/fs/cgroup/memory.max",
    "sys/fs/cgroup/cpuset.cpus.effective",
    "proc/self/cgroup",
    "proc/self/mounts",
    "proc/self/status",
    "proc/cpuinfo",
    "proc/cmdline",
    "proc/swaps",
    "proc/driver/nvidia/gpus/0/numa_status",
    "sys/bus/dax/devices/dax0.0/target_node",
    "sys/bus/dax/drivers/kmem/dax0.0/target_node",
)

texts = st.sampled_from(
    [
        b"",
        b"\n",
        b"-1",
        b"0",
        b"1",
        b"0-4000000000",
        b"0-16383",
        b"16383",
        b"99999999999999999999999999",
        b"10 10 10 10",
        b"ffffffff,ffffffff",
        b"\xff\xfe\0\0",
        b"[always] madvise",
        b"offline",
        b"99999999999G",
        b"Node 0 MemTotal: 999999999999999999999 kB",
        b"cgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
        b"0::/../../x\n1:memory:/a",
        b"Cpus_allowed_list:\t0-9999999999\nMems_allowed_list:\t-",
        b"x" * 100_000,
        b"1" * 600_000,
        b"0," * 300_000,
    ]
) | st.binary(max_size=40)


@given(facts(), st.data())
@settings(max_examples=EXAMPLES)
def test_any_tree_gives_a_machine_or_an_error(described: Facts, data: st.DataObject) -> None:
    files: dict[str, str | bytes] = dict(files_of(described))
    paths = st.sampled_from(sorted(path for path in {*files, *RARE} if not path.endswith("/")))
    for path in data.draw(st.lists(paths, max_size=6), "dropped"):
        files.pop(path, None)
    files |= data.draw(st.dictionaries(paths, texts, max_size=6), "changed")
    folders = data.draw(st.lists(paths, max_size=2), "folders instead")
    for path in folders:
        files.pop(path, None)
    root = Path(tempfile.mkdtemp())
    try:
        plant(root, {**files, **{f"{path}/": "" for path in folders}})
        check(root)
    finally:
        shutil.rmtree(root)


def check(root: Path) -> None:
    """Read a tree and use every part of what came out."""
    setting = read_setting(root)
    try:
        machine = discover(root)
    except NumamicroError:
        return
    assert len(machine.cpus) <= 16384
    assert machine.huge_page_bytes is None or machine.huge_page_bytes > 0
    for numa_node in machine.nodes:
        amounts = (numa_node.memory, numa_node.free, numa_node.offline_memory, numa_node.side_cache)
        assert all(amount is None or amount >= 0 for amount in amounts)
    assert Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine
    assert set(machine.notes) <= set(diagnose(setting, machine))
    for initiator in machine.initiators:
        cpus = machine.usable_cpus(node(initiator.id))
        assert cpus
        assert len(set(cpus)) == len(cpus) >= machine.cores(node(initiator.id)) >= 1
        assert machine.llc_bytes(cpus) >= 0
        for target in machine.targets:
            assert machine.locality(node(initiator.id), node(target.id))
    for target in machine.targets:
        available = machine.available(target.id)
        assert available is None or available >= 0
