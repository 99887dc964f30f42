/* What the attention of one token takes: cached keys and values in 16 bits, by every query head. */
#ifndef NUMAMICRO_ATTEND_H
#define NUMAMICRO_ATTEND_H

#include "arena.h"
#include "team.h"

struct attend_result {
    int64_t elapsed_ns;
    uint64_t bytes; /* of keys and values, each counted once for every query head that takes it */
    uint64_t sum;   /* of the results' bits */
    int64_t strays;
};

/* Fills `length` bytes from `offset` on with layers of keys and values of so many positions, each
 * with so many heads. Counts results that differ from those of plain C by more than rounding to 16
 * bits, over one head for every thread. */
int attend_fill(struct team *team, const struct arena *arena, size_t offset, size_t length,
                size_t positions, size_t heads, uint64_t seed, uint64_t *wrong);

/* Lets every query head look at all positions of every layer, a softmax kept up as it goes. */
int attend(struct team *team, const struct arena *arena, size_t offset, size_t length,
           size_t positions, size_t heads, uint64_t repetitions, struct attend_result *result);

#endif
