"""The cost model against llama.cpp on this machine: ``python -m bench.predict_llama``.

Models of random weights are decoded by llama.cpp; in turns with it, in an order that changes, the
cells are measured that the predictions need, each in numamicro's own worker. A round's ratio is that
of its own turns: measured over predicted seconds. Nothing is fitted: what stands between cells and seconds is counted in the
engine's graph or measured by a probe.

Needs `gguf` and `llama-cpp-python` (from its sdist, so that it is built for this CPU).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Any

from bench.keep import keep
from bench.random_gguf import Shape, write_model
from bench.state import Used, describe
from numamicro import __version__
from numamicro.case import Case, Place, Route, node
from numamicro.cost.gguf import read_gguf
from numamicro.cost.placement import Load, Placement, engine
from numamicro.cost.predict import Predictor
from numamicro.cost.rates import Rates
from numamicro.errors import NumamicroError
from numamicro.matrix import CostMatrix, Header, Measurement, Run, State
from numamicro.probes import PROBES
from numamicro.probes.attention import CACHED_BYTES as KEYS_AND_VALUES
from numamicro.probes.products import CACHED_BYTES
from numamicro.probes.step import VALUES
from numamicro.setting import read_setting
from numamicro.stats import median, median_interval
from numamicro.topology import discover
from numamicro.units import MIB
from numamicro.worker.handle import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numamicro.case import Param
    from numamicro.cost.model import ModelSpec
    from numamicro.cost.terms import Term
    from numamicro.topology import Machine

SHAPES: Mapping[str, Shape] = {
    "0.15B": Shape(1024, 12, 8, 2, 2816, 16384),
    "1.1B": Shape(2048, 22, 16, 4, 5632, 32000),
    "3B": Shape(3072, 26, 24, 8, 8192, 32000),
    "moe-0.9B": Shape(1024, 12, 8, 2, 768, 16384, experts=32, active=4),
}
FORMATS = ("F16", "Q8_0", "Q4_0", "Q4_K")
MOST_DEPTH = {"0.15B": 8192, "1.1B": 2048, "3B": 0, "moe-0.9B": 2048}
DEPTHS = (0, 2048, 8192)
TOKENS = 8
TURNS = 3
"""Of each, in a round."""
PROMPT = 128
BUFFER = 256 * MIB
SAMPLES = (5, 5)
DEADLINE = 120.0
_PROBES = {probe.name: probe for probe in PROBES}


@dataclass(frozen=True, slots=True)
class Loaded:
    """One model in one format at one depth."""

    shape: str
    kind: str
    depth: int


@dataclass(frozen=True, slots=True)
class Contest:
    """What it is asked: tokens or a prompt, with so many threads."""

    loaded: Loaded
    what: str
    threads: int

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return f"{self.loaded.shape} {self.loaded.kind} depth {self.loaded.depth} {self.threads}T"


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds of one round: of a token, or of a prompt.

    Parameters
    ----------
    terms : mapping of str to float
        What the prediction is made of, seconds by name.
    foreign : float
        Share of the CPUs' time that other programs used meanwhile, in the round.
    """

    measured: float
    predicted: float
    terms: Mapping[str, float]
    foreign: float


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of a contest."""

    contest: Contest
    turns: tuple[Turn, ...]

    @property
    def ratio(self) -> float:
        """Median of measured over predicted."""
        return exp(median([log(turn.measured / turn.predicted) for turn in self.turns]))

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its 95 % interval by order statistics; None below six rounds."""
        return median_interval([turn.measured / turn.predicted for turn in self.turns])


