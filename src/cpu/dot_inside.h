/* What the dot_*.c files share: how weights lie, and one family of loops a file.
 *
 * The layouts are those that make the loops of today's engines: F16, BF16 and Q8_0 row by row,
 * Q4_0 and Q4_K with eight rows interleaved by eight bytes, so that little has to be added across a
 * vector's lanes. Bytes and bits of every block are the format's own. */
#ifndef NUMAMICRO_DOT_INSIDE_H
#define NUMAMICRO_DOT_INSIDE_H

#include "dot.h"

enum {
    COLUMNS = 2048, /* of every row: a vector of activations stays in the first cache */
    BLOCK = 32,     /* weights that share a scale */
    BLOCKS = COLUMNS / BLOCK,
    LANES = 8, /* rows that are interleaved, and floats of a vector */
    SUPER = 8, /* blocks that share the scale of their scales in Q4_K */
    CHUNK = 8, /* bytes of a row, or of a token, that lie together where several are interleaved */
    FOUR = 4,  /* tokens that are interleaved */
    TOKENS = 48,
};

/* Bytes of a block, of one row or of the LANES that are interleaved. */
enum {
    HALF_BYTES = BLOCK * 2,
    Q8_0_BYTES = 2 + BLOCK,
    Q4_0_BYTES = LANES * (2 + BLOCK / 2),
    Q4_K_BYTES = LANES * (4 + 12 + SUPER * BLOCK / 2), /* of SUPER blocks */
};

/* One token's activations, in each of the forms that a loop takes. */
struct activations {
    _Alignas(64) int8_t quants[COLUMNS];
    float scales[BLOCKS];
    int16_t sums[BLOCKS]; /* of the quants */
    uint16_t halves[COLUMNS];
    uint16_t brains[COLUMNS];
    /* A quarter of the columns of four tokens, interleaved: the first token's struct has the first.
     */
    _Alignas(64) int8_t together[COLUMNS];
};

/* Where a column of four tokens, and the next seven, lie interleaved. */
static inline const int8_t *together(const struct activations *four, int column) {
    enum { QUARTER = COLUMNS / FOUR };
    return four[column / QUARTER].together + column % QUARTER * FOUR;
}

/* The lanes of one vector, or of two, in another order; the second's lanes count on. */
#ifdef __clang__
#define LANES_OF(a, ...) __builtin_shufflevector(a, a, __VA_ARGS__)
#define LANES_OF_BOTH(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define LANES_OF(a, ...) __builtin_shuffle(a, (ints){__VA_ARGS__})
#define LANES_OF_BOTH(a, b, ...) __builtin_shuffle(a, b, (ints){__VA_ARGS__})
#endif

/* The products of `rows` rows with `tokens` tokens; results by token, then row. */
typedef void dot_tile(const unsigned char *weights, const struct activations *tokens,
                      float *results);

struct dot_format {
    struct dot_kernel kernel;
    size_t rows;      /* of a tile of one token */
    size_t row_bytes; /* of one row, or its share of those interleaved */
    dot_tile *vector; /* `rows` rows and one token */
    dot_tile *matrix; /* `tile_rows` rows and `tile_tokens` tokens */
    size_t tile_rows;
    size_t tile_tokens;
};

/* One query head over so many positions, whose keys and values are `stride` halves apart; `mask` is
 * added to their scores. */
typedef void attend_pass(const uint16_t *query, const uint16_t *keys, const uint16_t *values,
                         const uint16_t *mask, size_t positions, size_t stride, float *result);

enum { HEAD = 128 };

struct dot_family {
    const struct dot_format *formats;
    size_t count;
    int (*supported)(void);
    attend_pass *attend;
};

/* That of the widest vectors that this CPU has. */
attend_pass *dot_attend(void);

extern const struct dot_family dot_vnni, dot_avx2, dot_neon, dot_portable;

/* An IEEE half as a float. */
static inline float half_to_float(uint16_t half) {
    union {
        uint32_t bits;
        float value;
    } u;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = half & 0x7fff;
    if (rest < 0x0400) { /* zero or subnormal: a multiple of 2^-24 */
        u.value = (float)rest * 0x1p-24f;
        u.bits |= sign;
    } else {
        u.bits = sign | ((rest << 13) + ((127 - 15) << 23));
    }
    return u.value;
}

/* The nearest IEEE half of a float within their range; to even where two are as near. */
static inline uint16_t float_to_half(float value) {
    union {
        float value;
        uint32_t bits;
    } u = {value};
    uint32_t sign = u.bits >> 16 & 0x8000, rest = u.bits & 0x7fffffff;
    if (rest < 0x38800000) { /* below the smallest normal half */
        u.bits = rest;
        u.value += 0.5f; /* the last bits of this sum are multiples of 2^-24 */
        return (uint16_t)(sign | (u.bits - 0x3f000000));
    }
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest - ((127 - 15) << 23)) >> 13));
}

static inline float brain_to_float(uint16_t brain) {
    union {
        uint32_t bits;
        float value;
    } u = {(uint32_t)brain << 16};
    return u.value;
}

#endif
