"""NVIDIA's own libraries, through CuPy: NCCL's all-reduce beside ours, and products by cuBLAS.

CuPy is an extra that nothing else needs. Its probes have a worker of their own for each case: NCCL
leaves peer access open behind it, and cuBLAS keeps its memory.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

from numamicro.case import Case, PlaceSet, Route, gpus_of
from numamicro.matrix import MATRIX_MESSAGES, Sample, State
from numamicro.probes.gpu import CONTEXT_SECONDS, LINK_RATE, GpuProbe, gpu
from numamicro.probes.probe import CaseFailed, Cost, windowed
from numamicro.topology import Note
from numamicro.wishes import QUICK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numamicro.probes.probe import TakeSample
    from numamicro.topology import GpuDriver, Machine
    from numamicro.wishes import Wishes
    from numamicro.worker.lab import Lab

LOAD_SECONDS = 4.0
"""For estimates: what CuPy and a library of NVIDIA take to load and to set up."""
WINDOW_SECONDS = 0.002

NUMBER, NUMBER_BYTES = "f16", 2
STEPS = 97
"""Values that a vector repeats: small whole numbers, whose sums over 16 ranks half precision holds."""

EDGE = 8192
"""Rows and columns of each matrix: large enough to fill any GPU."""
PROBED = 16
"""Rows and columns whose crossings are worked out again on the host."""
RELATIVE, ABSOLUTE = 0.01, 0.05
"""How far a product may lie from that: it is rounded to half precision, and adds in single."""


class CupyProbe(GpuProbe):
    """A cost that a library of NVIDIA has, where CuPy is installed."""

    alone: ClassVar[bool] = True
    late: ClassVar[bool] = True

    def is_wanted(self, operation: str, wishes: Wishes) -> bool:
        """Tell whether to plan it: who has no CuPy, and did not ask, need not read of it."""
        asked = wishes.wants(self.name, operation)
        return asked and bool(wishes.only or (wishes.level is not QUICK and has_cupy()))

    def waived(self, case: Case, machine: Machine) -> Note | None:
        """Say when CuPy is not installed, or would meet a stand-in driver."""
        driver = machine.gpu_driver
        if driver and driver.simulation:
            return Note("no-cupy", "CuPy can do nothing with a simulated GPU")
        if has_cupy():
            return None
        text = f"CuPy is not installed: pip install 'numamicro[{extra_for(driver)}]'"
        return Note("no-cupy", text)


class Nccl(CupyProbe):
    """Seconds for an all-reduce by NCCL, by the slowest rank, launched one after the other."""

    name: ClassVar[str] = "nccl"
    unit: ClassVar[str] = "s"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every pair a short and a long message, and all GPUs together the same."""
        if not self.is_wanted("all-reduce", wishes):
            return
        everyone = tuple(gpu(each.id) for each in machine.gpus)
        routes = [Route(*pair, mover="sm") for pair in combinations(everyone, 2)]
        if len(everyone) > 2:
            routes.append(Route(PlaceSet(everyone), PlaceSet(everyone), mover="sm"))
        for route in routes:
            for message in MATRIX_MESSAGES:
                yield Case.of(
                    self.name,
                    "all-reduce",
                    route,
                    message=message,
                    timing="launch",
                    number=NUMBER,
                )

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate: loading is most of it."""
        message = case.number("message")
        ranks = len(gpus_of(case.route.source, case.route.target))
        set_up = LOAD_SECONDS + CONTEXT_SECONDS * ranks + message * ranks / 0.5e9
        return Cost(set_up, WINDOW_SECONDS + message * ranks / LINK_RATE)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Let the ranks meet and check their sums, then time them, then check the sums again."""
        from cupy.cuda import nccl

        if not getattr(nccl, "available", False):
            text = "CuPy finds no NCCL: pip install nvidia-nccl-cu12, or -cu13 as CuPy is"
            raise CaseFailed(State.WAIVED, "no-nccl", text)
        lab.note(clock="cudaEventElapsedTime", nccl=int(nccl.get_version()))
        ranks = _Ranks(case, nccl)
        ranks.seconds(1)
        ranks.check()
        yield windowed(lambda count: Sample(ranks.seconds(count), count, count), WINDOW_SECONDS)
        ranks.check()
        ranks.close()


