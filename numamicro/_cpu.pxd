# cython: language_level=3
# What _cpu.pyx may call of the C in src/cpu.

from libc.stdint cimport int64_t, uint64_t

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
    int policy_set(placement, const int *nodes, size_t count)
    int arena_census(const c_arena *, size_t offset, size_t length, size_t step, uint64_t *pages)

cdef extern from "team.h" nogil:
    struct c_team "team":
        pass
    int team_open(c_team **, const int *cpus, size_t size)
    void team_close(c_team *)

cdef extern from "span.h" nogil:
    struct span:
        const c_arena *arena
        size_t length
        size_t threads
    struct c_spans "spans":
        const span *items
        size_t count

cdef extern from "fill.h" nogil:
    int c_fill "fill"(c_team *, c_spans, uint64_t seed, uint64_t *sum)

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
    int stream_read(c_team *, c_spans, const char *name, uint64_t repetitions, stream_result *)
    int stream_store(c_team *, c_spans, const char *name, uint64_t repetitions, uint64_t seed,
                     stream_result *)
    int stream_expected(c_team *, c_spans, const char *name, uint64_t repetitions, uint64_t seed,
                        uint64_t *sum)

cdef extern from "chase.h" nogil:
    struct chase_result:
        int64_t elapsed_ns
        size_t offset
        int64_t strays
    int chase_link(c_team *, const c_arena *, size_t length, size_t line, uint64_t seed)
    int chase_position(size_t length, size_t line, uint64_t seed, uint64_t step, size_t *offset)
    int chase_walk(c_team *, const c_arena *, size_t length, size_t line, uint64_t seed,
                   uint64_t start, uint64_t steps, chase_result *)

cdef extern from "loaded.h" nogil:
    struct load:
        const c_arena *arena
        size_t length
        const char *kernel
        uint64_t delay
    struct loaded_result:
        chase_result chase
        uint64_t bytes
        uint64_t wrong
    int loaded_walk(c_team *, const c_arena *, size_t length, size_t line, uint64_t seed,
                    uint64_t start, uint64_t steps, const load *, loaded_result *)

cdef extern from "sync.h" nogil:
    struct sync_result:
        int64_t elapsed_ns
        uint64_t repetitions
        int64_t strays
    int sync_ping(c_team *, const c_arena *, size_t offset, uint64_t round_trips, sync_result *)
    int sync_barrier(c_team *, uint64_t repetitions, sync_result *)

cdef extern from "sys/prctl.h" nogil:
    enum:
        PR_SET_PDEATHSIG
    int prctl(int option, ...)


cdef extern from "dot.h" nogil:
    struct c_dot_kernel "dot_kernel":
        const char *format
        const char *isa
    struct dot_result:
        int64_t elapsed_ns
        uint64_t bytes
        uint64_t operations
        uint64_t sum
        int64_t strays
    const c_dot_kernel *dot_kernel(size_t index)
    int c_dot_fill "dot_fill"(c_team *, c_spans, const char *format, uint64_t seed, uint64_t *wrong)
    int c_dot "dot"(c_team *, c_spans, const char *format, int many, uint64_t matrices,
                    uint64_t repetitions, dot_result *)

cdef extern from "attend.h" nogil:
    struct attend_result:
        int64_t elapsed_ns
        uint64_t bytes
        uint64_t sum
        int64_t strays
    int c_attend_fill "attend_fill"(c_team *, const c_arena *, size_t offset, size_t length,
                                    size_t positions, size_t heads, uint64_t seed,
                                    uint64_t *wrong)
    int c_attend "attend"(c_team *, const c_arena *, size_t offset, size_t length, size_t positions,
                          size_t heads, uint64_t repetitions, attend_result *)

cdef extern from "step.h" nogil:
    enum c_step_kind "step":
        STEP_NORM
        STEP_ROTATE
        STEP_QUANTIZE
    struct step_result:
        int64_t elapsed_ns
        uint64_t values
        double sum
        int64_t strays
    int c_step "step"(c_team *, c_step_kind, size_t values, uint64_t repetitions, step_result *)
