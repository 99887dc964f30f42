"""Runs a command on a simulated machine.

    python -m tests.standin.play MACHINE [--fault "NAME [gpuA [gpuB]]"]... [--no-stage] -- COMMAND...

The command finds the stand-in where it would find a driver, and sees the machine's /sys and nodes;
with ``--no-stage`` it sees those of the machine it runs on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.standin.build import build
from tests.standin.machines import MACHINES, Machine
from tests.topology import trees

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def staged(machine: Machine, *, stage: bool = True) -> Iterator[dict[str, str]]:
    """Give the environment in which a process runs on a simulated machine."""
    libraries = build()
    with tempfile.TemporaryDirectory(prefix="numamicro-play-") as name:
        folder = Path(name)
        for library in ("libcuda.so.1", "libnvidia-ml.so.1"):
            if not (library == "libnvidia-ml.so.1" and "nvml_absent" in machine.faults):
                (folder / library).symlink_to(libraries / library)
        file = folder / "machine"
        file.write_text("\n".join(machine.lines()) + "\n")
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(folder),
            "NUMAMICRO_STANDIN": str(file),
        }
        if stage:
            tree = trees.plant(folder / "root", machine.files())
            _link_groups(tree, machine)
            environment |= {
                "LD_PRELOAD": str(libraries / "libstage.so"),
                "NUMAMICRO_STAGE": str(tree),
            }
        yield environment


def _link_groups(tree: Path, machine: Machine) -> None:
    for index, gpu in enumerate(machine.gpus):
        link = tree / f"sys/bus/pci/devices/{gpu.pci}/iommu_group"
        link.symlink_to(f"../../../../kernel/iommu_groups/{index}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--no-stage", action="store_true")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    machine = MACHINES[arguments.machine].having(*arguments.fault)
    with staged(machine, stage=not arguments.no_stage) as environment:
        return subprocess.run(arguments.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
