/* The passes, written once. Each instruction set's file defines ISA (its name), TARGET (its
 * function attribute) and VECTOR_BYTES, includes this, and so gets its own table `kernels`.
 *
 * A read adds every 64-bit word of the slice: the sum proves that all were loaded. Eight
 * accumulators, so that memory and not the add's latency sets the pace. */
#include "stream.h"

typedef uint64_t vector __attribute__((vector_size(VECTOR_BYTES), may_alias));

enum {
    LANES = 8, /* accumulators */
    BLOCK = LANES * VECTOR_BYTES,
    STREAMS = 4,
    STEP = 128, /* bytes a stream advances at once: a pair of lines, or one of 128 bytes */
    STEP_VECTORS = STEP / VECTOR_BYTES,
    STAGGER = 512 << 10,
};

/* How far apart the streams of a slice are. Equal offsets within huge pages would meet in the same
 * memory channel and bank, so an odd multiple of a quarter of a huge page; of less in a slice that
 * is too small for that. */
static inline size_t stream_distance(size_t bytes) {
    size_t unit = bytes / 256 / STEP * STEP;
    unit = unit > STAGGER ? STAGGER : unit < STEP ? STEP : unit;
    size_t units = bytes / STREAMS / unit;
    return units ? ((units - 1) | 1) * unit : 0;
}

static inline TARGET uint64_t total(const vector sums[LANES]) {
    vector sum = {0};
    uint64_t words = 0;
    for (int i = 0; i < LANES; i++)
        sum += sums[i];
    for (unsigned i = 0; i < VECTOR_BYTES / sizeof words; i++)
        words += sum[i];
    return words;
}

static TARGET uint64_t read_1(const unsigned char *slice, size_t bytes) {
    vector sums[LANES] = {{0}};
    const unsigned char *end = slice + bytes;
    for (; slice + BLOCK <= end; slice += BLOCK) {
        const vector *from = (const vector *)slice;
#pragma GCC unroll 8
        for (int i = 0; i < LANES; i++)
            sums[i] += from[i];
    }
    uint64_t sum = total(sums);
    for (; slice < end; slice += sizeof(uint64_t))
        sum += *(const uint64_t *)slice;
    return sum;
}

static TARGET uint64_t read_4(const unsigned char *slice, size_t bytes) {
    vector sums[LANES] = {{0}};
    size_t distance = stream_distance(bytes);
    for (size_t at = 0; at < distance; at += STEP) {
#pragma GCC unroll 4
        for (int stream = 0; stream < STREAMS; stream++) {
            const vector *from = (const vector *)(slice + (size_t)stream * distance + at);
#pragma GCC unroll 16
            for (int i = 0; i < STEP_VECTORS; i++)
                sums[(stream * STEP_VECTORS + i) % LANES] += from[i];
        }
    }
    return total(sums) + read_1(slice + STREAMS * distance, bytes - STREAMS * distance);
}

static const struct kernel kernels[] = {
    {"read-1-" ISA, ISA, 1, 1, 0, read_1},
    {"read-4-" ISA, ISA, 4, 1, 0, read_4},
};
