/* The host's half of portable.h: what the kernels see when a C compiler takes them. CUDA's own
 * names stay, so that the kernels are ordinary CUDA. Every access passes the engine, which counts
 * it. */
#ifndef STANDIN_ON_HOST_H
#define STANDIN_ON_HOST_H

#include "engine.h"

#include <string.h>

typedef struct {
    _Alignas(16) u32 x;
    u32 y, z, w;
} uint4;

#define DEVICE static inline __attribute__((always_inline, unused))
#define UNROLLED
#define ROLLED
#define threadIdx (engine_lane->thread)
#define blockIdx (engine_lane->block_index)
#define blockDim (engine_lane->block_size)
#define gridDim (engine_lane->grid_size)
#define __syncthreads() ((void)engine_meet(0))
#define __syncthreads_or(bit) engine_meet(bit)

/* A kernel registers itself: what is in the .cu file is in the stand-in. */
#define KERNEL(name, type)                                                                         \
    static void kernel_##name(const type a);                                                       \
    static void invoke_##name(const void *args) { kernel_##name(*(const type *)args); }            \
    __attribute__((constructor)) static void register_##name(void) {                               \
        engine_register(#name, invoke_##name, sizeof(type));                                       \
    }                                                                                              \
    static void kernel_##name(const type a)
#define KERNEL_WITHOUT_ARGS(name)                                                                  \
    static void invoke_##name(const void *args);                                                   \
    __attribute__((constructor)) static void register_##name(void) {                               \
        engine_register(#name, invoke_##name, 0);                                                  \
    }                                                                                              \
    static void invoke_##name(const void *args __attribute__((unused)))

#define ORDER_acquire __ATOMIC_ACQUIRE
#define ORDER_release __ATOMIC_RELEASE
#define ORDER_relaxed __ATOMIC_RELAXED
#define LOAD_FLAG(order, p) __atomic_load_n((const u32 *)engine_load(p, 0), ORDER_##order)
#define STORE_FLAG(order, p, v)                                                                    \
    __atomic_store_n(engine_flag(p, v, ORDER_##order != __ATOMIC_RELAXED), v, ORDER_##order)

DEVICE uint4 load16(const uint4 *p) { return *(const uint4 *)engine_load(p, 16); }
DEVICE void store16(uint4 *p, uint4 v) { *(uint4 *)engine_store(p, 16) = v; }
DEVICE u32 load4(const u32 *p) { return *(const u32 *)engine_load(p, 4); }
DEVICE void store4(u32 *p, u32 v) { *(u32 *)engine_store(p, 4) = v; }
DEVICE u64 load8(const u64 *p) { return *(const u64 *)engine_dependent_load(p); }
DEVICE void store8(u64 *p, u64 v) { *(u64 *)engine_store(p, 8) = v; }
DEVICE void flag_seen(const u32 *p, u32 generation) { engine_flag_seen(p, generation); }
DEVICE void released(void) { engine_released(); }
DEVICE void relax(void) { engine_relax(); }
DEVICE void keep_order(void) { __asm__ volatile("" ::: "memory"); }
DEVICE u64 ticks(void) { return engine_ticks(); }
DEVICE u64 clock_ns(void) { return engine_clock_ns(); }

DEVICE u32 add_f32(u32 a, u32 b) {
    float x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    x += y;
    memcpy(&a, &x, 4);
    return a;
}

/* Not every compiler has a type of 16 bits. A float holds the sum of two halves to within less than
 * a rounding, so that rounding once more gives the nearest half. */
u32 half_sum(u32 a, u32 b);
DEVICE u32 add_f16x2(u32 a, u32 b) {
    return half_sum(a & 0xffffu, b & 0xffffu) | half_sum(a >> 16, b >> 16) << 16;
}

#endif
