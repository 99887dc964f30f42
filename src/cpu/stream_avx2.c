#include "stream_families.h"

#ifdef __x86_64__

#define ISA "avx2"
#define TARGET __attribute__((target("avx2")))
#define VECTOR_BYTES 32
#include "stream_passes.h"

static int supported(void) { return __builtin_cpu_supports("avx2"); }

const struct kernel_family family_avx2 = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_avx2 = {0};

#endif
