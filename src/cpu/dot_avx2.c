#include "dot_inside.h"

#ifdef __x86_64__

#define ISA "avx2"
#define TARGET __attribute__((target("avx2,fma,f16c")))
/* Pairs of bytes never pass 16 bits: one factor is at most 127, so is the other. */
#define PRODUCTS(sum, plain, with_sign)                                                            \
    _mm256_add_epi32(                                                                              \
        sum, _mm256_madd_epi16(_mm256_maddubs_epi16(plain, with_sign), _mm256_set1_epi16(1)))
#include "dot_x86.h"

#include "dot_passes.h"

static int supported(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

const struct dot_family dot_avx2 = {formats, sizeof formats / sizeof *formats, supported,
                                    attend_halves};

#else

const struct dot_family dot_avx2 = {0};

#endif
