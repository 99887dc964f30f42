/* The loops, written once. Each instruction set's file defines ISA (its name), TARGET (its function
 * attribute) and the primitives on vectors of 32 bytes, includes this, and so gets its table
 * `formats`:
 *   ints products(ints sum, bytes plain, bytes with_sign)   adds products of unsigned and signed
 *                                                    bytes, four neighbours into each lane
 *   bytes absolute(bytes), bytes signed_by(bytes value, bytes sign)
 *   ints widened(const unsigned char *)              eight bytes, each in a lane
 *   floats halves(const uint16_t *), floats brains(const uint16_t *)   eight 16-bit floats
 *   void store_halves(uint16_t *, floats)            the other way
 *   floats fused(floats a, floats b, floats sum)     a * b + sum */
#include <math.h>
#include <string.h>

#define INLINE static inline TARGET __attribute__((always_inline))

INLINE bytes load_bytes(const void *from) {
    bytes value;
    memcpy(&value, from, sizeof value);
    return value;
}

INLINE floats to_floats(ints value) { return __builtin_convertvector(value, floats); }

INLINE floats all(float value) {
    return (floats){value, value, value, value, value, value, value, value};
}

INLINE ints all_ints(int32_t value) {
    return (ints){value, value, value, value, value, value, value, value};
}

INLINE float across(floats value) {
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += value[i];
    return sum;
}

INLINE float one_half(const unsigned char *from) {
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return HALF(half);
}

/* ---- sixteen bits ------------------------------------------------------------------------- */

/* Several accumulators in a product of one row: the addition's latency must not set the pace. With
 * twelve, three tokens and one row fill the sixteen registers; a fourth token held would spill. */
