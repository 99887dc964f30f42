/* Waiting for another thread without sleeping, which would blur the moment. */
#ifndef NUMAMICRO_WAIT_H
#define NUMAMICRO_WAIT_H

#include <sched.h>

enum {
    CACHE_LINES = 128, /* two lines: neighbours are prefetched in pairs */
    SPINS_BEFORE_YIELD = 4096,
};

/* For the sibling thread of the core; not where the wait itself is measured, for it takes up to 140
 * cycles. */
static inline void pause_cpu(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb"); /* yield is a no-op on most cores */
#endif
}

/* Called at each turn of a wait, with a count that begins at 0. Whoever waits long gives its CPU
 * away: the missing thread may need this very one. */
static inline void spin_or_yield(int *spins) {
    if (*spins < SPINS_BEFORE_YIELD)
        ++*spins;
    else
        sched_yield();
}

#endif
