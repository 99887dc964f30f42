"""The GPU check: ``python -m bench.gpu``.

Each part runs in a process of its own with a deadline, so that one that hangs costs no other. All
of it takes less than five minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.gpu.checks import Check
from bench.gpu.figures import Figure
from bench.gpu.page import Outcome, to_json, to_markdown
from bench.keep import keep, slug
from bench.state import describe
from numamicro import __version__
from numamicro.errors import NumamicroError
from numamicro.file import read_matrix
from numamicro.topology import discover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numamicro.matrix import Measurement

PROBES = (
    *("host-copy", "host-latency", "gpu-memory", "launch"),
    *("peer-copy", "peer-latency", "all-reduce"),
)
CHECK_SECONDS, PEER_SECONDS, SLACK_SECONDS = 90.0, 40.0, 30.0
PEERS = {"PyTorch": "bench.gpu.with_torch", "CuPy": "bench.gpu.with_cupy"}


def main(arguments: Sequence[str]) -> int:
    """Check every GPU, measure, let the peers measure, print the page and keep it."""
    asked = _parser().parse_args(arguments)
    machine = discover()
    if not machine.gpus or machine.gpu_driver is None:
        why = next((note.text for note in machine.notes if note.code == "no-gpu"), "no GPU here")
        raise NumamicroError(why)
    begun = time.monotonic()
    checks = _checks()
    cells = _cells(asked.time)
    peers = {peer: _figures(module) for peer, module in PEERS.items()}
    outcome = Outcome(
        tool=f"numamicro {__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        origin="simulated" if machine.gpu_driver.simulation else "measured",
        seconds=time.monotonic() - begun,
        machine=describe(machine) | {"driver": machine.gpu_driver.version},
        gpus=[gpu.name for gpu in machine.gpus],
        checks=checks,
        cells=cells,
        peers=peers,
    )
    page = to_markdown(outcome)
    print(page, end="")
    if not asked.dry:
        keep(
            asked.name or slug(f"gpu-{len(machine.gpus)}-{machine.gpus[0].name}"),
            page,
            to_json(outcome),
        )
    return 1 if outcome.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev gpu-check", description=__doc__)
    add = parser.add_argument
    add("--time", type=int, default=90, metavar="S", help="seconds for the matrix (default 90)")
    add("--name", metavar="NAME", help="of the files in bench/results/ (default: the GPU's)")
    add("--dry", action="store_true", help="print the page and write nothing")
    return parser


def _checks() -> list[Check]:
    lines, why = _run("bench.gpu.checks", CHECK_SECONDS)
    checks = [Check(**line) for line in lines]
    why = why or ("" if checks else "the driver showed no GPU the second time")
    gpu = checks[-1].gpu if checks else "gpu0"
    return [*checks, Check(gpu, "all checks", passed=False, said=why)] if why else checks


def _figures(module: str) -> list[Figure]:
    lines, why = _run(module, PEER_SECONDS)
    figures = [Figure(**line) for line in lines]
    return [*figures, Figure("", None, "", why)] if why else figures


def _cells(seconds: int) -> list[Measurement]:
    """Let numamicro measure as a user would, and read what it kept."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        options = ("--only", ",".join(PROBES), "--time", str(seconds), "-q", "-o", str(file))
        _, why = _run("numamicro", seconds + SLACK_SECONDS, "matrix", *options)
        if not file.exists():
            raise NumamicroError(f"numamicro matrix kept nothing: {why}")
        return list(read_matrix(file).measurements)


def _run(module: str, seconds: float, *arguments: str) -> tuple[list[dict[str, Any]], str]:
    """Give the lines of JSON that a module printed, and why it ended early; empty if it did not."""
    command = [sys.executable, "-P", "-m", module, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as late:
        said = late.stdout or b""
        text = said.decode() if isinstance(said, bytes) else said
        return _lines(text), f"did not end within {seconds:.0f} s"
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return _lines(done.stdout), f"ended with {done.returncode}: {last}" if done.returncode else ""


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if re.fullmatch(r"\{.*\}", line)]


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NumamicroError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        sys.exit(2)
