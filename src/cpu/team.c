#define _GNU_SOURCE
#include "team.h"

#include "clock.h"
#include "wait.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    STACK_BYTES = 256 << 10,
};

struct worker {
    _Alignas(CACHE_LINES) struct team *team;
    pthread_t thread;
    size_t rank;
    int cpu;
    int64_t start_ns, end_ns;
    int64_t strays;
    bool displaced;
    uint64_t result;
};

struct team {
    pthread_cond_t work, done;
    pthread_mutex_t lock; /* guards the five below */
    unsigned long jobs;   /* handed out so far */
    size_t running;
    bool closing;
    team_body *body;
    void *job;

    pid_t owner;
    size_t size;
    struct worker *workers;

    _Alignas(CACHE_LINES) atomic_size_t arrived;
    _Alignas(CACHE_LINES) atomic_bool sense;
};

/* The last to arrive turns the sense that the others wait for. */
void team_meet(struct team *team) {
    bool sense = atomic_load_explicit(&team->sense, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 == team->size) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&team->sense, !sense, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&team->sense, memory_order_acquire) == sense;) {
        pause_cpu();
        spin_or_yield(&spins);
    }
}

static int64_t involuntary_switches(void) {
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nivcsw;
}

static void do_job(struct worker *self, team_body *body, void *job) {
    size_t size = self->team->size;
    team_meet(self->team);
    int64_t switches = involuntary_switches(); /* after the meeting: a yield there counts as one */
    self->start_ns = clock_ns();
    self->result = body(job, self->rank, size);
    self->end_ns = clock_ns();
    self->strays = involuntary_switches() - switches;
    int cpu = sched_getcpu();
    self->displaced = cpu >= 0 && cpu != self->cpu;
}

static void *work(void *argument) {
    struct worker *self = argument;
    struct team *team = self->team;
    pthread_mutex_lock(&team->lock);
    for (unsigned long finished = 0;;) {
        while (!team->closing && team->jobs == finished)
            pthread_cond_wait(&team->work, &team->lock);
        if (team->closing)
            break;
        team_body *body = team->body;
        void *job = team->job;
        pthread_mutex_unlock(&team->lock);
        do_job(self, body, job);
        pthread_mutex_lock(&team->lock);
        finished++;
        if (--team->running == 0)
            pthread_cond_signal(&team->done);
    }
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

static int pin(pthread_attr_t *attributes, int cpu) {
    if (cpu < 0)
        return -EINVAL;
    cpu_set_t *set = CPU_ALLOC((size_t)cpu + 1);
    if (!set)
        return -ENOMEM;
    size_t bytes = CPU_ALLOC_SIZE((size_t)cpu + 1);
    CPU_ZERO_S(bytes, set);
    CPU_SET_S((size_t)cpu, bytes, set);
    int rc = -pthread_attr_setaffinity_np(attributes, bytes, set);
    CPU_FREE(set);
    return rc;
}

static int start_worker(struct worker *worker) {
    pthread_attr_t attributes;
    int rc = -pthread_attr_init(&attributes);
    if (rc)
        return rc;
    rc = -pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!rc)
        rc = pin(&attributes, worker->cpu);
    if (!rc)
        rc = -pthread_create(&worker->thread, &attributes, work, worker);
    pthread_attr_destroy(&attributes);
    return rc;
}

/* Signals are the caller's business: a worker starts with all of them blocked. */
static int start_workers(struct team *team, const int *cpus, size_t size) {
    sigset_t all, before;
    int rc = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t rank = 0; rank < size && !rc; rank++) {
        struct worker *worker = &team->workers[rank];
        *worker = (struct worker){.team = team, .rank = rank, .cpu = cpus[rank]};
        rc = start_worker(worker);
        if (!rc)
            team->size++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int team_open(struct team **opened, const int *cpus, size_t size) {
    if (size == 0)
        return -EINVAL;
    struct team *team = aligned_alloc(CACHE_LINES, sizeof *team);
    if (!team)
        return -ENOMEM;
    *team = (struct team){.owner = getpid()};
    team->workers = aligned_alloc(CACHE_LINES, size * sizeof *team->workers);
    if (!team->workers) {
        free(team);
        return -ENOMEM;
    }
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->work, NULL);
    pthread_cond_init(&team->done, NULL);
    int rc = start_workers(team, cpus, size);
    if (rc)
        team_close(team);
    else
        *opened = team;
    return rc;
}

static int take_window(const struct team *team, struct window *taken) {
    struct window window = {0};
    bool displaced = false;
    int64_t start = INT64_MAX;
    int64_t end = INT64_MIN;
    for (size_t rank = 0; rank < team->size; rank++) {
        const struct worker *worker = &team->workers[rank];
        start = worker->start_ns < start ? worker->start_ns : start;
        end = worker->end_ns > end ? worker->end_ns : end;
        window.sum += worker->result;
        window.strays += worker->strays;
        displaced |= worker->displaced;
    }
    window.elapsed_ns = end - start;
    *taken = window;
    return displaced ? -ENODEV : 0;
}

int team_run(struct team *team, team_body *body, void *job, struct window *window) {
    if (team->owner != getpid())
        return -ECHILD; /* a fork does not copy threads */
    pthread_mutex_lock(&team->lock);
    team->body = body;
    team->job = job;
    team->running = team->size;
    team->jobs++;
    pthread_cond_broadcast(&team->work);
    while (team->running > 0)
        pthread_cond_wait(&team->done, &team->lock);
    pthread_mutex_unlock(&team->lock);
    return take_window(team, window);
}

size_t team_size(const struct team *team) { return team->size; }

void team_close(struct team *team) {
    if (team->owner == getpid()) {
        pthread_mutex_lock(&team->lock);
        team->closing = true;
        pthread_cond_broadcast(&team->work);
        pthread_mutex_unlock(&team->lock);
        for (size_t rank = 0; rank < team->size; rank++)
            pthread_join(team->workers[rank].thread, NULL);
        pthread_cond_destroy(&team->done);
        pthread_cond_destroy(&team->work);
        pthread_mutex_destroy(&team->lock);
    }
    free(team->workers);
    free(team);
}
