"""The stand-in itself: its figures are the machine's closed forms, its faults are what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.standin.account import read_account
from tests.standin.conftest import act
from tests.standin.machines import CONTEXT, LAUNCH, MACHINES, PAGEABLE, PIN, TICK, Machine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.standin.conftest import Images

MIB = 1 << 20
SIZE = 4 * MIB
WITHIN = 0.01


def close(seconds: float, expected: float) -> bool:
    """Whether a time is the model's, to within 1 % and the tick of the clock."""
    return abs(seconds - expected) <= WITHIN * expected + TICK


def nodes(machine: Machine) -> str:
    return ",".join(map(str, range(len(machine.packages))))


# --- Copies -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["one", "two-without-p2p", "superchip", "eight-behind-switches"])
def test_a_copy_takes_what_its_way_gives(name: str) -> None:
    machine = MACHINES[name]
    found = act(machine, "host_copies", nodes(machine), str(SIZE))
    assert len(found) == len(machine.gpus) * len(machine.packages) * 2
    for cell in found:
        gpu, node = cell["gpu"], cell["node"]
        share = 1.0 if cell["pinned"] else PAGEABLE
        assert cell["same"]
        assert close(cell["down"], machine.seconds(machine.from_node(gpu, node), SIZE, share))
        assert close(cell["up"], machine.seconds(machine.to_node(gpu, node), SIZE, share))


@pytest.mark.parametrize("name", ["two-without-p2p", "four-on-two-sockets"])
def test_a_peer_copy_is_direct_only_with_access(name: str) -> None:
    machine = MACHINES[name]
    for cell in act(machine, "peer_copies", str(SIZE)):
        source, target = cell["source"], cell["target"]
        write, read = machine.write_peer(source, target), machine.read_peer(target, source)
        if isinstance(cell["access"], str):
            assert "PEER_ACCESS_UNSUPPORTED" in cell["access"]
            assert write is None
            continue
        assert cell["same"]
        if cell["access"]:
            assert write is not None
            assert read is not None
            assert close(cell["sent"], machine.seconds(write, SIZE))
            assert close(cell["received"], machine.seconds(read, SIZE))
        else:
            staged = machine.staged_copy_seconds(source, target, SIZE)
            assert close(cell["sent"], staged)
            assert close(cell["received"], staged)


def test_both_directions_of_a_link_do_not_disturb_each_other() -> None:
    machine = MACHINES["one"]
    down, up = act(machine, "together", str(SIZE), "down0", "up0")
    assert close(down, machine.seconds(machine.from_node(0, 0), SIZE))
    assert close(up, machine.seconds(machine.to_node(0, 0), SIZE))


def test_two_behind_one_switch_share_it() -> None:
    machine = MACHINES["eight-behind-switches"]
    alone = machine.seconds(machine.from_node(0, 0), SIZE)
    shared = machine.resources["switch0.down"] / 2
    first, second = act(machine, "together", str(SIZE), "down0", "down1")
    assert close(first, alone + SIZE / shared - SIZE / machine.rate(machine.from_node(0, 0)))
    assert second >= first * 0.99
    assert close(act(machine, "together", str(SIZE), "down0", "down4")[0], alone)


def test_what_a_copy_brings_is_not_there_before_it_is_waited_for() -> None:
    assert act(MACHINES["one"], "impatient", str(SIZE)) == {"before": False, "after": True}


# --- Kernels ----------------------------------------------------------------------------------------


def check_allreduce(machine: Machine, images: Images, image: str, jobs: list[str]) -> None:
    found = act(machine, "allreduce", images.path(image), *jobs)
    for job, cell in zip(jobs, found, strict=True):
        variant, members, size, *node = job.split(":")
        a, b = map(int, members.split(","))
        expected = machine.allreduce_seconds(
            variant, (a, b), int(size), int(node[0]) if node else None
        )
        assert cell["right"] == [True, True], job
        assert cell["status"] == [0, 0], job
        assert abs(cell["seconds"] / expected - 1) < WITHIN, job


def test_allreduce_over_pcie(images: Images) -> None:
    jobs = [
        f"{variant}:{pair}:{size}"
        for variant in ("pull", "push")
        for pair in ("0,1", "2,3")
        for size in (4096, 65536)
    ]
    jobs += [f"staged:{pair}:65536:{node}" for pair in ("0,1", "1,2") for node in (0, 1)]
    check_allreduce(MACHINES["four-on-two-sockets"], images, "sm_86", jobs)


