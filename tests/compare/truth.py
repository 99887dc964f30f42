"""Result files whose truth is known: figures with noise of boots and processes, and planted changes."""

from __future__ import annotations

from dataclasses import replace
from math import exp
from random import Random
from typing import TYPE_CHECKING

from numamicro.file import write_matrix
from numamicro.matrix import CostMatrix, Measurement
from numamicro.units import is_rate
from tests.examples import a_run, header, load_case, read_case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numamicro.case import Case
    from numamicro.matrix import Header

LOCAL, REMOTE = 40e9, 20e9
NEAR, FAR = 100e-9, 200e-9


def figures(nodes: Sequence[int] = (0, 1)) -> dict[Case, float]:
    """Give true figures of read bandwidth and latency for every pair of nodes."""
    found: dict[Case, float] = {}
    for source in nodes:
        for target in nodes:
            near = source == target
            found[read_case(source, target, 2, variant="4-stream")] = LOCAL if near else REMOTE
            found[load_case(source, target)] = NEAR if near else FAR
    return found


def unit_of(case: Case) -> str:
    return "s" if case.probe in ("latency", "core-to-core") else "B/s"


def boot(
    truth: Mapping[Case, float],
    draw: Random,
    *,
    noise: float = 0.01,
    own_noise: float = 0.0,
    process_noise: float = 0.01,
    processes: int = 3,
    samples: int = 5,
    head: Header | None = None,
) -> CostMatrix:
    """Give what one boot measures.

    Parameters
    ----------
    noise, own_noise : float
        Of a boot as a whole, and of each cell in it: standard deviations of the logarithm.
    process_noise : float
        Of each process; samples scatter by a tenth of it.
    """
    shared = draw.gauss(0, noise)
    cells = []
    for case, value in truth.items():
        unit = unit_of(case)
        # A boot that is slow as a whole has lower rates and longer times.
        sign = 1 if is_rate(unit) else -1
        center = value * exp(sign * shared + draw.gauss(0, own_noise))
        runs = []
        for process in range(processes):
            here = center * exp(draw.gauss(0, process_noise))
            spread = [here * exp(draw.gauss(0, process_noise / 10)) for _ in range(samples)]
            runs.append(a_run(*spread, unit=unit, process=process))
        cells.append(Measurement.of_runs(case, unit, tuple(runs)))
    head = head or header()
    return CostMatrix(replace(head, boot_id=f"{draw.getrandbits(48):012x}"), tuple(cells))


def side(
    folder: Path,
    count: int,
    truth: Mapping[Case, float],
    seed: int,
    *,
    head: Header | None = None,
    start: int = 0,
    step: int = 1,
    **noise: float,
) -> list[Path]:
    """Write the files of some boots, an hour apart from `start` on, every `step` hours."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = Random(seed)
    paths = []
    for index in range(count):
        hour = start + step * index
        created = f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:00:00+00:00"
        matrix = boot(truth, draw, head=replace(head or header(), created=created), **noise)  # type: ignore[arg-type]
        path = folder / f"boot{index:02}.json"
        write_matrix(matrix, path)
        paths.append(path)
    return paths


def scaled(
    truth: Mapping[Case, float], factor: float, which: Callable[[Case], bool] = lambda _: True
) -> dict[Case, float]:
    """Give figures of which some are better by a factor: higher rates, shorter times."""
    return {
        case: (value * factor if is_rate(unit_of(case)) else value / factor)
        if which(case)
        else value
        for case, value in truth.items()
    }
