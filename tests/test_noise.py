"""Foreign load and steal are seen, and a quiet machine is not accused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numamicro.worker.noise import Noise, Snapshot, between, snapshot

if TYPE_CHECKING:
    from pathlib import Path


def at(clock: float, own: float, busy: float, stolen: float = 0.0, switches: int = 0) -> Snapshot:
    return Snapshot(clock, own, switches, {3: busy, 4: 0.0}, {3: stolen, 4: 0.0})


def test_what_this_process_used_is_not_foreign() -> None:
    noise = between(at(0, 0, 50), at(10, 9.5, 59.5), [3])
    assert noise == Noise(0.0, 0.0, 0.0)
    assert noise.warnings() == ()


def test_what_others_used_is_foreign() -> None:
    noise = between(at(0, 0, 50), at(10, 5, 59.5), [3])
    assert noise.foreign is not None
    assert 0.4 < noise.foreign <= 0.45
    assert [warning.code for warning in noise.warnings()] == ["foreign-load"]


def test_what_the_hypervisor_took_is_steal() -> None:
    noise = between(at(0, 0, 50), at(10, 9, 59, stolen=1.0), [3])
    assert noise.steal == 0.1
    assert [warning.code for warning in noise.warnings()] == ["steal"]


def test_other_cpus_do_not_count() -> None:
    assert between(at(0, 0, 50), at(10, 0, 60), [4]).foreign == 0.0


def test_threads_that_lose_their_cpus_tell_of_others_where_the_times_are_hidden() -> None:
    hidden = between(at(0, 0, 0), at(2, 4, 0, switches=1000), [98, 99])
    assert hidden == Noise(None, None, 250.0)
    assert [warning.code for warning in hidden.warnings()] == ["foreign-load"]
    assert not between(at(0, 0, 0), at(2, 4, 0, switches=40), [98, 99]).warnings()


def test_too_short_a_time_or_an_unknown_cpu_proves_nothing() -> None:
    assert between(at(0, 0, 0), at(0.05, 0, 0.05), [3]) == Noise(None, None, None)
    assert between(at(0, 0, 0), at(10, 0, 10), [99]) == Noise(None, None, 0.0)


def test_the_kernels_own_file_is_read(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  1 1 1 1 1 1 1 1 0 0\ncpu7 100 0 200 5 5 0 0 300 0 0\nintr 5\n")
    taken = snapshot(stat)
    assert (taken.busy, taken.stolen) == ({7: 3.0}, {7: 3.0})
    assert snapshot(tmp_path / "none").busy == {}
    assert snapshot().busy
