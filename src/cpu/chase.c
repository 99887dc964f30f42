#include "chase.h"

#include "mix.h"

#include <errno.h>

enum {
    ROUNDS = 4,
    BATCH = 64, /* lines whose stores follow each other closely enough to miss together */
    UNROLL = 16,
};

/* A bijection of [0, count): rounds of multiply and fold on the enclosing power of two, repeated
 * until the value falls below count. No table: a 1 GiB buffer needs no memory beside it. */
struct order {
    uint64_t count;
    uint64_t mask;
    unsigned fold;
    uint64_t multiply[ROUNDS];
    uint64_t add[ROUNDS];
};

static struct order order_of(uint64_t count, uint64_t seed) {
    struct order order = {.count = count};
    unsigned bits = count > 1 ? 64 - (unsigned)__builtin_clzll(count - 1) : 0;
    order.mask = bits ? UINT64_MAX >> (64 - bits) : 0;
    order.fold = bits / 2 + 1;
    for (unsigned round = 0; round < ROUNDS; round++) {
        order.multiply[round] = mix(seed, 2 * round) | 1; /* odd: invertible */
        order.add[round] = mix(seed, 2 * round + 1);
    }
    return order;
}

static inline uint64_t line_at(const struct order *order, uint64_t step) {
    uint64_t x = step;
    do {
        for (unsigned round = 0; round < ROUNDS; round++) {
            x = (x * order->multiply[round] + order->add[round]) & order->mask;
            x ^= x >> order->fold;
        }
    } while (x >= order->count);
    return x;
}

static int check_lines(size_t length, size_t line) {
    return line < sizeof(void *) || line % sizeof(void *) || length < line ? -EINVAL : 0;
}

int chase_position(size_t length, size_t line, uint64_t seed, uint64_t step, size_t *offset) {
    int rc = check_lines(length, line);
    if (rc)
        return rc;
    struct order order = order_of(length / line, seed);
    *offset = line_at(&order, step % order.count) * line;
    return 0;
}

struct link_job {
    unsigned char *buffer;
    size_t line;
    struct order order;
};

static void link_batch(const struct link_job *job, uint64_t first, size_t count) {
    unsigned char *lines[BATCH + 1];
    for (size_t i = 0; i <= count; i++) {
        uint64_t step = first + i == job->order.count ? 0 : first + i;
        lines[i] = job->buffer + line_at(&job->order, step) * job->line;
    }
    for (size_t i = 0; i < count; i++)
        *(void **)lines[i] = lines[i + 1];
}

/* The threads take batches in turn, so that the lines which stay in the cache of any of them are
 * those of the cycle's end, which a walk from its begin comes to last. */
static uint64_t link_in_turn(void *argument, size_t rank, size_t size) {
    const struct link_job *job = argument;
    uint64_t count = job->order.count;
    for (uint64_t first = rank * BATCH; first < count; first += size * BATCH)
        link_batch(job, first, count - first < BATCH ? count - first : BATCH);
    return 0;
}

int chase_link(struct team *team, const struct arena *arena, size_t length, size_t line,
               uint64_t seed) {
    int rc = length > arena->size ? -EINVAL : check_lines(length, line);
    if (rc)
        return rc;
    struct link_job job = {arena->address, line, order_of(length / line, seed)};
    struct window window;
    return team_run(team, link_in_turn, &job, &window);
}

void *chase_follow(void *line, uint64_t steps) {
    void *at = line;
    for (; steps >= UNROLL; steps -= UNROLL) {
#pragma GCC unroll 16
        for (int i = 0; i < UNROLL; i++)
            at = *(void **)at;
    }
    for (; steps > 0; steps--)
        at = *(void **)at;
    return at;
}

struct walk_job {
    void *start;
    uint64_t steps;
};

static uint64_t walk(void *argument, size_t rank, size_t size) {
    (void)rank, (void)size;
    const struct walk_job *job = argument;
    return (uintptr_t)chase_follow(job->start, job->steps);
}

int chase_walk(struct team *team, const struct arena *arena, size_t length, size_t line,
               uint64_t seed, uint64_t start, uint64_t steps, struct chase_result *result) {
    size_t offset;
    if (length > arena->size || team_size(team) != 1)
        return -EINVAL;
    int rc = chase_position(length, line, seed, start, &offset);
    if (rc)
        return rc;
    struct walk_job job = {arena->address + offset, steps};
    struct window window;
    rc = team_run(team, walk, &job, &window);
    if (!rc)
        *result = (struct chase_result){
            window.elapsed_ns, (size_t)(window.sum - (uintptr_t)arena->address), window.strays};
    return rc;
}
