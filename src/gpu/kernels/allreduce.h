/* One-shot all-reduce: every rank lays its vector where the others see it, they meet, and each adds
 * all vectors in the order of the ranks, so that the results are equal bit by bit. */
#ifndef NUMAMICRO_ALLREDUCE_H
#define NUMAMICRO_ALLREDUCE_H

#include "portable.h"

enum number { F32, F16, BF16 };
enum { IN_FLIGHT = 4 }; /* words that a thread loads before it uses the first */

DEVICE u32 add4(enum number number, u32 a, u32 b) {
    return number == F32 ? add_f32(a, b) : number == F16 ? add_f16x2(a, b) : add_bf16x2(a, b);
}

DEVICE uint4 add16(enum number number, uint4 a, uint4 b) {
    uint4 sum;
    sum.x = add4(number, a.x, b.x);
    sum.y = add4(number, a.y, b.y);
    sum.z = add4(number, a.z, b.z);
    sum.w = add4(number, a.w, b.w);
    return sum;
}

/* A wait for a peer: how often it looked, and when it must end. */
typedef struct {
    u64 deadline;
    u32 turns;
} Patience;

/* Why a wait must end though nothing came; RANK_OK while it may go on. Looked at now and then only:
 * the word lies across the bus, and the clock is slow to read, so that the time begins to count
 * with the first look. */
DEVICE u32 spent(const AllReduceArgs *a, Patience *patience) {
    relax();
    if (++patience->turns % 256)
        return RANK_OK;
    if (LOAD_FLAG(relaxed, a->abort))
        return RANK_ABORTED;
    const u64 now = clock_ns();
    if (!patience->deadline)
        patience->deadline = now + a->timeout_ns;
    return now > patience->deadline ? RANK_TIMED_OUT : RANK_OK;
}

DEVICE u32 wait_for(const AllReduceArgs *a, const u32 *flag, u32 generation) {
    Patience patience = {0, 0};
    u32 failed = RANK_OK;
    /* As a signed difference: generations wrap, and a peer may be one ahead. */
    while ((int)(LOAD_FLAG(acquire, flag) - generation) < 0)
        if ((failed = spent(a, &patience)))
            return failed;
    flag_seen(flag, generation);
    return RANK_OK;
}

/* This block meets the same block of every other rank. The first barrier puts all stores of the
 * block before the release; the second lets no thread read before the flags were acquired. Not 0,
 * for the whole block, when a peer did not come. */
DEVICE u32 meet(const AllReduceArgs *a, u32 ranks, u32 generation) {
    const u32 line = blockIdx.x * FLAG_STRIDE;
    u32 failed = RANK_OK;
    __syncthreads();
    ROLLED
    for (u32 r = threadIdx.x; r < ranks; r += blockDim.x)
        if (r != a->rank)
            STORE_FLAG(release, a->signal[r] + line, generation);
    ROLLED
    for (u32 r = threadIdx.x; r < ranks && !failed; r += blockDim.x)
        if (r != a->rank)
            failed = wait_for(a, a->watch[r] + line, generation);
    if (failed)
        STORE_FLAG(relaxed, a->status, failed);
    return (u32)__syncthreads_or((int)failed);
}

/* Loads `count` words of one rank, `step` apart. */
DEVICE void load_words(uint4 *words, const uint4 *from, u32 step, const u32 count) {
    UNROLLED
    for (u32 k = 0; k < count; ++k)
        words[k] = load16(from + k * step);
}

/* Adds `count` words of all ranks, `step` apart, in the order of the ranks. */
DEVICE void reduce(const AllReduceArgs *a, u32 ranks, enum number number, const uint4 *input,
                   uint4 *output, u64 slot, u32 step, const u32 count) {
    uint4 sum[IN_FLIGHT];
    uint4 part[IN_FLIGHT];
    load_words(sum, a->rank == 0 ? input : (const uint4 *)a->receive[0] + slot, step, count);
    ROLLED
    for (u32 r = 1; r < ranks; ++r) {
        load_words(part, a->rank == r ? input : (const uint4 *)a->receive[r] + slot, step, count);
        UNROLLED
        for (u32 k = 0; k < count; ++k)
            sum[k] = add16(number, sum[k], part[k]);
    }
    UNROLLED
    for (u32 k = 0; k < count; ++k)
        store16(output + k * step, sum[k]);
}

DEVICE void allreduce(const AllReduceArgs *a, u32 ranks, enum number number) {
    /* A block keeps to one slice, the same on every rank: it needs to meet only its like. */
    const u32 slice = (a->words + gridDim.x - 1) / gridDim.x;
    const u32 begin = blockIdx.x * slice < a->words ? blockIdx.x * slice : a->words;
    const u32 end = a->words - begin < slice ? a->words : begin + slice;
    const u32 step = blockDim.x;
    u32 *kept = a->generation + blockIdx.x * FLAG_STRIDE;
    u32 generation = load4(kept);
    ROLLED
    for (u32 repetition = 0; repetition < a->repetitions; ++repetition) {
        ++generation;
        const u64 slot = (u64)(generation & 1) * a->words;
        const u64 set = (u64)(repetition % a->sets) * a->words;
        const uint4 *input = (const uint4 *)a->input + set;
        uint4 *output = (uint4 *)a->output + set;
        for (u32 i = begin + threadIdx.x; i < end; i += step) {
            const uint4 own = load16(input + i);
            ROLLED
            for (u32 s = 0; s < a->sends; ++s)
                store16((uint4 *)a->send[s] + slot + i, own);
        }
        if (meet(a, ranks, generation))
            return;
        u32 i = begin + threadIdx.x;
        ROLLED
        for (; i + (IN_FLIGHT - 1) * step < end; i += IN_FLIGHT * step)
            reduce(a, ranks, number, input + i, output + i, slot + i, step, IN_FLIGHT);
        ROLLED
        for (; i < end; i += step)
            reduce(a, ranks, number, input + i, output + i, slot + i, step, 1);
    }
    if (threadIdx.x == 0)
        store4(kept, generation);
}

#endif
