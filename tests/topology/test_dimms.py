"""Memory modules from what udev keeps of the firmware's table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numamicro.setting import read_setting
from tests.topology.trees import plant

if TYPE_CHECKING:
    from pathlib import Path

UDEV = "run/udev/data/+dmi:id"


def module(index: int, **values: object) -> str:
    known = {"SIZE": 32 * 2**30, "TYPE": "DDR5", "SPEED_MTS": 5600, "DATA_WIDTH": 64}
    known |= {"CONFIGURED_SPEED_MTS": 4800, **values}
    return "".join(f"E:MEMORY_DEVICE_{index}_{key}={value}\n" for key, value in known.items())


@pytest.mark.parametrize(
    ("text", "dimms", "peak"),
    [
        (module(0) + module(1), "2 x 32 GiB DDR5-4800", 2 * 4_800_000_000 * 8),
        # An empty slot says so, and has no size.
        (module(0) + "E:MEMORY_DEVICE_1_PRESENT=0\n", "1 x 32 GiB DDR5-4800", 38_400_000_000),
        (
            module(0) + module(3, TYPE="DDR4", CONFIGURED_SPEED_MTS=3200),
            "1 x 32 GiB DDR4-3200, 1 x 32 GiB DDR5-4800",
            (4_800_000_000 + 3_200_000_000) * 8,
        ),
        # Firmware that counts half a module, and chips that are no module.
        (module(0, DATA_WIDTH=32), "1 x 32 GiB DDR5-4800", 38_400_000_000),
        (module(0, DATA_WIDTH=16, TYPE="LPDDR5"), "1 x 32 GiB LPDDR5-4800", 9_600_000_000),
        (module(0) + module(1, CONFIGURED_SPEED_MTS="x", SPEED_MTS=0), None, None),
        ("E:MEMORY_DEVICE_0_SIZE=many\ngarbled", None, None),
        ("", None, None),
    ],
)
def test_modules_are_read(tmp_path: Path, text: str, dimms: str | None, peak: int | None) -> None:
    setting = read_setting(plant(tmp_path, {UDEV: text}))
    assert setting["memory.peak"] == peak
    if dimms:
        assert setting["memory.dimms"] == dimms


def test_no_serial_gets_into_the_setting(tmp_path: Path) -> None:
    text = module(0, SERIAL_NUMBER="S3CR3T", MANUFACTURER="Maker", LOCATOR="P0")
    assert "S3CR3T" not in str(read_setting(plant(tmp_path, {UDEV: text})))
