"""NCCL and cuBLAS through CuPy, on a CuPy that is made of numpy: what is timed, and what is checked."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from numamicro.case import node
from numamicro.journal import Journal
from numamicro.matrix import MATRIX_MESSAGES, Run, Sample, State
from numamicro.plan import make_plan
from numamicro.probes import PROBES
from numamicro.probes import cupy as probes
from numamicro.runner import Runner
from numamicro.topology import GpuDriver
from numamicro.units import KIB
from numamicro.wishes import DEFAULT, QUICK, Wishes
from numamicro.worker import __main__ as worker
from numamicro.worker.lab import Lab
from tests.examples import machine as example_machine
from tests.examples import with_gpus

if TYPE_CHECKING:
    from numamicro.case import Case

MACHINE = with_gpus(example_machine((0, 1)), 3)
SECONDS = 1e-3
"""What the CuPy below takes for everything that it does."""


class Array:
    """Memory of a GPU, in fact numpy's."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.size, self.nbytes = values.size, values.nbytes
        self.data = SimpleNamespace(ptr=id(self), memset=self._fill)
        Made.arrays[id(self)] = self

    def get(self) -> Any:
        return self.values.copy()

    def _fill(self, byte: int, size: int) -> None:
        assert size == self.nbytes
        self.values.view("u1")[...] = byte


class Stream:
    """Counts what it was given to do."""

    now: Any = None

    def __init__(self, *, non_blocking: bool) -> None:
        assert non_blocking
        self.ptr, self.done = id(self), 0
        Made.streams[self.ptr] = self

    def __enter__(self) -> None:
        Stream.now = self

    def __exit__(self, *_: object) -> None:
        Stream.now = None

    def synchronize(self) -> None: ...


class Event:
    """Remembers how much its stream had done."""

    def record(self, stream: Stream | None = None) -> None:
        self.at = (stream or Stream.now).done

    def synchronize(self) -> None:
        assert self.at >= 0


class Device:
    """A GPU that can be made the current one."""

    def __init__(self, index: int) -> None:
        assert index in range(len(MACHINE.gpus))

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def synchronize(self) -> None: ...


class Made:
    """What was made, by its address; and what the next result is spoilt by."""

    arrays: dict[int, Array]
    streams: dict[int, Stream]
    calls: list[tuple[int, int, int]]
    spoil: float


class Communicator:
    """One rank of an all-reduce, which takes place when the group of calls ends."""

    def allReduce(self, *arguments: int) -> None:
        source, target, count, number, operation, stream = arguments
        assert (number, operation) == (6, 0)
        assert Made.arrays[source].size == count
        Made.calls.append((source, target, stream))

    def destroy(self) -> None: ...


def end_group() -> None:
    total = sum(Made.arrays[source].values.astype("f8") for source, _, _ in Made.calls)
    for _, target, stream in Made.calls:
        Made.arrays[target].values[...] = total + Made.spoil
        Made.streams[stream].done += 1
    Made.calls.clear()


