#include "stream_inside.h"

#ifdef __x86_64__

#include <immintrin.h>

#define ISA "avx2"
#define TARGET __attribute__((target("avx2")))
#define VECTOR_BYTES 32
#define STORE_PAIR_NT(to, first, second)                                                           \
    (_mm256_stream_si256((void *)(to), (__m256i)(first)),                                          \
     _mm256_stream_si256((void *)((to) + 1), (__m256i)(second)))
#define FENCE_NT() _mm_sfence()
#include "stream_passes.h"

static int supported(void) { return __builtin_cpu_supports("avx2"); }

const struct kernel_family family_avx2 = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_avx2 = {0};

#endif
