/* Runs every native function once or more, for the sanitizers and for other instruction sets.
 * Exit status 0 when all holds; else the line that does not, on stderr. */
#include "arena.h"
#include "attend.h"
#include "chase.h"
#include "dot.h"
#include "fill.h"
#include "loaded.h"
#include "step.h"
#include "stream.h"
#include "sync.h"
#include "team.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { KIB = 1024, SEED = 12345 };

static uint64_t sum_of(const struct arena *arena, size_t length) {
    uint64_t sum = 0;
    for (size_t at = 0; at < length; at += sizeof(uint64_t))
        sum += *(const uint64_t *)(arena->address + at);
    return sum;
}

static void check_fill(struct team *team, struct spans spans) {
    uint64_t sum;
    uint64_t found = 0;
    uint64_t expected = 0;
    REQUIRE(fill(team, spans, SEED, &sum) == 0);
    for (size_t i = 0; i < spans.count; i++) {
        found += sum_of(spans.items[i].arena, spans.items[i].length);
        expected += fill_sum(SEED, 0, spans.items[i].length / sizeof sum);
    }
    REQUIRE(sum == found);
    REQUIRE(sum == expected);
}

static void check_kernels(struct team *team, struct spans spans) {
    enum { REPETITIONS = 3 };
    uint64_t expected;
    uint64_t length = 0;
    for (size_t i = 0; i < spans.count; i++)
        length += spans.items[i].length;
    const struct kernel *kernel;
    for (size_t i = 0; (kernel = stream_kernel(i)); i++) {
        struct stream_result result;
        const char *name = kernel->name;
        check_fill(team, spans);
        REQUIRE(stream_expected(team, spans, name, REPETITIONS, SEED, &expected) == 0);
        if (kernel->writes) {
            REQUIRE(stream_store(team, spans, name, REPETITIONS, SEED, &result) == 0);
            REQUIRE(result.bytes <= REPETITIONS * length);
        } else {
            REQUIRE(stream_read(team, spans, name, REPETITIONS, &result) == 0);
            REQUIRE(result.bytes == REPETITIONS * length);
        }
        REQUIRE(result.sum == expected);
        REQUIRE(result.elapsed_ns >= 0);
    }
}

static void check_shares(struct team *team, const struct arena *arena, const struct arena *other) {
    size_t size = team_size(team);
    const size_t lengths[] = {16 * KIB, 17 * KIB + 8, 128 * KIB - 24};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check_kernels(team, (struct spans){&(struct span){arena, lengths[i], size}, 1});
    if (size == 1)
        return;
    const struct span two[] = {{other, 5 * KIB, 1}, {arena, 20 * KIB + 8, size - 1}};
    check_kernels(team, (struct spans){two, 2});
}

static void check_chase(struct team *team, const struct arena *arena, size_t length, size_t line) {
    struct team *one;
    struct chase_result result;
    size_t expected;
    uint64_t count = length / line;
    REQUIRE(team_open(&one, (int[]){0}, 1) == 0);
    REQUIRE(chase_link(team, arena, length, line, SEED) == 0);
    for (uint64_t steps = 1; steps < 2 * count; steps += count / 3 + 1) {
        REQUIRE(chase_walk(one, arena, length, line, SEED, 5, steps, &result) == 0);
        REQUIRE(chase_position(length, line, SEED, 5 + steps, &expected) == 0);
        REQUIRE(result.offset == expected);
    }
    team_close(one);
}

