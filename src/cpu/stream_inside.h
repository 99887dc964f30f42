/* What the stream_*.c files share: one family of kernels a file, and where the parts of a slice
 * lie. */
#ifndef NUMAMICRO_STREAM_INSIDE_H
#define NUMAMICRO_STREAM_INSIDE_H

#include "stream.h"

extern const struct kernel_family family_avx512, family_avx2, family_sse2, family_movsb,
    family_neon, family_portable;

enum {
    STEP = 128, /* bytes a stream advances at once: a pair of lines, or one of 128 bytes */
    LINE = 64,
    ARRAY_STAGGER = 256 << 10,
    STREAM_STAGGER = 512 << 10,
};

/* How far apart `parts` equal parts of so many bytes are, a multiple of STEP; what it leaves over
 * lies behind the last. Places that are walked together and have equal offsets within huge pages
 * meet in the same memory channel and bank, so the distance is an odd multiple of `stagger`, or of
 * less where that is too much for the size. */
static inline size_t staggered_distance(size_t bytes, size_t parts, size_t stagger) {
    size_t unit = bytes / 256 / STEP * STEP;
    unit = unit > stagger ? stagger : unit < STEP ? STEP : unit;
    size_t units = bytes / parts / unit;
    return units ? ((units - 1) | 1) * unit : 0;
}

static inline size_t stream_distance(size_t bytes, size_t streams) {
    return streams == 1 ? bytes : staggered_distance(bytes, streams, STREAM_STAGGER);
}

/* The sum of what a write of so many streams, beginning with `value`, stores. Every stream begins
 * with the same value, and so does what they leave over. */
uint64_t written_sum(size_t bytes, size_t streams, uint64_t value);

/* The sum of what is there, which it changes, so that a later look finds it only if it was written
 * again. */
uint64_t sum_and_spoil(unsigned char *written, size_t bytes);

/* Word i of what a write stores is value + i x RAMP: no two neighbours alike, and a known sum. */
#define RAMP UINT64_C(0x9e3779b97f4a7c15)

#endif
