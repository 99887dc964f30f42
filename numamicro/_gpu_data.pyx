# cython: language_level=3, autotestdict=False, auto_pickle=False
"""The only door to what GPUs are given: data that can be checked, kernels and their arguments."""

from libc.stdint cimport uint64_t, uintptr_t
from libc.string cimport memset

cdef extern from "data.h" nogil:
    void c_pattern_write "pattern_write"(void *, size_t, uint64_t seed, size_t begin)
    size_t c_pattern_wrong "pattern_wrong"(const void *, size_t, uint64_t seed, size_t begin)
    void c_addend_write "addend_write"(void *, size_t, uint64_t seed, unsigned rank, size_t begin)
    size_t c_sum_wrong "sum_wrong"(const void *, size_t, uint64_t seed, unsigned ranks,
                                   size_t begin)
    void c_chain_write "chain_write"(void *, size_t, size_t whole, size_t begin)
    uint64_t c_chain_position "chain_position"(size_t, uint64_t steps)

cdef extern from "kernels/args.h" nogil:
    enum:
        MAX_RANKS
        FLAG_STRIDE
    ctypedef struct AllReduceArgs:
        const void *input
        void *output
        void **send
        const void **receive
        unsigned **signal
        const unsigned **watch
        unsigned *generation
        const unsigned *abort
        unsigned *status
        unsigned long long timeout_ns
        unsigned words
        unsigned repetitions
        unsigned sets
        unsigned rank
        unsigned ranks
        unsigned sends
    ctypedef struct CopyArgs:
        const void *source
        void *target
        unsigned long long words
        unsigned repetitions
    ctypedef struct ChaseArgs:
        const unsigned long long *next
        unsigned long long *result
        unsigned long long start
        unsigned steps

cdef extern from "images.h" nogil:
    struct image:
        const char *arch
        const unsigned char *bytes
        size_t size
    const image *gpu_images
    const int gpu_image_count

cdef enum:
    WORD = 16  # bytes that a kernel moves at once

FLAG_BYTES = FLAG_STRIDE * sizeof(unsigned)


def pattern_write(uint64_t address, size_t size, size_t begin, *, uint64_t seed):
    with nogil:
        c_pattern_write(<void *><uintptr_t>address, size, seed, begin)


def pattern_wrong(uint64_t address, size_t size, size_t begin, *, uint64_t seed):
    cdef size_t wrong
    with nogil:
        wrong = c_pattern_wrong(<void *><uintptr_t>address, size, seed, begin)
    return wrong


def addend_write(uint64_t address, size_t size, size_t begin, *, uint64_t seed, unsigned rank):
    with nogil:
        c_addend_write(<void *><uintptr_t>address, size, seed, rank, begin)


def sum_wrong(uint64_t address, size_t size, size_t begin, *, uint64_t seed, unsigned ranks):
    cdef size_t wrong
    with nogil:
        wrong = c_sum_wrong(<void *><uintptr_t>address, size, seed, ranks, begin)
    return wrong


def chain_write(uint64_t address, size_t size, size_t begin, *, size_t whole):
    with nogil:
        c_chain_write(<void *><uintptr_t>address, size, whole, begin)


def chain_position(size_t size, uint64_t steps):
    return c_chain_position(size, steps)


def copy_arguments(uint64_t target, uint64_t source, size_t size, unsigned repetitions):
    cdef CopyArgs arguments
    arguments.source, arguments.target = <void *><uintptr_t>source, <void *><uintptr_t>target
    arguments.words, arguments.repetitions = size // WORD, repetitions
    return (<char *>&arguments)[:sizeof(arguments)]


def chase_arguments(uint64_t result, uint64_t chain, uint64_t start, unsigned steps):
    cdef ChaseArgs arguments
    arguments.next = <unsigned long long *><uintptr_t>chain
    arguments.result = <unsigned long long *><uintptr_t>result
    arguments.start, arguments.steps = start, steps
    return (<char *>&arguments)[:sizeof(arguments)]


def all_reduce_arguments(*, unsigned rank, uint64_t source, uint64_t target, size_t size,
                         unsigned sets, unsigned repetitions, send, receive, signal, watch,
                         uint64_t generation, uint64_t abort, uint64_t status,
                         uint64_t timeout_ns):
    cdef AllReduceArgs arguments
    cdef unsigned ranks = len(receive)
    if ranks > MAX_RANKS or len(send) > MAX_RANKS or not ranks == len(signal) == len(watch):
        raise ValueError(f"{ranks} ranks: give at most {MAX_RANKS}, and as many flags")
    memset(&arguments, 0, sizeof(arguments))
    arguments.input, arguments.output = <void *><uintptr_t>source, <void *><uintptr_t>target
    for i in range(len(send)):
        arguments.send[i] = <void *><uintptr_t>send[i]
    for i in range(ranks):
        arguments.receive[i] = <void *><uintptr_t>receive[i]
        arguments.signal[i] = <unsigned *><uintptr_t>signal[i]
        arguments.watch[i] = <unsigned *><uintptr_t>watch[i]
    arguments.generation = <unsigned *><uintptr_t>generation
    arguments.abort, arguments.status = <unsigned *><uintptr_t>abort, <unsigned *><uintptr_t>status
    arguments.timeout_ns, arguments.words = timeout_ns, size // WORD
    arguments.repetitions, arguments.sets = repetitions, sets
    arguments.rank, arguments.ranks, arguments.sends = rank, ranks, len(send)
    return (<char *>&arguments)[:sizeof(arguments)]


def images():
    return {gpu_images[i].arch.decode(): gpu_images[i].bytes[:gpu_images[i].size]
            for i in range(gpu_image_count)}
