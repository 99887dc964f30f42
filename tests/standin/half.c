#include <stdint.h>
#include <string.h>

#include "args.h"

u32 half_sum(u32 a, u32 b);

static float of_half(u32 half) {
    const u32 sign = (half & 0x8000u) << 16;
    const u32 exponent = half >> 10 & 31u;
    const u32 fraction = half & 0x3ffu;
    float value;
    if (exponent == 0) { /* zero or subnormal: a multiple of 2^-24 */
        value = (float)fraction * 0x1p-24f;
        return sign ? -value : value;
    }
    const u32 bits = sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13;
    memcpy(&value, &bits, 4);
    return value;
}

static u32 shifted_to_even(u32 value, u32 shift) {
    const u32 half = 1u << (shift - 1);
    return (value + half - 1 + (value >> shift & 1u)) >> shift;
}

static u32 to_half(float value) {
    u32 bits;
    memcpy(&bits, &value, 4);
    const u32 sign = bits >> 16 & 0x8000u;
    const u32 magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7fffu;
    if (magnitude >= 0x47800000u) /* 2^16 and more */
        return sign | 0x7c00u;
    if (magnitude >=
        0x38800000u) /* normal: 2^-14 and more; the carry of rounding may make it inf */
        return sign | shifted_to_even(magnitude - 0x38000000u, 13);
    const u32 exponent = magnitude >> 23;
    if (exponent < 102) /* below half of the least subnormal */
        return sign;
    return sign | shifted_to_even((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent);
}

/* The half nearest to the sum of two, ties to even. */
u32 half_sum(u32 a, u32 b) { return to_half(of_half(a) + of_half(b)); }