class Llama:
    """llama.cpp in a process of its own."""

    def __init__(self, model: Path, depth: int, state: Path) -> None:
        self.cpu = 0.0
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.llama_engine", str(model), str(depth), str(state)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer()

    def ask(self, contest: Contest) -> float:
        """Give the seconds of a token in the middle, or of a prompt."""
        count = TOKENS if contest.what == "decode" else PROMPT
        question = {"what": contest.what, "count": count, "threads": contest.threads}
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps(question) + "\n")
        self._child.stdin.flush()
        answer = self._answer()
        self.cpu = answer["cpu"]
        return median(answer["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            raise NumamicroError(
                "llama.cpp ended without an answer: is llama-cpp-python installed in this Python?"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End it."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()


def cases(contest: Contest) -> Iterator[Case]:
    """Give the cells that a prediction of the contest needs, those of the format alone."""
    home, threads, kind = Route(node(0), node(0)), contest.threads, contest.loaded.kind
    memory: dict[str, Param] = {"bytes": BUFFER, "pages": "auto", "threads": threads}
    cached: dict[str, Param] = {**memory, "bytes": CACHED_BYTES * threads}
    yield Case.of("bandwidth", "read", home, variant="4-stream", **memory)
    yield Case.of("dot-stream", "vector", home, format=kind, **memory | {"pages": engine_pages()})
    # Norms are in 32 bits, scores of the attention in 16: small, and not to be assumed.
    for name in sorted({kind, "F16"}):
        yield Case.of("dot", "vector", home, format=name, **cached)
        if contest.what == "prefill":
            yield Case.of("gemm", "matrix", home, format=name, **cached)
    if threads > 1:
        yield Case.of("barrier", "wait", home, team=threads)
    for step, values in VALUES.items():
        yield Case.of("step", "value", home, kind=step, values=values)
    if contest.loaded.depth:
        heads = SHAPES[contest.loaded.shape].kv_heads
        cache = memory | {"bytes": KEYS_AND_VALUES, "pages": engine_pages()}
        shape: dict[str, Param] = {"heads": heads, "positions": contest.loaded.depth}
        yield Case.of("attention", "decode", home, **cache, **shape)


def engine_pages() -> str:
    """Give the pages that an engine gets here, which asks for no huge ones."""
    return "auto" if read_setting()["thp.enabled"] == "always" else "small"


class Cells:
    """What a process of numamicro's own measures of some cells, turn after turn."""

    def __init__(self, wanted: Sequence[Case], machine: Machine, seed: int) -> None:
        self._wanted, self._machine = wanted, machine
        self._worker = Worker(Place("node", 0), machine, seed)
        self._runs: dict[Case, list[Run]] = {}

    def measure(self) -> None:
        """Measure every cell once more."""
        for case in self._wanted:
            probe = _PROBES[case.probe]
            for name, run in self._worker.measure(probe, case, 0, SAMPLES, DEADLINE).items():
                cell = case.having(value=name) if name else case
                if run.state is not State.OK:
                    raise NumamicroError(
                        f"{cell.key} is {run.state}: {run.reason and run.reason.text}"
                    )
                self._runs.setdefault(cell, []).append(run)

    def matrix(self) -> CostMatrix:
        """Give what was measured so far."""
        setting = read_setting()
        header = Header(
            f"numamicro {__version__}", _now(), "measured", self._machine, setting=setting
        )
        return CostMatrix(
            header,
            tuple(
                Measurement.of_runs(cell, _PROBES[cell.probe].unit, tuple(runs))
                for cell, runs in self._runs.items()
            ),
        )

    def close(self) -> None:
        """End the process."""
        self._worker.close()


def predicted(matrix: CostMatrix, model: ModelSpec, contest: Contest) -> Term:
    """Predict a token, or a prompt, from one round's cells."""
    depth = contest.loaded.depth
    load = Load(context=max(depth + TOKENS // 2, 1), prompt=PROMPT)
    rates = Rates(matrix, assume=not depth)  # without depth the attention is nothing
    predictor = Predictor(model, load, engine("llama.cpp"), rates, ignore_capacity=True)
    placement = Placement(threads=((0, contest.threads),), memory=(0,))
    if contest.what == "decode":
        return predictor.decode(placement)
    term = predictor.first_token(placement)
    if isinstance(term, str):
        raise NumamicroError(term)
    return term


def rounds(
    loaded: Loaded,
    contests: Sequence[Contest],
    model: Path,
    machine: Machine,
    count: int,
    rng: random.Random,
) -> list[Result]:
    """Take turns: the engine for each contest, and the cells for all of them.

    Both in new processes each round: how the pages of a process lie in the physical memory moves its
    rates by a tenth for as long as it lives, and would move all ratios with it. Both several times a
    round, for within seconds the machine's other guests move a deep token by a third.
    """
    spec = read_gguf(model)
    wanted = list(dict.fromkeys(case for contest in contests for case in cases(contest)))
    turns: dict[Contest, list[Turn]] = {contest: [] for contest in contests}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count):
            with closing(Llama(model, loaded.depth, Path(folder) / "state")) as llama:
                llama.ask(contests[0])  # the first turn wakes everything up
                before, loading = Used.now(), llama.cpu
                with closing(Cells(wanted, machine, rng.getrandbits(32))) as cells:
                    taken = _in_turns(llama, cells, contests, rng)
            # Ended, both count as our own, the engine with what it took to load before this began.
            foreign = Used.now().since(before, also=-loading)[0]
            matrix = cells.matrix()
            for contest, seconds in taken.items():
                term = predicted(matrix, spec, contest)
                terms = {part.name: part.seconds for part in _flat(term)}
                turns[contest].append(Turn(median(seconds), term.seconds, terms, foreign))
    return [Result(contest, tuple(turns[contest])) for contest in contests]


def _in_turns(
    llama: Llama, cells: Cells, contests: Sequence[Contest], rng: random.Random
) -> Mapping[Contest, list[float]]:
    """Give the engine's seconds of a round."""
    order: list[Contest | None] = [*contests, None]
    taken: dict[Contest, list[float]] = {contest: [] for contest in contests}
    for _ in range(TURNS):
        rng.shuffle(order)
        for turn in order:
            if turn:
                taken[turn].append(llama.ask(turn))
            else:
                cells.measure()
    return taken


def _flat(term: Term) -> Iterator[Term]:
    for part in term.parts:
        yield part
        if part.how == "sum":
            yield from _flat(part)


def models(asked: argparse.Namespace) -> list[Loaded]:
    """Give those that the options let through, the small ones first."""
    return [
        Loaded(shape, kind, depth)
        for shape in SHAPES
        for kind in FORMATS
        for depth in DEPTHS
        if shape in asked.shapes
        and kind in asked.formats
        and depth in asked.depths
        and depth <= MOST_DEPTH[shape]
        and (shape != "3B" or kind in ("Q8_0", "Q4_K"))
    ]


def contests(loaded: Loaded, asked: argparse.Namespace) -> list[Contest]:
    """Give what a model is asked; a prompt only where nothing stands before it."""
    return [
        Contest(loaded, what, threads)
        for what in asked.what
        for threads in asked.threads
        if what == "decode" or not loaded.depth
    ]


# ---- what is printed and kept --------------------------------------------------------------------


def row(result: Result) -> str:
    """Give one contest in a line."""
    measured = median([turn.measured for turn in result.turns])
    guess = median([turn.predicted for turn in result.turns])
    foreign = median([turn.foreign for turn in result.turns])
    low, high = result.interval or (float("nan"), float("nan"))
    return (
        f"{result.contest.what:7} {result.contest.name:30} {measured * 1e3:9.2f} ms {guess * 1e3:9.2f} ms  "
        f"{result.ratio:5.2f} [{low:.2f}, {high:.2f}]  others used {foreign:.0%}"
    )


def summary(results: Sequence[Result]) -> Iterator[str]:
    """Give the mean and the worst error of each kind."""
    for what, bound in (("decode", "10 %, none above 25 %"), ("prefill", "20 %")):
        errors = [abs(result.ratio - 1) for result in results if result.contest.what == what]
        if errors:
            yield (
                f"{what}: {len(errors)} cases, mean error {mean(errors):.1%}, worst "
                f"{max(errors):.1%} (wanted: mean {bound})"
            )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _keep(name: str, results: Sequence[Result], machine: Machine, lines: Sequence[str]) -> None:
    """Write every turn, and the page."""
    document = {
        "tool": f"numamicro {__version__}",
        "created": _now(),
        "machine": describe(machine),
        "shapes": {name: asdict(shape) for name, shape in SHAPES.items()},
        "results": [
            asdict(result.contest) | {"turns": [asdict(turn) for turn in result.turns]}
            for result in results
        ],
    }
    facts = ", ".join(f"{key} {value}" for key, value in describe(machine).items())
    page = [
        "# llama.cpp against its prediction",
        "",
        f"Machine: {facts}.",
        "",
        "```",
        *lines,
        "```",
    ]
    keep(name, "\n".join(page) + "\n", document)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.predict_llama", description=__doc__)
    add = parser.add_argument
    add("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    add("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    add("--depths", nargs="+", type=int, choices=DEPTHS, default=list(DEPTHS))
    add("--threads", nargs="+", type=int, choices=(1, 2), default=[1, 2])
    add("--what", nargs="+", choices=("decode", "prefill"), default=["decode", "prefill"])
    add("--rounds", type=int, default=6, metavar="N")
    add("--seed", type=int, default=1, metavar="N")
    add("--models", type=Path, metavar="FOLDER", help="where models are kept (default: made anew)")
    add("--terms", action="store_true", help="print the terms of each prediction too")
    add("--name", metavar="NAME", help="keep the result in bench/results/NAME.md and .json")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Hold the contests, print a line for each, and the errors."""
    asked = _parser().parse_args(arguments)
    machine, rng = discover(), random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as made:
        folder: Path = asked.models or Path(made)
        results: list[Result] = []
        for loaded in models(asked):
            model = folder / f"{loaded.shape}-{loaded.kind}.gguf"
            if not model.exists():
                write_model(model, SHAPES[loaded.shape], loaded.kind)
            taken = rounds(loaded, contests(loaded, asked), model, machine, asked.rounds, rng)
            results += taken
            for result in taken:
                print(row(result), flush=True)
                if asked.terms:
                    print(f"        {_terms(result)}", flush=True)
            if asked.name:  # after each model, for all of them take most of an hour
                _keep(asked.name, results, machine, [*map(row, results), *summary(results)])
    for line in summary(results):
        print(line)
    return 0


def _terms(result: Result) -> str:
    names = result.turns[0].terms
    middle = {name: median([turn.terms[name] for turn in result.turns]) for name in names}
    return ", ".join(f"{name} {seconds * 1e3:.2f}" for name, seconds in middle.items())


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NumamicroError as refusal:
        print(f"bench: {refusal}", file=sys.stderr)
        sys.exit(2)
