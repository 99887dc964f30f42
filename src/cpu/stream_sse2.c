#include "stream_inside.h"

#ifdef __x86_64__

#include <emmintrin.h>

#define ISA "sse2"
#define TARGET __attribute__((target("sse2")))
#define VECTOR_BYTES 16
#define STORE_PAIR_NT(to, first, second)                                                           \
    (_mm_stream_si128((void *)(to), (__m128i)(first)),                                             \
     _mm_stream_si128((void *)((to) + 1), (__m128i)(second)))
#define FENCE_NT() _mm_sfence()
#include "stream_passes.h"

static int supported(void) { return __builtin_cpu_supports("sse2"); }

const struct kernel_family family_sse2 = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_sse2 = {0};

#endif
