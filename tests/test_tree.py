"""The drawing of a machine."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from numamicro.report.tree import id_list, render_machine
from numamicro.topology import discover
from numamicro.topology.sysfs import parse_list
from tests.topology import trees

if TYPE_CHECKING:
    from pathlib import Path

EXPECTED = """\
package0
├─ node0  8 GiB, 6 GiB available
│  ├─ llc0  32 MiB  2 cores  CPUs 0-3
│  └─ llc1  32 MiB  2 cores  CPUs 4-7
└─ node2  no memory
   └─ llc2  32 MiB  1 core  CPUs 8-9
of no package
└─ node9  8 GiB, 6 GiB available  no CPUs
"""


def test_nodes_hang_below_packages_and_caches_below_nodes(tmp_path: Path) -> None:
    facts = trees.Facts(
        nodes=(
            trees.Node(0, tuple(range(8))),
            trees.Node(2, (8, 9), memory=0, free=0),
            trees.Node(9),
        ),
        packages={0: 0, 2: 0},
        threads=2,
        llc=4,
    )
    text = render_machine(discover(trees.plant(tmp_path, trees.files_of(facts))))
    assert EXPECTED in text
    assert "1 package · 3 nodes · 5 cores · 10 CPUs" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["node2", "20", "10", "20"] in rows


def test_the_command_draws_and_dumps_this_machine() -> None:
    command = [sys.executable, "-m", "numamicro", "topology"]
    drawn = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for node in discover().nodes:
        assert f"node{node.id}" in drawn
    dumped = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert '"nodes"' in dumped.stdout
    missing = subprocess.run([*command, "--root", "/none"], capture_output=True, text=True)
    assert missing.returncode == 2
    assert "/none" in missing.stderr


@given(st.sets(st.integers(0, 300)))
def test_id_lists_are_read_back(ids: set[int]) -> None:
    assert set(parse_list(id_list(ids))) == ids
