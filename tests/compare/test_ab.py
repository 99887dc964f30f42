"""The guided experiment, over boots that are made up: what is measured and how the machine is set."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from numamicro import identity, setting
from numamicro.append import boot_file
from numamicro.cli import main
from numamicro.commands import matrix
from numamicro.errors import NumamicroError
from numamicro.exit import Exit
from numamicro.file import write_matrix
from numamicro.topology import discover
from tests.compare.truth import boot, figures, scaled
from tests.examples import header

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from numamicro.case import Case

TRUTH = figures()
MACHINE = discover()
CHANGED = "governor: powersave -> performance"


class Bench:
    """A machine that can be booted and set; what it measures follows its setting."""

    def __init__(self, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.setting: dict[str, str | int | None] = {
            "cpu.governor": "powersave",
            "thp.enabled": "always",
            "cpu.uncore": None,
            "now.load": "0.1",
        }
        self.truth: Mapping[Case, float] = TRUTH
        self.boots = 0
        self.measured: list[argparse.Namespace] = []
        self._draw = Random(1)
        self._capsys = capsys
        patch.setattr(identity, "boot_id", lambda: f"boot{self.boots:04}")
        patch.setattr(identity, "machine_id", lambda: "machine")
        patch.setattr(setting, "read_setting", lambda: dict(self.setting))
        patch.setattr(matrix, "run", self._measure)

    def reboot(self, **changes: str) -> None:
        self.boots += 1
        self.setting |= {key.replace("__", "."): value for key, value in changes.items()}
        self.setting["now.load"] = str(self.boots)

    def ab(self, *arguments: str) -> tuple[int, str, str]:
        status = main(["ab", *arguments])
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def boots_of(self, count: int) -> str:
        out = ""
        for _ in range(count):
            self.reboot()
            status, out, err = self.ab("run", "-q")
            assert status in (Exit.DONE, Exit.WORSE), err
        return out

    def _measure(self, arguments: argparse.Namespace) -> int:
        self.measured.append(arguments)
        path = boot_file(Path(arguments.append), identity.boot_id())
        head = replace(
            header(MACHINE),
            origin="measured",
            machine_id="machine",
            setting=dict(self.setting),
            created=f"2026-01-01T{self.boots:02}:00:00+00:00",
        )
        found = boot(self.truth, self._draw, noise=0.004, process_noise=0.004, head=head)
        write_matrix(replace(found, header=replace(found.header, boot_id=path.stem)), path)
        return Exit.DONE


@pytest.fixture
def bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(monkeypatch, capsys)


def test_an_experiment_from_its_start_to_its_verdict(bench: Bench) -> None:
    status, out, _ = bench.ab("start", "--changed", CHANGED, "--quick", "--expect", "read=up")
    assert status == 0
    assert "seen by: cpu.governor is powersave" in out
    assert "ab run now, and again after each of 4 more boots of governor: powersave" in out
    bench.reboot()
    status, out, _ = bench.ab("run", "-q")
    assert status == 0
    assert "4 more boots" in out
    out = bench.boots_of(4)
    assert "set performance, boot, and run this again" in out
    bench.reboot(cpu__governor="performance")
    bench.truth = scaled(TRUTH, 1.2)
    status, out, _ = bench.ab("run", "-q")
    assert status == 0
    assert "Expected read=up: held" in out
    assert "intended  cpu.governor: powersave -> performance" in out
    assert "Settled: no more boots are needed" in out
    assert [Path(each.append).name for each in bench.measured] == ["base"] * 5 + ["new"]
    assert {each.level for each in bench.measured} == {"quick"}


def test_a_change_for_the_worse_is_status_1(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED)
    bench.boots_of(5)
    bench.reboot(cpu__governor="performance")
    bench.truth = scaled(TRUTH, 0.8)
    status, out, _ = bench.ab("run", "-q")
    assert status == Exit.WORSE
    status, out, _ = bench.ab("status", "--json")
    assert status == Exit.WORSE
    assert json.loads(out)["comparable"]


def test_a_user_who_forgets_to_change_the_setting_is_told(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED, "--boots", "2")
    bench.boots_of(2)
    bench.reboot()
    status, _, err = bench.ab("run")
    assert status == 2
    assert "still has governor: powersave" in err
    assert len(bench.measured) == 2
    # The same boot once more is no new boot, and may add its processes.
    bench.boots -= 1
    assert bench.ab("run")[0] == 0
    assert len(bench.measured) == 3


def test_a_second_setting_that_moved_is_refused(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED, "--boots", "1")
    bench.boots_of(1)
    bench.reboot(cpu__governor="performance", thp__enabled="never")
    status, _, err = bench.ab("run")
    assert status == 2
    assert "thp.enabled is never, it was always" in err
    assert "cpu.governor" not in err
    assert len(bench.measured) == 1
    # Set back, it goes on.
    bench.reboot(thp__enabled="always")
    assert bench.ab("run")[0] == 0


def test_a_third_setting_is_neither_of_the_two(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED, "--boots", "1")
    bench.boots_of(1)
    bench.reboot(cpu__governor="performance")
    assert bench.ab("run")[0] == 0
    bench.reboot(cpu__governor="schedutil")
    status, _, err = bench.ab("run")
    assert status == 2
    assert "neither of the two settings" in err


def test_a_change_that_nothing_shows_is_asked_for(bench: Bench) -> None:
    status, out, _ = bench.ab("start", "--changed", "xGMI x16 -> x8", "--boots", "1")
    assert "--side base or --side new" in out
    bench.reboot()
    status, _, err = bench.ab("run")
    assert status == 2
    assert "--side" in err
    assert bench.ab("run", "--side", "base")[0] == 0
    bench.reboot()
    status, out, _ = bench.ab("run", "--side", "new")
    assert status == 0
    assert "taken on trust" in out
    assert "more boot" in out


def test_a_side_that_the_machine_contradicts_is_refused(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED)
    bench.reboot()
    status, _, err = bench.ab("run", "--side", "new")
    assert status == 2
    assert "as the machine shows it" in err


def test_a_lost_file_is_a_boot_that_is_missing(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED, "--boots", "2")
    bench.boots_of(2)
    next(Path("ab/base").glob("*.json")).unlink()
    status, out, _ = bench.ab("status")
    assert status == 0
    assert "1 more boot of" in out
    bench.reboot()
    assert bench.ab("run")[0] == 0  # and it is no forgotten change


def test_a_power_cut_in_the_middle_costs_that_run_alone(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED, "--boots", "2")
    bench.boots_of(1)
    cut = Path("ab/base/gone.json.part")
    cut.write_text("{}\n")
    bench.reboot()
    status, out, err = bench.ab("run")
    assert status == 0
    assert "cut short and is left out" in err
    assert not cut.exists()
    assert "2 base, 0 new" in out
    # The journal of this boot is what --resume goes on with, and stays.
    own = Path(f"ab/base/{identity.boot_id()}.json.part")
    own.write_text("{}\n")
    bench.ab("run")
    assert own.exists()


def test_a_run_that_was_ended_says_nothing_of_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.ab("start", "--changed", CHANGED)
    monkeypatch.setattr(matrix, "run", lambda _: 130)
    status, out, _ = bench.ab("run")
    assert (status, out) == (130, "")


def test_a_damaged_or_missing_experiment_is_one_sentence(bench: Bench) -> None:
    status, _, err = bench.ab("run")
    assert status == 2
    assert "there is no experiment in ab" in err
    bench.ab("start", "--changed", CHANGED)
    status, _, err = bench.ab("start", "--changed", CHANGED)
    assert status == 2
    assert "holds an experiment" in err
    state = Path("ab/experiment")
    whole = state.read_text()
    for text in (
        "",
        "{",
        "[]",
        "{}",
        '{"experiment": 9}',
        whole.replace('"boots": 5', '"boots": "x"'),
    ):
        state.write_text(text)
        status, _, err = bench.ab("run")
        assert status == 2, text
        assert len(err.strip().splitlines()) == 1
    state.write_text(whole)
    assert bench.ab("status")[0] == 0


def test_another_machine_goes_on_with_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.ab("start", "--changed", CHANGED)
    monkeypatch.setattr(identity, "machine_id", lambda: "another")
    status, _, err = bench.ab("run")
    assert status == 2
    assert "another machine" in err


def test_a_damaged_boot_is_named_and_what_was_measured_is_kept(bench: Bench) -> None:
    bench.ab("start", "--changed", CHANGED, "--boots", "1")
    bench.boots_of(1)
    Path("ab/base/bad.json").write_text("{")
    bench.reboot(cpu__governor="performance")
    status, _, err = bench.ab("run")
    assert status == 2
    assert "bad.json" in err
    assert Path(f"ab/new/{identity.boot_id()}.json").exists()


@pytest.mark.parametrize(
    "arguments",
    [["--boots", "0"], ["--expect", "read"], ["--time", "soon"], ["--nodes", "x"]],
)
def test_what_makes_no_sense_begins_nothing(bench: Bench, arguments: list[str]) -> None:
    assert bench.ab("start", "--changed", CHANGED, *arguments)[0] == 2
    assert not Path("ab").exists()


def test_more_boots_are_asked_of_the_side_that_lacks_them(bench: Bench) -> None:
    """Noise that one new boot cannot settle."""
    from numamicro.comparison.experiment import Experiment, next_step

    experiment = Experiment(CHANGED, {"cpu.governor": "powersave"})
    for missing, side, says in (
        ((0, 2), "new", "2 more boots of performance will settle this"),
        ((2, 0), "new", "set it back to governor: powersave; 2 more boots of it"),
        ((1, 1), "base", "1 more boot of governor: powersave, then 1 more boot of performance"),
        ((0, 0), "new", "Settled"),
    ):
        step = next_step(experiment, side, {"base": 5, "new": 1}, _Comparison(missing))  # type: ignore[arg-type]
        assert says in step


class _Comparison:
    why_not = None

    def __init__(self, more: tuple[int, int]) -> None:
        self.more = more


def test_the_state_is_refused_where_it_cannot_be_written(bench: Bench) -> None:
    from numamicro.comparison.experiment import Experiment, keep

    Path("file").write_text("")
    with pytest.raises(NumamicroError, match="cannot make the folder"):
        keep(Experiment(CHANGED, {}), Path("file/ab"))
