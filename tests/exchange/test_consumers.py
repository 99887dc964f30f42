"""Simulators load what is exported to them. Heavy: ./dev test-consumers installs them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from numamicro.export import export_named
from tests.cost.rigs import rig

HEAVY = "aiconfigurator-core and llm-analysis are heavy: ./dev test-consumers installs them"


def test_aiconfigurator_takes_the_keys_over_those_of_a_system(tmp_path: Path) -> None:
    core = pytest.importorskip("aiconfigurator_core", reason=HEAVY)
    from aiconfigurator_core.sdk.perf_database import get_database

    systems = Path(core.__file__).parent / "systems"
    system = yaml.safe_load((systems / "a30.yaml").read_text())
    for part, keys in yaml.safe_load(export_named("aiconfigurator").text(rig(2, 2))).items():
        system[part] |= keys
    (tmp_path / "data").mkdir()
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(system))
    database = get_database(
        "here",
        "vllm",
        "0.12.0",
        systems_paths=[str(tmp_path)],
        allow_missing_data=True,
        database_mode="SOL",
        allow_unlisted_version=True,
    )
    assert database.system_spec.get_p2p_bandwidth(2) == 12.5e9
    assert database.system_spec["gpu"]["mem_bw"] == 1e12
    assert database.system_spec["node"]["p2p_latency"] == 5e-6
