/* The loops, written once. Each instruction set's file defines ISA (its name), TARGET (its function
 * attribute) and the primitives on vectors of 32 bytes, includes this, and so gets its table
 * `formats`:
 *   ints products(ints sum, bytes plain, bytes with_sign)   adds products of unsigned and signed
 *                                                    bytes, four neighbours into each lane
 *   bytes absolute(bytes), bytes signed_by(bytes value, bytes sign)
 *   ints widened(const unsigned char *)              eight bytes, each in a lane
 *   floats halves(const uint16_t *), floats brains(const uint16_t *)   eight 16-bit floats
 *   void store_halves(uint16_t *, floats)            the other way
 *   floats fused(floats a, floats b, floats sum)     a * b + sum
 * and FOUR_BITS, the file with the loops of four bits. */
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

/* Of a super-block of Q4_K behind its two rows of halves: 8 bytes for each block's scales (6 bits,
 * and 2 of its minimum's), then 8 for each pair of blocks (4 bits of a minimum each), then quants.
 */
INLINE void q4_k_scales(const unsigned char *super, int block, ints *scale, ints *minimum) {
    const unsigned char *scales = super + 4 * LANES, *minima = scales + SUPER * LANES;
    ints packed = widened(scales + block * LANES), pair = widened(minima + block / 2 * LANES);
    *scale = packed & 63;
    *minimum = (pair >> block % 2 * 4 & 15) | packed >> 6 << 4;
}

/* Those of a pair of blocks: the first in low nibbles, the second in high ones. */
INLINE const unsigned char *q4_k_quants(const unsigned char *super, int block) {
    return super + (4 + SUPER + SUPER / 2) * LANES + block * LANES * BLOCK / 2;
}

/* How lanes are used is what engines differ in, by instruction set. */
#include FOUR_BITS

/* ---- attention ---------------------------------------------------------------------------- */

/* Loops over a head stay loops, as engines have them: unrolled, every load would keep one stride
 * from position to position, which the prefetcher learns, and a cache would be read twice as fast.
 * Products and sums are called, as an engine calls those of a cache's format. */

static TARGET __attribute__((noinline)) float dot_of_halves(const uint16_t *a, const uint16_t *b) {
    floats sums[4] = {{0}};
#pragma GCC unroll 1
    for (int at = 0; at < HEAD; at += 4 * LANES) {
#pragma GCC unroll 4
        for (int chain = 0; chain < 4; chain++) {
            int here = at + chain * LANES;
            sums[chain] = fused(halves(a + here), halves(b + here), sums[chain]);
        }
    }
    return across((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

static TARGET __attribute__((noinline)) void add_scaled(uint16_t *sum, const uint16_t *value,
                                                        float weight) {
#pragma GCC unroll 1
    for (int at = 0; at < HEAD; at += 4 * LANES) {
#pragma GCC unroll 4
        for (int i = at; i < at + 4 * LANES; i += LANES)
            store_halves(sum + i, fused(halves(value + i), all(weight), halves(sum + i)));
    }
}

/* The sum of the values so far is kept in 16 bits, as engines keep it. */
static TARGET void attend_halves(const uint16_t *query, const uint16_t *keys,
                                 const uint16_t *values, const uint16_t *mask, size_t positions,
                                 size_t stride, float *result) {
    uint16_t sum[HEAD] = {0};
    float largest = -INFINITY, total = 0;
    for (size_t position = 0; position < positions; position++) {
        float hidden = HALF(mask[position]);
        if (hidden == -INFINITY)
            continue;
        float score = dot_of_halves(keys + position * stride, query) * (1 / 11.313708f) + hidden;
        float old = 1, weight = 1;
        if (score > largest) {
            old = expf(largest - score);
            largest = score;
            for (int at = 0; at < HEAD; at += LANES)
                store_halves(sum + at, halves(sum + at) * all(old));
        } else {
            weight = expf(score - largest);
        }
        add_scaled(sum, values + position * stride, weight);
        total = total * old + weight;
    }
    for (int at = 0; at < HEAD; at += LANES) {
        floats mean = halves(sum + at) * all(1 / total);
        memcpy(result + at, &mean, sizeof mean);
    }
}

static const struct dot_format formats[] = {
    {{"F16", ISA}, 1, (BLOCKS * HALF_BYTES), f16_vector, f16_matrix, 4, 3},
    {{"BF16", ISA}, 1, (BLOCKS * HALF_BYTES), bf16_vector, bf16_matrix, 4, 3},
    {{"Q8_0", ISA}, 1, (BLOCKS * Q8_0_BYTES), q8_0_vector, q8_0_matrix, 4, 2},
    {{"Q4_0", ISA}, LANES, (BLOCKS * Q4_0_BYTES) / LANES, q4_0_vector, q4_0_matrix, LANES, 4},
    {{"Q4_K", ISA},
     LANES,
     (BLOCKS / SUPER * Q4_K_BYTES) / LANES,
     q4_k_vector,
     q4_k_matrix,
     LANES,
     4},
};
