#include "sync.h"

#include "wait.h"

#include <errno.h>
#include <stdatomic.h>

typedef _Atomic uint64_t counter;

struct ping_job {
    counter *counter;
    uint64_t base;
    uint64_t round_trips;
};

/* Thread 0 makes it odd (counted from the base), thread 1 even again. Each waits by exchanging:
 * that asks for the line to own it, so that it moves once a turn. A load that waits would share the
 * line first and have to ask again before its store. */
static uint64_t take_turns(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct ping_job *job = argument;
    uint64_t mine = job->base + rank;
    for (uint64_t i = 0; i < job->round_trips; i++) {
        uint64_t expected = mine;
        for (int spins = 0; !atomic_compare_exchange_weak_explicit(
                 job->counter, &expected, mine + 1, memory_order_acq_rel, memory_order_relaxed);
             expected = mine)
            spin_or_yield(&spins);
        mine += 2;
    }
    return 0;
}

int sync_ping(struct team *team, const struct arena *arena, size_t offset, uint64_t round_trips,
              struct sync_result *result) {
    if (team_size(team) != 2 || offset % sizeof(counter) || arena->size < sizeof(counter) ||
        offset > arena->size - sizeof(counter))
        return -EINVAL;
    counter *line = (counter *)(arena->address + offset);
    struct ping_job job = {line, atomic_load(line), round_trips};
    struct window window;
    int rc = team_run(team, take_turns, &job, &window);
    if (!rc)
        *result = (struct sync_result){window.elapsed_ns, (atomic_load(line) - job.base) / 2,
                                       window.strays};
    return rc;
}

struct barrier_job {
    struct team *team;
    uint64_t repetitions;
};

static uint64_t meet_repeatedly(void *argument, size_t rank, size_t size) {
    (void)rank, (void)size;
    const struct barrier_job *job = argument;
    uint64_t met = 0;
    for (; met < job->repetitions; met++)
        team_meet(job->team);
    return met;
}

int sync_barrier(struct team *team, uint64_t repetitions, struct sync_result *result) {
    struct barrier_job job = {team, repetitions};
    struct window window;
    int rc = team_run(team, meet_repeatedly, &job, &window);
    if (!rc)
        *result =
            (struct sync_result){window.elapsed_ns, window.sum / team_size(team), window.strays};
    return rc;
}
