"""What GPUs are given: data that tell whether they arrived whole, kernels and their arguments.

Addresses are of host memory unless a name says otherwise; sizes are bytes. Data are written and
looked at part by part: the part of `size` bytes lies at `address`, and in the whole at `begin`, a
multiple of 8. Nothing here needs a driver.
"""

from collections.abc import Sequence

def pattern_write(address: int, size: int, begin: int, *, seed: int) -> None:
    """Write words of 8 bytes to host memory, each unlike the others and those of other seeds."""

def pattern_wrong(address: int, size: int, begin: int, *, seed: int) -> int:
    """Count the words of host memory that are not the pattern's."""

def addend_write(address: int, size: int, begin: int, *, seed: int, rank: int) -> None:
    """Write a rank's numbers, 2 bytes each (bfloat16), to host memory."""

def sum_wrong(address: int, size: int, begin: int, *, seed: int, ranks: int) -> int:
    """Count the words of host memory that are not the sum of so many ranks' numbers."""

def chain_write(address: int, size: int, begin: int, *, whole: int) -> None:
    """Link the lines of 128 bytes of `whole` bytes, a power of 2 of them, to one cycle."""

def chain_position(size: int, steps: int) -> int:
    """Give the index (in words of 8 bytes) where a walk from the first line ends."""

FLAG_BYTES: int
"""Bytes of the flags of one block of an all-reduce."""

def copy_arguments(target: int, source: int, size: int, repetitions: int) -> bytes:
    """Give what the kernels ``copy`` and ``read`` take; `size` in whole words of 16 bytes."""

def chase_arguments(result: int, chain: int, start: int, steps: int) -> bytes:
    """Give what the kernel ``chase`` takes; it leaves the index where it ended at `result`."""

def all_reduce_arguments(
    *,
    rank: int,
    source: int,
    target: int,
    size: int,
    sets: int,
    repetitions: int,
    send: Sequence[int],
    receive: Sequence[int],
    signal: Sequence[int],
    watch: Sequence[int],
    generation: int,
    abort: int,
    status: int,
    timeout_ns: int,
) -> bytes:
    """Give what the all-reduce kernels of one rank take; args.h tells what the addresses mean.

    Raises
    ------
    ValueError
        More ranks than the kernels know, or not as many flags.
    """

def images() -> dict[str, bytes]:
    """Give the kernels by architecture; none where the package was built without them."""
