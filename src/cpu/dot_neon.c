#include "dot_inside.h"

#ifdef __aarch64__

#include <arm_neon.h>
#include <sys/auxv.h>

#define ISA "neon-dotprod"
#define TARGET __attribute__((target("arch=armv8.2-a+dotprod+fp16")))
#define PRIMITIVE static inline TARGET __attribute__((always_inline))
#define HAS_DOT_PRODUCT (1UL << 20) /* HWCAP_ASIMDDP */

typedef float floats __attribute__((vector_size(32)));
typedef int32_t ints __attribute__((vector_size(32)));
typedef int64_t longs __attribute__((vector_size(32)));
typedef uint16_t words __attribute__((vector_size(32)));
typedef int8_t bytes __attribute__((vector_size(32)));

union pair {
    ints sums;
    bytes values;
    floats reals;
    int32x4_t sum[2];
    int8x16_t value[2];
    float32x4_t real[2];
};

PRIMITIVE ints products(ints sum, bytes plain, bytes with_sign) {
    union pair into = {.sums = sum}, a = {.values = plain}, b = {.values = with_sign};
    into.sum[0] = vdotq_s32(into.sum[0], a.value[0], b.value[0]);
    into.sum[1] = vdotq_s32(into.sum[1], a.value[1], b.value[1]);
    return into.sums;
}

/* Both factors may have a sign here, so that nothing has to be moved to the other. */
PRIMITIVE bytes absolute(bytes value) { return value; }

PRIMITIVE bytes signed_by(bytes value, bytes sign) {
    (void)sign;
    return value;
}

PRIMITIVE floats halves(const uint16_t *from) {
    float16x8_t eight = vreinterpretq_f16_u16(vld1q_u16(from));
    union pair into = {.real = {vcvt_f32_f16(vget_low_f16(eight)), vcvt_high_f32_f16(eight)}};
    return into.reals;
}

PRIMITIVE ints widened(const unsigned char *from) {
    uint16x8_t eight = vmovl_u8(vld1_u8(from));
    union pair into = {.sum = {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(eight))),
                               vreinterpretq_s32_u32(vmovl_high_u16(eight))}};
    return into.sums;
}

PRIMITIVE floats brains(const uint16_t *from) {
    uint16x8_t eight = vld1q_u16(from);
    union pair into = {.real = {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(eight), 16)),
                                vreinterpretq_f32_u32(vshll_high_n_u16(eight, 16))}};
    return into.reals;
}

PRIMITIVE void store_halves(uint16_t *to, floats value) {
    union pair from = {.reals = value};
    float16x8_t eight = vcvt_high_f16_f32(vcvt_f16_f32(from.real[0]), from.real[1]);
    vst1q_u16(to, vreinterpretq_u16_f16(eight));
}

PRIMITIVE floats fused(floats a, floats b, floats sum) {
    union pair x = {.reals = a}, y = {.reals = b}, into = {.reals = sum};
    into.real[0] = vfmaq_f32(into.real[0], x.real[0], y.real[0]);
    into.real[1] = vfmaq_f32(into.real[1], x.real[1], y.real[1]);
    return into.reals;
}

#define HALF(half) half_to_float(half)
#define FOUR_BITS "dot_four_bits.h"

#include "dot_passes.h"

static int supported(void) { return (getauxval(AT_HWCAP) & HAS_DOT_PRODUCT) != 0; }

const struct dot_family dot_neon = {formats, sizeof formats / sizeof *formats, supported,
                                    attend_halves};

#else

const struct dot_family dot_neon = {0};

#endif
