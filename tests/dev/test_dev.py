"""./dev on machines of every kind, played by stand-ins for the commands that it calls."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REAL = [
    "cat",
    "cksum",
    "dirname",
    "find",
    "flock",
    "ln",
    "mkdir",
    "readlink",
    "rm",
    "sleep",
    "sort",
    "touch",
    "xargs",
]

# What the stand-ins share: $PLAY holds a file for each thing that the machine has, and their calls.
# A Python is stood in for by a script that does of a set-up what ./dev can see.
PYTHON = r"""#!/bin/sh
name=${0##*/}
case $2 in *version_info*) [ ! -e "$PLAY/old-$name" ] || exit 1 ;; esac
case $2 in *ensurepip*) [ -e "$PLAY/$name-venv" ] || exit 1 ;; esac
case $2 in *Python.h*) [ -e "$PLAY/$name-dev" ] || exit 1 ;; esac
[ "$1" != -c ] || exit 0
echo "$@" >>"$PLAY/calls"
case "$*" in
"-m venv "*) rm -rf "$4" && mkdir -p "$4/bin" && ln -s "$0" "$4/bin/python" ;;
"-m pip "*) sleep "${PIP_SECONDS-0}" && [ ! -e "$PLAY/pip-fails" ] || { echo "pip's words"; exit 1; } ;;
"-P -m numamicro "*)
  shift 3
  printf '<%s>' "$@"
  echo " by $$ in $(pwd)"
  exit "${STATUS-0}"
  ;;
esac
"""
COMPILER = r"""#!/bin/sh
read -r source
case $source in "#include"*) [ -e "$PLAY/libc6-dev" ] ;; esac
"""
APT = r"""#!/bin/sh
echo "apt-get $*" >>"$PLAY/calls"
case $1 in
update) touch "$PLAY/lists" ;;
install)
  [ -e "$PLAY/lists" ] || { echo "no such package"; exit 100; }
  for word; do case $word in *-venv | *-dev) touch "$PLAY/$word" ;; esac; done
  ;;
