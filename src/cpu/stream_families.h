/* One family a file: stream_*.c. */
#ifndef NUMAMICRO_STREAM_FAMILIES_H
#define NUMAMICRO_STREAM_FAMILIES_H

#include "stream.h"

extern const struct kernel_family family_avx512, family_avx2, family_sse2, family_neon,
    family_portable;

#endif