def multiply(left: Array, right: Array, out: Array) -> None:
    product = left.values.astype("f4") @ right.values.astype("f4")
    out.values[...] = (product + Made.spoil).astype("f2")
    Stream.now.done += 1


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a CuPy in place that has what the probes use."""
    Made.arrays, Made.streams, Made.calls, Made.spoil = {}, {}, [], 0.0
    nccl: Any = ModuleType("cupy.cuda.nccl")
    nccl.available, nccl.NCCL_FLOAT16, nccl.NCCL_SUM = True, 6, 0
    nccl.get_version = lambda: 22703
    nccl.groupStart, nccl.groupEnd = Made.calls.clear, end_group
    nccl.NcclCommunicator = SimpleNamespace(initAll=lambda ids: [Communicator() for _ in ids])
    cuda: Any = ModuleType("cupy.cuda")
    cuda.nccl, cuda.Device, cuda.Stream, cuda.Event = nccl, Device, Stream, Event
    cuda.get_elapsed_time = lambda begin, end: (end.at - begin.at) * SECONDS * 1e3
    top: Any = ModuleType("cupy")
    top.cuda, top.matmul = cuda, multiply
    top.asarray = lambda values: Array(values.copy())
    top.empty_like = lambda other: Array(np.full_like(other.values, 7))
    for name, module in (("cupy", top), ("cupy.cuda", cuda), ("cupy.cuda.nccl", nccl)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(probes, "has_cupy", lambda: True)
    monkeypatch.setattr(probes, "EDGE", 96)
    monkeypatch.setattr("numamicro.probes.probe.WARM_UP_SECONDS", 0.0)
    return top


def cases(name: str, level: Any = DEFAULT) -> list[Case]:
    probe = next(probe for probe in PROBES if probe.name == name)
    return [*probe.cases(MACHINE, Wishes(level=level))]


def measured(case: Case) -> Run:
    probe = next(probe for probe in PROBES if probe.name == case.probe)
    with Lab(node(0), MACHINE, seed=1) as lab:
        (run,) = worker.measure(probe, case, lab, 0, (2, 2)).values()
    return run


def seconds(sample: Sample) -> float:
    return sample.seconds / sample.repetitions


@pytest.mark.usefixtures("cupy")
def test_every_pair_and_all_together_reduce_and_one_takes_what_it_takes() -> None:
    found = cases("nccl")
    routes = {f"{case.route.source}>{case.route.target}" for case in found}
    assert routes == {"gpu0>gpu1", "gpu0>gpu2", "gpu1>gpu2", "gpu0+gpu1+gpu2>gpu0+gpu1+gpu2"}
    assert {case.number("message") for case in found} == {*MATRIX_MESSAGES}
    for case in found:
        run = measured(case.having(message=64 * KIB))
        assert run.state is State.OK, run.reason
        assert run.outcome["nccl"] == 22703
        for sample in run.samples:
            assert seconds(sample) == pytest.approx(SECONDS)
            assert sample.value("s") == pytest.approx(SECONDS)


@pytest.mark.usefixtures("cupy")
def test_a_product_has_two_operations_for_each_of_its_terms() -> None:
    (first, *_), count = cases("gpu-gemm"), len(cases("gpu-gemm"))
    assert count == len(MACHINE.gpus)
    run = measured(first)
    assert run.state is State.OK, run.reason
    for sample in run.samples:
        assert sample.value("op/s") == pytest.approx(2 * 96**3 / SECONDS)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize(("name", "code"), [("nccl", "sum"), ("gpu-gemm", "products")])
def test_what_is_not_the_result_is_wrong(name: str, code: str) -> None:
    Made.spoil = 1.0
    run = measured(cases(name)[0])
    assert run.state is State.WRONG
    assert run.reason is not None
    assert run.reason.code == code
    assert run.samples == ()


def test_a_cupy_without_nccl_is_waived(cupy: Any) -> None:
    cupy.cuda.nccl.available = False
    run = measured(cases("nccl")[0])
    assert run.state is State.WAIVED
    assert run.reason is not None
    assert run.reason.code == "no-nccl"


@pytest.mark.usefixtures("cupy")
def test_a_quick_look_leaves_them_out() -> None:
    assert not cases("nccl", QUICK)
    assert not cases("gpu-gemm", QUICK)


def test_without_cupy_they_are_waived_where_they_are_asked_for_and_else_not_spoken_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "has_cupy", lambda: False)
    assert not cases("nccl")
    plan = make_plan(MACHINE, Wishes(only=("nccl", "gpu-gemm")), PROBES)
    assert plan.to_measure == ()
    journal = Journal()
    assert Runner(plan, MACHINE, journal).run()
    reasons = {cell.reason for cell in journal.fold()}
    (reason,) = reasons
    assert reason is not None
    assert reason.code == "no-cupy"
    assert "pip install 'numamicro[cuda13]'" in reason.text


@pytest.mark.parametrize(
    ("cuda", "extra"), [("12.8", "cuda12"), ("13.0", "cuda13"), ("14.1", "cuda13"), ("", "cuda12")]
)
def test_the_extra_follows_the_driver(cuda: str, extra: str) -> None:
    assert probes.extra_for(GpuDriver(None, cuda)) == extra


@pytest.mark.usefixtures("cupy")
def test_a_stand_in_driver_is_not_for_cupy() -> None:
    simulated = replace(MACHINE, gpu_driver=GpuDriver(None, "12.8", "one"))
    plan = make_plan(simulated, Wishes(only=("nccl",)), PROBES)
    assert {item.waived.code for item in plan.planned if item.waived} == {"no-cupy"}
    assert plan.to_measure == ()
