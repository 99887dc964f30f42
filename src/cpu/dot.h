/* What an engine's arithmetic takes: products of weights in a number format with activations. */
#ifndef NUMAMICRO_DOT_H
#define NUMAMICRO_DOT_H

#include "span.h"
#include "team.h"

/* One loop: a format on an instruction set. */
struct dot_kernel {
    const char *format; /* as ggml calls it: F16, BF16, Q8_0, Q4_0, Q4_K */
    const char *isa;
};

/* The index-th that this CPU can run, widest vectors first; NULL past the last. */
const struct dot_kernel *dot_kernel(size_t index);

struct dot_result {
    int64_t elapsed_ns;
    uint64_t bytes;      /* of weights that went through, scales included */
    uint64_t operations; /* multiplications and additions */
    uint64_t sum;        /* of the results' bits: the same whenever the weights are */
    int64_t strays;
};

/* Fills buffers with rows of weights; what is left over behind the last row is zero. Counts results
 * of both kinds that differ from the format's own definition by more than rounding, over the first
 * rows of every slice: 0, or the loops are wrong. */
int dot_fill(struct team *team, struct spans spans, const char *format, uint64_t seed,
             uint64_t *wrong);

/* Takes the product of every row with one vector, as a decoder does for one token, or with many, as
 * for a prompt. The rows are those of so many matrices, after each of which all threads meet, as an
 * engine's do; 0: they meet at the end only. */
int dot(struct team *team, struct spans spans, const char *format, int many, uint64_t matrices,
        uint64_t repetitions, struct dot_result *result);

#endif
