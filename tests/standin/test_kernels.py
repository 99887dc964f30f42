"""The kernels' own text on the host: right sums, no race, and plants that must be caught."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

from tests.standin.build import ENGINE, KERNELS, Program

if TYPE_CHECKING:
    from pathlib import Path

PARTS = (*ENGINE, "race")
TSAN = "-fsanitize=thread"
FAST_TO_COMPILE = "-O0"  # the sanitizer looks at every access all the same
RACE_FOUND = 66


@dataclass(frozen=True)
class Race:
    """Arguments of race.c."""

    variant: str = "pull"
    number: str = "f32"
    ranks: int = 2
    lanes: int = 1
    blocks: int = 2
    words: int = 16
    repetitions: int = 100
    launches: int = 2
    seed: int = 1

    def run(self, program: Path) -> subprocess.CompletedProcess[str]:
        """Run the program; 1 where a sum was wrong, RACE_FOUND where the sanitizer saw a race."""
        values = [str(value) for value in self.__dict__.values()]
        return subprocess.run(
            [program, *values],
            env={"TSAN_OPTIONS": f"halt_on_error=1 exitcode={RACE_FOUND}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


@pytest.fixture(scope="session")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return Program(tmp_path_factory.mktemp("race"), PARTS)


@pytest.fixture(scope="session")
def program(parts: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return parts.link(tmp_path_factory.mktemp("race") / "race")


@pytest.fixture(scope="session")
def watched_parts(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The same under the ThreadSanitizer."""
    folder = tmp_path_factory.mktemp("watched")
    hello = folder / "hello.c"
    hello.write_text("int main(void) { return 0; }\n")
    trial = subprocess.run(["cc", TSAN, hello, "-o", folder / "hello"], check=False)
    if trial.returncode or subprocess.run([folder / "hello"], check=False).returncode:
        pytest.skip("the compiler's thread sanitizer does not run here")
    return Program(folder, PARTS, TSAN, FAST_TO_COMPILE)


@pytest.fixture(scope="session")
def watched_program(watched_parts: Program, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return watched_parts.link(tmp_path_factory.mktemp("watched") / "race")


@pytest.mark.parametrize("number", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("variant", ["pull", "push", "staged"])
def test_ten_thousand_repetitions_are_right_on_both_ranks(
    program: Path, variant: str, number: str
) -> None:
    done = Race(variant, number, repetitions=5000, seed=7).run(program)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("ranks", [3, 8, 16])
@pytest.mark.parametrize("variant", ["pull", "push"])
def test_a_group_agrees(program: Path, variant: str, ranks: int) -> None:
    done = Race(variant, ranks=ranks, blocks=1, words=5).run(program)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("words", [1, 2, 7, 8, 9, 63])
def test_a_vector_need_not_fill_the_blocks(program: Path, words: int) -> None:
    done = Race(blocks=7, words=words, repetitions=20).run(program)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("variant", ["pull", "push"])
@pytest.mark.parametrize("ranks", [2, 3])
def test_no_race_is_found(watched_program: Path, variant: str, ranks: int) -> None:
    done = Race(variant, ranks=ranks, lanes=2).run(watched_program)
    assert done.returncode == 0, done.stderr


SEND = """\
        for (u32 i = begin + threadIdx.x; i < end; i += step) {
            const uint4 own = load16(input + i);
            ROLLED
            for (u32 s = 0; s < a->sends; ++s)
                store16((uint4 *)a->send[s] + slot + i, own);
        }
"""
MEET = """\
        if (meet(a, ranks, generation))
            return;
"""
PLANTS = {
    "the acquire is missing": ("LOAD_FLAG(acquire, flag)", "LOAD_FLAG(relaxed, flag)"),
    "the release is missing": ("STORE_FLAG(release, a->signal", "STORE_FLAG(relaxed, a->signal"),
    "no barrier before the release": ("    __syncthreads();\n", ""),
    "no barrier after the acquire": ("(u32)__syncthreads_or((int)failed)", "failed"),
    "one slot alone": ("(generation & 1)", "(generation & 0)"),
    "signal before the data": (SEND + MEET, MEET + SEND),
    "the generation is lost": ("        store4(kept, generation);", "        store4(kept, 0);"),
    "a wait too short": ("flag) - generation) < 0", "flag) - generation) < -1"),
}


# Of all kernels those that a plant is looked for in: the sanitizer makes the compiler slow.
FEW = """\
#include "allreduce.h"
KERNEL(allreduce_pair_f32, AllReduceArgs) { allreduce(&a, 2, F32); }
KERNEL(allreduce_group_f32, AllReduceArgs) { allreduce(&a, a.ranks, F32); }
"""


def planted(folder: Path, right: str, wrong: str) -> Path:
    """Give a copy of the kernels, the few that are needed, with one piece of text changed."""
    kernels = copytree(KERNELS, folder / "kernels")
    (kernels / "kernels.cu").write_text(FEW)
    text = (kernels / "allreduce.h").read_text()
    assert text.count(right) == 1
    (kernels / "allreduce.h").write_text(text.replace(right, wrong))
    return kernels


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_found(watched_parts: Program, tmp_path: Path, plant: str) -> None:
    program = watched_parts.link(tmp_path / "race", planted(tmp_path, *PLANTS[plant]))
    done = Race(lanes=2, repetitions=200).run(program)
    assert done.returncode in (1, RACE_FOUND), plant


def test_ranks_that_add_in_their_own_order_disagree(parts: Program, tmp_path: Path) -> None:
    """Of two ranks the order does not matter; of three it does."""
    kernels = planted(tmp_path, "a->rank == 0 ? input", "1 ? input")
    header = kernels / "allreduce.h"
    header.write_text(
        header.read_text().replace(
            "a->rank == r ? input : (const uint4 *)a->receive[r]",
            "(const uint4 *)a->receive[a->rank == r ? 0 : r]",
        )
    )
    assert Race(ranks=3).run(parts.link(tmp_path / "race", kernels)).returncode == 1
