"""Simulators load what is exported to them. Heavy: ./dev test-consumers installs them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from numamicro.export import export_named
from numamicro.export.virtual import libvirt_xml
from tests.cost.rigs import rig
from tests.exchange.test_exports import placed
from tests.exchange.test_hmat import costs

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


@pytest.mark.filterwarnings("ignore:'pipes' is deprecated:DeprecationWarning")  # its command line
def test_llm_analysis_reads_its_own_keys(tmp_path: Path) -> None:
    pytest.importorskip("llm_analysis", reason=HEAVY)
    from llm_analysis.config import read_configs

    (tmp_path / "here.json").write_text(export_named("llm-analysis").text(placed()))
    (config,) = read_configs(str(tmp_path), type="gpu").values()
    assert config.mem_per_GPU_in_GB == 48.0
    assert config.hbm_bandwidth_in_GB_per_sec == 1000.0
    assert config.intra_node_bandwidth_in_GB_per_sec == 12.5
    assert config.intra_node_min_message_latency == 1.5e-6
    assert config.peak_fp16_TFLOPS == 100.0


@pytest.mark.skipif(
    not (shutil.which("virt-xml-validate") and shutil.which("xmllint")),
    reason="libvirt's schema is missing: apt-get install libvirt-clients libxml2-utils",
)
def test_libvirts_schema_takes_the_element(tmp_path: Path) -> None:
    cells = "".join(
        f"<cell id='{index}' {cpus} memory='64' unit='MiB'/>"
        for index, cpus in enumerate(("cpus='0'", "cpus='1'", ""))
    )
    path = tmp_path / "domain.xml"
    path.write_text(
        "<domain type='qemu'><name>here</name><memory unit='MiB'>192</memory><vcpu>2</vcpu>"
        "<os><type arch='x86_64' machine='q35'>hvm</type></os>"
        f"<cpu><numa>{cells}{libvirt_xml(costs(554.8e9))}</numa></cpu></domain>"
    )
    done = subprocess.run(
        ["virt-xml-validate", str(path), "domain"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