static void check_loaded(struct team *team, const struct arena *arena, const struct arena *other) {
    enum { LINE = 64, STEPS = 5000 };
    size_t length = 64 * KIB;
    size_t end;
    const struct kernel *kernel;
    REQUIRE(chase_link(team, arena, length, LINE, SEED) == 0);
    REQUIRE(chase_position(length, LINE, SEED, STEPS, &end) == 0);
    for (size_t i = 0; (kernel = stream_kernel(i)); i++) {
        struct load load = {other, 220 * KIB, kernel->name, i % 2 ? 1000 : 0};
        struct loaded_result result;
        size_t streams = team_size(team) - 1;
        int fits = kernel->reads + kernel->writes == 1;
        int expected = !fits ? -ENOTSUP : streams ? 0 : -EINVAL;
        if (streams)
            check_fill(team, (struct spans){&(struct span){other, load.length, streams + 1}, 1});
        REQUIRE(loaded_walk(team, arena, length, LINE, SEED, 0, STEPS, &load, &result) == expected);
        if (expected)
            continue;
        REQUIRE(result.chase.offset == end);
        REQUIRE(result.bytes % (16 * KIB) == 0);
        REQUIRE(result.wrong == 0);
    }
}

static void check_ping(struct team *team, const struct arena *arena) {
    struct sync_result result;
    int expected = team_size(team) == 2 ? 0 : -EINVAL;
    uint64_t *counter = (uint64_t *)(arena->address + arena->size) - 1;
    *counter = UINT64_MAX - 5; /* it may pass zero */
    REQUIRE(sync_ping(team, arena, arena->size - sizeof *counter, 100, &result) == expected);
    REQUIRE(sync_ping(team, arena, arena->size, 1, &result) == -EINVAL);
    REQUIRE(sync_ping(team, arena, 4, 1, &result) == -EINVAL);
    if (expected)
        return;
    REQUIRE(result.repetitions == 100);
    REQUIRE(*counter == 194);
}

enum { ROUNDS = 300 };

struct meeting {
    struct team *team;
    uint64_t rounds[4]; /* that each thread has begun; guarded by the barrier alone */
};

/* Counts the rounds in which another thread was seen elsewhere. */
static uint64_t meet_and_look(void *argument, size_t rank, size_t size) {
    struct meeting *meeting = argument;
    uint64_t astray = 0;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        meeting->rounds[rank] = round;
        team_meet(meeting->team);
        for (size_t other = 0; other < size; other++)
            astray += meeting->rounds[other] != round;
        team_meet(meeting->team);
    }
    return astray;
}

static void check_barrier(struct team *team) {
    struct meeting meeting = {.team = team};
    struct window window;
    struct sync_result result;
    REQUIRE(team_run(team, meet_and_look, &meeting, &window) == 0);
    REQUIRE(window.sum == 0);
    REQUIRE(sync_barrier(team, ROUNDS, &result) == 0);
    REQUIRE(result.repetitions == ROUNDS);
}

static void check_census(const struct arena *arena, size_t touched) {
    static uint64_t pages[CENSUS_STATES];
    uint64_t placed = 0;
    uint64_t counted = 0;
    memset(pages, 0, sizeof pages);
    int rc = arena_census(arena, 0, arena->size, 4 * KIB, pages);
    if (rc == -ENOSYS || rc == -EPERM)
        return; /* an emulator or a container without it */
    REQUIRE(rc == 0);
    for (size_t i = 0; i < CENSUS_STATES; i++) {
        counted += pages[i];
        placed += i >= ERRNO_LIMIT ? pages[i] : 0;
    }
    REQUIRE(placed == touched / (4 * KIB));
    REQUIRE(counted == arena->size / (4 * KIB));
}

static void check_dot(struct team *team, struct spans spans) {
    static const char *const formats[] = {"F16", "BF16", "Q8_0", "Q4_0", "Q4_K"};
    struct dot_result once, thrice;
    uint64_t wrong;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        REQUIRE(dot_fill(team, spans, formats[i], SEED, &wrong) == 0);
        REQUIRE(wrong == 0);
        for (int many = 0; many < 2; many++) {
            REQUIRE(dot(team, spans, formats[i], many, 0, 1, &once) == 0);
            REQUIRE(dot(team, spans, formats[i], many, 5, 3, &thrice) == 0);
            REQUIRE(thrice.sum == 3 * once.sum);
            REQUIRE(thrice.bytes == 3 * once.bytes && once.bytes > 0);
        }
    }
    REQUIRE(dot_fill(team, spans, "Q9_9", SEED, &wrong) == -ENOTSUP);
}

