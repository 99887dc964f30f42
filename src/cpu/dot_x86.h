/* The primitives of dot_passes.h on AVX2. PRODUCTS is the addition of products: with or without
 * the instruction that does it at once. */
#include "dot_inside.h"

#include <immintrin.h>
#include <string.h>

typedef float floats __attribute__((vector_size(32)));
typedef int32_t ints __attribute__((vector_size(32)));
typedef uint16_t words __attribute__((vector_size(32)));
typedef int16_t shorts __attribute__((vector_size(32)));
typedef int8_t bytes __attribute__((vector_size(32)));

#define PRIMITIVE static inline TARGET __attribute__((always_inline))

PRIMITIVE ints products(ints sum, bytes plain, bytes with_sign) {
    return (ints)PRODUCTS((__m256i)sum, (__m256i)plain, (__m256i)with_sign);
}

PRIMITIVE bytes absolute(bytes value) { return (bytes)_mm256_abs_epi8((__m256i)value); }

PRIMITIVE bytes signed_by(bytes value, bytes sign) {
    return (bytes)_mm256_sign_epi8((__m256i)value, (__m256i)sign);
}

PRIMITIVE floats halves(const uint16_t *from) {
    return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
}

PRIMITIVE ints widened(const unsigned char *from) {
    return (ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
}

PRIMITIVE floats brains(const uint16_t *from) {
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    return (floats)_mm256_slli_epi32(wide, 16);
}

PRIMITIVE void store_halves(uint16_t *to, floats value) {
    _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT));
}

PRIMITIVE floats fused(floats a, floats b, floats sum) {
    return (floats)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
}

#define HALF(half) _cvtsh_ss(half)
#define FOUR_BITS "dot_four_bits_x86.h"

/* Products of unsigned and signed bytes, two neighbours in each 16 bits. */
PRIMITIVE shorts pairs(bytes plain, bytes with_sign) {
    return (shorts)_mm256_maddubs_epi16((__m256i)plain, (__m256i)with_sign);
}

/* Products of 16 bits, two neighbours in each lane. */
PRIMITIVE ints joined(shorts a, shorts b) {
    return (ints)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}

/* The sums of a block and of the next, in every lane. */
PRIMITIVE shorts two_sums(const struct activations *x, int block) {
    int32_t two;
    memcpy(&two, x->sums + block, sizeof two);
    return (shorts)_mm256_set1_epi32(two);
}
