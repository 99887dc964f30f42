/* The same loops in plain C: what the others are checked against, and what runs where there is
 * nothing better. */
#include "dot_inside.h"

/* The vectors below are only passed between functions that become one. */
#pragma GCC diagnostic ignored "-Wpsabi"

#define ISA "portable"
#define TARGET
#define PRIMITIVE static inline __attribute__((always_inline))

typedef float floats __attribute__((vector_size(32)));
typedef int32_t ints __attribute__((vector_size(32)));
typedef int64_t longs __attribute__((vector_size(32)));
typedef uint16_t words __attribute__((vector_size(32)));
typedef int8_t bytes __attribute__((vector_size(32)));

PRIMITIVE ints products(ints sum, bytes plain, bytes with_sign) {
    for (int i = 0; i < 32; i++)
        sum[i / 4] += (int32_t)(uint8_t)plain[i] * with_sign[i];
    return sum;
}

PRIMITIVE bytes absolute(bytes value) {
    for (int i = 0; i < 32; i++)
        value[i] = (int8_t)(value[i] < 0 ? -value[i] : value[i]);
    return value;
}

PRIMITIVE bytes signed_by(bytes value, bytes sign) {
    for (int i = 0; i < 32; i++)
        value[i] = (int8_t)(sign[i] < 0 ? -value[i] : sign[i] ? value[i] : 0);
    return value;
}

PRIMITIVE floats halves(const uint16_t *from) {
    floats value = {0};
    for (int i = 0; i < LANES; i++)
        value[i] = half_to_float(from[i]);
    return value;
}

PRIMITIVE ints widened(const unsigned char *from) {
    ints value = {0};
    for (int i = 0; i < LANES; i++)
        value[i] = from[i];
    return value;
}

PRIMITIVE floats brains(const uint16_t *from) {
    floats value = {0};
    for (int i = 0; i < LANES; i++)
        value[i] = brain_to_float(from[i]);
    return value;
}

PRIMITIVE void store_halves(uint16_t *to, floats value) {
    for (int i = 0; i < LANES; i++)
        to[i] = float_to_half(value[i]);
}

PRIMITIVE floats fused(floats a, floats b, floats sum) { return a * b + sum; }

#define HALF(half) half_to_float(half)
#define FOUR_BITS "dot_four_bits.h"

#include "dot_passes.h"

static int supported(void) { return 1; }

const struct dot_family dot_portable = {formats, sizeof formats / sizeof *formats, supported,
                                        attend_halves};
