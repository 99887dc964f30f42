/* Latency: a walk through dependent loads, whose end proves that every step was made. */
#ifndef NUMAMICRO_CHASE_H
#define NUMAMICRO_CHASE_H

#include "arena.h"
#include "team.h"

/* Links the length / line lines of the buffer into one cycle that visits each once, in an order
 * that `seed` decides and no prefetcher guesses. The first word of a line points to the next. */
int chase_link(struct team *team, const struct arena *arena, size_t length, size_t line,
               uint64_t seed);

/* Byte offset of the line that the cycle visits at `step` (it repeats after length / line). */
int chase_position(size_t length, size_t line, uint64_t seed, uint64_t step, size_t *offset);

/* Where so many links lead from a line. */
void *chase_follow(void *line, uint64_t steps);

struct chase_result {
    int64_t elapsed_ns;
    size_t offset; /* where the walk ended; chase_position of start + steps if it was walked */
    int64_t strays;
};

/* Walks `steps` links of a buffer linked with the same length, line and seed, from the line at
 * step `start`. The team has one thread. */
int chase_walk(struct team *team, const struct arena *arena, size_t length, size_t line,
               uint64_t seed, uint64_t start, uint64_t steps, struct chase_result *result);

#endif
