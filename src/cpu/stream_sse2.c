#include "stream_families.h"

#ifdef __x86_64__

#define ISA "sse2"
#define TARGET __attribute__((target("sse2")))
#define VECTOR_BYTES 16
#include "stream_passes.h"

static int supported(void) { return __builtin_cpu_supports("sse2"); }

const struct kernel_family family_sse2 = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_sse2 = {0};

#endif
