"""A machine as plain values: to JSON and back, and what a broken file is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numamicro.case import node
from numamicro.errors import NumamicroError
from numamicro.finding import Finding
from numamicro.topology import (
    Access,
    Cache,
    Cgroup,
    Cpu,
    HugePool,
    Llc,
    Machine,
    NumaNode,
    discover,
)
from tests import examples
from tests.topology.trees import files_of, plant, uniform

if TYPE_CHECKING:
    from pathlib import Path

# What passes 64 bits counts nothing, and the decoder refuses it.
number = st.integers(0, 2**63 - 1)
maybe = st.none() | number
rate = st.none() | st.floats(0, 1e15)
numbers = st.lists(number, max_size=2).map(tuple)


def several(kind: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(kind, max_size=2).map(tuple)


accesses = st.builds(
    Access,
    level=number,
    read_bandwidth=rate,
    write_bandwidth=rate,
    read_latency=rate,
    write_latency=rate,
    initiators=numbers,
)
nodes = st.builds(
    NumaNode,
    id=number,
    cpus=numbers,
    memory=maybe,
    free=maybe,
    distances=st.dictionaries(st.integers(0, 65535), number, max_size=3),
    allowed=st.booleans(),
    offline_memory=number,
    tier=maybe,
    backing=st.none() | st.text(),
    side_cache=maybe,
    access=several(accesses),
    huge_pools=several(st.builds(HugePool, page_bytes=number, total=number, free=number)),
)
cpus = st.builds(
    Cpu,
    id=number,
    node=maybe,
    package=maybe,
    core=maybe,
    llc=maybe,
    online=st.booleans(),
    allowed=st.booleans(),
    die=maybe,
    smt=number,
    kind=st.none() | st.text(),
)
machines = st.builds(
    Machine,
    cpus=several(cpus),
    nodes=several(nodes),
    llcs=several(st.builds(Llc, id=number, cpus=numbers, bytes=maybe)),
    page_bytes=number,
    huge_page_bytes=maybe,
    caches=several(
        st.builds(
            Cache, level=number, shared_by=number, count=number, bytes=maybe, line_bytes=maybe
        )
    ),
    cgroup=st.none()
    | st.builds(
        Cgroup,
        version=number,
        cpus=st.none() | numbers,
        mems=st.none() | numbers,
        memory_limit=maybe,
        memory_left=maybe,
    ),
    hypervisor=st.none() | st.text(),
    container=st.none() | st.text(),
    wsl=st.booleans(),
    notes=several(st.builds(Finding)),
)


@given(machines)
@settings(max_examples=50)
def test_json_and_back_is_the_same(machine: Machine) -> None:
    text = json.dumps(machine.to_json(), allow_nan=False)
    again = Machine.from_json(json.loads(text))
    assert again == machine
    assert json.dumps(again.to_json()) == text


@pytest.fixture
def plain(tmp_path: Path) -> dict[str, Any]:
    return discover(plant(tmp_path, files_of(uniform(2, 2)))).to_json()


def test_the_keys_keep_their_order(plain: dict[str, Any]) -> None:
    assert list(plain)[:4] == ["architecture", "cpu_model", "cpus", "nodes"]
    assert plain["nodes"][1]["distances"] == {"0": 20, "1": 10}


def test_what_a_later_version_adds_is_ignored(plain: dict[str, Any]) -> None:
    assert Machine.from_json(plain | {"colour": "red"}) == Machine.from_json(plain)


def test_what_an_earlier_version_lacks_takes_its_default(plain: dict[str, Any]) -> None:
    del plain["wsl"]
    assert Machine.from_json(plain).wsl is False


def test_a_missing_key_is_named(plain: dict[str, Any]) -> None:
    del plain["nodes"][1]["id"]
    with pytest.raises(NumamicroError, match=r"machine\.nodes\[1\] lacks the key 'id'"):
        Machine.from_json(plain)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("nodes", {}, r"machine\.nodes is {}, not of type list"),
        ("page_bytes", "4096", r"machine\.page_bytes is '4096', not of type int"),
        ("page_bytes", True, r"machine\.page_bytes is True, not of type int"),
        ("page_bytes", None, r"machine\.page_bytes is None"),
        ("page_bytes", 2**63, r"machine\.page_bytes is 9223372036854775808, not"),
        ("wsl", 0, r"machine\.wsl is 0, not of type bool"),
        ("cgroup", [], r"machine\.cgroup is \[\], not of type dict"),
        ("llcs", [{"id": 0, "cpus": [1.5], "bytes": 1}], r"machine\.llcs\[0\]\.cpus\[0\] is 1.5"),
        (
            "nodes",
            [{"id": 0, "distances": {"x": 10}}],
            r"machine\.nodes\[0\]\.distances has the key",
        ),
    ],
)
def test_a_wrong_value_is_named(plain: dict[str, Any], key: str, value: object, told: str) -> None:
    with pytest.raises(NumamicroError, match=told):
        Machine.from_json(plain | {key: value})


def test_no_machine_is_a_list() -> None:
    with pytest.raises(NumamicroError, match="machine is 3, not of type dict"):
        Machine.from_json(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("free", "left", "available"),
    [(100, None, 100), (100, 40, 40), (100, 400, 100), (None, 40, None), (None, None, None)],
)
def test_a_cgroup_bounds_what_is_available(
    free: int | None, left: int | None, available: int | None
) -> None:
    machine = Machine(
        "x86_64", None, (), (NumaNode(3, free=free),), (), cgroup=Cgroup(2, memory_left=left)
    )
    assert machine.available(3) == available


def test_what_a_machine_remembers_is_no_part_of_it() -> None:
    asked, other = examples.machine(), examples.machine()
    asked.usable_cpus(node(0))
    assert asked == other
    assert asked.to_json() == other.to_json()
