#include "dot_inside.h"

#ifdef __x86_64__

#define ISA "avx512-vnni"
#define TARGET __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")))
#define PRODUCTS(sum, plain, with_sign) _mm256_dpbusd_epi32(sum, plain, with_sign)
#include "dot_x86.h"

#include "dot_passes.h"

static int supported(void) {
    return __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni");
}

const struct dot_family dot_vnni = {formats, sizeof formats / sizeof *formats, supported,
                                    attend_halves};

#else

const struct dot_family dot_vnni = {0};

#endif