class _Ranks:
    """The GPUs of one all-reduce by NCCL, each with its stream and its vectors."""

    def __init__(self, case: Case, nccl: Any) -> None:
        import numpy

        self._nccl = nccl
        ids = [each.id for each in gpus_of(case.route.source, case.route.target)]
        count = case.number("message") // NUMBER_BYTES
        steps = numpy.arange(STEPS)
        self._due = numpy.resize((steps * len(ids) + sum(range(len(ids)))).astype("f2"), count)
        self._ranks = [
            _Rank(index, numpy.resize((steps + rank).astype("f2"), count))
            for rank, index in enumerate(ids)
        ]
        self._links = nccl.NcclCommunicator.initAll(ids)

    def seconds(self, count: int) -> float:
        """Give what the slowest rank took for so many."""
        for rank in self._ranks:
            rank.begin()
        for _ in range(count):
            self._all_reduce()
        for rank in self._ranks:
            rank.end()
        return max(rank.seconds() for rank in self._ranks)

    def _all_reduce(self) -> None:
        nccl = self._nccl
        nccl.groupStart()
        for rank, link in zip(self._ranks, self._links, strict=True):
            with rank.device:
                link.allReduce(
                    rank.source.data.ptr,
                    rank.target.data.ptr,
                    rank.source.size,
                    nccl.NCCL_FLOAT16,
                    nccl.NCCL_SUM,
                    rank.stream.ptr,
                )
        nccl.groupEnd()

    def check(self) -> None:
        """Look at the sums of every rank, then make its memory hold none of them."""
        for index, rank in enumerate(self._ranks):
            wrong = int((rank.taken() != self._due).sum())
            if wrong:
                text = f"{wrong} of {self._due.size} numbers of rank {index} are not the sum"
                raise CaseFailed(State.WRONG, "sum", text)

    def close(self) -> None:
        """Give the communicators back."""
        for link in self._links:
            link.destroy()


class _Rank:
    """One GPU: its stream, its vector, where the sum goes, and what it took."""

    def __init__(self, index: int | str, values: Any) -> None:
        import cupy

        self.device = cupy.cuda.Device(index)
        with self.device:
            self.stream = cupy.cuda.Stream(non_blocking=True)
            self.source = cupy.asarray(values)
            self.target = cupy.empty_like(self.source)
            self._events = cupy.cuda.Event(), cupy.cuda.Event()
            self._clear()

    def begin(self) -> None:
        with self.device:
            self._events[0].record(self.stream)

    def end(self) -> None:
        with self.device:
            self._events[1].record(self.stream)

    def seconds(self) -> float:
        """Wait for the end and give what lay between it and the beginning."""
        import cupy

        self._events[1].synchronize()
        return float(cupy.cuda.get_elapsed_time(*self._events)) / 1e3

    def taken(self) -> Any:
        """Give the sum as the host sees it, and clear it."""
        with self.device:
            self.stream.synchronize()
            sums = self.target.get()
            self._clear()
        return sums

    def _clear(self) -> None:
        self.target.data.memset(0, self.target.nbytes)
        self.device.synchronize()


class GpuGemm(CupyProbe):
    """Operations a second of cuBLAS's product of square matrices in half precision."""

    name: ClassVar[str] = "gpu-gemm"
    unit: ClassVar[str] = "op/s"

    def cases(self, machine: Machine, wishes: Wishes) -> Iterable[Case]:
        """Give every GPU."""
        if self.is_wanted("matrix", wishes):
            for each in machine.gpus:
                route = Route(gpu(each.id), gpu(each.id), mover="sm-load")
                yield Case.of(self.name, "matrix", route, edge=EDGE, number=NUMBER)

    def cost(self, case: Case, machine: Machine) -> Cost:
        """Estimate: drawing the matrix and loading is most of it."""
        return Cost(2 * LOAD_SECONDS, 0.05)

    @contextmanager
    def ready(self, case: Case, lab: Lab) -> Iterator[TakeSample]:
        """Multiply once and check crossings on the host, then for the clock, then check again."""
        import cupy

        (place,) = gpus_of(case.route.source)
        edge = case.number("edge")
        lab.note(clock="cudaEventElapsedTime")
        with cupy.cuda.Device(place.id), cupy.cuda.Stream(non_blocking=True):
            product = _Product(edge, lab.seed)
            product.seconds(1)
            product.check()
            yield windowed(lambda count: Sample(product.seconds(count), 2 * edge**3 * count, count))
            product.check()


class _Product:
    """A matrix of random numbers by itself, on the current device and stream."""

    def __init__(self, edge: int, seed: int) -> None:
        import cupy
        import numpy

        chance = numpy.random.default_rng(seed)
        self._host = (chance.random((edge, edge), dtype="f4") - 0.5).astype("f2")
        self._where = chance.integers(0, edge, PROBED)
        self._left, self._right = cupy.asarray(self._host), cupy.asarray(self._host)
        self._product = cupy.empty_like(self._left)

    def seconds(self, count: int) -> float:
        """Give what so many products took."""
        import cupy

        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(count):
            cupy.matmul(self._left, self._right, out=self._product)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3

    def check(self) -> None:
        """Work some of it out on the host, in double precision; then make it hold none of it."""
        rows, columns = self._host[self._where], self._host[:, self._where]
        due = rows.astype("f8") @ columns.astype("f8")
        got = self._product.get()[self._where][:, self._where].astype("f8")
        wrong = int((abs(got - due) > RELATIVE * abs(due) + ABSOLUTE).sum())
        if wrong:
            text = f"{wrong} of {due.size} numbers of cuBLAS's product are not what the host has"
            raise CaseFailed(State.WRONG, "products", text)
        self._product.data.memset(0, self._product.nbytes)


def has_cupy() -> bool:
    """Tell whether CuPy can be loaded, without loading it."""
    return find_spec("cupy") is not None


def extra_for(driver: GpuDriver | None) -> str:
    """Name the extra that goes with a driver: it runs what is as old as itself, or older."""
    major = driver.cuda.partition(".")[0] if driver else ""
    return "cuda13" if major.isdecimal() and int(major) >= 13 else "cuda12"
