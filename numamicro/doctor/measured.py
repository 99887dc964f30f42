"""Rules on cells: what a run saw that neither the setting nor the machine could have told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from numamicro.case import gpus_of
from numamicro.finding import Finding, Severity
from numamicro.matrix import CostMatrix, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numamicro.matrix import Measurement

MeasuredRule: TypeAlias = Callable[[CostMatrix], Iterable[Finding]]

# How data between GPUs show that they did not arrive.
_LOST = ("data", "sum", "chase")


def slow_links(matrix: CostMatrix) -> Iterator[Finding]:
    """A link stayed below what it can do while data went over it."""
    cells: dict[str, list[Measurement]] = defaultdict(list)
    for cell in matrix.measurements:
        for text in {warning.text for warning in cell.warnings if warning.code == "slow-link"}:
            cells[text].append(cell)
    for text, slow in cells.items():
        what, _, where = text.partition(", ")
        yield Finding(
            "link-downtrained",
            Severity.SPOILS,
            what,
            f"{slow[0].case.key}: {where}",
            f"{len(slow)} cells are as slow as that link",
            "look at slot, riser and BIOS (PCIe speed of the slot; ASPM off)",
        )


def false_peers(matrix: CostMatrix) -> Iterator[Finding]:
    """Peer access is claimed, and the data do not arrive."""
    for pair, cells in _between_gpus(matrix).items():
        wrong = [cell for cell in cells if cell.state is State.WRONG and _is_lost(cell)]
        if wrong:
            one, other = pair
            yield Finding(
                "peer-access-false",
                Severity.SPOILS,
                f"the driver claims peer access between {one} and {other}, and data are lost there",
                f"{wrong[0].case.key}: {wrong[0].reason.text if wrong[0].reason else 'wrong'}",
                "programs that trust the claim (NCCL, vLLM, llama.cpp) compute nonsense or hang",
                "NCCL_P2P_DISABLE=1 for them; then iommu=pt, and ACS off on the switches between",
            )


def _between_gpus(matrix: CostMatrix) -> dict[tuple[str, str], list[Measurement]]:
    """Give the cells between each two GPUs that go directly."""
    found: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for cell in matrix.measurements:
        route = cell.case.route
        ends = gpus_of(route.source, route.target)
        if len(ends) == 2 and route.via is None and cell.case.get("path", "direct") == "direct":
            found[str(ends[0]), str(ends[1])].append(cell)
    return found


def _is_lost(cell: Measurement) -> bool:
    return cell.reason is not None and cell.reason.code in _LOST


MEASURED_RULES: tuple[MeasuredRule, ...] = (slow_links, false_peers)
