"""Memory that comes and goes while a guest runs: a column that comes and goes."""

from __future__ import annotations

import json
import time
from pathlib import Path

from numamicro.topology import discover
from tests.vm.inside.scene import SIZE, TOPOLOGY, matrix, route


class Monitor:
    """The emulator's own monitor (QMP), on a port of the guest."""

    def __init__(self) -> None:
        port = next(Path("/dev").glob("vport*p1"))
        self._port = port.open("r+b", buffering=0)  # closed by __exit__
        json.loads(self._line())
        self.execute("qmp_capabilities")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._port.close()

    def execute(self, command: str, **arguments: str | int) -> None:
        """Give a command and wait until it was taken; what it sets off may end later."""
        self._port.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while "return" not in (answer := json.loads(self._line())):
            assert "error" not in answer, answer

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            line += self._port.read(1)
        return line


def until_targets_are(*expected: int) -> None:
    end = time.monotonic() + 60
    while (found := tuple(node.id for node in discover().targets)) != expected:
        assert time.monotonic() < end, found
        time.sleep(0.2)


def test_plugged_memory_gets_a_column_and_loses_it(tmp_path: Path) -> None:
    new = len(TOPOLOGY.nodes) - 1
    with Monitor() as monitor:
        monitor.execute("device_add", driver="pc-dimm", id="dimm", memdev="module", node=new)
        until_targets_are(*TOPOLOGY.columns, new)
        ran = matrix(tmp_path, *SIZE, nodes=(0, new))
        assert ran.done.status == 0, ran.failures
        assert {route(cell) for cell in ran.cells} == {(0, 0), (0, new)}
        assert all(cell.share == 1.0 for cell in ran.cells)
        assert all(each.asked == each.seen for each in ran.door)
        monitor.execute("device_del", id="dimm")
        until_targets_are(*TOPOLOGY.columns)
