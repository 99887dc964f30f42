"""The guests' kernel and its first files: a Debian package, unpacked into the checkout's cache."""

from __future__ import annotations

import lzma
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CACHE = Path(__file__).parents[2] / ".vm"
EMULATOR = "qemu-system-x86_64"
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console")
FOLDERS = ("bin", "proc", "sys", "dev", "lower", "upper", "root", "share")


class Unavailable(Exception):
    """Guests cannot be had here; the sentence says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """What a guest boots: an image, and the archive of its first files."""

    release: str
    image: Path
    files: Path


def get_kernel() -> Kernel:
    """Give the kernel of the cache; fetch and unpack it the first time.

    Raises
    ------
    Unavailable
        QEMU is not installed, or the packages cannot be downloaded.
    """
    if platform.machine() != "x86_64":
        raise Unavailable("the guests run this machine's own files, on x86_64 alone so far")
    if not shutil.which(EMULATOR):
        raise Unavailable(f"{EMULATOR} is missing: run 'sudo apt-get install qemu-system-x86'")
    named = CACHE / "release"
    if not named.exists():
        _make(named)
    return Kernel(named.read_text(), CACHE / "image", CACHE / "files")


def _make(named: Path) -> None:
    CACHE.mkdir(exist_ok=True)
    packages = CACHE / "packages"
    shutil.rmtree(packages, ignore_errors=True)
    packages.mkdir()
    if not _knows("linux-image-amd64") and os.geteuid() == 0:
        _run("apt-get", "update", "-q", within=packages)  # as in a fresh container
    for name in (_concrete("linux-image-amd64"), "busybox-static"):
        _run("apt-get", "download", name, within=packages)
    for package in packages.glob("*.deb"):
        _run("dpkg", "-x", package.name, "tree", within=packages)
    tree = packages / "tree"
    packed = next((tree / "boot").glob("vmlinuz-*"))
    (CACHE / "image").write_bytes(_unpacked(packed.read_bytes()))
    busybox = next(path for path in tree.glob("**/bin/busybox"))
    (CACHE / "files").write_bytes(archive(_first_files(tree, busybox)))
    named.write_text(packed.name.removeprefix("vmlinuz-"))
    shutil.rmtree(packages)


def _run(*command: str, within: Path) -> str:
    try:
        done = subprocess.run(command, cwd=within, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise Unavailable(
            f"'{' '.join(command)}' failed ({said.strip().splitlines()[-1]}): the guests' kernel "
            "comes from Debian's packages; 'sudo apt-get update' may help"
        ) from error
    return done.stdout


def _knows(name: str) -> bool:
    return bool(_run("apt-cache", "search", "--names-only", f"^{name}$", within=CACHE))


def _concrete(name: str) -> str:
    """Give the package that a name without a version stands for."""
    told = _run("apt-cache", "depends", name, within=CACHE)
    found = re.search(r"Depends: (linux-image-\S+)", told)
    if found is None:
        raise Unavailable(f"apt knows no {name}: the guests' kernel comes from Debian's packages")
    return found[1]


def _unpacked(image: bytes) -> bytes:
    """Give the kernel inside a bzImage where that is XZ: the emulated CPU would take long for it.

    Where it is stands in the header, as the kernel's Documentation/arch/x86/boot.rst lays down.
    """
    real_mode = (image[0x1F1] + 1) * 512
    start = real_mode + int.from_bytes(image[0x248:0x24C], "little")
    payload = image[start:][: int.from_bytes(image[0x24C:0x250], "little")]
    if not payload.startswith(b"\xfd7zXZ\0"):
        return image
    return lzma.LZMADecompressor().decompress(payload)


def _first_files(tree: Path, busybox: Path) -> Iterator[tuple[str, int, bytes]]:
    """Give name, mode and content of each file that the guest boots with."""
    for folder in FOLDERS:
        yield folder, 0o040755, b""
    yield "bin/busybox", 0o100755, busybox.read_bytes()
    paths = {_module_name(path): path for path in tree.rglob("*.ko*")}
    for number, name in enumerate(_in_order(MODULES, paths)):
        yield f"modules-{number:02}-{name}", 0o100644, _content(paths[name])


def _module_name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    return lzma.decompress(content) if path.suffix == ".xz" else content


def _in_order(names: Iterable[str], paths: Mapping[str, Path]) -> list[str]:
    """Give modules behind those they need; what has no file is part of the kernel itself."""
    order: list[str] = []
    for name in names:
        if name in paths and name not in order:
            needed = re.search(rb"\0depends=([^\0]*)", _content(paths[name]))
            before = needed[1].decode().replace("-", "_").split(",") if needed else []
            order += [each for each in _in_order(before, paths) if each not in order]
            order.append(name)
    return order


def archive(files: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Give a cpio archive (newc) of names, modes and contents."""
    out = bytearray()
    for number, (name, mode, content) in enumerate([*files, ("TRAILER!!!", 0, b"")], start=1):
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08x" % field for field in fields)
        for part in (name.encode() + b"\0", content):
            out += part
            out += bytes(-len(out) % 4)
    return bytes(out)
