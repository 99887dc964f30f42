"""Compile the kernels with NVRTC and write one C file that holds the images.

    python compile.py TARGET.c

NVRTC is the compiler as a library (nvidia-cuda-nvrtc-cu12): it needs neither toolkit nor driver nor
GPU. Release 12.9 is the last for sm_70, and its images load on every driver of CUDA 12 and later.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE / "kernels.cu"
CAPABILITIES = ("70", "75", "80", "86", "89", "90", "100", "120")
# The last is for GPUs that are newer than all others: their driver compiles it.
ARCHITECTURES = (*(f"sm_{capability}" for capability in CAPABILITIES), "compute_70")


def load_nvrtc() -> ctypes.CDLL:
    """Give the library of this Python environment."""
    try:
        found = importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:  # not even a package "nvidia"
        found = None
    if found is None or found.submodule_search_locations is None:
        raise SystemExit(
            "the kernels need NVRTC: install nvidia-cuda-nvrtc-cu12==12.9.* into this Python "
            "environment, or build without kernels (NUMAMICRO_NO_GPU_KERNELS=1)"
        )
    folder = Path(next(iter(found.submodule_search_locations))) / "lib"
    return ctypes.CDLL(str(folder / "libnvrtc.so.12"))


class Compiler:
    """NVRTC with the kernels' headers at hand."""

    def __init__(self, folder: Path = HERE) -> None:
        self._library = load_nvrtc()
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
        headers = sorted(folder.glob("*.h"))
        self._source = (folder / SOURCE.name).read_bytes()
        self._count = len(headers)
        self._names = (ctypes.c_char_p * len(headers))(*[path.name.encode() for path in headers])
        self._texts = (ctypes.c_char_p * len(headers))(*[path.read_bytes() for path in headers])

    def image(self, architecture: str) -> bytes:
        """Compile for ``sm_90`` (machine code) or ``compute_90`` (PTX).

        Raises
        ------
        SystemExit
            The compiler's messages, where it refuses the source.
        """
        image, _ = self.image_and_log(architecture)
        return image

    def image_and_log(self, architecture: str, *options: str) -> tuple[bytes, str]:
        """Compile with more options, and give what the compiler said too."""
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(
                ctypes.byref(program),
                self._source,
                SOURCE.name.encode(),
                self._count,
                self._texts,
                self._names,
            )
        )
        wanted = [f"--gpu-architecture={architecture}", "--std=c++17", *options]
        passed = (ctypes.c_char_p * len(wanted))(*[option.encode() for option in wanted])
        failed = self._library.nvrtcCompileProgram(program, len(wanted), passed)
        log = self._get(program, "ProgramLog").rstrip(b"\0").decode()
        if failed:
            raise SystemExit(f"{SOURCE.name} for {architecture}:\n{log}")
        image = self._get(program, "CUBIN" if architecture.startswith("sm_") else "PTX")
        self._check(self._library.nvrtcDestroyProgram(ctypes.byref(program)))
        return image, log

    def _get(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._check(getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
        room = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, room))
        return room.raw

    def _check(self, error: int) -> None:
        if error:
            raise SystemExit(f"NVRTC: {self._library.nvrtcGetErrorString(error).decode()}")


def c_source(images: dict[str, bytes]) -> str:
    """Give the C file that defines ``gpu_images`` (see images.h)."""
    arrays = [
        f"static const unsigned char image_{name}[] __attribute__((aligned(64))) = {{"
        f"{','.join(map(str, image))}}};\n"
        for name, image in images.items()
    ]
    rows = [f'    {{"{name}", image_{name}, sizeof image_{name}}},\n' for name in images]
    return (
        '#include "images.h"\n\n'
        + "".join(arrays)
        + "\nconst struct image gpu_images[] = {\n"
        + "".join(rows)
        + f"}};\nconst int gpu_image_count = {len(images)};\n"
    )


def main() -> None:
    """Write the file that the command line names."""
    compiler = Compiler()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        images = dict(zip(ARCHITECTURES, pool.map(compiler.image, ARCHITECTURES), strict=True))
    Path(sys.argv[1]).write_text(c_source(images))


if __name__ == "__main__":
    main()
