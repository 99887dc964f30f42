"""The cost model against published figures: ``python -m bench.published FOLDER``.

Each row of a table becomes a matrix of imported cells, a model and a placement, by rules over its
words and numbers; nothing is known of single rows. What a table does not tell is assumed, with the
defaults of :mod:`numamicro.cost.assume`.

FOLDER holds ``tp_decode_kernel_sum.csv`` with ``allreduce_small.csv`` (another model's kernel sums:
agreement with that model, not with a measurement) and ``numa_tokens.csv`` (tokens/s that people
published with their placements).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.imported import error
from bench.kernel_sums import score_tp
from bench.placed_tokens import in_order, score_tokens
from numamicro.errors import NumamicroError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.imported import Score


def lines(folder: Path) -> Iterator[str]:
    """Give what is printed."""
    plain, by_type = score_tp(folder)
    yield "Sums of kernels: agreement with aiconfigurator's model, not with a measurement"
    for system, (how, scores) in by_type.items():
        for score in scores:
            yield _row(score)
        yield (
            f"  {system}: mean {error(scores):.1%}, with two fitted constants: efficiency "
            f"{how.gpu_efficiency:.3f}, {how.gpu_layer_seconds * 1e6:.0f} us a layer"
        )
    every = [score for _, scores in by_type.values() for score in scores]
    yield f"  all: mean {error(every):.1%}; with the product's one pair for every GPU {error(plain):.1%}"
    values, groups = score_tokens(folder)
    yield "Published tokens: predicted over measured, wanted within 0.7 and 1.4"
    for score in values:
        yield _row(score)
    for name, scores in groups.items():
        yield f"  order of {name}: {'kept' if in_order(scores) else 'BROKEN'}"
        for score in scores:
            yield _row(score)


def _row(score: Score) -> str:
    published, predicted = score.published * 1e3, score.predicted * 1e3
    return f"  {score.name:46} {published:9.3f} ms {predicted:9.3f} ms  {score.ratio:.2f}"


def main(arguments: Sequence[str]) -> int:
    """Print the scores of the tables in a folder."""
    parser = argparse.ArgumentParser(prog="python -m bench.published", description=__doc__)
    parser.add_argument("folder", type=Path)
    for line in lines(parser.parse_args(arguments).folder):
        print(line)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except NumamicroError as refusal:
        print(f"bench: {refusal}", file=sys.stderr)
        sys.exit(2)
