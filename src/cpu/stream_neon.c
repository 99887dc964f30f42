#include "stream_inside.h"

#ifdef __aarch64__

#define ISA "neon"
#define TARGET
#define VECTOR_BYTES 16
#define STORE_PAIR_NT(to, first, second)                                                           \
    __asm__ volatile("stnp %q1, %q2, %0" : "=Q"(*(vector(*)[2])(to)) : "w"(first), "w"(second))
#define FENCE_NT() /* ordered by the barrier that ends a job */
#include "stream_passes.h"

static int supported(void) { return 1; } /* part of every AArch64 */

const struct kernel_family family_neon = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_neon = {0};

#endif
