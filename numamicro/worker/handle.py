"""The parent's end of a worker: start it, ask it with a deadline, end it whatever it does."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numamicro
from numamicro.matrix import Run, State
from numamicro.stop import Stopped
from numamicro.topology import Note
from numamicro.wire import case_to_json, run_from_json

if TYPE_CHECKING:
    from numamicro.case import AnyPlace, Case
    from numamicro.probes.probe import Probe
    from numamicro.stop import StopRequest
    from numamicro.topology import Machine

END_SECONDS = 5.0
"""How long a killed worker may take to vanish before it is left behind (stuck in a driver)."""
_STDERR_KEPT = 4096
_PIPES = 4  # of a Popen: three, and one for what keeps the child from starting
_HINTS = {
    "SIGKILL": ": the kernel may have been out of memory",
    "SIGBUS": ": the reserved huge pages had run out, or the memory is faulty",
}
# -P and the root last: a json.py in the caller's folder must not be taken for the module.
_START = (
    "import sys; sys.path.append(sys.argv[1]); from numamicro.worker.__main__ import main; main()"
)
_ROOT = str(Path(numamicro.__file__).parents[1])


class Worker:
    """A child process that measures for one initiator.

    Parameters
    ----------
    initiator : Place or PlaceSet
        To whose CPUs the child pins itself.
    seed : int
        For its data.
    """

    def __init__(self, initiator: AnyPlace, machine: Machine, seed: int) -> None:
        self.alive = True
        self.stuck = False
        self._said = b""
        _check_descriptors()
        # A process group of its own: Ctrl-C is for the parent, which then decides what ends.
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-c", _START, _ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            bufsize=0,
        )
        self._send(
            {
                "initiator": str(initiator),
                "machine": machine.to_json(),
                "seed": seed,
                "path": [entry or os.getcwd() for entry in sys.path],
            }
        )

    def measure(
        self,
        probe: Probe,
        case: Case,
        process: int,
        samples: tuple[int, int],
        deadline: float,
        stop: StopRequest | None = None,
    ) -> dict[str, Run]:
        """Ask for one case and wait at most `deadline` seconds; give a run for each value it has.

        A crash or a hang is such a run too, and ends the worker.

        Parameters
        ----------
        samples : tuple of int
            At least and at most how many; see :class:`numamicro.wishes.Level`.

        Raises
        ------
        Stopped
            `stop` was asked meanwhile; the worker goes on, and is for the caller to end.
        """
        request = {
            "case": case_to_json(case),
            "probe": _reference(probe),
            "process": process,
            "samples": samples,
        }
        answer = self._ask(request, deadline, stop)
        if isinstance(answer, bytes):
            document = json.loads(answer)
            return {name: run_from_json(run, "worker") for name, run in document.items()}
        state, reason = answer
        return {"": Run(process, state=state, reason=reason)}

    def _ask(
        self, request: dict[str, Any], deadline: float, stop: StopRequest | None
    ) -> bytes | tuple[State, Note]:
        if not self._send(request):
            return self._crashed()
        answer = self._answer(time.monotonic() + deadline, stop)
        if answer is None:
            self.kill()
            text = f"the worker gave no answer within {deadline:.0f} s and was ended"
            return State.HANG, Note("deadline", text)
        return answer if answer else self._crashed()

    def _send(self, message: dict[str, Any]) -> bool:
        assert self._child.stdin is not None
        rest = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while rest:
                rest = rest[self._child.stdin.write(rest) :]
        except BrokenPipeError:
            return False
        return True

    def _answer(self, end: float, stop: StopRequest | None) -> bytes | None:
        """Give the next line; empty when the worker ended, None when the time did."""
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        line = b""
        waiting = {self._child.stdout, self._child.stderr}
        while not line.endswith(b"\n"):
            heard: list[Any] = [*waiting, *([stop] if stop else [])]
            ready, _, _ = select.select(heard, [], [], max(end - time.monotonic(), 0))
            if not ready:
                return None
            if stop in ready:
                raise Stopped
            for stream in waiting.intersection(ready):
                piece = os.read(stream.fileno(), 65536)
                if stream is self._child.stderr:
                    # Drained so that a talkative probe cannot block itself; its end tells of a crash.
                    self._said = (self._said + piece)[-_STDERR_KEPT:]
                    waiting -= set() if piece else {stream}
                elif not piece:
                    return b""
                else:
                    line += piece
        return line

    def _crashed(self) -> tuple[State, Note]:
        self._drain()
        self.alive = False
        self._close_pipes()
        status = self._wait()
        if status is None:
            self.stuck = True
            return State.HANG, Note("stuck", "the worker closed its pipe and does not end")
        said = self._said.decode(errors="replace").strip().splitlines()
        last = f" ({said[-1].strip()})" if status >= 0 and said else ""
        return State.ERROR, Note("worker-ended", f"the worker {_ending(status)}{last}")

    def _drain(self) -> None:
        assert self._child.stderr is not None
        while select.select([self._child.stderr], [], [], 0.2)[0]:
            piece = os.read(self._child.stderr.fileno(), 65536)
            if not piece:
                return
            self._said = (self._said + piece)[-_STDERR_KEPT:]

    def _wait(self) -> int | None:
        try:
            return self._child.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End the worker at once; one that even a kill cannot end is left behind, `stuck`."""
        self.alive = False
        self._child.kill()
        self._close_pipes()
        self.stuck = self._wait() is None

    def close(self) -> None:
        """Let the worker end by itself."""
        if not self.alive:
            self._close_pipes()
            return
        self.alive = False
        self._close_pipes()
        if self._wait() is None:
            self.kill()

    def _close_pipes(self) -> None:
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()


def _ending(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    name = signal.Signals(-status).name
    return f"was ended by {name}{_HINTS.get(name, '')}"


def _reference(probe: Probe) -> dict[str, str]:
    """Tell a child where the probe's class is; a script's own classes are found by its file."""
    kind = type(probe)
    file = getattr(sys.modules[kind.__module__], "__file__", None) or ""
    return {"module": kind.__module__, "name": kind.__qualname__, "file": file}


def _check_descriptors() -> None:
    """Raise OSError where a Popen would find too few: some versions of it leave those they had open."""
    taken: list[int] = []
    try:
        for _ in range(_PIPES):
            taken.extend(os.pipe())
    finally:
        for descriptor in taken:
            os.close(descriptor)
