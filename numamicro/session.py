"""One run from wishes to a matrix: what its header says, and how its cells are judged."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from numamicro import __version__
from numamicro.identity import boot_id, machine_id
from numamicro.journal import Journal
from numamicro.matrix import CostMatrix, Header
from numamicro.plan import make_plan
from numamicro.plausibility import judged
from numamicro.probes import all_probes
from numamicro.runner import Runner
from numamicro.setting import read_setting
from numamicro.topology import discover

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numamicro.plan import Plan
    from numamicro.setting.words import Value
    from numamicro.topology import Machine
    from numamicro.wishes import Wishes


def measured(wishes: Wishes, label: str | None = None) -> CostMatrix:
    """Measure this machine; nothing is written.

    Raises
    ------
    NumamicroError
        A wish cannot be met here.
    """
    machine = discover()
    plan = make_plan(machine, wishes.on(machine), all_probes())
    header = header_of(plan, machine, label)
    journal = Journal()
    Runner(plan, machine, journal).run()
    return matrix_of(header, plan, journal)


def header_of(
    plan: Plan, machine: Machine, label: str | None, attributes: Mapping[str, Value] | None = None
) -> Header:
    """Give the header of a run that begins now.

    Parameters
    ----------
    attributes : mapping, optional
        Of the firmware, from a file: they join what is read here of the setting.
    """
    wishes = plan.wishes
    return Header(
        tool=f"numamicro {__version__}",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        origin="simulated" if machine.gpu_driver and machine.gpu_driver.simulation else "measured",
        machine=machine,
        label=label,
        machine_id=machine_id(),
        boot_id=boot_id(),
        setting=read_setting() | dict(attributes or {}),
        plan={
            "level": wishes.level.name,
            "processes": wishes.level.processes,
            "samples": wishes.level.samples,
            "seed": wishes.seed,
            "only": list(wishes.only),
            "nodes": list(wishes.nodes),
            "threads": list(wishes.threads),
            "memory": wishes.memory,
        },
        budget=wishes.budget,
    )


def matrix_of(header: Header, plan: Plan, journal: Journal) -> CostMatrix:
    """Give what a journal holds in the order of the plan, each cell judged."""
    peak = header.setting.get("memory.peak")
    known = float(peak) if isinstance(peak, int) else None
    return CostMatrix(header, judged(plan.in_order(journal.fold()), header.machine, known))