def test_allreduce_over_nvlink(images: Images) -> None:
    jobs = [f"{variant}:{pair}:65536" for variant in ("pull", "push") for pair in ("0,7", "3,4")]
    check_allreduce(MACHINES["eight-nvswitch"], images, "sm_90", jobs)


def test_allreduce_of_a_group_and_of_one_gpu_with_itself(images: Images) -> None:
    for members in ("0,1,2,3,4,5,6,7", "0,0"):
        (cell,) = act(
            MACHINES["eight-nvswitch"], "allreduce", images.path("sm_90"), f"pull:{members}:4096"
        )
        assert all(cell["right"])
        assert not any(cell["status"])


def test_a_graph_is_its_launches_with_less_between_them(images: Images) -> None:
    found = act(MACHINES["eight-nvswitch"], "graph", images.path("sm_90"), "4096", "20")
    assert found["right"] == [True, True]
    assert found["status"] == [0, 0]
    first, again = found["seconds"]
    assert abs(first - again) <= TICK
    assert first > LAUNCH


def test_one_sided_kernels(images: Images) -> None:
    machine = MACHINES["eight-nvswitch"]
    found = act(machine, "one_sided", images.path("sm_90"), str(MIB))
    peer, own = machine.read_peer(0, 1), machine.resources["gpu0.memory"]
    assert peer is not None
    through = peer.latency + MIB / machine.rate(peer)
    assert found["loaded"]
    assert found["stored"]
    assert close(found["load"], LAUNCH + through)
    assert close(found["store"], LAUNCH + through)
    assert close(found["read"], LAUNCH + 0.5e-6 + MIB / own)
    assert found["chase_ended"]
    assert found["chase_peer_ended"]
    assert found["chase_peer"] == pytest.approx(peer.latency * 1e9, rel=WITHIN)


def test_a_held_stream_goes_on_when_let_or_when_time_is_up(images: Images) -> None:
    found = act(MACHINES["one"], "spin", images.path("sm_90"))
    assert found == {"released": [True, 0], "timed_out": [True, 1]}


def test_an_image_is_taken_as_a_driver_takes_it(images: Images) -> None:
    def load(machine: Machine, architecture: str) -> str:
        path = images.path(architecture)
        return str(act(machine, "attempt", "open", f"load:0:{path}")[f"load:0:{path}"])

    ampere, pascal = MACHINES["four-on-two-sockets"], MACHINES["pascal-pair"]
    assert load(ampere, "sm_80") == "ok"
    assert load(MACHINES["eight-nvswitch"], "compute_70") == "ok"
    assert "NO_BINARY_FOR_GPU" in load(ampere, "sm_90")
    assert "NO_BINARY_FOR_GPU" in load(ampere, "sm_89")
    assert "NO_BINARY_FOR_GPU" in load(pascal, "sm_70")
    assert "UNSUPPORTED_PTX_VERSION" in load(ampere, "compute_70")


def test_memory_of_a_gpu_without_access_is_out_of_reach(images: Images) -> None:
    found = act(MACHINES["two-without-p2p"], "stray", images.path("sm_89"))
    assert "ILLEGAL_ADDRESS" in found


def test_the_account_tells_measured_time_from_the_rest(tmp_path: Path) -> None:
    machine = MACHINES["one"]
    account = tmp_path / "account"
    found = act(
        machine, "together", str(SIZE), "down0", "up0", NUMAMICRO_STANDIN_ACCOUNT=str(account)
    )
    told = read_account(account)
    assert told.timed == pytest.approx(max(found), rel=WITHIN)
    assert told.seconds == pytest.approx(sum(spent for _, spent in told.calls.values()))
    assert told.start == pytest.approx(CONTEXT, rel=WITHIN)
    assert told.contexts == 1
    assert told.outside == pytest.approx(1 - told.timed / told.seconds)
    assert told.harness == pytest.approx(1 - told.timed / (told.seconds - told.start))
    assert told.calls["cuMemHostRegister_v2"][1] > PIN * 2 * SIZE
    waited = told.calls["cuEventSynchronize"][1]
    assert told.timed < waited < told.seconds - told.start


# --- Faults -----------------------------------------------------------------------------------------


def attempt(machine: Machine, *steps: str, **environment: str) -> dict[str, Any]:
    found: dict[str, Any] = act(machine, "attempt", *steps, **environment)
    return found


