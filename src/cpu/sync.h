/* What it costs threads to tell each other something through the caches. */
#ifndef NUMAMICRO_SYNC_H
#define NUMAMICRO_SYNC_H

#include "arena.h"
#include "team.h"

struct sync_result {
    int64_t elapsed_ns;
    uint64_t repetitions; /* that were truly made */
    int64_t strays;
};

/* The two threads of the team raise the 64-bit counter at `offset` in turn, 2 x round_trips times.
 * It begins with what is there; what is there after tells the repetitions. */
int sync_ping(struct team *team, const struct arena *arena, size_t offset, uint64_t round_trips,
              struct sync_result *result);

/* All threads meet so many times. */
int sync_barrier(struct team *team, uint64_t repetitions, struct sync_result *result);

#endif
