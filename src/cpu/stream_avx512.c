#include "stream_families.h"

#ifdef __x86_64__

#define ISA "avx512"
#define TARGET __attribute__((target("avx512f")))
#define VECTOR_BYTES 64
#include "stream_passes.h"

static int supported(void) { return __builtin_cpu_supports("avx512f"); }

const struct kernel_family family_avx512 = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_avx512 = {0};

#endif
