/* Bandwidth: every kernel in one table, with the bytes it moves declared. */
#ifndef NUMAMICRO_STREAM_H
#define NUMAMICRO_STREAM_H

#include "span.h"
#include "team.h"

/* The arrays of one thread. All are aligned to 128 bytes and of the same size. */
struct operands {
    const unsigned char *from[2];
    unsigned char *to;
    size_t bytes;   /* of each array; whole words */
    uint64_t value; /* what a write begins with */
};

/* One pass over the arrays. Returns the sum of the words read when nothing is written, else 0. */
typedef uint64_t stream_pass(const struct operands *operands);

struct kernel {
    const char *name; /* operation-variant-isa */
    const char *isa;
    int streams; /* places of an array that a pass walks in step, or in turn */
    int reads;   /* arrays that the program reads */
    int writes;  /* arrays that the program writes */
    int bus; /* arrays that cross the memory bus: a plain store first fetches its line (model) */
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

/* The one of that name; NULL when this CPU has none. */
const struct kernel *stream_kernel_named(const char *name);

struct stream_result {
    int64_t elapsed_ns;
    uint64_t bytes; /* that the program truly read and wrote */
    uint64_t sum;   /* what was read or written, to be compared with stream_expected */
    int64_t strays;
};

/* Runs a kernel that only reads. The sum is that of all words read, modulo 2^64. */
int stream_read(struct team *team, struct spans spans, const char *name, uint64_t repetitions,
                struct stream_result *result);

/* Runs a kernel that writes. Each slice of the buffers, filled with `seed`, holds the arrays that
 * are read and behind them the one written. After the timed part the written words are summed and
 * changed, so that a later run that writes nothing is found out. */
int stream_store(struct team *team, struct spans spans, const char *name, uint64_t repetitions,
                 uint64_t seed, struct stream_result *result);

/* The sum that either must find in buffers filled with `seed`: computed, not read. The spans need
 * no arenas. */
int stream_expected(struct team *team, struct spans spans, const char *name, uint64_t repetitions,
                    uint64_t seed, uint64_t *sum);

#endif
