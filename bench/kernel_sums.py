"""The cost model against sums of kernels over tensor-parallel groups, from another model's tables."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import TYPE_CHECKING

from bench.imported import GB, SHEETS, Score, error, gpu, imported, machine, matrix, read_table
from numamicro.case import PlaceSet, Route
from numamicro.cost.placement import Load, Placement, engine
from numamicro.cost.predict import Predictor
from numamicro.cost.presets import preset
from numamicro.cost.rates import Rates
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.imported import Row
    from numamicro.cost.placement import Engine
    from numamicro.matrix import Measurement

TP_COLUMNS = ("system", "backend", "model", "tp", "ms")
KERNELS = {"vllm": "vLLM_custom_graph", "sglang": "vLLM_custom_graph", "trtllm": "TRTLLM"}
DECODED_AT = 512 + 128 // 2  # prompt, and half of what is generated
LARGE = 2**28


def tp_rows(folder: Path) -> list[Row]:
    """Read the sums, which have no line of headings."""
    path = folder / "tp_decode_kernel_sum.csv"
    lines = [line for line in _text(path).splitlines() if line[:1] != "#"]
    return [dict(zip(TP_COLUMNS, row, strict=False)) for row in csv.reader(lines) if row]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error


def reduces(table: Sequence[Row], system: str, backend: str, count: int) -> Iterator[Measurement]:
    """Give the all-reduces of a group: at the sizes of a table's small messages, and a large one."""
    wanted = (KERNELS.get(backend, "NCCL"), "NCCL")
    rows = [r for r in table if r["system"] == system and int(r["n"]) == count]
    row = next((r for kernel in wanted for r in rows if r["kernel"] == kernel), None)
    if row is None:
        return
    group = PlaceSet(tuple(gpu(index) for index in range(count)))
    small = float(row["t_8-32KiB_us"]) * 1e-6
    large = LARGE * 2 * (count - 1) / count / (float(row["busbw_GBs"]) * GB)
    for size, seconds in ((8192, small), (32768, small), (LARGE, max(large, small))):
        route = Route(group, group, mover="sm-load")
        yield imported("all-reduce", "peer", route, seconds, message=size, variant=row["kernel"])


def tp_score(row: Row, table: Sequence[Row], how: Engine) -> Score:
    """Predict one sum."""
    system, count = row["system"], int(row["tp"])
    cells = [
        imported(
            "gpu-memory", "read", Route(gpu(index), gpu(index), mover="sm-load"), SHEETS[system]
        )
        for index in range(count)
    ]
    cells += reduces(table, system, row["backend"], count)
    rates = Rates(matrix(machine(1, 1), cells), assume=count > 1 and len(cells) == count)
    model = preset(f"llama-3.1-{row['model'].lower()}", "BF16")
    predictor = Predictor(model, Load(context=DECODED_AT), how, rates)
    term = predictor.decode(Placement(stages=(tuple(range(count)),)))
    return Score(f"{system} {row['model']} TP{count}", float(row["ms"]) / 1e3, term.seconds)


def fitted(rows: Sequence[Row], table: Sequence[Row], how: Engine) -> Engine:
    """Fit the two constants of one GPU type: its efficiency, and the time of a layer.

    A pattern search over both; the error is piecewise smooth and has one valley.
    """
    best = how
    efficiency_step, layer_step = 0.08, 16e-6
    while efficiency_step > 0.002:
        around = [
            replace(
                best,
                gpu_efficiency=best.gpu_efficiency + a * efficiency_step,
                gpu_layer_seconds=max(best.gpu_layer_seconds + b * layer_step, 0.0),
            )
            for a in (-1, 0, 1)
            for b in (-1, 0, 1)
        ]
        found = min(around, key=lambda e: error([tp_score(row, table, e) for row in rows]))
        if found == best:
            efficiency_step, layer_step = efficiency_step / 2, layer_step / 2
        best = found
    return best


def score_tp(folder: Path) -> tuple[list[Score], dict[str, tuple[Engine, list[Score]]]]:
    """Score the sums with the product's one pair of constants, and with a pair fitted a GPU type."""
    table = read_table(folder / "allreduce_small.csv")
    rows = tp_rows(folder)
    plain = [tp_score(row, table, engine(_engine_of(row["backend"]))) for row in rows]
    by_type = {}
    for system in dict.fromkeys(row["system"] for row in rows):
        own = [row for row in rows if row["system"] == system]
        how = fitted(own, table, engine(_engine_of(own[0]["backend"])))
        by_type[system] = (how, [tp_score(row, table, how) for row in own])
    return plain, by_type


def _engine_of(backend: str) -> str:
    return backend if backend in ("vllm", "sglang") else "vllm"
