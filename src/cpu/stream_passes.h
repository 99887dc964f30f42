/* The passes, written once. Each instruction set's file defines ISA (its name), TARGET (its
 * function attribute), VECTOR_BYTES and, where there are non-temporal stores, STORE_PAIR_NT and
 * FENCE_NT; it includes this, and so gets its own table `kernels`. */
#include "stream_inside.h"

typedef uint64_t vector __attribute__((vector_size(VECTOR_BYTES), may_alias));

#define INLINE static inline TARGET __attribute__((always_inline))

enum {
    STEP_VECTORS = STEP / VECTOR_BYTES,
    VECTOR_WORDS = VECTOR_BYTES / sizeof(uint64_t),
    SUMS = 8, /* accumulators: enough that memory and not the add's latency sets the pace */
};

/* The operands are passed by value below: through a pointer they would be loaded again after every
 * store, which might have changed them. */

/* The arrays behind the first `done` bytes. */
INLINE struct operands rest_of(struct operands all, size_t done) {
    return (struct operands){
        {all.from[0] + done, all.from[1] + done}, all.to + done, all.bytes - done, all.value};
}

INLINE uint64_t total(const vector sums[SUMS]) {
    vector sum = {0};
    uint64_t words = 0;
    for (int i = 0; i < SUMS; i++)
        sum += sums[i];
    for (unsigned i = 0; i < VECTOR_WORDS; i++)
        words += sum[i];
    return words;
}

/* Adds every word: the sum proves that all were loaded. */
INLINE uint64_t read_by(struct operands o, size_t streams) {
    vector sums[SUMS] = {{0}};
    size_t distance = stream_distance(o.bytes, streams);
    size_t at = 0;
    for (; at + STEP <= distance; at += STEP) {
#pragma GCC unroll 4
        for (size_t stream = 0; stream < streams; stream++) {
            const vector *from = (const vector *)(o.from[0] + stream * distance + at);
#pragma GCC unroll 16
            for (int i = 0; i < STEP_VECTORS; i++)
                sums[(stream * STEP_VECTORS + (size_t)i) % SUMS] += from[i];
        }
    }
    uint64_t sum = total(sums);
    for (; at < distance; at += sizeof sum)
        sum += *(const uint64_t *)(o.from[0] + at);
    return sum;
}

static TARGET uint64_t read_1(const struct operands *o) { return read_by(*o, 1); }

static TARGET uint64_t read_4(const struct operands *o) {
    struct operands rest = rest_of(*o, 4 * stream_distance(o->bytes, 4));
    return read_by(*o, 4) + read_1(&rest);
}

INLINE void store_pair(vector *to, vector first, vector second, int temporal) {
#ifdef STORE_PAIR_NT
    if (!temporal) {
        STORE_PAIR_NT(to, first, second);
        return;
    }
#endif
    (void)temporal;
    to[0] = first;
    to[1] = second;
}

INLINE void write_by(struct operands o, size_t streams, int temporal) {
    vector ramp = {0};
    for (unsigned i = 0; i < VECTOR_WORDS; i++)
        ramp[i] = o.value + i * RAMP;
    size_t distance = stream_distance(o.bytes, streams);
    size_t at = 0;
    for (; at + STEP <= distance; at += STEP) {
        vector next = ramp;
#pragma GCC unroll 4
        for (size_t stream = 0; stream < streams; stream++) {
            vector *to = (vector *)(o.to + stream * distance + at);
            next = ramp;
#pragma GCC unroll 8
            for (int i = 0; i < STEP_VECTORS; i += 2) {
                store_pair(to + i, next, next + VECTOR_WORDS * RAMP, temporal);
                next += 2 * VECTOR_WORDS * RAMP;
            }
        }
        ramp = next;
    }
    for (; at < distance; at += sizeof(uint64_t))
        *(uint64_t *)(o.to + at) = o.value + at / sizeof(uint64_t) * RAMP;
}

static TARGET uint64_t write_1(const struct operands *o) {
    write_by(*o, 1, 1);
    return 0;
}

static TARGET uint64_t write_4(const struct operands *o) {
    struct operands rest = rest_of(*o, 4 * stream_distance(o->bytes, 4));
    write_by(*o, 4, 1);
    return write_1(&rest);
}

/* Copy is to = from[0], triad is to = from[0] + 2 x from[1]; whole words, so that sums stay exact.
 */
INLINE vector combined(struct operands o, int reads, size_t at) {
    vector value = *(const vector *)(o.from[0] + at);
    if (reads == 2)
        value += 2 * *(const vector *)(o.from[1] + at);
    return value;
}

/* So many bytes of each array, from `at` on. Plain stores take turns with the loads that they are
 * of: several loads ahead of several stores made a copy a tenth slower on a Zen 3, and two copies
 * on one core a quarter. */
