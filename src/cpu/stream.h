/* Bandwidth: every kernel in one table, with the bytes it moves declared. */
#ifndef NUMAMICRO_STREAM_H
#define NUMAMICRO_STREAM_H

#include "arena.h"
#include "team.h"

/* One pass over a slice (aligned to SLICE_GRAIN, whole words). Returns the sum of the words read.
 */
typedef uint64_t stream_pass(const unsigned char *slice, size_t bytes);

struct kernel {
    const char *name; /* operation-streams-isa */
    const char *isa;
    int streams; /* places in a slice that a pass walks in step */
    int reads;   /* bytes read per byte of the slice */
    int writes;  /* bytes written per byte of the slice */
    stream_pass *pass;
};

/* What one instruction set offers; `count` is 0 where it was not compiled. */
struct kernel_family {
    const struct kernel *kernels;
    size_t count;
    int (*supported)(void);
};

/* The index-th kernel that this CPU can run, widest vectors first; NULL past the last. */
const struct kernel *stream_kernel(size_t index);

struct stream_result {
    int64_t elapsed_ns;
    uint64_t bytes; /* truly moved */
    uint64_t sum;   /* of all words read, modulo 2^64: repetitions x the sum of the buffer */
    int64_t strays;
};

int stream_read(struct team *team, const struct arena *arena, size_t length, const char *name,
                uint64_t repetitions, struct stream_result *result);

#endif
