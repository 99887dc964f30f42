#include "stream_inside.h"

#define ISA "portable"
#define TARGET
#define VECTOR_BYTES 8
#include "stream_passes.h"

static int supported(void) { return 1; }

const struct kernel_family family_portable = {kernels, sizeof kernels / sizeof *kernels, supported};
