"""The C alone: under the sanitizers, for other processors, and what the compiler made of it."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src/cpu").glob("*.c"))
FLAGS = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{ROOT / 'src/cpu'}"]


def compile_c(compiler: str, *arguments: str | Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} here")
    subprocess.run([compiler, *FLAGS, *map(str, arguments), "-lm"], check=True)


@cache
def assembly_of(isa: str) -> str:
    """Give what the compiler makes of an instruction set's kernels, optimised as in the build."""
    command = ["cc", *FLAGS, "-O3", "-S", str(ROOT / f"src/cpu/stream_{isa}.c"), "-o", "-"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def function_of(isa: str, name: str) -> str:
    found = re.search(rf"^{name}:.*?\.cfi_endproc", assembly_of(isa), re.M | re.S)
    assert found
    return found[0]


def run_checks(*command: str | Path) -> None:
    run = subprocess.run(command, timeout=300, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("sanitizers", ["address,undefined", "thread"])
def test_the_checks_hold_under_the_sanitizers(sanitizers: str, tmp_path: Path) -> None:
    sanitize = [f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all", "-g"]
    hello = tmp_path / "hello.c"
    hello.write_text("int main(void) { return 0; }\n")
    compile_c("cc", hello, "-o", tmp_path / "hello")
    trial = subprocess.run(["cc", *sanitize, hello, "-o", tmp_path / "hello"], check=False)
    if trial.returncode or subprocess.run([tmp_path / "hello"], check=False).returncode:
        pytest.skip(f"the compiler's {sanitizers} sanitizer does not run here")
    compile_c(
        "cc", *sanitize, *SOURCES, Path(__file__).with_name("checks.c"), "-o", tmp_path / "checks"
    )
    run_checks(tmp_path / "checks")


def test_the_checks_hold_for_vectors_wider_than_this_cpu_has(tmp_path: Path) -> None:
    checks = tmp_path / "checks"
    replaced = ("stream_avx512", "dot_vnni", "dot_avx2")
    sources = [source for source in SOURCES if source.stem not in replaced]
    here = Path(__file__).parent
    compile_c("cc", "-O1", "-Wno-psabi", *sources, here / "wide.c", here / "checks.c", "-o", checks)
    run_checks(checks)


def test_the_checks_hold_on_aarch64(tmp_path: Path) -> None:
    if shutil.which("qemu-aarch64") is None:
        pytest.skip("no qemu-aarch64 here (Debian: qemu-user, gcc-aarch64-linux-gnu)")
    checks = tmp_path / "checks"
    sources = (*SOURCES, Path(__file__).with_name("checks.c"))
    compile_c("aarch64-linux-gnu-gcc", "-O1", "-static", *sources, "-o", checks)
    run_checks("qemu-aarch64", checks)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks at x86-64 instructions")
@pytest.mark.parametrize(
    ("isa", "width", "add"),
    [
        ("avx512", 64, "vpaddq.*zmm"),
        ("avx2", 32, "vpaddq.*ymm"),
        ("sse2", 16, r"\bpaddq.*xmm"),
    ],
)
@pytest.mark.parametrize("streams", [1, 4])
def test_a_read_loop_is_adds_of_whole_vectors_from_memory(
    isa: str, width: int, add: str, streams: int
) -> None:
    """One loop has exactly the adds of a 128-byte step of each stream, and spills nothing."""
    adds = streams * 128 // width
    function = function_of(isa, f"read_{streams}")
    loops = re.findall(r"^(\.L\d+):\n((?:(?!^\.L).*\n)*?)\tj\w+\t\1\n", function, re.M)
    bodies = [body for _, body in loops if len(re.findall(add, body)) == adds]
    assert len(bodies) == 1
    assert "%rsp" not in bodies[0]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks at x86-64 instructions")
@pytest.mark.parametrize(
    ("isa", "store"),
    [
        ("avx512", "vmovntdq.*zmm"),
        ("avx2", "vmovntdq.*ymm"),
        ("sse2", "movntdq.*xmm"),
        ("portable", None),
    ],
)
def test_a_pass_is_its_own_loop_and_no_library_call(isa: str, store: str | None) -> None:
    assert not re.search(r"\t(call|jmp)\s+mem\w+", assembly_of(isa))
    for name in ("write_nt", "copy_nt", "triad_nt") if store else ():
        assert re.search(store or "", function_of(isa, name))
        assert "sfence" in function_of(isa, name)
