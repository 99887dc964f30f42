/* The one clock of every timed loop. */
#ifndef NUMAMICRO_CLOCK_H
#define NUMAMICRO_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds. Raw: adjustments of the wall clock must not bend a rate. */
static inline int64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#endif
