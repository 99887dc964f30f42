"""Our own declarations of the driver, the product's and the stand-in's, against NVIDIA's headers."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STANDIN = sorted((ROOT / "tests/standin").glob("*.c"))

# How a parameter is passed; every pointer and every handle is an address.
_PASSED = {
    "int": "4",
    "CUdevice": "4",
    "CUdevice_v1": "4",
    "cu_device": "4",
    "unsigned": "4",
    "unsigned int": "4",
    "size_t": "8",
    "uint64_t": "8",
    "unsigned long long": "8",
    "cuuint64_t": "8",
    "CUdeviceptr": "8",
    "CUdeviceptr_v2": "8",
    "cu_address": "8",
    "unsigned char": "1",
    "float": "float",
}
_HANDLES = re.compile(r"(CU|cu_)(context|stream|event|module|function|graph|graphExec|graph_exec)")
_ENUMS = re.compile(
    r"CUresult|CU\w+_enum|CUdevice_attribute|CUdevice_P2PAttribute|CUstreamCaptureMode"
)


def headers() -> Path:
    try:
        found = importlib.util.find_spec("nvidia.cuda_runtime")
    except ModuleNotFoundError:
        found = None
    if found is None or not found.submodule_search_locations:
        pytest.skip("no headers of CUDA here (nvidia-cuda-runtime-cu12)")
    return Path(next(iter(found.submodule_search_locations))) / "include"


def passed(parameter: str) -> str:
    """Give how a declared parameter is passed."""
    text = re.sub(r"\bconst\b", "", parameter).strip()
    if "*" in text:
        return "address"
    words = text.split()
    for taken in (words, words[:-1]):  # with a name behind the type, or without
        name = " ".join(taken)
        if _HANDLES.fullmatch(name):
            return "address"
        if name in _PASSED:
            return _PASSED[name]
        if _ENUMS.fullmatch(name):
            return "4"
    raise AssertionError(f"a parameter of unknown sort: {parameter!r}")


def parameters(text: str) -> list[str]:
    inside = " ".join(text.split())
    return [] if inside in ("", "void") else [passed(part) for part in inside.split(",")]


def theirs() -> dict[tuple[str, int], str]:
    """NVIDIA's: name, version, and the parameters as they stand there."""
    text = (headers() / "cudaTypedefs.h").read_text()
    found = re.findall(r"CUDAAPI \*PFN_(cu\w+?)_v(\d+)(?:_ptsz)?\)\((.*?)\);", text, re.DOTALL)
    return {(name, int(version)): inside for name, version, inside in found}


def ours() -> dict[tuple[str, int], list[str]]:
    """The product's table: name, version, parameters."""
    text = (ROOT / "src/gpu/driver.h").read_text().replace("\\\n", " ")
    found = re.findall(r"X\((cu\w+),\s*(\d+),\s*\((.*?)\)\)\s", text, re.DOTALL)
    return {(name, int(version)): parameters(inside) for name, version, inside in found}


def test_the_product_calls_what_the_driver_offers() -> None:
    known, used = theirs(), ours()
    assert len(used) > 40
    for key, expected in used.items():
        assert parameters(known[key]) == expected, key


def test_the_stand_in_offers_what_the_product_calls() -> None:
    """Where a later version has another name, that variant is the one of the asked version."""
    text = "".join(path.read_text() for path in STANDIN)
    defined = dict(re.findall(r"^API (cu\w+)\((.*?)\) \{", text, re.DOTALL | re.MULTILINE))
    variants = dict(re.findall(r'\{"(cu\w+)", \d+, "(cu\w+)"\}', text))
    for (name, _), expected in ours().items():
        assert parameters(defined[variants.get(name, name)]) == expected, name


def test_the_errors_have_the_drivers_numbers() -> None:
    pattern = r"\b(CUDA_(?:SUCCESS|ERROR_\w+))\s*= (\d+)"
    known = dict(re.findall(pattern, (headers() / "cuda.h").read_text()))
    used = dict(re.findall(pattern, (ROOT / "tests/standin/driver.h").read_text()))
    assert len(used) > 20
    assert used.items() <= known.items()


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("MULTIPROCESSOR_COUNT", 16),
        ("KERNEL_EXEC_TIMEOUT", 17),
        ("INTEGRATED", 18),
        ("COMPUTE_MODE", 20),
        ("L2_CACHE_SIZE", 38),
        ("ASYNC_ENGINE_COUNT", 40),
        ("COMPUTE_CAPABILITY_MAJOR", 75),
        ("COMPUTE_CAPABILITY_MINOR", 76),
        ("HOST_NUMA_ID", 134),
    ],
)
def test_the_attributes_have_the_drivers_numbers(name: str, number: int) -> None:
    text = (headers() / "cuda.h").read_text()
    assert re.search(rf"\bCU_DEVICE_ATTRIBUTE_{name} = {number}\b", text)
    product = (ROOT / "src/gpu/device.c").read_text()
    assert re.search(rf"= {number}\b", product), "the product asks for another number"
