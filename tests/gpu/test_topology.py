"""GPUs joined across libcuda, NVML and sysfs: each source may be silent, wrong or in another order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.case import Place, node
from numamicro.finding import Severity
from numamicro.topology import Machine
from numamicro.topology.gpus import bus_id, read_gpus
from numamicro.topology.sysfs import Tree
from tests.examples import machine as example_machine
from tests.examples import with_gpus
from tests.gpu.conftest import discovered, numamicro
from tests.standin.machines import MACHINES
from tests.topology import trees

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "0000:17:00.0", "0000:65:00.0"
UUID = "5747414d000040008000000000000001"


def cuda(pci: str = FIRST, uuid: str = UUID, **more: Any) -> dict[str, Any]:
    """Give what libcuda says of a GPU."""
    return {
        "name": "Example",
        "pci": pci,
        "uuid": uuid,
        "memory": 2**34,
        "capability": [9, 0],
        "processors": 132,
        "l2_bytes": 0,
        "copy_engines": 3,
        "time_limit": False,
        "integrated": False,
        "compute_mode": 0,
        "host_node": -1,
    } | more


def nvml(pci: str = FIRST, index: int = 0, **more: Any) -> dict[str, Any]:
    """Give what NVML says of a GPU: here little but its address."""
    return {"index": index, "uuid": None, "pci": f"0000{pci.upper()}", "affinity": []} | more


def facts(gpus: list[dict[str, Any]], others: list[dict[str, Any]]) -> dict[str, Any]:
    """Give what driver and NVML say of GPUs that reach each other."""
    count = len(gpus)
    return {
        "simulation": None,
        "cuda": 12080,
        "gpus": gpus,
        "peers": [
            {"source": a, "target": b, "access": True, "atomics": False}
            for a in range(count)
            for b in range(count)
            if a != b
        ],
        "nvml": {"version": "595.71.05", "gpus": others, "pairs": []},
    }


def test_the_node_is_told_by_nvml_then_sysfs_then_the_driver(tmp_path: Path) -> None:
    said = cuda(host_node=2)
    for name, files, affinity, expected in (
        ("all", {"numa_node": "1"}, [0b1], 0),
        ("two-bits", {"numa_node": "1"}, [0b11], 1),
        ("sysfs", {"numa_node": "1"}, [], 1),
        ("hidden", {"numa_node": "-1"}, [], 2),
        ("absent-node", {"numa_node": "7"}, [], 2),
        ("driver", {}, [0, 0], 2),
        ("high-word", {}, [0, 1 << 6], 70),
    ):
        root = trees.plant(
            tmp_path / name,
            {f"sys/bus/pci/devices/{FIRST}/{file}": text for file, text in files.items()},
        )
        found = read_gpus(Tree(str(root)), (0, 1, 2, 70), facts([said], [nvml(affinity=affinity)]))
        assert found.gpus[0].host_node == expected, name
    nobody = read_gpus(Tree(str(tmp_path)), (0, 1), facts([cuda()], []))
    assert nobody.gpus[0].host_node is None


def test_the_orders_of_driver_and_nvml_may_differ(tmp_path: Path) -> None:
    gpus = [cuda(SECOND, "b" * 32), cuda(FIRST, "a" * 32)]
    others = [nvml(FIRST, 0, bar1=1), nvml(SECOND, 1, bar1=2)]
    said = facts(gpus, others)
    said["nvml"]["pairs"] = [{"gpus": [0, 1], "level": 50}]
    found = read_gpus(Tree(str(tmp_path)), (0,), said)
    assert [(gpu.id, gpu.index, gpu.bar1) for gpu in found.gpus] == [(0, 1, 2), (1, 0, 1)]
    assert found.pairs[0].level == "SYS"


def test_a_uuid_is_joined_before_an_address_and_is_not_kept(tmp_path: Path) -> None:
    uuid = "GPU-5747414d-0000-4000-8000-000000000001"
    said = facts([cuda()], [nvml(SECOND, 3, uuid=uuid), nvml(FIRST, 4)])
    found = read_gpus(Tree(str(tmp_path)), (0,), said)
    assert found.gpus[0].index == 3
    kept = json.dumps(
        Machine("x86_64", None, (), (), (), gpus=found.gpus, gpu_pairs=found.pairs).to_json()
    )
    assert UUID not in kept
    assert uuid not in kept
    assert len(found.gpus[0].identity or "") == 12


@pytest.mark.parametrize(
    ("here", "there", "links"),
    [
        ([], [], 0),
        ([SECOND, SECOND], [FIRST, FIRST], 2),
        ([SECOND, SECOND, "0000:aa:00.0"], [FIRST, FIRST], 2),
        (["0000:aa:00.0"] * 18, ["0000:aa:00.0"] * 18, 18),
        (["0000:aa:00.0", "0000:ab:00.0"], ["0000:ab:00.0"], 1),
        ([None] * 18, [None] * 18, 18),
        ([None] * 4, ["0000:aa:00.0"] * 4, 0),
    ],
)
def test_nvlinks_lead_to_the_peer_or_to_a_switch(
    tmp_path: Path, here: list[str | None], there: list[str | None], links: int
) -> None:
    said = facts(
        [cuda(FIRST, "a" * 32), cuda(SECOND, "b" * 32)],
        [nvml(FIRST, 0, nvlinks=here), nvml(SECOND, 1, nvlinks=there)],
    )
    (pair,) = read_gpus(Tree(str(tmp_path)), (0,), said).pairs
    assert pair.nvlinks == links
    assert pair.kind == (f"NV{links}" if links else "unknown")


def test_access_is_claimed_only_both_ways(tmp_path: Path) -> None:
    said = facts([cuda(FIRST, "a" * 32), cuda(SECOND, "b" * 32)], [])
    assert read_gpus(Tree(str(tmp_path)), (0,), said).pairs[0].claimed
    said["peers"][0]["access"] = False
    assert not read_gpus(Tree(str(tmp_path)), (0,), said).pairs[0].claimed


@pytest.mark.parametrize("text", ["", "17:00.0", "0000:17:00", "no address", "g000:17:00.0"])
def test_what_is_no_address_joins_nothing(text: str) -> None:
    assert bus_id(text) is None


@given(st.integers(0, 0xFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_addresses_are_one_however_they_are_padded(
    domain: int, bus: int, device: int, function: int
) -> None:
    short = f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"
    assert bus_id(short) == bus_id(f"0000{short.upper()}") == short


def test_gpus_on_the_bus_are_named_when_no_driver_shows_them(tmp_path: Path) -> None:
    files = {
        f"sys/bus/pci/devices/{FIRST}/vendor": "0x10de",
        f"sys/bus/pci/devices/{FIRST}/class": "0x030200",
        f"sys/bus/pci/devices/{SECOND}/vendor": "0x10de",
        f"sys/bus/pci/devices/{SECOND}/class": "0x040300",  # its sound
    }
    tree = Tree(str(trees.plant(tmp_path, files)))
    (note,) = read_gpus(tree, (0,), {"error": "no NVIDIA driver: not found"}).notes
    assert (note.code, note.severity) == ("no-gpu", Severity.LIMITS)
    assert "no NVIDIA driver: not found" in note.text
    assert f"1 NVIDIA GPU is on the PCI bus ({FIRST})" in note.text
    (note,) = read_gpus(Tree(str(tmp_path / "none")), (0,), facts([], [])).notes
    assert "CUDA_VISIBLE_DEVICES" in note.text
    assert note.severity is Severity.REMARK  # a machine without a GPU lacks nothing


# --- Where GPUs stand among the places ---------------------------------------------------------------


def test_locality_and_cpus_of_gpus() -> None:
    machine = with_gpus(example_machine((0, 1)), 3)
    gpus = [Place("gpu", index) for index in range(3)]
    assert machine.locality(node(0), gpus[0]) == machine.locality(gpus[0], node(0)) == "local"
    assert machine.locality(node(1), gpus[0]) == "other-package"
    assert machine.locality(gpus[0], gpus[1]) == "SYS"
    assert machine.locality(gpus[2], gpus[0]) == "PIX"
    assert machine.locality(gpus[1], gpus[1]) == "local"
    assert machine.usable_cpus(gpus[1]) == machine.usable_cpus(node(1))


# --- Through the stand-in, as the product asks -------------------------------------------------------


@pytest.mark.parametrize("name", ["four-on-two-sockets", "eight-nvswitch", "superchip", "sixteen"])
def test_a_simulated_machine_is_found_as_it_is(name: str) -> None:
    simulated = MACHINES[name]
    machine = discovered(simulated)
    assert [gpu.pci for gpu in machine.gpus] == [gpu.pci for gpu in simulated.gpus]
    assert [gpu.host_node for gpu in machine.gpus] == [gpu.node for gpu in simulated.gpus]
    assert [gpu.memory for gpu in machine.gpus] == [gpu.memory for gpu in simulated.gpus]
    for gpu, due in zip(machine.gpus, simulated.gpus, strict=True):
        assert gpu.memory_node == (due.memory_node if due.memory_node >= 0 else None)
        assert gpu.link is not None
        assert (gpu.link.max_generation, gpu.link.max_width) == (due.generation, due.width)
        assert gpu.bar1 == due.bar1
        assert gpu.iommu_group is not None
    assert len({gpu.identity for gpu in machine.gpus}) == len(machine.gpus)
    # NVML counts by address, whatever the driver's order is.
    by_address = sorted(machine.gpus, key=lambda gpu: gpu.pci or "")
    assert [gpu.index for gpu in by_address] == [*range(len(machine.gpus))]
    for pair in machine.gpu_pairs:
        a, b = pair.gpus
        assert pair.claimed == (simulated.write_peer(a, b) is not None)
        assert pair.nvlinks == min(simulated.gpus[a].switch_links, simulated.gpus[b].switch_links)
    assert machine.gpu_driver is not None
    assert machine.gpu_driver.version == simulated.driver_text
    assert machine.gpu_driver.simulation == name


@pytest.mark.parametrize(
    ("visible", "addresses"),
    [
        ("1", [1]),
        ("3,0", [3, 0]),
        ("2,9,1", [2]),
        ("GPU-5747414d-0001", [1]),
        ("GPU-5747414d-0003-4000-8000-000000000004,0", [3, 0]),
    ],
)
def test_visible_devices_reorder_and_hide(visible: str, addresses: list[int]) -> None:
    simulated = MACHINES["four-on-two-sockets"]
    machine = discovered(simulated, CUDA_VISIBLE_DEVICES=visible)
    assert [gpu.pci for gpu in machine.gpus] == [simulated.gpus[index].pci for index in addresses]
    assert [gpu.index for gpu in machine.gpus] == addresses
    assert [gpu.host_node for gpu in machine.gpus] == [
        simulated.gpus[index].node for index in addresses
    ]


@pytest.mark.parametrize("visible", ["", "-1", "7", "0,0", "GPU-5747414d"])
def test_visible_devices_that_name_none_leave_gpus_out(visible: str) -> None:
    machine = discovered(MACHINES["four-on-two-sockets"], CUDA_VISIBLE_DEVICES=visible)
    assert machine.gpus == ()
    (text,) = [note.text for note in machine.notes if note.code == "no-gpu"]
    assert "CUDA_VISIBLE_DEVICES" in text


def test_an_instance_is_joined_with_its_gpu() -> None:
    machine = discovered(MACHINES["two-without-p2p"].having("mig"))
    assert [gpu.mig for gpu in machine.gpus] == [True, True]
    assert [gpu.index for gpu in machine.gpus] == [0, 1]


def test_gpus_are_drawn_below_their_node() -> None:
    done = numamicro(MACHINES["two-without-p2p"], "topology")
    lines = done.stdout.splitlines()
    rows = {line.split()[1]: number for number, line in enumerate(lines) if "─ " in line}
    assert rows["node0"] < rows["gpu0"] < rows["node1"] < rows["gpu1"]
    assert "256 MiB BAR1" in lines[rows["gpu1"]]
    assert "What joins the GPUs" in done.stdout
    lost = numamicro(MACHINES["one"].having("no_host_node"), "topology").stdout
    assert "next to an unknown node\n└─ gpu0" in lost
