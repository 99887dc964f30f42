"""Settings of the firmware by its own names: from the kernel, or from a file the user hands in.

Firmware also keeps what is private: passwords, asset tags, addresses. Of all attributes only those are
kept whose names speak of speed, or that are nothing but a code, and none whose value looks private.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from numamicro.errors import NumamicroError
from numamicro.setting.words import LONGEST, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numamicro.topology.sysfs import Tree

PREFIX = "bios.attribute."
FOLDER = "sys/class/firmware-attributes"

_MOST = 2000
"""Attributes of one firmware; large servers have some hundreds."""

_MOST_BYTES = 8 << 20

_SPEED = re.compile(
    r"nps|numa|node|snc|sub|cluster|hemi|iommu|vt-?d|virtual|acs|pci|aspm|bar|4g|mmio|gmi|link|df|"
    r"fabric|fclk|uclk|apb|dlwm|c-?state|power|perf|turbo|boost|cpb|smt|hyper|logical|thread|core|ccd|"
    r"l3|llc|cache|prefetch|mem|dram|ddr|dimm|xmp|expo|speed|clock|freq|uncore|interleav|sme|ecc|scrub|"
    r"determin|tdp|ppt|edc|upi|qpi|mirror|spar|huge|latency|workload|profile|epp|energy|monitor|mwait|"
    r"sriov|sr-?iov|x2apic|lanes|bifurc|gen[3456]|refresh|cxl|hbm|tme",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Z]{2,8}[0-9]{2,5}")
_PRIVATE = re.compile(
    r"serial|uuid|guid|asset|tag|owner|passw|pwd|user|admin|host|name|mac|addr|ipv?[46]?$|ipv|"
    r"e-?mail|phone|contact|location|key|secret|token|cert|iscsi|url|uri|path|server|domain|dns|boot",
    re.IGNORECASE,
)
_PRIVATE_VALUE = re.compile(
    r"@|://|\b(?:[0-9a-f]{2}[:-]){3,}|\b[0-9a-f]{8}-[0-9a-f]{4}-|\b\d{1,3}(?:\.\d{1,3}){3}\b|[0-9a-f]{16}",
    re.IGNORECASE,
)


def read_attributes(tree: Tree) -> dict[str, Value]:
    """Read what the kernel's driver for a vendor's firmware shows, most of it to root alone."""
    pairs = (
        (name, tree.text(f"{FOLDER}/{driver}/attributes/{name}/current_value"))
        for driver in tree.names(FOLDER)
        for name in tree.names(f"{FOLDER}/{driver}/attributes")
    )
    return dict(_kept(pairs))


def read_bios_json(path: Path) -> dict[str, Value]:
    """Read the attributes of a Redfish Bios resource (``/redfish/v1/Systems/*/Bios``).

    Raises
    ------
    NumamicroError
        It cannot be read, or is no such resource.
    """
    try:
        data = path.read_bytes()[: _MOST_BYTES + 1]
        document = json.loads(data) if len(data) <= _MOST_BYTES else None
    except OSError as error:
        raise NumamicroError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise NumamicroError(f"{path} is no Redfish Bios resource: it is not JSON") from error
    attributes: Any = document.get("Attributes") if isinstance(document, dict) else None
    if not isinstance(attributes, dict) or not attributes:
        raise NumamicroError(
            f"{path} is no Redfish Bios resource: it has no 'Attributes'; save what "
            "/redfish/v1/Systems/SYSTEM/Bios gives"
        )
    return dict(_kept(attributes.items()))


def _kept(pairs: Iterable[tuple[str, object]]) -> Iterator[tuple[str, Value]]:
    kept = 0
    for name, value in sorted(pairs, key=lambda pair: pair[0]):
        written = _written(value)
        if written is not None and _is_public(name, written) and kept < _MOST:
            kept += 1
            yield f"{PREFIX}{name[:100]}", written


def _written(value: object) -> str | int | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return value if abs(value) < 2**63 else None
    return value[:LONGEST] if isinstance(value, str) and value else None


def _is_public(name: str, value: str | int) -> bool:
    if not (name.isprintable() and name.isascii()) or _PRIVATE.search(name):
        return False
    speaks = _SPEED.search(name) is not None or _CODE.fullmatch(name) is not None
    return speaks and not _PRIVATE_VALUE.search(str(value))
