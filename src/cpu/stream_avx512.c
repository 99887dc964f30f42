#include "stream_inside.h"

#ifdef __x86_64__

#include <immintrin.h>

#define ISA "avx512"
#define TARGET __attribute__((target("avx512f")))
#define VECTOR_BYTES 64
#define STORE_PAIR_NT(to, first, second)                                                           \
    (_mm512_stream_si512((void *)(to), (__m512i)(first)),                                          \
     _mm512_stream_si512((void *)((to) + 1), (__m512i)(second)))
#define FENCE_NT() _mm_sfence()
#include "stream_passes.h"

static int supported(void) { return __builtin_cpu_supports("avx512f"); }

const struct kernel_family family_avx512 = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_avx512 = {0};

#endif
