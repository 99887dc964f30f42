"""Test the product on machines with several nodes: guests that QEMU emulates.

Named topologies, or all but those that are run by hand: ``slow`` makes memory as slow as its
distance, and wants the machine to itself. After ``--`` a command to run in the one named guest
instead, as root and on this machine's own files, to look around.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import pytest

from tests.vm.guest import run
from tests.vm.guests import LIMIT
from tests.vm.kernel import Unavailable, get_kernel
from tests.vm.topologies import TOPOLOGIES, Topology

GUESTS = Path(__file__).parent / "guests.py"


def main() -> int:
    """Run the tests in the guests that were named, or one command in one guest."""
    names = [topology.name for topology in TOPOLOGIES]
    parser = argparse.ArgumentParser(prog="./dev test-numa", description=__doc__)
    parser.add_argument(
        "topology",
        nargs="*",
        help=f"of {', '.join(names)}; without a name all but those that are run by hand: "
        f"{', '.join(topology.name for topology in TOPOLOGIES if topology.by_hand)}",
    )
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    ours, command = sys.argv[1:at], sys.argv[at + 1 :]
    named = parser.parse_args(ours).topology
    for name in named:
        if name not in names:
            parser.error(f"there is no topology '{name}'; there are {', '.join(names)}")
    if command:
        if len(named) != 1:
            parser.error("name the one topology that the command is for")
        return _run_command(TOPOLOGIES[names.index(named[0])], command)
    usual = [topology.name for topology in TOPOLOGIES if not topology.by_hand]
    return pytest.main([f"{GUESTS}::test_numa[{name}]" for name in named or usual])


def _run_command(topology: Topology, command: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        try:
            ran = run(topology, get_kernel(), command, Path(folder), LIMIT)
        except Unavailable as missing:
            sys.exit(f"no guest can be had: {missing}")
    sys.stdout.write(ran.said if ran.status is not None else ran.said + ran.console)
    return 1 if ran.status is None else ran.status


if __name__ == "__main__":
    sys.exit(main())