#define SIXTEEN_BITS(name, load, member)                                                           \
    INLINE void name##_tile(const unsigned char *weights, const struct activations *x,             \
                            float *results, int rows, int tokens, int chains) {                    \
        floats sums[12] = {{0}};                                                                   \
        for (int at = 0; at < COLUMNS; at += LANES * chains) {                                     \
            _Pragma("GCC unroll 4") for (int chain = 0; chain < chains; chain++) {                 \
                int here = at + chain * LANES;                                                     \
                floats with[3];                                                                    \
                _Pragma("GCC unroll 4") for (int token = 0; token < tokens; token++) with[token] = \
                    load(x[token].member + here);                                                  \
                _Pragma("GCC unroll 4") for (int row = 0; row < rows; row++) {                     \
                    floats from = load((const uint16_t *)weights + row * COLUMNS + here);          \
                    _Pragma("GCC unroll 4") for (int token = 0; token < tokens; token++) {         \
                        floats *sum = &sums[(token * rows + row) * chains + chain];                \
                        *sum = fused(from, with[token], *sum);                                     \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; i < rows * tokens; i++) {                                                  \
            floats sum = {0};                                                                      \
            for (int chain = 0; chain < chains; chain++)                                           \
                sum += sums[i * chains + chain];                                                   \
            results[i] = across(sum);                                                              \
        }                                                                                          \
    }                                                                                              \
    static TARGET void name##_vector(const unsigned char *w, const struct activations *x,          \
                                     float *r) {                                                   \
        name##_tile(w, x, r, 1, 1, 4);                                                             \
    }                                                                                              \
    static TARGET void name##_matrix(const unsigned char *w, const struct activations *x,          \
                                     float *r) {                                                   \
        name##_tile(w, x, r, 4, 3, 1);                                                             \
    }

SIXTEEN_BITS(f16, halves, halves)
SIXTEEN_BITS(bf16, brains, brains)

/* ---- eight bits --------------------------------------------------------------------------- */

INLINE void q8_0_tile(const unsigned char *weights, const struct activations *x, float *results,
                      int rows, int tokens) {
    floats sums[8] = {{0}};
    for (int block = 0; block < BLOCKS; block++) {
#pragma GCC unroll 4
        for (int row = 0; row < rows; row++) {
            const unsigned char *from = weights + (row * BLOCKS + block) * Q8_0_BYTES;
            float scale = one_half(from);
            bytes value = load_bytes(from + 2);
            bytes plain = absolute(value);
#pragma GCC unroll 2
            for (int token = 0; token < tokens; token++) {
                bytes with = load_bytes(x[token].quants + block * BLOCK);
                ints sum = products((ints){0}, plain, signed_by(with, value));
                floats *into = &sums[token * rows + row];
                *into = fused(all(scale * x[token].scales[block]), to_floats(sum), *into);
            }
        }
    }
    for (int i = 0; i < rows * tokens; i++)
        results[i] = across(sums[i]);
}

static TARGET void q8_0_vector(const unsigned char *w, const struct activations *x, float *r) {
    q8_0_tile(w, x, r, 1, 1);
}

static TARGET void q8_0_matrix(const unsigned char *w, const struct activations *x, float *r) {
    q8_0_tile(w, x, r, 4, 2);
}

/* ---- four bits, eight rows interleaved ---------------------------------------------------- */

/* Four columns of a token in every lane. */
INLINE bytes four_columns(const struct activations *x, int column) {
    int32_t four;
    memcpy(&four, x->quants + column, sizeof four);
    return (bytes)all_ints(four);
}

/* A block's products before its scales: 128 bytes hold 4 columns of 8 rows in each 32, those of
 * the first half in the low nibbles. */
INLINE void four_bit_products(const unsigned char *quants, const struct activations *x, int block,
                              int tokens, ints *sums) {
#pragma GCC unroll 4
    for (int quarter = 0; quarter < 4; quarter++) {
        bytes both = load_bytes(quants + quarter * 32);
        bytes low = both & (bytes)all_ints(0x0f0f0f0f);
        bytes high = (bytes)((words)both >> 4) & (bytes)all_ints(0x0f0f0f0f);
        int column = block * BLOCK + quarter * 4;
#pragma GCC unroll 4
        for (int token = 0; token < tokens; token++) {
            sums[token] = products(sums[token], low, four_columns(x + token, column));
            sums[token] = products(sums[token], high, four_columns(x + token, column + BLOCK / 2));
        }
    }
}

INLINE void q4_0_tile(const unsigned char *weights, const struct activations *x, float *results,
                      int tokens) {
    floats sums[4] = {{0}};
    for (int block = 0; block < BLOCKS; block++) {
        const unsigned char *from = weights + block * Q4_0_BYTES;
        floats scales = halves((const uint16_t *)from);
        ints counts[4] = {{0}};
        four_bit_products(from + 2 * LANES, x, block, tokens, counts);
#pragma GCC unroll 4
        for (int token = 0; token < tokens; token++) {
            /* A quant of 8 stands for 0. */
            floats value = to_floats(counts[token] - all_ints(8 * x[token].sums[block]));
            sums[token] = fused(scales * all(x[token].scales[block]), value, sums[token]);
        }
    }
    memcpy(results, sums, (size_t)tokens * sizeof *sums);
}

static TARGET void q4_0_vector(const unsigned char *w, const struct activations *x, float *r) {
    q4_0_tile(w, x, r, 1);
}

static TARGET void q4_0_matrix(const unsigned char *w, const struct activations *x, float *r) {
    q4_0_tile(w, x, r, 4);
}

/* Behind the two rows of halves: 8 bytes for each block's scales (6 bits, and 2 of its minimum's),
 * then 8 for each pair of blocks (4 bits of a minimum each). */
INLINE void q4_k_tile(const unsigned char *weights, const struct activations *x, float *results,
                      int tokens) {
    floats sums[4] = {{0}};
    for (int super = 0; super < BLOCKS / SUPER; super++) {
        const unsigned char *from = weights + super * Q4_K_BYTES;
        const unsigned char *scales = from + 4 * LANES, *minima = scales + SUPER * LANES;
        const unsigned char *quants = minima + SUPER / 2 * LANES;
        ints total[4] = {{0}}, least[4] = {{0}};
        for (int i = 0; i < SUPER; i++) {
            int block = super * SUPER + i;
            ints packed = widened(scales + i * LANES);
            ints pair = widened(minima + i / 2 * LANES);
            ints scale = packed & 63, minimum = (pair >> i % 2 * 4 & 15) | packed >> 6 << 4;
            ints counts[4] = {{0}};
            four_bit_products(quants + i * LANES * BLOCK / 2, x, block, tokens, counts);
#pragma GCC unroll 4
            for (int token = 0; token < tokens; token++) {
                total[token] += counts[token] * scale;
                least[token] += minimum * all_ints(x[token].sums[block]);
            }
        }
        floats unit = halves((const uint16_t *)from),
               unit_of_minima = halves((const uint16_t *)from + LANES);
#pragma GCC unroll 4
        for (int token = 0; token < tokens; token++) {
            floats scale = all(x[token].scales[super * SUPER]);
            sums[token] = fused(unit * scale, to_floats(total[token]), sums[token]);
            sums[token] -= unit_of_minima * scale * to_floats(least[token]);
        }
    }
    memcpy(results, sums, (size_t)tokens * sizeof *sums);
}

static TARGET void q4_k_vector(const unsigned char *w, const struct activations *x, float *r) {
    q4_k_tile(w, x, r, 1);
}

static TARGET void q4_k_matrix(const unsigned char *w, const struct activations *x, float *r) {
    q4_k_tile(w, x, r, 4);
}

/* ---- attention ---------------------------------------------------------------------------- */

INLINE float dot_of_halves(const uint16_t *a, const uint16_t *b) {
    floats sums[4] = {{0}};
    for (int at = 0; at < HEAD; at += 4 * LANES) {
#pragma GCC unroll 4
        for (int chain = 0; chain < 4; chain++) {
            int here = at + chain * LANES;
            sums[chain] = fused(halves(a + here), halves(b + here), sums[chain]);
        }
    }
    return across((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

/* The sum of the values so far is kept in 16 bits, as engines keep it. */
static TARGET void attend_halves(const uint16_t *query, const uint16_t *keys,
                                 const uint16_t *values, size_t positions, size_t stride,
                                 float *result) {
    uint16_t sum[HEAD] = {0};
    float largest = -INFINITY, total = 0;
    for (size_t position = 0; position < positions; position++) {
        const uint16_t *value = values + position * stride;
        float score = dot_of_halves(keys + position * stride, query) * (1 / 11.313708f);
        float old = 1, weight = 1;
        if (score > largest) {
            old = expf(largest - score);
            largest = score;
            for (int at = 0; at < HEAD; at += LANES)
                store_halves(sum + at, halves(sum + at) * all(old));
        } else {
            weight = expf(score - largest);
        }
#pragma GCC unroll 16
        for (int at = 0; at < HEAD; at += LANES)
            store_halves(sum + at, fused(halves(value + at), all(weight), halves(sum + at)));
        total = total * old + weight;
    }
    for (int at = 0; at < HEAD; at += LANES) {
        floats mean = halves(sum + at) * all(1 / total);
        memcpy(result + at, &mean, sizeof mean);
    }
}

static const struct dot_format formats[] = {
    {{"F16", ISA}, 1, BLOCKS *HALF_BYTES, f16_vector, f16_matrix, 4, 3},
    {{"BF16", ISA}, 1, BLOCKS *HALF_BYTES, bf16_vector, bf16_matrix, 4, 3},
    {{"Q8_0", ISA}, 1, BLOCKS *Q8_0_BYTES, q8_0_vector, q8_0_matrix, 4, 2},
    {{"Q4_0", ISA}, LANES, BLOCKS *Q4_0_BYTES / LANES, q4_0_vector, q4_0_matrix, LANES, 4},
    {{"Q4_K", ISA}, LANES, BLOCKS / SUPER *Q4_K_BYTES / LANES, q4_k_vector, q4_k_matrix, LANES, 4},
};
