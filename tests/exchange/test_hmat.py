"""The HMAT exports: QEMU's arguments as QEMU takes them, libvirt's element as XML."""

from __future__ import annotations

import shutil
from itertools import product
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.errors import NumamicroError
from numamicro.export.virtual import bandwidth_unit, libvirt_xml, qemu_arguments
from numamicro.matrix import CostMatrix
from numamicro.units import MIB
from tests.examples import cell, header, load_case, machine, read_case
from tests.exchange.fw_cfg import EMULATOR, hmat

needs_qemu = pytest.mark.skipif(
    shutil.which(EMULATOR) is None, reason="QEMU is missing: apt-get install qemu-system-x86"
)

INITIATORS, TARGETS = (0, 8), (0, 8, 250)


def costs(fastest: float) -> CostMatrix:
    """Give two nodes with CPUs and one without, every pair of its own speed."""
    cells = []
    for rank, (source, target) in enumerate(product(INITIATORS, TARGETS), start=1):
        cells.append(cell(read_case(source, target), fastest / rank))
        cells.append(cell(load_case(source, target), (81 + 7 * rank) * 1e-9))
    return CostMatrix(header(machine((0, 8))), tuple(cells))


def guest(nodes: int = 3, with_cpus: int = 2) -> list[str]:
    words = ["-machine", "q35", "-m", f"{64 * nodes}M", "-smp", f"{with_cpus},sockets={with_cpus}"]
    for index in range(nodes):
        words += ["-object", f"memory-backend-ram,id=m{index},size=64M"]
        own = f"cpus={index}" if index < with_cpus else "initiator=0"
        words += ["-numa", f"node,nodeid={index},memdev=m{index},{own}"]
    return words


def words_of(text: str) -> list[str]:
    return [word for line in text.splitlines() if line[0] != "#" for word in line.split()]


@needs_qemu
@pytest.mark.parametrize("fastest", [40e9, 554.8e9, 3.35e12])
def test_a_guest_of_qemu_has_every_value(fastest: float) -> None:
    latency, bandwidth = hmat([*guest(), *words_of(qemu_arguments(costs(fastest)))])
    assert len(latency) == len(bandwidth) == len(INITIATORS) * len(TARGETS)
    # Six figures in sixteen bits share one unit: they are exact to half of it.
    unit = bandwidth_unit(fastest) // MIB
    for rank, pair in enumerate(product(range(2), range(3)), start=1):
        assert latency[pair] == (81 + 7 * rank) * 1000
        assert abs(bandwidth[pair] - fastest / rank / MIB) <= unit / 2


def test_libvirt_says_the_same_in_its_own_units() -> None:
    # Comments stand before the element, as they may in a domain's XML.
    whole = ElementTree.fromstring(f"<numa>{libvirt_xml(costs(40e9))}</numa>")
    (inner,) = whole.findall("interconnects")
    for rank, pair in enumerate(product(range(2), range(3)), start=1):
        ends = "".join(f"[@{k}='{v}']" for k, v in zip(("initiator", "target"), pair, strict=True))
        (latency,), (bandwidth,) = (inner.findall(f"{k}{ends}") for k in ("latency", "bandwidth"))
        assert latency.attrib["type"] == bandwidth.attrib["type"] == "access"
        assert latency.attrib["value"] == str(81 + 7 * rank)
        assert bandwidth.attrib["unit"] == "KiB"
        assert abs(int(bandwidth.attrib["value"]) * 1024 - 40e9 / rank) <= MIB / 2


@given(st.floats(1.0, 1e15))
def test_sixteen_bits_hold_every_bandwidth(most: float) -> None:
    unit = bandwidth_unit(most)
    assert unit % MIB == 0
    assert round(most / unit) < 0xFFFF
    assert unit == MIB or round(most / (unit // 2)) >= 0xFFFF


def test_what_is_lacking_is_named() -> None:
    for format in (qemu_arguments, libvirt_xml):
        with pytest.raises(NumamicroError, match="latency or read bandwidth of nodes"):
            format(CostMatrix(header(), ()))
