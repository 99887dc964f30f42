"""The simulated machine's account of what a command spent: its virtual time, and what of it was timed.

    NUMAMICRO_STANDIN_ACCOUNT=FILE python -m tests.standin.play MACHINE -- \\
        python -m numamicro matrix -q --only host-copy,host-latency,peer-copy,peer-latency,all-reduce,gpu-memory
    python -m tests.standin.account FILE

prints the share that the harness took, and the calls that it took it with. What is timed by the host's
own clock (``launch``) is not known to it, and left out above; with ``--quick`` nothing need be named. A
run of many GPUs takes far more real time than virtual: ``--time`` gives it that.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

STARTING = ("cuDevicePrimaryCtxRetain", "cuModuleLoadData")
"""What a process pays once for each GPU, whatever it measures."""


@dataclass(frozen=True)
class Account:
    """What all processes of a command spent, in virtual seconds.

    Parameters
    ----------
    seconds : float
        All of it.
    timed : float
        What lay between two events whose distance was asked for, warm-up included.
    calls : mapping
        How often each call of the driver was made, and how long the host was in it.
    """

    seconds: float
    timed: float
    calls: Mapping[str, tuple[int, float]]

    @property
    def start(self) -> float:
        """What contexts and modules took."""
        return sum(self.calls[name][1] for name in STARTING if name in self.calls)

    @property
    def contexts(self) -> int:
        """How many contexts were made."""
        return self.calls["cuDevicePrimaryCtxRetain"][0]

    @property
    def outside(self) -> float:
        """The share of what was not timed, contexts and modules counted."""
        return 1 - self.timed / self.seconds

    @property
    def harness(self) -> float:
        """The same once the processes had their contexts and modules."""
        return 1 - self.timed / (self.seconds - self.start)


def read_account(file: Path) -> Account:
    """Give the sum of the lines that the processes of a command left."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for line in lines:
        for name, (count, spent) in line["calls"].items():
            counts[name] += count
            seconds[name] += spent
    return Account(
        sum(line["seconds"] for line in lines),
        sum(line["timed"] for line in lines),
        {name: (counts[name], spent) for name, spent in seconds.most_common()},
    )


if __name__ == "__main__":
    account = read_account(Path(sys.argv[1]))
    print(f"{account.seconds:.3f} s, {account.timed:.3f} s timed, {account.start:.3f} s to start")
    print(f"{account.contexts} contexts")
    print(
        f"outside the timed regions: {account.outside:.1%}, {account.harness:.1%} without the start"
    )
    for name, (count, spent) in account.calls.items():
        print(f"{name:30}{count:8}{spent:10.4f} s")
