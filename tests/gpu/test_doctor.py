"""What doctor says of GPUs: every rule on what it goes by, and on none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from numamicro.case import Case, Place, Route
from numamicro.doctor import diagnose, diagnose_matrix
from numamicro.finding import Severity
from numamicro.matrix import Measurement, Run, State
from numamicro.topology import GpuDriver, Note, PcieLink
from numamicro.units import GIB, MIB
from tests import examples

PAIR = examples.with_gpus(examples.machine((0, 1)), 2)
RESTING = PcieLink(1, 16, 4, 16)


def altered(which: int = 0, **changes: Any) -> Any:
    """Give two GPUs on two nodes, one of them with something changed."""
    gpus = list(PAIR.gpus)
    gpus[which] = replace(gpus[which], **changes)
    return replace(PAIR, gpus=tuple(gpus))


@pytest.mark.parametrize(
    ("code", "machine", "says"),
    [
        ("simulated", replace(PAIR, gpu_driver=GpuDriver(None, "12.8", "one")), "simulated"),
        ("gpu-node-unknown", altered(host_node=None), "next to gpu0 is unknown"),
        ("mig", altered(1, mig=True), "gpu1 is cut"),
        ("compute-mode", altered(compute_mode="prohibited"), "gpu0 is in compute mode prohibited"),
        ("gpu-display", altered(1, display=True), "a screen hangs on gpu1"),
        ("gpu-display", altered(time_limit=True), "a screen hangs on gpu0"),
        ("small-bar", altered(bar1=256 * MIB), "gpu0 shows 256 MiB of its memory"),
        ("link-narrow", altered(link=PcieLink(4, 4, 4, 16)), "gpu0 has 4 lanes of 16"),
        (
            "no-peer-access",
            replace(PAIR, gpu_pairs=(replace(PAIR.gpu_pairs[0], claimed=False),)),
            "between gpu0 and gpu1",
        ),
    ],
)
def test_what_spoils_or_limits_is_found(code: str, machine: Any, says: str) -> None:
    (finding,) = diagnose({}, machine)
    assert finding.code == code
    assert says in finding.what
    for text in (finding.what, finding.evidence, finding.effect, finding.remedy):
        assert text
        assert "None" not in text


@pytest.mark.parametrize(
    "machine",
    [
        PAIR,
        examples.machine((0, 1)),
        altered(link=RESTING),  # a GPU at rest lowers its generation
        altered(bar1=PAIR.gpus[0].memory),
        altered(display=False),
        replace(altered(host_node=None), nodes=PAIR.nodes[:1]),  # there is only one
    ],
)
def test_what_does_not_is_not(machine: Any) -> None:
    assert diagnose({}, machine) == ()


def test_instances_are_not_told_twice() -> None:
    strangers = (replace(PAIR.gpu_pairs[0], claimed=False),)
    machine = replace(altered(mig=True), gpu_pairs=strangers)
    assert [each.code for each in diagnose({}, machine)] == ["mig"]


def test_translation_matters_more_between_gpus() -> None:
    setting = {"iommu.domains": "DMA-FQ"}
    (alone,) = diagnose(setting, examples.machine())
    (among,) = diagnose(setting, PAIR)
    assert (alone.severity, among.severity) == (Severity.REMARK, Severity.LIMITS)


def test_a_remedy_names_the_gpu_as_nvidia_smi_does() -> None:
    (finding,) = diagnose({}, altered(1, mig=True, index=0))
    assert "nvidia-smi -i 0" in finding.remedy


def peer_cell(state: State, code: str, **params: str) -> Measurement:
    case = Case.of(
        "peer-copy", "copy", Route(Place("gpu", 0), Place("gpu", 1), mover="copy-engine"), **params
    )
    run = Run(0, state=state, reason=Note(code, "3 of 8 words are not those that were sent"))
    return Measurement.of_runs(case, "B/s", (run,))


def judged(*cells: Measurement) -> list[str]:
    matrix = replace(examples.matrix(), measurements=cells)
    return [each.code for each in diagnose_matrix(matrix)]


def test_a_claim_is_false_where_data_are_lost_and_only_there() -> None:
    assert judged(peer_cell(State.WRONG, "data", path="direct")) == ["peer-access-false"]
    assert judged(peer_cell(State.WRONG, "data", path="detour")) == []
    assert judged(peer_cell(State.ERROR, "driver", path="direct")) == []


def test_a_slow_link_is_told_once_with_how_many_cells_it_costs() -> None:
    warning = Note("slow-link", "the PCIe link of gpu0 stays at 1 x8 under load, where 4 x16 is")
    cells = []
    for index in (0, 1):
        route = Route(Place("node", index), Place("gpu", 0), mover="copy-engine")
        run = replace(examples.a_run(1e9), warnings=(warning,))
        case = Case.of("host-copy", "h2d", route, bytes=GIB)
        cells.append(Measurement.of_runs(case, "B/s", (run, run)))
    matrix = replace(examples.matrix(), measurements=tuple(cells))
    (finding,) = diagnose_matrix(matrix)
    assert finding.code == "link-downtrained"
    assert finding.what == "the PCIe link of gpu0 stays at 1 x8 under load"
    assert finding.effect.startswith("2 cells")


@settings(max_examples=30)
@given(examples.matrices)
def test_any_file_can_be_judged(matrix: Any) -> None:
    header = matrix.header
    assert {*diagnose_matrix(matrix)} >= {*diagnose(header.setting, header.machine)}
