"""llama.cpp as a process that is asked for times: one line of JSON in, one out.

``python -m bench.llama_engine MODEL DEPTH STATE`` loads a model without mapping its file, fills the cache
to DEPTH, from the file STATE if there is one, which it writes else, and then answers
``{"what": "decode", "count": N, "threads": T}`` with the seconds of N tokens one by one, and ``"prefill"`` with those of a prompt of N tokens. Needs `llama-cpp-python`, whose low-level
interface it uses.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

BATCH = 512
SPARE = 1024


class Engine:
    """One model in one context."""

    def __init__(self, path: str, depth: int, state: Path) -> None:
        import llama_cpp

        self.api: Any = llama_cpp
        self.depth = depth
        quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
        self._quiet = quiet  # the library keeps the pointer
        llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        loading = llama_cpp.llama_model_default_params()
        loading.n_gpu_layers = 0
        _without_mapping(llama_cpp, loading)
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), loading)
        if not self.model:
            raise SystemExit(f"llama.cpp does not load {path}")
        wishes = llama_cpp.llama_context_default_params()
        wishes.n_ctx = depth + SPARE
        wishes.n_batch = wishes.n_ubatch = BATCH
        wishes.n_threads = wishes.n_threads_batch = len(os.sched_getaffinity(0))
        self.context = llama_cpp.llama_init_from_model(self.model, wishes)
        self.memory = llama_cpp.llama_get_memory(self.context)
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.tokens = llama_cpp.llama_vocab_n_tokens(vocabulary)
        if depth:
            self._fill(state)

    def use(self, threads: int) -> None:
        """Compute with so many threads from now on."""
        self.api.llama_set_n_threads(self.context, threads, threads)

    def decode(self, count: int) -> list[float]:
        """Give the seconds of so many tokens, each after the other, from the depth on."""
        seconds = []
        for index in range(count):
            begin = time.perf_counter()
            self._pass([7 * index % self.tokens])
            seconds.append(time.perf_counter() - begin)
        self._forget(self.depth)
        return seconds

    def prefill(self, count: int) -> list[float]:
        """Give the seconds of a prompt."""
        begin = time.perf_counter()
        self._take(count)
        seconds = time.perf_counter() - begin
        self._forget(self.depth)
        return [seconds]

    def _fill(self, state: Path) -> None:
        """Fill the cache: from a file in a second, or by a prompt in a minute."""
        name, none = str(state).encode(), (self.api.llama_token * 1)()
        if state.exists():
            count = ctypes.c_size_t()
            if not self.api.llama_state_seq_load_file(self.context, name, 0, none, 1, count):
                raise SystemExit(f"llama.cpp does not load {state}")
            return
        self._take(self.depth)
        if not self.api.llama_state_seq_save_file(self.context, name, 0, none, 0):
            raise SystemExit(f"llama.cpp does not write {state}")

    def _take(self, count: int) -> None:
        for start in range(0, count, BATCH):
            part = min(BATCH, count - start)
            self._pass([(start + index) * 11 % self.tokens for index in range(part)])

    def _pass(self, tokens: list[int]) -> None:
        array = (self.api.llama_token * len(tokens))(*tokens)
        if self.api.llama_decode(self.context, self.api.llama_batch_get_one(array, len(tokens))):
            raise SystemExit("llama.cpp refused a batch")
        self.api.llama_synchronize(self.context)

    def _forget(self, position: int) -> None:
        self.api.llama_memory_seq_rm(self.memory, 0, position, -1)


def _without_mapping(api: Any, loading: Any) -> None:
    """Let weights be read and not mapped, as versions of the library want to be told."""
    if hasattr(loading, "use_mmap"):
        loading.use_mmap = False
    else:
        loading.load_mode = api.LLAMA_LOAD_MODE_NONE


def main(arguments: list[str]) -> int:
    """Answer until standard input ends."""
    path, depth, state = arguments
    engine = Engine(path, int(depth), Path(state))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        engine.use(asked["threads"])
        take = {"decode": engine.decode, "prefill": engine.prefill}[asked["what"]]
        seconds = take(asked["count"])
        print(json.dumps({"seconds": seconds, "cpu": time.process_time()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