esac
"""


@dataclass(frozen=True)
class Stage:
    """A checkout, a PATH of stand-ins and what they noted."""

    root: Path
    bin: Path
    play: Path

    def add(self, name: str, script: str) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def has(self, *things: str) -> None:
        for thing in things:
            (self.play / thing).touch()

    def lacks(self, *things: str) -> None:
        for thing in things:
            (self.play / thing).unlink()

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": str(self.bin), "PLAY": str(self.play), **more}

    def start(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["/bin/sh", str(self.root / "dev"), *arguments],
            env=self.environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        with self.start(*arguments, **more) as process:
            out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def new_calls(self) -> list[str]:
        """Give what the stand-ins were called with since the last question, save numamicro itself."""
        notes = self.play / "calls"
        lines = notes.read_text().splitlines() if notes.exists() else []
        notes.unlink(missing_ok=True)
        return [line for line in lines if "-m numamicro" not in line]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """Give a machine of an ordinary user on which nothing is missing."""
    stage = Stage(tmp_path / "a check out", tmp_path / "bin", tmp_path / "play")
    for folder in (stage.root / "src", stage.root / "numamicro", stage.bin, stage.play):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "dev", stage.root)
    for name in ("pyproject.toml", "CMakeLists.txt", "src/cpu.c", "numamicro/_cpu.pyx"):
        (stage.root / name).write_text(name)
    for name in REAL:
        (stage.bin / name).symlink_to(shutil.which(name) or f"/usr/bin/{name}")
    stage.add("python3", PYTHON)
    stage.add("cc", COMPILER)
    stage.add("id", "#!/bin/sh\necho 1000\n")
    stage.has("python3-venv", "python3-dev", "libc6-dev")
    return stage


def be_root(stage: Stage) -> None:
    stage.add("id", "#!/bin/sh\necho 0\n")
    stage.add("apt-get", APT)


def kinds(calls: list[str]) -> list[str]:
    """Give what each call of the set-up was for."""
    signs = {"-m venv": "venv", "pip>=": "pip", "--group": "group", "--editable": "build"}
    return [next(kind for sign, kind in signs.items() if sign in call) for call in calls]


def test_the_script_is_plain_posix_shell() -> None:
    shells = [shell for shell in ("dash", "busybox", "bash") if shutil.which(shell)]
    assert shells
    for shell in shells:
        command = [shell, "sh"] if shell == "busybox" else [shell]
        subprocess.run([*command, "-n", str(ROOT / "dev")], check=True)


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
@pytest.mark.parametrize("script", ["dev", ".ci/run"])
def test_shellcheck_finds_nothing(script: str) -> None:
    done = subprocess.run(["shellcheck", str(ROOT / script)], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [(), ("help",)])
def test_help_sets_nothing_up(stage: Stage, arguments: tuple[str, ...]) -> None:
    done = stage.run(*arguments)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ./dev COMMAND")
    assert done.stderr == ""
    assert stage.new_calls() == []


def test_first_call_sets_up_and_the_next_does_not(stage: Stage) -> None:
    first = stage.run("matrix", "--list")
    assert first.returncode == 0
    assert first.stdout.startswith("<matrix><--list> ")
    assert first.stdout.count("\n") == 1
    assert len(first.stderr.splitlines()) == 3
    assert kinds(stage.new_calls()) == ["venv", "pip", "group", "build"]
    second = stage.run("matrix", "--list")
    assert second.stderr == ""
    assert stage.new_calls() == []


def test_the_compiler_of_the_kernels_is_left_out_where_it_is_not_wanted(stage: Stage) -> None:
    stage.run("matrix")
    assert any("pyproject.toml:kernels" in call for call in stage.new_calls())
    stage.run("matrix", NUMAMICRO_NO_GPU_KERNELS="1")
    calls = stage.new_calls()
    assert kinds(calls) == ["group", "build"]
    assert not any("kernels" in call for call in calls)


def test_arguments_status_and_process_pass_through(stage: Stage) -> None:
    stage.run("show")
    with stage.start("show", "two words", "*", "", STATUS="130") as process:
        out, _ = process.communicate(timeout=60)
    assert out == f"<show><two words><*><> by {process.pid} in {Path.cwd()}\n"
    assert process.returncode == 130


def test_works_through_a_link_from_another_folder(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(stage.root / "dev")
    done = subprocess.run(
        ["/bin/sh", "../link", "matrix"],
        cwd=stage.bin,
        env=stage.environment(),
        capture_output=True,
        text=True,
    )
    assert done.stdout.endswith(f" in {stage.bin}\n")
    assert (stage.root / ".venv").is_dir()


def test_test_and_check_bring_their_own_packages(stage: Stage) -> None:
    stage.run("matrix")
    stage.new_calls()
    assert stage.run("test", "-k", "name").returncode == 0
    *set_up, tests = stage.new_calls()
    assert kinds(set_up) == ["group"]
    assert set_up[0].endswith("pyproject.toml:test")
    assert tests == "-m pytest -k name"


def test_numa_tests_run_without_an_emulator_too(stage: Stage) -> None:
    stage.add("apt-get", APT)
    assert stage.run("test-numa", "2n").returncode == 0
    calls = stage.new_calls()
    assert calls[-1] == "-m tests.vm 2n"
    assert not any(call.startswith("apt-get") for call in calls)


def test_root_gets_the_emulator_installed_once(stage: Stage) -> None:
    be_root(stage)
    stage.has("lists")
    stage.run("test-numa")
    *_, install, tests = stage.new_calls()
    assert install.endswith(" qemu-system-x86")
    assert tests == "-m tests.vm"
    stage.add("qemu-system-x86_64", "#!/bin/sh\n")
    stage.run("test-numa")
    assert stage.new_calls() == ["-m tests.vm"]


def test_root_gets_the_browser_of_the_tests_installed_once(stage: Stage) -> None:
    be_root(stage)
    stage.has("lists")
    for there in ("lstopo-no-graphics", "qemu-system-x86_64"):
        stage.add(there, "#!/bin/sh\n")
    stage.run("test")
    *_, install, tests = stage.new_calls()
    assert install.endswith(" chromium")
    assert tests == "-m pytest"
    stage.add("chromium", "#!/bin/sh\n")
    stage.run("test")
    assert stage.new_calls() == ["-m pytest"]


def test_a_report_brings_what_draws_its_curves(stage: Stage) -> None:
    stage.run("matrix")
    stage.new_calls()
    assert stage.run("report", "a.json", "-o", "a.html").stdout.startswith("<report><a.json>")
    (group,) = stage.new_calls()
    assert group.endswith("pyproject.toml:report")


def test_bench_runs_from_the_checkout(stage: Stage) -> None:
    assert stage.run("bench", "--pairs", "3").returncode == 0
    assert stage.new_calls()[-1] == "-m bench --pairs 3"


def test_gpu_check_runs_from_the_checkout_or_from_what_was_prepared(stage: Stage) -> None:
    assert stage.run("gpu-check", "--dry").returncode == 0
    assert stage.new_calls()[-1] == "-P -m bench.gpu --dry"
    assert stage.run("gpu-check", "--prepare").returncode == 0
    assert "--wheel-dir" in stage.new_calls()[-1]
    (stage.root / "wheelhouse").mkdir()
    (stage.root / "wheelhouse/numamicro.whl").touch()
    assert stage.run("gpu-check", "--dry").returncode == 0
    install, check = stage.new_calls()
    assert "--no-index" in install
    assert install.endswith("numamicro.whl")
    assert check == "-P -m bench.gpu --dry"


def test_one_failed_check_fails_but_hides_none(stage: Stage) -> None:
    checks = ["ruff", "mypy", "stubtest", "cython-lint", "clang-format"]
    for name in checks:
        stage.add(name, f'#!/bin/sh\necho {name} >>"$PLAY/calls"\n[ ! -e "$PLAY/{name}-fails" ]\n')
    assert stage.run("check").returncode == 0
    stage.new_calls()
    stage.has("mypy-fails")
    assert stage.run("check").returncode == 1
    assert stage.new_calls() == ["ruff", *checks]


def test_only_a_changed_source_builds_again(stage: Stage) -> None:
    stage.run("matrix")
    stage.new_calls()
    os.utime(stage.root / "src/cpu.c")
    (stage.root / "numamicro/plain.py").write_text("pass")
    stage.run("matrix")
    assert stage.new_calls() == []
    for name in ("src/cpu.c", "numamicro/_cpu.pyx", "CMakeLists.txt", "src/new.h"):
        (stage.root / name).write_text("changed")
        stage.run("matrix")
        assert kinds(stage.new_calls()) == ["build"], name
    (stage.root / "pyproject.toml").write_text("changed")
    stage.run("matrix")
    assert kinds(stage.new_calls()) == ["group", "build"]


def test_strict_builds_are_built_apart(stage: Stage) -> None:
    stage.run("matrix")
    assert "NUMAMICRO_WERROR=OFF" in stage.new_calls()[-1]
    stage.run("matrix", CI="1")
    calls = stage.new_calls()
    assert kinds(calls) == ["build"]
    assert "NUMAMICRO_WERROR=ON" in calls[0]


def test_a_moved_checkout_is_set_up_anew(stage: Stage, tmp_path: Path) -> None:
    stage.run("matrix")
    stage.new_calls()
    moved = Stage(stage.root.rename(tmp_path / "moved"), stage.bin, stage.play)
    assert moved.run("matrix").returncode == 0
    assert kinds(stage.new_calls()) == ["venv", "pip", "group", "build"]


def test_a_vanished_python_is_replaced(stage: Stage) -> None:
    stage.run("matrix")
    stage.new_calls()
    (stage.bin / "python3").rename(stage.bin / "python3.12")
    stage.has("python3.12-venv", "python3.12-dev")
    assert stage.run("matrix").returncode == 0
    assert kinds(stage.new_calls()) == ["venv", "pip", "group", "build"]


@pytest.mark.parametrize(
    ("stamps", "left"),
    [
        ((), ["venv", "pip", "group", "build"]),
        (("venv",), ["group", "build"]),
        (("venv", "build"), ["build"]),
    ],
)
def test_a_half_made_venv_is_mended(stage: Stage, stamps: tuple[str, ...], left: list[str]) -> None:
    stage.run("matrix")
    for stamp in (stage.root / ".venv").glob("*.stamp"):
        if stamp.stem not in stamps:
            stamp.unlink()
    stage.new_calls()
    assert stage.run("matrix").stdout.startswith("<matrix>")
    assert kinds(stage.new_calls()) == left


def test_a_failed_step_is_shown_and_tried_again(stage: Stage) -> None:
    stage.has("pip-fails")
    failed = stage.run("matrix")
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert "pip's words" in failed.stderr
    assert failed.stderr.splitlines()[-1].startswith("dev: the set-up failed at: ")
    stage.lacks("pip-fails")
    assert stage.run("matrix").stdout.startswith("<matrix>")


def test_a_failed_build_is_not_forgotten_when_the_source_is_put_back(stage: Stage) -> None:
    stage.run("matrix")
    before = (stage.root / "src/cpu.c").read_text()
    (stage.root / "src/cpu.c").write_text("broken")
    stage.has("pip-fails")
    assert stage.run("matrix").returncode == 2
    stage.lacks("pip-fails")
    (stage.root / "src/cpu.c").write_text(before)
    stage.new_calls()
    assert stage.run("matrix").returncode == 0
    assert kinds(stage.new_calls()) == ["build"]


def test_two_calls_at_once_set_up_once(stage: Stage) -> None:
    with (
        stage.start("show", PIP_SECONDS="0.3") as one,
        stage.start("list", PIP_SECONDS="0.3") as two,
    ):
        (first, _), (second, _) = one.communicate(timeout=60), two.communicate(timeout=60)
    assert (first.split()[0], second.split()[0]) == ("<show>", "<list>")
    assert kinds(stage.new_calls()) == ["venv", "pip", "group", "build"]


def test_an_ordinary_user_is_told_what_to_install(stage: Stage) -> None:
    stage.add("apt-get", APT)
    stage.lacks("python3-venv", "python3-dev", "libc6-dev")
    done = stage.run("matrix")
    assert done.returncode == 2
    assert done.stdout == ""
    packages = "python3-venv python3-dev libc6-dev"
    assert f"'sudo apt-get install {packages}'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert stage.new_calls() == []


def test_without_any_python_it_is_named_too(stage: Stage) -> None:
    (stage.bin / "python3").unlink()
    done = stage.run("matrix")
    assert done.returncode == 2
    assert "'sudo apt-get install python3 python3-venv python3-dev'" in done.stderr


def test_root_gets_it_installed_without_package_lists(stage: Stage) -> None:
    be_root(stage)
    stage.lacks("python3-venv", "libc6-dev")
    done = stage.run("matrix")
    assert done.returncode == 0
    assert done.stdout.startswith("<matrix>")
    assert "no such package" not in done.stderr
    installs = [call for call in stage.new_calls() if call.startswith("apt-get")]
    assert [call.split()[1] for call in installs] == ["install", "update", "install"]
    assert installs[-1].endswith(" python3-venv libc6-dev")


def test_root_is_told_when_installing_did_not_help(stage: Stage) -> None:
    be_root(stage)
    stage.has("lists")
    stage.add("cc", "#!/bin/sh\nexit 1\n")
    done = stage.run("matrix")
    assert done.returncode == 2
    assert "lacks what the build needs" in done.stderr


def test_an_old_python_is_passed_over(stage: Stage) -> None:
    stage.has("old-python3")
    none = stage.run("matrix")
    assert none.returncode == 2
    assert "needs Python 3.11 or newer" in none.stderr
    stage.add("python3.12", PYTHON)
    bare = stage.run("matrix")
    assert bare.returncode == 2
    assert "'sudo apt-get install python3.12-venv python3.12-dev'" in bare.stderr
    stage.has("python3.12-venv", "python3.12-dev")
    assert "with python3.12\n" in stage.run("matrix").stderr


def test_a_complete_python_is_preferred_to_a_bare_one(stage: Stage) -> None:
    stage.lacks("python3-venv")
    stage.add("python3.13", PYTHON)
    stage.has("python3.13-venv", "python3.13-dev")
    assert "with python3.13\n" in stage.run("matrix").stderr


def without_override(stage: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ./dev as one who may not write where the permissions say so, even if root runs the tests."""
    drop = [shutil.which("setpriv") or "setpriv", "--bounding-set", "-dac_override"]
    prefix = drop if os.geteuid() == 0 else []
    if prefix and subprocess.run([*prefix, "/bin/true"], capture_output=True).returncode:
        pytest.skip("root cannot lay down its rights here; run the tests as an ordinary user")
    return subprocess.run(
        [*prefix, "/bin/sh", str(stage.root / "dev"), *arguments],
        env=stage.environment(),
        capture_output=True,
        text=True,
    )


def test_a_checkout_that_cannot_be_written(stage: Stage) -> None:
    stage.root.chmod(0o555)
    try:
        refused = without_override(stage, "matrix")
        stage.root.chmod(0o755)
        stage.run("matrix")
        stage.root.chmod(0o555)
        done = without_override(stage, "matrix")
    finally:
        stage.root.chmod(0o755)
    assert refused.returncode == 2
    assert "run ./dev as its owner first" in refused.stderr
    assert done.returncode == 0
    assert done.stderr == ""
