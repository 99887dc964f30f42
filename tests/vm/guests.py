"""Boots a guest for each topology and runs inside.py in it. ``./dev test-numa`` runs this file."""

from __future__ import annotations

import os
import sys
from compileall import compile_dir
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.standin.build import build
from tests.vm.guest import SHARE, Ran, run
from tests.vm.kernel import CACHE, Kernel, Unavailable, get_kernel
from tests.vm.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.vm.topologies import Topology

ROOT = Path(__file__).parents[2]
INSIDE = "tests/vm/inside"
# The guest's Python is slow to start: no plug-ins, and no conftest that loads what is not used.
ALONE = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"
SHORT = (
    "-p",
    "no:cacheprovider",
    "--noconftest",
    "-q",
    "-rs",
    "--durations=5",
)
LIMIT = 1800.0
"""Seconds that a guest may take."""


@pytest.fixture(scope="session")
def kernel() -> Kernel:
    """Give the guests' kernel. Where there is none, all is skipped; in CI that is a failure."""
    try:
        return get_kernel()
    except Unavailable as missing:
        if os.environ.get("CI"):
            pytest.fail(f"no guest can be had, so nothing was tested on several nodes: {missing}")
        pytest.skip(f"no guest can be had: {missing}")


@pytest.fixture(scope="session")
def guests(
    kernel: Kernel, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Ran]]]:
    """Start every guest that a test asks for, as many at a time as this machine has CPUs."""

    def start(topology: Topology, folder: Path) -> Ran:
        return run(topology, kernel, _tests(topology), folder, LIMIT)

    # Once here is quicker than once in every guest.
    compile_dir(ROOT / "numamicro", quiet=1)
    build()
    asked = (getattr(item, "callspec", None) for item in request.session.items)
    # Folders are made here: pytest's maker of them is not for several threads.
    topologies = [
        (call.params["topology"], tmp_path_factory.mktemp("guest")) for call in asked if call
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {
            topology.name: pool.submit(start, topology, folder) for topology, folder in topologies
        }
        pool.shutdown(cancel_futures=True)


def _tests(topology: Topology) -> tuple[str, ...]:
    python = f"cd {ROOT} && {ALONE} TOPOLOGY={topology.name} SHARE={SHARE} exec {sys.executable}"
    files = " ".join(f"{INSIDE}/{check}.py" for check in topology.checks)
    return ("/bin/sh", "-c", f"{python} -P -m pytest {' '.join(SHORT)} {files}")


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda each: each.name)
def test_numa(
    topology: Topology, guests: dict[str, Future[Ran]], note_guest: Callable[[str, set[str]], None]
) -> None:
    ran = guests[topology.name].result()
    log = CACHE / "logs" / topology.name
    log.parent.mkdir(exist_ok=True)
    log.write_text(f"{ran.said}\n--- console ---\n{ran.console}")
    assert ran.status == 0, f"{ran.said[-8000:]}\n{ran.console[-2000:]}\nthe whole log is in {log}"
    note_guest(f"{topology.name}: {ran.seconds:.0f} s, {ran.said.splitlines()[-1]}", ran.loops)
