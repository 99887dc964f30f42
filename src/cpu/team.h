/* Threads that stay: each pinned to one CPU, all started on a job together, all timed. */
#ifndef NUMAMICRO_TEAM_H
#define NUMAMICRO_TEAM_H

#include <stddef.h>
#include <stdint.h>

struct team;

/* One thread's share of a job; what it returns is added up over the team. */
typedef uint64_t team_body(void *job, size_t rank, size_t size);

struct window {
    int64_t elapsed_ns; /* from the first thread's start to the last one's end */
    uint64_t sum;       /* of what the bodies returned, modulo 2^64 */
    int64_t strays;     /* involuntary context switches */
};

/* Starts one thread on each CPU; a CPU may come more than once. */
int team_open(struct team **team, const int *cpus, size_t size);

/* Runs `body` on every thread and sleeps until the last has finished. For one caller at a time.
 * -ENODEV when a thread ended off its CPU: the kernel moves it where its CPU goes offline. */
int team_run(struct team *team, team_body *body, void *job, struct window *window);

/* For bodies: returns once every thread of the team has called it. */
void team_meet(struct team *team);

size_t team_size(const struct team *team);

void team_close(struct team *team);

#endif
