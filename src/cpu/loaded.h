/* Latency under load: one thread chases while the others stream. */
#ifndef NUMAMICRO_LOADED_H
#define NUMAMICRO_LOADED_H

#include "arena.h"
#include "chase.h"
#include "team.h"

/* What the other threads do meanwhile. */
struct load {
    const struct arena *arena; /* its first `length` bytes, filled with the chase's seed */
    size_t length;             /* at least 64 KiB for each thread */
    const char *kernel;        /* that only reads or only writes */
    uint64_t delay;            /* turns of an empty loop between two blocks */
};

struct loaded_result {
    struct chase_result chase; /* the time is that of the chase, the strays of the whole team */
    uint64_t bytes;            /* streamed in blocks that began and ended while it ran */
    uint64_t wrong;            /* threads whose words were not what they must be */
};

/* Thread 0 does as chase_walk, all others stream over slices of the other arena: they begin before
 * the chase and end after it. */
int loaded_walk(struct team *team, const struct arena *arena, size_t length, size_t line,
                uint64_t seed, uint64_t start, uint64_t steps, const struct load *load,
                struct loaded_result *result);

#endif
