/* What the kernels need beyond C: loads and stores of a stated order, a clock, a tick counter, sums
 * of packed numbers. Under NVRTC it is PTX; elsewhere the includer's path gives on_host.h. */
#ifndef NUMAMICRO_PORTABLE_H
#define NUMAMICRO_PORTABLE_H

#include "args.h"

#ifdef __CUDACC_RTC__

#define DEVICE static __device__ __forceinline__
#define KERNEL(name, type) extern "C" __global__ void name(const __grid_constant__ type a)
#define KERNEL_WITHOUT_ARGS(name) extern "C" __global__ void name()
#define UNROLLED _Pragma("unroll")
#define ROLLED _Pragma("unroll 1") /* the body is unrolled already, or its time is of no matter */

/* The order is written once, where it matters, and reaches PTX and the host's atomics alike. */
#define LOAD_FLAG(order, p) load_flag_##order(p)
#define STORE_FLAG(order, p, v) store_flag_##order(p, v)
#define DEFINE_LOAD_FLAG(order)                                                                    \
    DEVICE u32 load_flag_##order(const u32 *p) {                                                   \
        u32 v;                                                                                     \
        asm volatile("ld." #order ".sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");      \
        return v;                                                                                  \
    }
#define DEFINE_STORE_FLAG(order)                                                                   \
    DEVICE void store_flag_##order(u32 *p, u32 v) {                                                \
        asm volatile("st." #order ".sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");        \
    }
DEFINE_LOAD_FLAG(acquire)
DEFINE_LOAD_FLAG(relaxed)
DEFINE_STORE_FLAG(release)
DEFINE_STORE_FLAG(relaxed)

/* Plain loads: peer data must not come through the read-only cache, which no acquire empties. */
DEVICE uint4 load16(const uint4 *p) { return *p; }
DEVICE void store16(uint4 *p, uint4 v) { *p = v; }
DEVICE u32 load4(const u32 *p) { return *p; }
DEVICE void store4(u32 *p, u32 v) { *p = v; }
DEVICE u64 load8(const u64 *p) { return *(const volatile u64 *)p; }
DEVICE void store8(u64 *p, u64 v) { *p = v; }
DEVICE void flag_seen(const u32 *p, u32 generation) { (void)p, (void)generation; }
DEVICE void relax(void) {}
DEVICE void released(void) {}
DEVICE void keep_order(void) { asm volatile("" ::: "memory"); }
DEVICE u64 ticks(void) { return (u64)clock64(); }
DEVICE u64 clock_ns(void) {
    u64 t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

DEVICE u32 add_f32(u32 a, u32 b) {
    return __float_as_uint(__uint_as_float(a) + __uint_as_float(b));
}
DEVICE u32 add_f16x2(u32 a, u32 b) {
    u32 c;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}

#else
#include "on_host.h"
#endif

/* A bfloat16 is the high half of a float. To add in float and round once, to nearest even, is the
 * right sum: a float has more than twice the bits. So sm_70, which has no such add, gets it too. */
DEVICE u32 bf16_of(u32 f) {
    return (f & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : (f + 0x7fffu + (f >> 16 & 1u)) >> 16;
}
DEVICE u32 add_bf16x2(u32 a, u32 b) {
    const u32 low = bf16_of(add_f32(a << 16, b << 16));
    const u32 high = bf16_of(add_f32(a & 0xffff0000u, b & 0xffff0000u));
    return low | high << 16;
}

#endif
