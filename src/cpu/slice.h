/* How a team shares a buffer: private slices, whole pages each, the last one takes the rest. */
#ifndef NUMAMICRO_SLICE_H
#define NUMAMICRO_SLICE_H

#include "arena.h"
#include "team.h"

#include <errno.h>

enum { SLICE_GRAIN = 4096 };

struct slice {
    size_t offset;
    size_t bytes;
};

static inline struct slice slice_of(size_t length, size_t rank, size_t size) {
    size_t share = length / size & ~((size_t)SLICE_GRAIN - 1);
    size_t offset = rank * share;
    return (struct slice){offset, rank + 1 < size ? share : length - offset};
}

/* 0 when the first `length` bytes of the arena are whole words and enough for every thread. */
static inline int check_slices(const struct team *team, const struct arena *arena, size_t length) {
    if (length == 0 || length > arena->size || length % sizeof(uint64_t))
        return -EINVAL;
    return slice_of(length, 0, team_size(team)).bytes ? 0 : -EINVAL;
}

#endif
