/* stream LOOP CPU,CPU,... BYTES PASSES huge|small: what STREAM would be with reads and writes.
 *
 * The loops are as plain as C can say them, and as the compiler makes them; it must not make library
 * calls of them, for string.c measures those. GCC has no words for a store past the caches, so
 * triad-nt says it by intrinsics. */
#define _GNU_SOURCE
#include "loops.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const double written = 1.5, scalar = 3.0;

static uint64_t read_words(struct part part) {
    const uint64_t *words = (const uint64_t *)part.to;
    uint64_t sum = 0;
    for (size_t i = 0; i < part.count; i++)
        sum += words[i];
    return sum;
}

static uint64_t write(struct part part) {
    for (size_t i = 0; i < part.count; i++)
        part.to[i] = written;
    return 0;
}

static uint64_t copy(struct part part) {
    const double *restrict from = part.from[0];
    double *restrict to = part.to;
    for (size_t i = 0; i < part.count; i++)
        to[i] = from[i];
    return 0;
}

static uint64_t triad(struct part part) {
    const double *restrict first = part.from[0], *restrict second = part.from[1];
    double *restrict to = part.to;
    for (size_t i = 0; i < part.count; i++)
        to[i] = first[i] + scalar * second[i];
    return 0;
}

static int is_read(struct part part, uint64_t sum) {
    const volatile uint64_t *words = (const volatile uint64_t *)part.to;
    for (size_t i = 0; i < part.count; i++)
        sum -= words[i];
    return sum == 0;
}

static int is_written(struct part part, uint64_t sum) {
    size_t same = 0;
    for (size_t i = 0; i < part.count; i++)
        same += part.to[i] == written;
    return same == part.count && sum == 0;
}

static int is_copied(struct part part, uint64_t sum) {
    return memcmp(part.to, part.from[0], part.count * sizeof(double)) == 0 && sum == 0;
}

static int is_triad(struct part part, uint64_t sum) {
    size_t same = 0;
    for (size_t i = 0; i < part.count; i++)
        same += part.to[i] == part.from[0][i] + scalar * part.from[1][i];
    return same == part.count && sum == 0;
}

#ifdef __SSE2__
static uint64_t triad_nt(struct part part) {
    const __m128d factor = _mm_set1_pd(scalar);
    for (size_t i = 0; i < part.count; i += 2) {
        __m128d scaled = _mm_mul_pd(factor, _mm_load_pd(part.from[1] + i));
        _mm_stream_pd(part.to + i, _mm_add_pd(_mm_load_pd(part.from[0] + i), scaled));
    }
    _mm_sfence();
    return 0;
}
#endif

static const struct loop loops[] = {
    {"read", 1, read_words, is_read}, {"write", 1, write, is_written},
    {"copy", 2, copy, is_copied},     {"triad", 3, triad, is_triad},
#ifdef __SSE2__
    {"triad-nt", 3, triad_nt, is_triad},
#endif
};

int main(int count, char **words) {
    return main_of(loops, sizeof loops / sizeof *loops, count, words);
}
