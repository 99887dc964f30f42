# cython: language_level=3, autotestdict=False, auto_pickle=False
"""The only door to the C below: one function each, one error check, the lock released."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.errno cimport EBUSY
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

import os
from operator import index

cdef extern from "arena.h" nogil:
    enum:
        ERRNO_LIMIT
        CENSUS_STATES
    enum placement:
        PLACE_NONE
        PLACE_BIND
        PLACE_INTERLEAVE
    struct c_arena "arena":
        unsigned char *address
        size_t size
    int arena_open(c_arena *, size_t size, int huge, placement, const int *nodes, size_t count)
    int arena_close(c_arena *)
    int arena_census(const c_arena *, size_t offset, size_t length, size_t step, uint64_t *pages)

cdef extern from "team.h" nogil:
    struct c_team "team":
        pass
    int team_open(c_team **, const int *cpus, size_t size)
    void team_close(c_team *)

cdef extern from "fill.h" nogil:
    int c_fill "fill"(c_team *, const c_arena *, size_t length, uint64_t seed, uint64_t *sum)

cdef extern from "stream.h" nogil:
    struct kernel:
        const char *name
        const char *isa
        int streams
        int reads
        int writes
        int bus
    struct stream_result:
        int64_t elapsed_ns
        uint64_t bytes
        uint64_t sum
        int64_t strays
    const kernel *stream_kernel(size_t index)
    int stream_read(c_team *, const c_arena *, size_t length, const char *name,
                    uint64_t repetitions, stream_result *)
    int stream_store(c_team *, const c_arena *, size_t length, const char *name,
                     uint64_t repetitions, uint64_t seed, stream_result *)
    int stream_expected(c_team *, size_t length, const char *name, uint64_t repetitions,
                        uint64_t seed, uint64_t *sum)

cdef extern from "chase.h" nogil:
    struct chase_result:
        int64_t elapsed_ns
        size_t offset
        int64_t strays
    int chase_link(c_team *, const c_arena *, size_t length, size_t line, uint64_t seed)
    int chase_position(size_t length, size_t line, uint64_t seed, uint64_t step, size_t *offset)
    int chase_walk(c_team *, const c_arena *, size_t length, size_t line, uint64_t seed,
                   uint64_t start, uint64_t steps, chase_result *)


cdef int check(int rc, str what) except -1:
    if rc < 0:
        raise OSError(-rc, os.strerror(-rc), what)
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
        cdef int rc
        cdef uint64_t *pages = <uint64_t *>calloc(CENSUS_STATES, sizeof(uint64_t))
        if pages is NULL:
            raise MemoryError
        try:
            with nogil:
                rc = arena_census(&self.memory, offset, length, step, pages)
            check(rc, "asking where pages are")
            return {i - ERRNO_LIMIT: pages[i] for i in range(CENSUS_STATES) if pages[i]}
        finally:
            free(pages)

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


def fill(Team team not None, Arena arena not None, size_t length, uint64_t seed):
    cdef int rc
    cdef uint64_t checksum
    cdef c_team *threads = threads_of(team)
    with nogil:
        rc = c_fill(threads, &arena.memory, length, seed, &checksum)
    check(rc, f"filling {length} bytes")
    return checksum


def read(Team team not None, Arena arena not None, size_t length, str kernel,
         uint64_t repetitions):
    cdef int rc
    cdef stream_result result
    cdef c_team *threads = threads_of(team)
    encoded = kernel.encode()
    cdef const char *name = encoded
    with nogil:
        rc = stream_read(threads, &arena.memory, length, name, repetitions, &result)
    check(rc, f"reading {length} bytes by {kernel}")
    return result.elapsed_ns, result.bytes, result.sum, result.strays


def store(Team team not None, Arena arena not None, size_t length, str kernel,
          uint64_t repetitions, uint64_t seed):
    cdef int rc
    cdef stream_result result
    cdef c_team *threads = threads_of(team)
    encoded = kernel.encode()
    cdef const char *name = encoded
    with nogil:
        rc = stream_store(threads, &arena.memory, length, name, repetitions, seed, &result)
    check(rc, f"storing to {length} bytes by {kernel}")
    return result.elapsed_ns, result.bytes, result.sum, result.strays


def expected(Team team not None, size_t length, str kernel, uint64_t repetitions, uint64_t seed):
    cdef int rc
    cdef uint64_t checksum
    cdef c_team *threads = threads_of(team)
    encoded = kernel.encode()
    cdef const char *name = encoded
    with nogil:
        rc = stream_expected(threads, length, name, repetitions, seed, &checksum)
    check(rc, f"what {kernel} makes of {length} bytes")
    return checksum


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


def kernels():
    found = []
    while (row := stream_kernel(len(found))) is not NULL:
        found.append((row.name.decode(), row.isa.decode(), row.streams,
                      row.reads, row.writes, row.bus))
    return found
