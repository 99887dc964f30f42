/* How a team shares buffers: private slices, whole pages each, the last of a buffer takes the rest.
 */
#ifndef NUMAMICRO_SPAN_H
#define NUMAMICRO_SPAN_H

#include "arena.h"

#include <errno.h>

enum { SLICE_GRAIN = 4096 };

/* A buffer, and how many threads share it. */
struct span {
    const struct arena *arena; /* the buffer is its first `length` bytes */
    size_t length;
    size_t threads;
};

/* What a team works on: the first buffer is for its first threads, the next for those after. */
struct spans {
    const struct span *items;
    size_t count;
};

/* What one thread works on. */
struct slice {
    const struct arena *arena;
    size_t offset;
    size_t bytes;
};

static inline struct slice slice_of(const struct spans *spans, size_t rank) {
    const struct span *span = spans->items;
    for (; rank >= span->threads; span++)
        rank -= span->threads;
    size_t share = span->length / span->threads & ~((size_t)SLICE_GRAIN - 1);
    size_t offset = rank * share;
    return (struct slice){span->arena, offset,
                          rank + 1 < span->threads ? share : span->length - offset};
}

/* 0 when every one of the threads has its buffer, and no buffer is left without. */
static inline int check_threads(const struct spans *spans, size_t threads) {
    for (size_t i = 0; i < spans->count; i++) {
        if (spans->items[i].threads == 0 || spans->items[i].threads > threads)
            return -EINVAL;
        threads -= spans->items[i].threads;
    }
    return threads ? -EINVAL : 0;
}

/* 0 when, besides, the buffers are whole words, within their arenas and enough for every thread. */
static inline int check_spans(const struct spans *spans, size_t threads) {
    for (size_t i = 0; i < spans->count; i++) {
        const struct span *span = &spans->items[i];
        size_t least = span->threads > 1 ? SLICE_GRAIN : sizeof(uint64_t);
        if (span->length > span->arena->size || span->length % sizeof(uint64_t) ||
            span->length / least < span->threads)
            return -EINVAL;
    }
    return check_threads(spans, threads);
}

#endif
