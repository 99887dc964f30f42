#include "stream_families.h"

#ifdef __aarch64__

#define ISA "neon"
#define TARGET
#define VECTOR_BYTES 16
#include "stream_passes.h"

static int supported(void) { return 1; } /* part of every AArch64 */

const struct kernel_family family_neon = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_neon = {0};

#endif
