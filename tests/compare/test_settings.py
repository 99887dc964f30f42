"""What differs between settings, what was meant to, and what follows."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numamicro.comparison.boots import Boot, Side
from numamicro.comparison.changes import CHANGES, parse_changed
from numamicro.comparison.differences import Kind, differences, not_seen, unknown_on_both
from numamicro.topology import discover
from tests.examples import header
from tests.topology.trees import files_of, plant, uniform

if TYPE_CHECKING:
    from numamicro.topology import Machine

BIOS = (Path(__file__).parents[2] / "docs" / "BIOS.md").read_text()


def side(name: str, *settings: dict[str, Any], machine: Machine | None = None) -> Side:
    """Give a side with a boot of each setting."""
    head = replace(header(machine), setting={})
    return Side(name, tuple(Boot(("x",), replace(head, setting=each), {}) for each in settings))


def kinds(base: Side, new: Side, changed: str | None = None) -> dict[str, Kind]:
    asked = parse_changed(changed) if changed else None
    return {each.key: each.kind for each in differences(base, new, asked)}


def test_what_was_meant_is_told_from_what_else_moved() -> None:
    base = side("base", {"cpu.governor": "powersave", "thp.enabled": "always", "now.load": "1"})
    new = side("new", {"cpu.governor": "performance", "thp.enabled": "never", "now.load": "2"})
    assert kinds(base, new) == {
        "cpu.governor": Kind.UNEXPECTED,
        "thp.enabled": Kind.UNEXPECTED,
        "now.load": Kind.VOLATILE,
    }
    assert kinds(base, new, "governor: powersave -> performance") == {
        "cpu.governor": Kind.INTENDED,
        "thp.enabled": Kind.UNEXPECTED,
        "now.load": Kind.VOLATILE,
    }
    assert kinds(base, new, "thp.enabled")["thp.enabled"] is Kind.INTENDED
    # The unexpected stands above all else.
    assert differences(base, new, parse_changed("THP"))[0].key == "cpu.governor"


def test_what_could_not_be_read_is_unknown_and_never_the_same() -> None:
    base = side("base", {"bios.version": "F1", "cpu.uncore": None, "amd.tsme": None})
    new = side("new", {"bios.version": None, "cpu.uncore": None})
    assert kinds(base, new) == {"bios.version": Kind.UNKNOWN}
    assert unknown_on_both(base, new) == ["cpu.uncore", "amd.tsme"]
    # That there is no hypervisor is known.
    bare = side("base", {"hypervisor": None})
    assert unknown_on_both(bare, bare) == []


def test_files_of_one_side_that_disagree_are_no_setting() -> None:
    base = side("base", {"cpu.governor": "powersave"}, {"cpu.governor": "performance"})
    new = side("new", {"cpu.governor": "performance"})
    (found,) = differences(base, new, parse_changed("governor"))
    assert found.kind is Kind.UNEXPECTED
    assert found.is_mixed


def test_each_flag_of_the_kernel_is_a_key() -> None:
    base = side("base", {"kernel.flags": "iommu=pt"})
    new = side("new", {"kernel.flags": "iommu=on mitigations=off"})
    assert kinds(base, new, "IOMMU") == {
        "kernel.flag.iommu": Kind.INTENDED,
        "kernel.flag.mitigations": Kind.UNEXPECTED,
    }
    # A flag that is not there is not set, which is known.
    (found,) = (d for d in differences(base, new) if d.key == "kernel.flag.mitigations")
    assert found.base == ("not set",)


def test_nodes_follow_nps(tmp_path: Path) -> None:
    nps1 = discover(plant(tmp_path / "1", files_of(uniform(2, 8, packages={0: 0, 1: 1}))))
    packages = {index: index // 4 for index in range(8)}
    nps4 = discover(plant(tmp_path / "4", files_of(uniform(8, 2, packages=packages, llc=2))))
    base, new = side("base", {}, machine=nps1), side("new", {}, machine=nps4)
    found = kinds(base, new, "NPS1 -> NPS4")
    assert found["machine.nodes_per_package"] is Kind.INTENDED
    assert found["machine.nodes"] is Kind.IMPLIED
    asked = parse_changed("NPS1 -> NPS4")
    assert not_seen(differences(base, new, asked), base, new, asked) is None
    back = not_seen(differences(new, base, asked), new, base, asked)
    assert back is not None
    assert "the sides are swapped" in back
    still = not_seen(differences(base, base, asked), base, base, asked)
    assert still is not None
    assert "does not show: machine.nodes_per_package is 1 on both sides" in still


def test_a_change_that_leaves_no_trace_is_taken_on_trust() -> None:
    base = side("base", {})
    asked = parse_changed("xGMI x16 -> x8")
    assert "taken on trust" in str(not_seen((), base, base, asked))
    unknown = parse_changed("the blue knob")
    assert "no setting known by name" in str(not_seen((), base, base, unknown))


def test_memory_that_firmware_needs_for_itself_is_no_difference() -> None:
    machine = discover("/")
    (node, *rest) = machine.nodes
    memory = node.memory or 2**34
    shy = replace(machine, nodes=(replace(node, memory=memory - memory // 200), *rest))
    less = replace(machine, nodes=(replace(node, memory=memory // 2), *rest))
    base = side("base", {}, machine=replace(machine, nodes=(replace(node, memory=memory), *rest)))
    assert "machine.memory" not in kinds(base, side("new", {}, machine=shy))
    assert "machine.memory" in kinds(base, side("new", {}, machine=less))


def test_attributes_of_the_firmware_are_known_by_their_names() -> None:
    names = ("NUMANodesPerSocket", "NodesPerSocket", "CbsDfNps")
    for name in names[:2]:
        base = side("base", {f"bios.attribute.{name}": "NPS1", "bios.attribute.Smt": "On"})
        new = side("new", {f"bios.attribute.{name}": "NPS4", "bios.attribute.Smt": "Off"})
        found = kinds(base, new, "NPS1 -> NPS4")
        assert found[f"bios.attribute.{name}"] is Kind.INTENDED, name
        assert found["bios.attribute.Smt"] is Kind.UNEXPECTED


@given(st.text())
def test_any_words_can_be_a_change(text: str) -> None:
    asked = parse_changed(text)
    assert asked.text == text
    for key in ("cpu.governor", "bios.attribute.X", "machine.nodes"):
        assert asked.shows(key) in (True, False)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_every_known_change_is_in_the_document(change: Any) -> None:
    words = {change.name, change.name.partition(" ")[0]}
    assert any(re.search(rf"(?i)\b{re.escape(word)}", BIOS) for word in words)
    assert parse_changed(change.name).changes
    assert change in parse_changed(change.name).changes
