/* One-sided work: copies by the multiprocessors, reading, a chase through memory, a held stream. */
#ifndef NUMAMICRO_TRANSFER_H
#define NUMAMICRO_TRANSFER_H

#include "allreduce.h"

/* Where a block's slice of `words` begins; the next block's begin is its end. */
DEVICE u64 slice_of(u64 words, u32 block) {
    const u64 slice = (words + gridDim.x - 1) / gridDim.x;
    return block * slice < words ? block * slice : words;
}

DEVICE void copy_words(const CopyArgs *a) {
    const u64 begin = slice_of(a->words, blockIdx.x) + threadIdx.x;
    const u64 end = slice_of(a->words, blockIdx.x + 1);
    const u64 step = blockDim.x;
    const uint4 *source = (const uint4 *)a->source;
    uint4 *target = (uint4 *)a->target;
    ROLLED
    for (u32 repetition = 0; repetition < a->repetitions; ++repetition) {
        u64 i = begin;
        ROLLED
        for (; i + (IN_FLIGHT - 1) * step < end; i += IN_FLIGHT * step) {
            uint4 word[IN_FLIGHT];
            UNROLLED
            for (u32 k = 0; k < IN_FLIGHT; ++k)
                word[k] = load16(source + i + k * step);
            UNROLLED
            for (u32 k = 0; k < IN_FLIGHT; ++k)
                store16(target + i + k * step, word[k]);
        }
        ROLLED
        for (; i < end; i += step)
            store16(target + i, load16(source + i));
        keep_order();
    }
}

DEVICE u32 parity_of(uint4 word) { return word.x ^ word.y ^ word.z ^ word.w; }

DEVICE void read_words(const CopyArgs *a) {
    const u64 begin = slice_of(a->words, blockIdx.x) + threadIdx.x;
    const u64 end = slice_of(a->words, blockIdx.x + 1);
    const u64 step = blockDim.x;
    const uint4 *source = (const uint4 *)a->source;
    u32 seen = 0;
    ROLLED
    for (u32 repetition = 0; repetition < a->repetitions; ++repetition) {
        u64 i = begin;
        ROLLED
        for (; i + (IN_FLIGHT - 1) * step < end; i += IN_FLIGHT * step) {
            uint4 word[IN_FLIGHT];
            UNROLLED
            for (u32 k = 0; k < IN_FLIGHT; ++k)
                word[k] = load16(source + i + k * step);
            UNROLLED
            for (u32 k = 0; k < IN_FLIGHT; ++k)
                seen ^= parity_of(word[k]);
        }
        ROLLED
        for (; i < end; i += step)
            seen ^= parity_of(load16(source + i));
        keep_order();
    }
    /* As good as never true, which the compiler cannot know: no load may be left out. */
    if (seen == 0xffffffffu)
        store4((u32 *)a->target, seen);
}

DEVICE void chase_words(const ChaseArgs *a) {
    if (blockIdx.x || threadIdx.x)
        return;
    u64 at = a->start;
    const u64 begin = ticks();
    ROLLED
    for (u32 i = 0; i < a->steps; ++i)
        at = load8(a->next + at);
    const u64 end = ticks();
    store8(a->result, at);
    store8(a->result + 1, end - begin);
}

DEVICE void hold(const SpinArgs *a) {
    if (blockIdx.x || threadIdx.x)
        return;
    const u64 deadline = clock_ns() + a->timeout_ns;
    while (!LOAD_FLAG(acquire, a->release)) {
        relax();
        if (clock_ns() > deadline) {
            STORE_FLAG(relaxed, a->status, RANK_TIMED_OUT);
            return;
        }
    }
    released();
}

#endif
