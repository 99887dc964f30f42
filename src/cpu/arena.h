/* Memory whose place is decided before its first touch, and asked of the kernel after. */
#ifndef NUMAMICRO_ARENA_H
#define NUMAMICRO_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum {
    NODE_LIMIT = 4096,  /* node ids are below this */
    ERRNO_LIMIT = 4096, /* the kernel's error numbers are below this */
    CENSUS_STATES = ERRNO_LIMIT + NODE_LIMIT,
};

enum placement { PLACE_NONE, PLACE_BIND, PLACE_INTERLEAVE };

struct arena {
    unsigned char *address; /* aligned to 2 MiB; NULL when closed */
    size_t size;            /* bytes, as asked for */
};

/* Maps `size` bytes and sets their policy; touches nothing. `nodes` has `count` ids, none of which
 * the kernel may drop: a policy that it would narrow is -EINVAL. */
int arena_open(struct arena *arena, size_t size, int huge, enum placement placement,
               const int *nodes, size_t count);

int arena_close(struct arena *arena);

/* Sets where the calling thread's own memory comes from until it is set again; PLACE_NONE: wherever
 * the process would have it. */
int policy_set(enum placement placement, const int *nodes, size_t count);

/* Counts where the pages at offset, offset + step, ... below offset + length are.
 * pages[ERRNO_LIMIT + id] grows by one for a page on node `id`, pages[ERRNO_LIMIT - errno] for a
 * page that the kernel cannot place (-ENOENT or -EFAULT, by kernel version: never touched). */
int arena_census(const struct arena *arena, size_t offset, size_t length, size_t step,
                 uint64_t pages[CENSUS_STATES]);

#endif
