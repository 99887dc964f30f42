"""What all tests share: how hypothesis runs, and that a skipped test says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

# No deadline: how long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("numamicro", deadline=None)
hypothesis.settings.load_profile("numamicro")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that was skipped without a reason; ``-ra`` shows the reasons of the others."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped").removeprefix(":").strip()
        if reason in ("", "unconditional skip"):
            report.outcome = "failed"
            report.longrepr = "skipped without a reason: say what is missing and how to get it"
    return report