INLINE void combine(struct operands o, int reads, size_t at, size_t bytes, int temporal) {
    if (temporal) {
#pragma GCC unroll 8
        for (size_t i = 0; i < bytes; i += VECTOR_BYTES)
            *(vector *)(o.to + at + i) = combined(o, reads, at + i);
        return;
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < bytes; i += 2 * VECTOR_BYTES)
        store_pair((vector *)(o.to + at + i), combined(o, reads, at + i),
                   combined(o, reads, at + i + VECTOR_BYTES), 0);
}

/* Asks for all lines of a block of each stream at once, past the caches: they come while the stores
 * of the block before still drain. On a Zen 3 that gains 2 to 6 % with one thread and with two. The
 * loops stay rolled, here and below: unrolled whole, they spill, and the stores of one line drift
 * apart, which loses a fifth. */
INLINE void fetch_ahead(struct operands o, int reads, size_t streams, size_t distance, size_t begin,
                        size_t block) {
    for (size_t stream = 0; stream < streams; stream++) {
#pragma GCC unroll 1
        for (size_t i = 0; i < block; i += LINE) {
            size_t at = stream * distance + begin + i;
            __builtin_prefetch(o.from[0] + at, 0, 0);
            if (reads == 2)
                __builtin_prefetch(o.from[1] + at, 0, 0);
        }
    }
}

/* Copy and triad of the streams' first `distance` bytes, a multiple of `block`: a block of each in
 * turn, which is a multiple of `step`. */
INLINE void combine_in_turn(struct operands o, int reads, size_t streams, size_t distance,
                            size_t block, size_t step, int temporal) {
    for (size_t begin = 0; begin < distance; begin += block) {
        if (!temporal)
            fetch_ahead(o, reads, streams, distance, begin, block);
#pragma GCC unroll 4
        for (size_t stream = 0; stream < streams; stream++) {
#pragma GCC unroll 1
            for (size_t i = 0; i < block; i += step)
                combine(o, reads, stream * distance + begin + i, step, temporal);
        }
    }
}

/* The arrays are multiples of STEP (stream.c sees to it). */
INLINE void combine_by(struct operands o, int reads, size_t streams, size_t block, int temporal) {
    size_t step = temporal ? LINE : STEP;
    size_t distance = stream_distance(o.bytes, streams) / block * block;
    combine_in_turn(o, reads, streams, distance, block, step, temporal);
    struct operands rest = rest_of(o, streams * distance);
    combine_in_turn(rest, reads, 1, rest.bytes, STEP, step, temporal);
}

/* A line of each stream in turn. */
static TARGET uint64_t copy_1(const struct operands *o) {
    combine_by(*o, 1, 1, LINE, 1);
    return 0;
}

static TARGET uint64_t copy_2(const struct operands *o) {
    combine_by(*o, 1, 2, LINE, 1);
    return 0;
}

static TARGET uint64_t triad_1(const struct operands *o) {
    combine_by(*o, 2, 1, LINE, 1);
    return 0;
}

static TARGET uint64_t triad_2(const struct operands *o) {
    combine_by(*o, 2, 2, LINE, 1);
    return 0;
}

#ifdef STORE_PAIR_NT

/* Non-temporal stores fill lines in the write-combining buffers, which are few: places that take
 * turns at every line flush them half full. A second place to read from keeps more loads in flight,
 * so the turns are long ones. */
enum { NT_STREAMS = 2, NT_BLOCK = 1024 };

static TARGET uint64_t write_nt(const struct operands *o) {
    write_by(*o, 1, 0);
    FENCE_NT();
    return 0;
}

static TARGET uint64_t copy_nt(const struct operands *o) {
    combine_by(*o, 1, NT_STREAMS, NT_BLOCK, 0);
    FENCE_NT();
    return 0;
}

static TARGET uint64_t triad_nt(const struct operands *o) {
    combine_by(*o, 2, NT_STREAMS, NT_BLOCK, 0);
    FENCE_NT();
    return 0;
}

#endif

static const struct kernel kernels[] = {
    {"read-1-" ISA, ISA, 1, 1, 0, 1, read_1},
    {"read-4-" ISA, ISA, 4, 1, 0, 1, read_4},
    {"write-1-" ISA, ISA, 1, 0, 1, 2, write_1},
    {"write-4-" ISA, ISA, 4, 0, 1, 2, write_4},
    {"copy-1-" ISA, ISA, 1, 1, 1, 3, copy_1},
    {"copy-2-" ISA, ISA, 2, 1, 1, 3, copy_2},
    {"triad-1-" ISA, ISA, 1, 2, 1, 4, triad_1},
    {"triad-2-" ISA, ISA, 2, 2, 1, 4, triad_2},
#ifdef STORE_PAIR_NT
    {"write-nt-" ISA, ISA, 1, 0, 1, 1, write_nt},
    {"copy-nt-" ISA, ISA, NT_STREAMS, 1, 1, 2, copy_nt},
    {"triad-nt-" ISA, ISA, NT_STREAMS, 2, 1, 3, triad_nt},
#endif
};
