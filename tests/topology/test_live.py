"""The machine that runs the tests, against what the system's own calls say of it."""

from __future__ import annotations

import json
import os

from numamicro.case import node
from numamicro.setting import KEYS, read_setting
from numamicro.topology import Machine, discover


def test_it_agrees_with_the_system() -> None:
    machine = discover()
    usable = {cpu.id for cpu in machine.cpus if cpu.usable}
    assert usable == os.sched_getaffinity(0)
    assert {cpu for n in machine.initiators for cpu in machine.usable_cpus(node(n.id))} == usable
    assert machine.page_bytes == os.sysconf("SC_PAGE_SIZE")
    assert machine.architecture == os.uname().machine
    assert machine.targets
    for target in machine.targets:
        available = machine.available(target.id)
        assert available is None or available > 0


def test_a_narrowed_affinity_is_seen() -> None:
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        machine = discover()
    finally:
        os.sched_setaffinity(0, before)
    assert [cpu.id for cpu in machine.cpus if cpu.usable] == [min(before)]
    assert ("cpus-not-allowed" in {n.code for n in machine.notes}) == (len(before) > 1)


def test_it_keeps_no_name_of_this_host() -> None:
    machine, setting = discover(), read_setting()
    text = json.dumps([machine.to_json(), setting])
    assert os.uname().nodename not in text or len(os.uname().nodename) < 4
    assert Machine.from_json(json.loads(json.dumps(machine.to_json()))) == machine


def test_its_setting() -> None:
    setting = read_setting()
    assert list(setting)[: len(KEYS)] == list(KEYS)
    assert setting["kernel.release"] == os.uname().release
    assert setting["rights.affinity"] == "yes"
