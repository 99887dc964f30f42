"""What NVRTC made of the kernels, without a GPU."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.standin.build import KERNELS
from tests.standin.conftest import compiler_module

if TYPE_CHECKING:
    from pathlib import Path

SUMS = tuple(
    f"allreduce_{kind}_{number}" for kind in ("pair", "group") for number in ("f32", "f16", "bf16")
)
ALL = {*SUMS, "copy", "read", "chase", "spin", "empty"}


@pytest.fixture(scope="module", params=["compute_70", "compute_90", "compute_120"])
def entries(request: pytest.FixtureRequest, compiler: Any) -> dict[str, str]:
    """The PTX of each kernel."""
    text = compiler.image(request.param).rstrip(b"\0").decode()
    return dict(re.findall(r"\.entry (\w+)\((.*?)\n}\n", text, re.DOTALL))


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


def test_every_kernel_is_there(entries: dict[str, str]) -> None:
    assert set(entries) == ALL


@pytest.mark.parametrize("name", SUMS)
def test_ranks_meet_by_one_release_and_one_acquire(entries: dict[str, str], name: str) -> None:
    body = entries[name]
    assert count(r"st\.release\.sys\.global\.u32", body) == 1
    assert count(r"ld\.acquire\.sys\.global\.u32", body) == 1
    # The block's barriers: one before the release, one that also spreads a failure.
    assert count(r"bar(rier)?(\.cta)?\.sync", body) >= 1
    assert count(r"\.red\.(or|popc)", body) == 1
    assert "%globaltimer" in body


@pytest.mark.parametrize("name", ["copy", "read", *SUMS])
def test_words_are_loaded_whole_and_several_at_once(entries: dict[str, str], name: str) -> None:
    """Four loads of 16 bytes in flight, before the first of them is stored."""
    order = "".join(re.findall(r"\t(ld|st)\.global\.v4", entries[name]))
    assert "ld" * 4 in order
    assert name == "read" or "st" * 4 in order


def test_nothing_comes_through_the_cache_that_no_acquire_empties(entries: dict[str, str]) -> None:
    assert not any(".nc" in body or "ld.global.ca" in body for body in entries.values())


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_120"])
def test_nothing_is_spilled(compiler: Any, architecture: str) -> None:
    image, log = compiler.image_and_log(architecture, "--ptxas-options=-v")
    assert image.startswith(b"\x7fELF")
    assert set(re.findall(r"(\d+) bytes spill", log)) == {"0"}
    # All blocks of an all-reduce must fit at once: 512 threads of each.
    assert max(map(int, re.findall(r"Used (\d+) registers", log))) <= 65536 // 512


def test_the_embedded_images_are_the_compiled_ones(tmp_path: Path) -> None:
    """The C array is the image, byte by byte, with its name and size."""
    images = {"sm_90": bytes(range(256)), "compute_70": b"text\0"}
    (tmp_path / "images.c").write_text(compiler_module().c_source(images))
    (tmp_path / "main.c").write_text(
        '#include "images.h"\n#include <stdio.h>\n'
        "int main(void) { for (int i = 0; i < gpu_image_count; i++) {\n"
        '  printf("%s ", gpu_images[i].arch);\n'
        "  for (size_t b = 0; b < gpu_images[i].size; b++)\n"
        '    printf("%02x", gpu_images[i].bytes[b]);\n'
        '  printf("\\n"); } }\n'
    )
    sources = [str(tmp_path / "images.c"), str(tmp_path / "main.c")]
    command = ["cc", f"-I{KERNELS.parent}", *sources, "-o", str(tmp_path / "main")]
    subprocess.run(command, check=True)
    said = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    assert dict(line.split() for line in said.splitlines()) == {
        name: image.hex() for name, image in images.items()
    }


def test_a_mistake_in_a_kernel_is_said_with_its_line(compiler: Any, tmp_path: Path) -> None:
    del compiler  # says whether there is one
    (tmp_path / "kernels.cu").write_text("__global__ void broken() { nothing; }\n")
    with pytest.raises(SystemExit, match=r"kernels\.cu\(1\).*nothing"):
        compiler_module().Compiler(tmp_path).image("sm_90")
