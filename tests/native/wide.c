/* The passes of 64-byte vectors for processors without them: the compiler splits each, so that the
 * checks cover what AVX-512 compiles from the same text. Stands in for stream_avx512.c. */
#include "stream_inside.h"

#define ISA "wide"
#define TARGET
#define VECTOR_BYTES 64
#define STORE_PAIR_NT(to, first, second) ((to)[0] = (first), (to)[1] = (second))
#define FENCE_NT()
#include "stream_passes.h"

static int supported(void) { return 1; }

const struct kernel_family family_avx512 = {kernels, sizeof kernels / sizeof *kernels, supported};

/* Without these the products, too, are those of plain C. */
#include "dot_inside.h"

const struct dot_family dot_vnni = {0}, dot_avx2 = {0};
