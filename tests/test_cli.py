"""The command as its users run it: a process, on this machine's real memory."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from numamicro.file import read_matrix
from numamicro.matrix import State
from numamicro.probes.probe import cache_floor, node_routes
from numamicro.topology import discover
from numamicro.wishes import Wishes

if TYPE_CHECKING:
    from collections.abc import Iterator

# The smallest buffer that is clear of the caches: what is tested here is the command, not a figure.
MACHINE = discover()
SMALLEST = max(cache_floor(route, MACHINE) for route in node_routes(MACHINE, Wishes()))
QUICK = ("matrix", "--quick", "--memory", str(SMALLEST))
SEVERAL = (*QUICK, "--only", "bandwidth", "--threads", "1")
SHORT = (*QUICK, "--only", "bandwidth/read", "--threads", "1")


def numamicro(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "numamicro", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 2, result.stderr
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    return lines[0]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "out.json"
    result = numamicro(*QUICK, "-o", str(path))
    assert result.returncode == 0, result.stderr
    return path


def test_matrix_measures_and_proves_where_its_pages_were(measured: Path) -> None:
    matrix = read_matrix(measured)
    assert {cell.case.probe for cell in matrix.measurements} >= {"bandwidth", "latency"}
    for cell in matrix.measurements:
        assert cell.state in (State.OK, State.WAIVED), cell.reason
        if cell.state is State.OK:
            assert cell.runs[0].samples
            assert cell.share is None or cell.share >= 0.99
    assert os.listdir(measured.parent) == [measured.name]


def test_show_prints_what_matrix_measured(measured: Path) -> None:
    for style in ("plain", "github", "json"):
        result = numamicro("show", str(measured), "--format", style)
        assert result.returncode == 0
        assert "node0" in result.stdout
    assert json.loads(result.stdout) == json.loads(measured.read_text())


def test_without_an_output_nothing_is_written(tmp_path: Path) -> None:
    result = numamicro(*SHORT, "--json", "-q", cwd=tmp_path)
    assert result.returncode == 0
    assert result.stderr == ""
    assert json.loads(result.stdout)["schema"] == 1
    assert os.listdir(tmp_path) == []


def test_list_measures_nothing(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    result = numamicro("matrix", "--list", "-o", str(output))
    assert result.returncode == 0
    assert "bandwidth/read node0>node0" in result.stdout
    assert not output.exists()


def test_one_allowed_cpu_is_all_that_is_used() -> None:
    last = max(os.sched_getaffinity(0))
    result = numamicro(
        *QUICK,
        "--only",
        "bandwidth/read",
        "--json",
        preexec_fn=lambda: os.sched_setaffinity(0, {last}),
    )
    assert result.returncode == 0
    cells = json.loads(result.stdout)["measurements"]
    assert {cell["params"]["threads"] for cell in cells} == {1}
    assert {cell["runs"][0]["outcome"]["cpus"] for cell in cells} == {str(last)}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["matrix", "--nodes", "77"], "node77"),
        (["matrix", "--nodes", "x"], "--nodes x"),
        (["matrix", "--only", "nonsense"], "nonsense"),
        (["matrix", "--only", "latency/foo"], "latency has load"),
        (["matrix", "--only", "bandwidth", "--only", "latency/foo"], "latency has load"),
        (["matrix", "--label", "two\nlines"], "--label"),
        (["matrix", "--threads", "100000"], "--threads"),
        (["matrix", "--memory", "1M"], "last-level cache"),
        (["matrix", "--memory", "900T"], "may be used"),
        (["matrix", "--memory", "plenty"], "plenty"),
        (["matrix", "--time", "soon"], "soon"),
        (["matrix", "--seed", "-1"], "--seed"),
        (["matrix", "--resume"], "-o"),
        (["matrix", "--model", "gpt-9"], "gpt-9"),
        (["matrix", "--quant", "Q8_0"], "--model"),
        (["matrix", "-o", "/proc/none.json"], "/proc/none.json"),
        (["matrix", "-o", "/no/such/folder/out.json"], "/no/such/folder"),
        (["matrix", "--resume", "-o", "/tmp/never-begun.json"], "nothing to resume"),
        (["matrix", "--quick", "--thorough"], "--help"),
        (["show", "/no/such/file.json"], "/no/such/file.json"),
        (["show", "/proc/self/mem"], "/proc/self/mem"),
        (["show", "."], "."),
        (["frobnicate"], "frobnicate"),
        ([], "COMMAND"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_bad_input_gets_one_sentence(arguments: list[str], says: str) -> None:
    assert says in one_sentence(numamicro(*arguments))


def test_a_truncated_and_a_newer_file_get_one_sentence(measured: Path, tmp_path: Path) -> None:
    text = measured.read_text()
    cut = tmp_path / "cut.json"
    cut.write_text(text[: len(text) // 2])
    assert str(cut) in one_sentence(numamicro("show", str(cut)))
    newer = tmp_path / "newer.json"
    newer.write_text(text.replace('"schema": 1', '"schema": 99', 1))
    sentence = one_sentence(numamicro("show", str(newer)))
    assert str(newer) in sentence
    assert "update numamicro" in sentence


def obey_signals() -> None:
    """Undo what a background job inherits: its shell may have it ignore Ctrl-C."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_DFL)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Give a run that has measured its first case."""
    output = tmp_path / "out.json"
    with subprocess.Popen(
        [sys.executable, "-m", "numamicro", *SEVERAL, "-o", str(output), "--label", "first"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=obey_signals,
    ) as child:
        journal = output.with_name("out.json.part")
        while child.poll() is None:
            if journal.exists() and journal.read_bytes().count(b"\n") > 1:
                break
            time.sleep(0.02)
        yield child, output
        child.kill()


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_keeps_what_was_measured_and_resume_goes_on(
    started: tuple[subprocess.Popen[str], Path], signum: int, status: int
) -> None:
    child, output = started
    child.send_signal(signum)
    stdout, stderr = child.communicate(timeout=30)
    assert child.returncode == status, stderr
    assert "Traceback" not in stderr
    assert "Read bandwidth" in stdout
    states = [cell.state for cell in read_matrix(output).measurements]
    assert State.OK in states
    assert State.CANCELLED in states
    kept = [cell for cell in read_matrix(output).measurements if cell.state is State.OK]

    result = numamicro(*SEVERAL, "-o", str(output), "--resume")
    assert result.returncode == 0, result.stderr
    resumed = read_matrix(output)
    assert resumed.header.label == "first"
    assert all(cell.state is State.OK for cell in resumed.measurements)
    assert all(cell in resumed.measurements for cell in kept)
    assert os.listdir(output.parent) == [output.name]


def test_a_killed_run_can_be_resumed(started: tuple[subprocess.Popen[str], Path]) -> None:
    child, output = started
    child.kill()
    child.communicate(timeout=30)
    assert "--resume" in one_sentence(numamicro(*SEVERAL, "-o", str(output)))
    other = numamicro(*SEVERAL, "--seed", "2", "-o", str(output), "--resume")
    assert "another run (seed differs)" in one_sentence(other)
    fewer = numamicro(
        *SEVERAL, "-o", str(output), "--resume", preexec_fn=lambda: os.sched_setaffinity(0, {0})
    )
    if len(os.sched_getaffinity(0)) > 1:
        assert "usable_cpus differs" in one_sentence(fewer)
    assert numamicro(*SEVERAL, "-o", str(output), "--resume").returncode == 0


def limit_file_size(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def test_a_full_disk_still_shows_the_result(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    result = numamicro(*SHORT, "-q", "-o", str(output), preexec_fn=lambda: limit_file_size(2000))
    assert str(output) in one_sentence(result)
    assert "Read bandwidth" in result.stdout
    assert not output.exists()
    assert not list(tmp_path.glob(".*tmp"))


def test_a_full_standard_output_gets_one_sentence(measured: Path) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "numamicro", "show", str(measured)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert result.returncode == 2
    assert "standard output" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_error(measured: Path) -> None:
    script = f"{sys.executable} -m numamicro show {measured} --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stderr == ""


def test_a_closed_standard_output_is_said_or_not_needed(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    command = f"{sys.executable} -m numamicro {' '.join(SHORT)} -q"
    without = subprocess.run(["bash", "-c", f"{command} >&-"], stderr=subprocess.PIPE, text=True)
    assert without.returncode == 2
    assert "-o" in without.stderr
    into = subprocess.run(["bash", "-c", f"{command} -o {output} >&- <&-"], stderr=subprocess.PIPE)
    assert into.returncode == 0
    assert read_matrix(output).measurements[0].state is State.OK


MAIN = """
if __name__ == "__main__":
    import sys
    from numamicro.cli import main
    sys.exit(main())
"""


def test_an_earlier_result_is_replaced_only_with_a_word(measured: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    output.write_text(measured.read_text())
    result = numamicro(*SHORT, "-o", str(output))
    assert "earlier result" in result.stderr
    assert {cell.case.probe for cell in read_matrix(output).measurements} == {"bandwidth"}


def test_a_run_that_measured_nothing_is_no_success(tmp_path: Path) -> None:
    result = numamicro(*SHORT, "--time", "0.001", "-q")
    assert result.returncode == 3


def test_a_device_gets_no_journal_beside_it() -> None:
    result = numamicro(*SHORT, "-q", "-o", "/dev/full")
    assert "/dev/full" in one_sentence(result)
    assert not os.path.exists("/dev/full.part")


def test_the_users_encoding_is_not_the_workers() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "utf-16"}
    result = subprocess.run(
        [sys.executable, "-m", "numamicro", *SHORT, "--json", "-q"],
        capture_output=True,
        env=environment,
        timeout=120,
    )
    assert result.returncode == 0
    cells = json.loads(result.stdout.decode("utf-16"))["measurements"]
    assert {cell["state"] for cell in cells} == {"ok"}


def test_a_worker_ends_with_its_parent(started: tuple[subprocess.Popen[str], Path]) -> None:
    child, _ = started
    with open(f"/proc/{child.pid}/task/{child.pid}/children") as file:
        workers = [int(pid) for pid in file.read().split()]
    child.kill()
    child.communicate(timeout=30)
    end = time.monotonic() + 5
    while any(map(runs, workers)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(runs, workers))


def runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_an_outsiders_probe_runs_through_plan_worker_file_and_show(tmp_path: Path) -> None:
    """In a script of its own, as an outsider has it: the worker finds the class by the file."""
    script = tmp_path / "mine.py"
    source = Path(__file__).with_name("outsider.py").read_text()
    script.write_text(source + MAIN)
    output = tmp_path / "out.json"
    run = subprocess.run(
        [sys.executable, str(script), "matrix", "--only", "clock", "-o", str(output)],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    cells = list(read_matrix(output).cells("clock"))
    assert {cell.case["value"] for cell in cells} == {"mean", "again"}
    assert {len(cell.runs) for cell in cells} == {3}
    assert "Read clock in ns" in numamicro("show", str(output)).stdout


# ---- what must not cost a run --------------------------------------------------------------------


@pytest.mark.parametrize("gap", [0.0, 0.02, 0.2])
def test_a_second_ctrl_c_does_not_lose_what_the_first_kept(
    started: tuple[subprocess.Popen[str], Path], gap: float
) -> None:
    child, output = started
    child.send_signal(signal.SIGINT)
    time.sleep(gap)
    child.send_signal(signal.SIGINT)
    stdout, stderr = child.communicate(timeout=30)
    assert child.returncode == 130, stderr
    assert "Read bandwidth" in stdout
    assert State.OK in {cell.state for cell in read_matrix(output).measurements}


def test_an_early_ctrl_c_leaves_an_earlier_result_alone(measured: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    output.write_bytes(measured.read_bytes())
    command = [sys.executable, "-m", "numamicro", *SEVERAL, "-q", "-o", str(output)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=obey_signals
    ) as child:
        journal = output.with_name("out.json.part")
        while child.poll() is None and not journal.exists():
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=30)
    assert child.returncode == 130
    if not any(cell.runs for cell in read_matrix(output).measurements):
        pytest.fail("an empty result took the place of a full one")


def test_a_file_of_another_kind_is_not_overwritten(tmp_path: Path) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("years of work")
    assert "thesis.txt" in one_sentence(numamicro(*SHORT, "-o", str(thesis)))
    assert thesis.read_text() == "years of work"


@pytest.mark.parametrize("name", ["x" * 300, "x" * 253, "deep/" * 1000 + "x"])
def test_a_name_that_cannot_be_is_refused_before_measuring(name: str, tmp_path: Path) -> None:
    one_sentence(numamicro(*SHORT, "-o", str(tmp_path / name)))
    assert os.listdir(tmp_path) == []


def test_the_longest_name_that_can_be_is_written(tmp_path: Path) -> None:
    output = tmp_path / ("x" * 250)
    assert numamicro(*SHORT, "-q", "-o", str(output)).returncode == 0
    assert read_matrix(output).measurements


def test_a_bad_standard_error_costs_no_run(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "numamicro", *SHORT, "-o", str(output)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True)
        wrong = subprocess.run([*command, "--nodes", "77"], stdout=full, stderr=full)
    assert result.returncode == 0
    assert "Read bandwidth" in result.stdout
    assert wrong.returncode == 2


def test_a_module_in_the_callers_folder_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('taken from the folder of the caller')")
    command = [sys.executable, "-P", "-m", "numamicro", *SHORT, "-q"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    output = tmp_path / "out.json"
    with subprocess.Popen(
        [sys.executable, "-m", "numamicro", *SHORT, "-q", "-o", str(output)],
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    ) as child:
        journal = output.with_name("out.json.part")
        while child.poll() is None and not journal.exists():
            time.sleep(0.01)
        child.send_signal(signal.SIGHUP)
    assert child.returncode == 0


def test_too_few_descriptors_for_a_worker_is_an_error_of_the_cells(tmp_path: Path) -> None:
    """Whatever their number: a start that fails leaves none open."""
    assert few_descriptors(7).returncode == 3
    assert few_descriptors(9).returncode == 3


def few_descriptors(count: int) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))

    result = numamicro(*SHORT, "-q", preexec_fn=limit)
    assert "Traceback" not in result.stderr
    return result


def test_too_few_descriptors_for_anything_are_a_sentence() -> None:
    result = few_descriptors(5)
    assert "Too many open files: allow more (ulimit -n)" in one_sentence(result)


def test_a_size_of_odd_bytes_is_rounded(tmp_path: Path) -> None:
    result = numamicro(*SHORT[:2], "--memory", str(SMALLEST + 4097), *SHORT[4:], "-q", "--json")
    assert result.returncode == 0, result.stderr
    sizes = {cell["params"]["bytes"] for cell in json.loads(result.stdout)["measurements"]}
    assert sizes == {SMALLEST + 4096}


def test_a_pipe_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    result = numamicro(*SHORT, "-q", "-o", str(fifo))
    assert str(fifo) in one_sentence(result)
    assert "Read bandwidth" in result.stdout