static void check_attend(struct team *team) {
    enum { LAYER = 4096 * KIB, OFFSET = 64 };
    struct arena cache;
    struct attend_result once, twice;
    uint64_t wrong;
    REQUIRE(arena_open(&cache, OFFSET + LAYER, 0, PLACE_NONE, NULL, 0) == 0);
    REQUIRE(attend_fill(team, &cache, OFFSET, LAYER, 2048, 4, SEED, &wrong) == 0);
    REQUIRE(wrong == 0);
    REQUIRE(attend(team, &cache, OFFSET, LAYER, 2048, 4, 1, &once) == 0);
    REQUIRE(attend(team, &cache, OFFSET, LAYER, 2048, 4, 2, &twice) == 0);
    REQUIRE(twice.sum == 2 * once.sum);
    REQUIRE(once.bytes % LAYER == 0 && once.bytes >= 4 * LAYER);
    REQUIRE(attend_fill(team, &cache, OFFSET, LAYER - 4 * KIB, 2048, 4, SEED, &wrong) == -EINVAL);
    REQUIRE(attend_fill(team, &cache, OFFSET, LAYER + 4 * KIB, 2048, 4, SEED, &wrong) == -EINVAL);
    REQUIRE(arena_close(&cache) == 0);
}

static void check_step(struct team *team) {
    struct step_result result;
    REQUIRE(step(team, STEP_NORM, 256, 3, &result) == 0);
    REQUIRE(result.values == 3 * 256 && fabs(result.sum - 256) < 1);
    REQUIRE(step(team, STEP_ROTATE, 14, 5, &result) == 0);
    REQUIRE(fabs(result.sum - 56) < 0.1); /* twice -3 ... 3 */
    REQUIRE(step(team, STEP_QUANTIZE, 512, 5, &result) == 0);
    REQUIRE(result.values == 5 * 512);
    REQUIRE(step(team, STEP_QUANTIZE, 100, 1, &result) == -EINVAL);
    REQUIRE(step(team, STEP_NORM, 7, 1, &result) == -EINVAL);
}

int main(void) {
    const int cpus[] = {0, 0, 0, 0};
    struct arena arena, other;
    REQUIRE(arena_open(&arena, 0, 0, PLACE_NONE, NULL, 0) == -EINVAL);
    REQUIRE(arena_open(&arena, SIZE_MAX, 0, PLACE_NONE, NULL, 0) == -ENOMEM);
    REQUIRE(arena_open(&arena, 4 * KIB, 0, PLACE_BIND, (int[]){-1}, 1) == -EINVAL);
    REQUIRE(arena_open(&arena, 256 * KIB, 0, PLACE_NONE, NULL, 0) == 0);
    REQUIRE(arena_open(&other, 256 * KIB, 0, PLACE_NONE, NULL, 0) == 0);
    for (size_t size = 1; size <= sizeof cpus / sizeof *cpus; size++) {
        struct team *team;
        REQUIRE(team_open(&team, cpus, size) == 0);
        REQUIRE(team_size(team) == size);
        check_shares(team, &arena, &other);
        check_chase(team, &arena, 64 * KIB, 64);
        check_chase(team, &arena, 100 * KIB + 8, 128);
        check_loaded(team, &arena, &other);
        check_ping(team, &other);
        check_barrier(team);
        if (size % 2)
            check_dot(team, (struct spans){&(struct span){&other, 128 * KIB, size}, 1});
        check_step(team);
        if (size == 1)
            check_attend(team);
        team_close(team);
    }
    check_census(&arena, 128 * KIB);
    REQUIRE(arena_close(&other) == 0);
    REQUIRE(arena_close(&arena) == 0);
    REQUIRE(arena_close(&arena) == 0);
    return 0;
}
