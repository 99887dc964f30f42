# cython: language_level=3, autotestdict=False, auto_pickle=False
"""The only door to the C below: one function each, one error check, the lock released."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport EBUSY, ENODEV, errno
from libc.signal cimport SIGKILL
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free, malloc

import os
from operator import index


class Displaced(OSError):
    pass


cdef int check(int rc, str what) except -1:
    if rc < 0:
        raise (Displaced if rc == -ENODEV else OSError)(-rc, os.strerror(-rc), what)
    return 0


cdef int *ints(values) except NULL:
    """Give a C array of the values, to be freed by the caller."""
    cdef int *array = <int *>malloc((len(values) + 1) * sizeof(int))
    if array is NULL:
        raise MemoryError
    try:
        for i, value in enumerate(values):
            array[i] = index(value)
    except BaseException:
        free(array)
        raise
    return array


cdef dict census_of(const c_arena *memory, size_t offset, size_t length, size_t step):
    cdef int rc
    cdef uint64_t *pages = <uint64_t *>calloc(CENSUS_STATES, sizeof(uint64_t))
    if pages is NULL:
        raise MemoryError
    try:
        with nogil:
            rc = arena_census(memory, offset, length, step, pages)
        check(rc, "asking where pages are")
        return {i - ERRNO_LIMIT: pages[i] for i in range(CENSUS_STATES) if pages[i]}
    finally:
        free(pages)


cdef class Region:
    cdef c_arena memory

    def __init__(self, size_t address, size_t size):
        self.memory = c_arena(<unsigned char *>address, size)

    @property
    def address(self):
        return <size_t>self.memory.address

    @property
    def size(self):
        return self.memory.size

    def census(self, size_t offset, size_t length, size_t step):
        return census_of(&self.memory, offset, length, step)

    def close(self):
        self.memory = c_arena(NULL, 0)


def bind_thread(nodes):
    cdef int rc
    ids = tuple(nodes)
    cdef size_t count = len(ids)
    cdef int *array = ints(ids)
    with nogil:
        rc = policy_set(PLACE_BIND if count else PLACE_NONE, array, count)
    free(array)
    check(rc, f"setting this thread's policy, nodes {list(ids)}")


cdef class Arena:
    cdef c_arena memory
    cdef Py_ssize_t views
    cdef readonly bint bound

    def __init__(self, size_t size, *, bint huge, str policy="none", nodes=()):
        cdef int rc
        cdef placement how
        if policy not in ("none", "bind", "interleave"):
            raise ValueError(f"policy is {policy!r}; give none, bind or interleave")
        how = {"none": PLACE_NONE, "bind": PLACE_BIND, "interleave": PLACE_INTERLEAVE}[policy]
        self.close()
        ids = tuple(nodes)
        cdef size_t count = len(ids)
        cdef int *array = ints(ids)
        with nogil:
            rc = arena_open(&self.memory, size, huge, how, array, count)
        free(array)
        check(rc, f"mapping {size} bytes, policy {policy}, nodes {list(ids)}")
        self.bound = how != PLACE_NONE

    @property
    def address(self):
        return <size_t>self.memory.address

    @property
    def size(self):
        return self.memory.size

    def census(self, size_t offset, size_t length, size_t step):
        return census_of(&self.memory, offset, length, step)

    def close(self):
        if self.views:
            check(-EBUSY, "closing an arena that is being looked at")
        check(arena_close(&self.memory), "unmapping an arena")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.memory.address, self.memory.size, 0, flags)
        self.views += 1

    def __releasebuffer__(self, Py_buffer *view):
        self.views -= 1

    def __dealloc__(self):
        arena_close(&self.memory)


cdef class Team:
    cdef c_team *threads
    cdef readonly tuple cpus

    def __init__(self, cpus):
        cdef int rc
        self.close()
        self.cpus = tuple(cpus)
        cdef size_t size = len(self.cpus)
        cdef int *array = ints(self.cpus)
        with nogil:
            rc = team_open(&self.threads, array, size)
        free(array)
        check(rc, f"pinning threads to CPUs {list(self.cpus)}")

    def close(self):
        cdef c_team *threads = self.threads
        self.threads = NULL
        if threads is not NULL:
            with nogil:
                team_close(threads)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __dealloc__(self):
        if self.threads is not NULL:
            team_close(self.threads)


cdef c_team *threads_of(Team workers) except NULL:
    if workers.threads is NULL:
        raise ValueError("the team is closed")
    return workers.threads


cdef span *spans_of(tuple spans) except NULL:
    """Give a C array of the spans, to be freed by the caller, who keeps the arenas."""
    cdef span *array = <span *>malloc((len(spans) + 1) * sizeof(span))
    cdef Arena arena
    if array is NULL:
        raise MemoryError
    try:
        for i, (memory, length, threads) in enumerate(spans):
            if memory is None:
                raise TypeError("a span has no arena")
            arena = memory
            array[i] = span(&arena.memory, length, threads)
    except BaseException:
        free(array)
        raise
    return array


cdef class _Spans:
    cdef tuple kept
    cdef c_spans buffers

    def __cinit__(self, spans):
        self.kept = tuple(map(tuple, spans))
        self.buffers = c_spans(spans_of(self.kept), len(self.kept))

    def __str__(self):
        return " + ".join([str(length) for _, length, _ in self.kept])

    def __dealloc__(self):
        free(<void *>self.buffers.items)


def fill(Team team not None, Arena arena not None, size_t length, uint64_t seed):
    return fill_each(team, [(arena, length, len(team.cpus))], seed)


def fill_each(Team team not None, spans, uint64_t seed):
    cdef int rc
    cdef uint64_t checksum
    cdef c_team *threads = threads_of(team)
    cdef _Spans over = _Spans(spans)
    with nogil:
        rc = c_fill(threads, over.buffers, seed, &checksum)
    check(rc, f"filling {over} bytes")
    return checksum


def read(Team team not None, Arena arena not None, size_t length, str kernel not None,
         uint64_t repetitions):
    return read_each(team, [(arena, length, len(team.cpus))], kernel, repetitions)


def read_each(Team team not None, spans, str kernel not None, uint64_t repetitions):
    cdef int rc
    cdef stream_result result
    cdef c_team *threads = threads_of(team)
    encoded = kernel.encode()
    cdef const char *name = encoded
    cdef _Spans over = _Spans(spans)
    with nogil:
        rc = stream_read(threads, over.buffers, name, repetitions, &result)
    check(rc, f"reading {over} bytes by {kernel}")
    return result.elapsed_ns, result.bytes, result.sum, result.strays


def store(Team team not None, Arena arena not None, size_t length, str kernel not None,
          uint64_t repetitions, uint64_t seed):
    return store_each(team, [(arena, length, len(team.cpus))], kernel, repetitions, seed)


def store_each(Team team not None, spans, str kernel not None, uint64_t repetitions,
               uint64_t seed):
    cdef int rc
    cdef stream_result result
    cdef c_team *threads = threads_of(team)
    encoded = kernel.encode()
    cdef const char *name = encoded
    cdef _Spans over = _Spans(spans)
    with nogil:
        rc = stream_store(threads, over.buffers, name, repetitions, seed, &result)
    check(rc, f"storing to {over} bytes by {kernel}")
    return result.elapsed_ns, result.bytes, result.sum, result.strays


cdef uint64_t sum_due(Team team, c_spans buffers, str kernel, uint64_t repetitions,
                      uint64_t seed) except? 0:
    cdef int rc
    cdef uint64_t checksum
    cdef c_team *threads = threads_of(team)
    encoded = kernel.encode()
    cdef const char *name = encoded
    with nogil:
        rc = stream_expected(threads, buffers, name, repetitions, seed, &checksum)
    check(rc, f"the sum that {kernel} makes")
    return checksum


def expected(Team team not None, size_t length, str kernel not None, uint64_t repetitions,
             uint64_t seed):
    cdef span whole = span(NULL, length, len(team.cpus))
    return sum_due(team, c_spans(&whole, 1), kernel, repetitions, seed)


def expected_each(Team team not None, spans, str kernel not None, uint64_t repetitions,
                  uint64_t seed):
    cdef _Spans over = _Spans(spans)
    return sum_due(team, over.buffers, kernel, repetitions, seed)


def link(Team team not None, Arena arena not None, size_t length, size_t line, uint64_t seed):
    cdef int rc
    cdef c_team *threads = threads_of(team)
    with nogil:
        rc = chase_link(threads, &arena.memory, length, line, seed)
    check(rc, f"linking {length} bytes in lines of {line}")


def position(size_t length, size_t line, uint64_t seed, uint64_t step):
    cdef size_t offset
    check(chase_position(length, line, seed, step, &offset), f"{length} bytes in lines of {line}")
    return offset


def chase(Team team not None, Arena arena not None, size_t length, size_t line, uint64_t seed,
          uint64_t start, uint64_t steps):
    cdef int rc
    cdef chase_result result
    cdef c_team *threads = threads_of(team)
    with nogil:
        rc = chase_walk(threads, &arena.memory, length, line, seed, start, steps, &result)
    check(rc, f"chasing through {length} bytes in lines of {line}")
    return result.elapsed_ns, result.offset, result.strays


def loaded(Team team not None, Arena chased not None, size_t length, size_t line, uint64_t seed,
           uint64_t start, uint64_t steps, Arena streamed not None, size_t stream_length,
           str kernel not None, uint64_t delay):
    cdef int rc
    cdef loaded_result result
    cdef c_team *threads = threads_of(team)
    encoded = kernel.encode()
    cdef load others = load(&streamed.memory, stream_length, encoded, delay)
    with nogil:
        rc = loaded_walk(threads, &chased.memory, length, line, seed, start, steps, &others,
                         &result)
    check(rc, f"chasing through {length} bytes beside {kernel} on {stream_length}")
    walked = result.chase
    return walked.elapsed_ns, walked.offset, result.bytes, result.wrong, walked.strays


def ping(Team team not None, Arena arena not None, size_t offset, uint64_t round_trips):
    cdef int rc
    cdef sync_result result
    cdef c_team *threads = threads_of(team)
    with nogil:
        rc = sync_ping(threads, &arena.memory, offset, round_trips, &result)
    check(rc, f"handing over the line at {offset} between CPUs {list(team.cpus)}")
    return result.elapsed_ns, result.repetitions, result.strays


def barrier(Team team not None, uint64_t repetitions):
    cdef int rc
    cdef sync_result result
    cdef c_team *threads = threads_of(team)
    with nogil:
        rc = sync_barrier(threads, repetitions, &result)
    check(rc, f"meeting of CPUs {list(team.cpus)}")
    return result.elapsed_ns, result.repetitions, result.strays


def end_with_parent():
    """Have the kernel end this process when its parent ends, however that happens.

    Raises
    ------
    OSError
        The kernel refuses.
    """
    check(-errno if prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) else 0, "prctl")


def kernels():
    found = []
    while (row := stream_kernel(len(found))) is not NULL:
        found.append((row.name.decode(), row.isa.decode(), row.streams,
                      row.reads, row.writes, row.bus))
    return found


def dot_fill(Team team not None, Arena arena not None, size_t length, str format not None,
             uint64_t seed):
    cdef int rc
    cdef uint64_t wrong
    cdef c_team *threads = threads_of(team)
    cdef span whole = span(&arena.memory, length, len(team.cpus))
    encoded = format.encode()
    cdef const char *name = encoded
    with nogil:
        rc = c_dot_fill(threads, c_spans(&whole, 1), name, seed, &wrong)
    check(rc, f"filling {length} bytes with {format} weights")
    return wrong


def dot(Team team not None, Arena arena not None, size_t length, str format not None, bint many,
        uint64_t matrices, uint64_t repetitions):
    cdef int rc
    cdef dot_result result
    cdef c_team *threads = threads_of(team)
    cdef span whole = span(&arena.memory, length, len(team.cpus))
    encoded = format.encode()
    cdef const char *name = encoded
    with nogil:
        rc = c_dot(threads, c_spans(&whole, 1), name, many, matrices, repetitions, &result)
    check(rc, f"products of {length} bytes of {format} weights")
    return result.elapsed_ns, result.bytes, result.operations, result.sum, result.strays


def dot_kernels():
    found = []
    while (row := dot_kernel(len(found))) is not NULL:
        found.append((row.format.decode(), row.isa.decode()))
    return found


def attend_fill(
    Team team not None,
    Arena arena not None,
    size_t offset,
    size_t length,
    size_t positions,
    size_t heads,
    uint64_t seed,
):
    cdef int rc
    cdef uint64_t wrong
    cdef c_team *threads = threads_of(team)
    with nogil:
        rc = c_attend_fill(
            threads, &arena.memory, offset, length, positions, heads, seed, &wrong
        )
    check(rc, f"filling {length} bytes with keys and values")
    return wrong


def attend(
    Team team not None,
    Arena arena not None,
    size_t offset,
    size_t length,
    size_t positions,
    size_t heads,
    uint64_t repetitions,
):
    cdef int rc
    cdef attend_result result
    cdef c_team *threads = threads_of(team)
    with nogil:
        rc = c_attend(
            threads, &arena.memory, offset, length, positions, heads, repetitions, &result
        )
    check(rc, f"attention over {length} bytes")
    return result.elapsed_ns, result.bytes, result.sum, result.strays


def step(Team team not None, str kind not None, size_t values, uint64_t repetitions):
    cdef int rc
    cdef step_result result
    cdef c_team *threads = threads_of(team)
    cdef c_step_kind which = {
        "norm": STEP_NORM, "rotate": STEP_ROTATE, "quantize": STEP_QUANTIZE
    }[kind]
    with nogil:
        rc = c_step(threads, which, values, repetitions, &result)
    check(rc, f"step {kind} of {values} values")
    return result.elapsed_ns, result.values, result.sum, result.strays
