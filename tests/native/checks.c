/* Runs every native function once or more, for the sanitizers and for other instruction sets.
 * Exit status 0 when all holds; else the line that does not, on stderr. */
#include "arena.h"
#include "chase.h"
#include "fill.h"
#include "stream.h"
#include "team.h"

#include <errno.h>
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

static void check_kernels(struct team *team, const struct arena *arena, size_t length) {
    enum { REPETITIONS = 3 };
    uint64_t sum, expected;
    REQUIRE(fill(team, arena, length, SEED, &sum) == 0);
    REQUIRE(sum == sum_of(arena, length));
    REQUIRE(sum == fill_sum(SEED, 0, length / sizeof sum));
    const struct kernel *kernel;
    for (size_t i = 0; (kernel = stream_kernel(i)); i++) {
        struct stream_result result;
        const char *name = kernel->name;
        REQUIRE(stream_expected(team, length, name, REPETITIONS, SEED, &expected) == 0);
        if (kernel->writes) {
            REQUIRE(fill(team, arena, length, SEED, &sum) == 0);
            REQUIRE(stream_store(team, arena, length, name, REPETITIONS, SEED, &result) == 0);
            REQUIRE(result.bytes <= REPETITIONS * length);
        } else {
            REQUIRE(fill(team, arena, length, SEED, &sum) == 0);
            REQUIRE(stream_read(team, arena, length, name, REPETITIONS, &result) == 0);
            REQUIRE(result.bytes == REPETITIONS * length);
        }
        REQUIRE(result.sum == expected);
        REQUIRE(result.elapsed_ns >= 0);
    }
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

int main(void) {
    const int cpus[] = {0, 0, 0, 0};
    struct arena arena;
    REQUIRE(arena_open(&arena, 0, 0, PLACE_NONE, NULL, 0) == -EINVAL);
    REQUIRE(arena_open(&arena, SIZE_MAX, 0, PLACE_NONE, NULL, 0) == -ENOMEM);
    REQUIRE(arena_open(&arena, 4 * KIB, 0, PLACE_BIND, (int[]){-1}, 1) == -EINVAL);
    REQUIRE(arena_open(&arena, 256 * KIB, 0, PLACE_NONE, NULL, 0) == 0);
    for (size_t size = 1; size <= sizeof cpus / sizeof *cpus; size++) {
        struct team *team;
        REQUIRE(team_open(&team, cpus, size) == 0);
        REQUIRE(team_size(team) == size);
        check_kernels(team, &arena, 16 * KIB);
        check_kernels(team, &arena, 17 * KIB + 8);
        check_kernels(team, &arena, 128 * KIB - 24);
        check_chase(team, &arena, 64 * KIB, 64);
        check_chase(team, &arena, 100 * KIB + 8, 128);
        team_close(team);
    }
    check_census(&arena, 128 * KIB);
    REQUIRE(arena_close(&arena) == 0);
    REQUIRE(arena_close(&arena) == 0);
    return 0;
}