@pytest.mark.parametrize(
    ("fault", "steps", "expected"),
    [
        ("no_device", ["open"], "NO_DEVICE"),
        ("driver_mismatch", ["open"], "SYSTEM_DRIVER_MISMATCH"),
        ("driver_too_old", ["find:cuDeviceGetUuid"], "is not to be had"),
        ("enable_fails gpu0 gpu1", ["open", "enable:0:1"], "PEER_ACCESS_UNSUPPORTED"),
        ("mig gpu1", ["open", "enable:0:1"], "PEER_ACCESS_UNSUPPORTED"),
        ("out_of_memory gpu0", ["open", "allocate:0:2097152"], "OUT_OF_MEMORY"),
    ],
)
def test_a_fault_is_said_in_the_drivers_words(fault: str, steps: list[str], expected: str) -> None:
    machine = MACHINES["eight-nvswitch"]
    assert attempt(machine, *steps)[steps[-1]] == "ok"
    assert expected in attempt(machine.having(fault), *steps)[steps[-1]]


def test_a_gpu_has_at_most_eight_peers() -> None:
    steps = [f"enable:0:{peer}" for peer in range(1, 10)]
    found = attempt(MACHINES["sixteen"], "open", *steps)
    assert [found[step] for step in steps[:8]] == ["ok"] * 8
    assert "TOO_MANY_PEERS" in found[steps[8]]


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("2,0", "2,0"),
        ("1, 3", "1,3"),
        ("GPU-5747414d-0003", "3"),
        ("0,9,1", "0"),
        ("0,0", "open: NO_DEVICE"),
        ("", "open: NO_DEVICE"),
        ("-1", "open: NO_DEVICE"),
        ("GPU-5747414d", "open: NO_DEVICE"),
    ],
)
def test_visible_devices_in_all_forms(visible: str, expected: str) -> None:
    found = attempt(MACHINES["four-on-two-sockets"], "open", CUDA_VISIBLE_DEVICES=visible)
    if expected.startswith("open"):
        assert "NO_DEVICE" in found["open"]
    else:
        assert found["devices"] == expected


@pytest.mark.parametrize("fault", ["p2p_drop", "p2p_mirror"])
def test_a_lying_link_brings_nothing_to_the_owner(fault: str) -> None:
    machine = MACHINES["four-on-two-sockets"].having(f"{fault} gpu0 gpu1")
    for cell in act(machine, "peer_copies", str(MIB)):
        ends = (cell["source"], cell["target"])
        assert cell.get("same") is not (cell["access"] is True and ends == (0, 1))


def test_a_wrong_sum_is_on_one_rank_alone(images: Images) -> None:
    machine = MACHINES["eight-nvswitch"].having("wrong_sum gpu1")
    (cell,) = act(machine, "allreduce", images.path("sm_90"), "pull:0,1:4096")
    assert cell["right"] == [True, False]
    assert cell["status"] == [0, 0]


def test_ranks_whose_signals_are_lost_give_up(images: Images) -> None:
    machine = MACHINES["eight-nvswitch"].having("p2p_drop gpu0 gpu1")
    (cell,) = act(machine, "allreduce", images.path("sm_90"), "pull:0,1:4096:0:300")
    assert cell["status"][1] == 1


def test_a_downtrained_link_is_as_slow_as_it_says() -> None:
    machine = MACHINES["one"].having("downtrained gpu0")
    assert machine.gpus[0].training == 1 / 16
    (cell, _) = act(machine, "host_copies", "0", str(MIB))
    assert close(cell["down"], machine.seconds(machine.from_node(0, 0), MIB))


@pytest.mark.parametrize("plant", ["plant_node", "plant_gib"])
def test_a_mistake_of_the_product_would_show(plant: str) -> None:
    """A buffer on the wrong node, or GiB for GB, is no longer within 1 % of the model."""
    machine = MACHINES["two-without-p2p"]
    for cell in act(machine.having(plant), "host_copies", "0,1", str(SIZE)):
        way = machine.from_node(cell["gpu"], cell["node"])
        share = 1.0 if cell["pinned"] else PAGEABLE
        assert not close(cell["down"], machine.seconds(way, SIZE, share))


def test_a_swapped_pair_would_show() -> None:
    machine = MACHINES["four-on-two-sockets"]
    for cell in act(machine.having("plant_pair"), "peer_copies", str(SIZE)):
        write = machine.write_peer(cell["source"], cell["target"])
        if cell["access"] is True and write is not None:
            assert not close(cell["sent"], machine.seconds(write, SIZE))


def test_a_missing_wait_would_show() -> None:
    machine = MACHINES["one"].having("plant_sync")
    assert act(machine, "impatient", str(SIZE))["after"] is False
