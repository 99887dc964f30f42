#include "simulation.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"

enum { ILLEGAL_ADDRESS = 700, POLL_NS = 50000, CALM_NS = 5000000, MAX_CALLS = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t kernel_ended = PTHREAD_COND_INITIALIZER;
static struct stream *streams;
static double host;    /* virtual time of the host */
static double present; /* up to when copies were advanced */

static double host_time(void) {
    double now;
    __atomic_load(&host, &now, __ATOMIC_RELAXED);
    return now;
}

static void host_until(double time) {
    if (time > host)
        __atomic_store(&host, &time, __ATOMIC_RELAXED);
}

/* What the host spent on each call, by its name. */
static struct entry {
    const char *name;
    unsigned long calls;
    double seconds;
} entries[MAX_CALLS];
static _Thread_local struct entry *being_served;
static _Thread_local double served_since;

static struct entry *entry_of(const char *name) {
    struct entry *entry = entries;
    while (entry->name && strcmp(entry->name, name))
        entry++;
    entry->name = name;
    return entry;
}

static void settle_call(void) {
    if (being_served)
        being_served->seconds += host - served_since;
    being_served = NULL;
}

__attribute__((constructor)) static void lend_host_time(void) { engine_host_time = host_time; }

void simulation_lock(void) { pthread_mutex_lock(&lock); }

void simulation_unlock(void) {
    settle_call();
    pthread_mutex_unlock(&lock);
}

double simulation_host(void) { return host; }

struct stream *simulation_streams(void) { return streams; }

/* --- Copies that share links ----------------------------------------------------------------- */

static bool passes(const struct op *op, int resource) {
    for (int i = 0; i < op->route->length; i++)
        if (op->route->over[i] == resource)
            return true;
    return false;
}

static struct op *flow_of(struct stream *stream) {
    return stream->first && stream->first->flowing ? stream->first : NULL;
}

/* Max-min fairness: the resource that gives least to each goes first, and so on with what is left.
 * A copy's own limit is like a resource that it alone passes. */
static void share_links(void) {
    double left[MAX_RESOURCES];
    for (int r = 0; r < machine()->resources; r++)
        left[r] = machine()->resource[r].rate;
    for (struct stream *s = streams; s; s = s->next)
        if (flow_of(s))
            s->first->rate = 0;
    for (;;) {
        double least = INFINITY;
        int tightest = -1;
        struct op *alone = NULL;
        for (int r = 0; r < machine()->resources; r++) {
            int users = 0;
            for (struct stream *s = streams; s; s = s->next)
                users += flow_of(s) && s->first->rate <= 0 && passes(s->first, r);
            if (users && left[r] / users < least) {
                least = left[r] / users;
                tightest = r;
            }
        }
        for (struct stream *s = streams; s; s = s->next)
            if (flow_of(s) && s->first->rate <= 0 && s->first->most <= least) {
                least = s->first->most;
                alone = s->first;
            }
        if (tightest < 0 && !alone)
            return;
        least = fmax(least, 1); /* rounding must not stop a copy */
        for (struct stream *s = streams; s; s = s->next) {
            struct op *op = flow_of(s);
            if (!op || op->rate > 0 || (alone ? op != alone : !passes(op, tightest)))
                continue;
            op->rate = least;
            for (int i = 0; i < op->route->length; i++)
                left[op->route->over[i]] -= least;
        }
    }
}

static void advance(double time) {
    if (time <= present)
        return;
    for (struct stream *s = streams; s; s = s->next)
        if (flow_of(s))
            s->first->left -= s->first->rate * (time - present);
    present = time;
}

/* --- One step -------------------------------------------------------------------------------- */

static double begin_of(const struct stream *stream) {
    const struct op *op = stream->first;
    return (stream->now > op->ready ? stream->now : op->ready) + op->gap;
}

/* When the stream's next thing happens; infinity while that depends on others. */
static double due(const struct stream *stream) {
    const struct op *op = stream->first;
    if (!op || op->stuck)
        return INFINITY;
    if (stream->context->error)
        return begin_of(stream);
    switch (op->work) {
    case WORK_COPY:
        return op->flowing ? present + fmax(op->left, 0) / op->rate : begin_of(stream) + op->delay;
    case WORK_FILL:
        return begin_of(stream) + op->delay;
    case WORK_KERNEL:
        return !op->running ? begin_of(stream) : op->returned ? op->launch.end : INFINITY;
    case WORK_RECORD:
        return begin_of(stream);
    case WORK_WAIT:
        return op->event->done >= op->number ? fmax(begin_of(stream), op->event->at) : INFINITY;
    }
    return INFINITY;
}

static void fill(const struct op *op) {
    if (op->pattern_bytes == 1) {
        memset(op->target, (int)op->pattern, op->bytes);
        return;
    }
    for (size_t at = 0; at < op->bytes; at += op->pattern_bytes)
        memcpy((char *)op->target + at, &op->pattern, op->pattern_bytes);
}

static void *run_kernel(void *argument) {
    struct op *op = argument;
    engine_run(&op->launch);
    pthread_mutex_lock(&lock);
    op->returned = true;
    pthread_cond_broadcast(&kernel_ended);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void start_kernel(struct op *op, double time) {
    pthread_t thread;
    op->launch.start = time + machine()->launch;
    op->launch.args = op->args;
    op->running = true;
    pthread_create(&thread, NULL, run_kernel, op);
    pthread_detach(thread);
}

static void start_flow(struct op *op, double begin) {
    /* Work behind a kernel may begin before what was already advanced: it was alone then. */
    op->left = (double)op->bytes - op->most * fmax(present - begin, 0);
    op->flowing = true;
}

/* Whether the work behind does the same once more: then only that one need touch the bytes. Who
 * looks in between would see them on a GPU too, but could not know which copy brought them. */
static bool is_repeated(const struct op *op) {
    const struct op *next = op->next;
    return next && next->work == op->work && next->target == op->target &&
           next->source == op->source && next->bytes == op->bytes && next->pattern == op->pattern &&
           next->pattern_bytes == op->pattern_bytes;
}

static void finish(struct stream *stream, double time) {
    struct op *op = stream->first;
    if (!stream->context->error && !is_repeated(op)) {
        if (op->work == WORK_COPY)
            memmove(op->target, op->source, op->bytes);
        if (op->work == WORK_FILL)
            fill(op);
    }
    if (op->work == WORK_RECORD) {
        op->event->at = time;
        op->event->done = op->number;
    }
    if (op->work == WORK_KERNEL && op->launch.fault) {
        fprintf(stderr, "stand-in: gpu%d: %s: %s\n", stream->context->gpu, op->launch.kernel->name,
                op->launch.fault);
        stream->context->error = ILLEGAL_ADDRESS;
    }
    if (op->work == WORK_KERNEL && op->launch.kernel->args == sizeof(AllReduceArgs) &&
        has_fault("wrong_sum", stream->context->gpu, -1)) {
        const AllReduceArgs *args = (const AllReduceArgs *)op->args;
        *(unsigned *)args->output ^= 1U << 22;
    }
    stream->now = time;
    stream->first = op->next;
    if (!stream->first)
        stream->last = NULL;
    free(op);
}

static void happen(struct stream *stream, double time) {
    struct op *op = stream->first;
    const bool copies = op->work == WORK_COPY && !stream->context->error;
    const bool launches = op->work == WORK_KERNEL && !stream->context->error;
    if (copies && !op->flowing) {
        advance(time);
        start_flow(op, time);
        share_links();
    } else if (launches && !op->running) {
        start_kernel(op, time);
    } else {
        if (op->flowing)
            advance(time);
        const bool flowed = op->flowing;
        finish(stream, time);
        if (flowed)
            share_links();
    }
}

static bool kernels_work(void) {
    for (struct stream *s = streams; s; s = s->next) {
        struct op *op = s->first;
        if (op && op->work == WORK_KERNEL && op->running && !op->returned &&
            !engine_waits(&op->launch))
            return true;
    }
    return false;
}

/* Waits for one to end, and no longer than so many nanoseconds: one that begins to wait for a peer
 * says nothing. */
static void wait_for_kernels(long nanoseconds) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += nanoseconds;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_cond_timedwait(&kernel_ended, &lock, &end);
}

/* Does the earliest thing that is due by `limit`; false when there is none. A kernel at work may
 * cause an earlier one, so it is waited for. */
static bool step(double limit) {
    while (kernels_work())
        wait_for_kernels(POLL_NS);
    struct stream *next = NULL;
    double earliest = INFINITY;
    for (struct stream *s = streams; s; s = s->next) {
        const double time = due(s);
        if (time < earliest) {
            earliest = time;
            next = s;
        }
    }
    if (!next || earliest > limit)
        return false;
    happen(next, earliest);
    return true;
}

/* Works until there is nothing to wait for; what never comes is waited for for ever, ever more
 * calmly. */
static void work_until(bool (*reached)(const void *), const void *what) {
    long patience = POLL_NS;
    while (!reached(what))
        if (step(INFINITY)) {
            patience = POLL_NS;
        } else {
            wait_for_kernels(patience);
            patience = patience < CALM_NS ? 2 * patience : patience;
        }
}

/* --- What the driver calls ------------------------------------------------------------------- */

void simulation_work(double seconds) {
    host_until(host + seconds);
    while (step(host))
        continue;
}

void simulation_call(const char *name) {
    being_served = entry_of(name);
    being_served->calls++;
    served_since = host;
    simulation_work(machine()->call);
}

void simulation_pass(const char *name, double seconds) {
    simulation_lock();
    simulation_call(name);
    simulation_work(seconds);
    simulation_unlock();
}

struct stream *simulation_open(struct context *context) {
    struct stream *stream = calloc(1, sizeof *stream);
    stream->context = context;
    stream->now = host;
    stream->next = streams;
    streams = stream;
    return stream;
}

void simulation_close(struct stream *stream) {
    simulation_finish(stream);
    for (struct stream **at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    free(stream);
}

void simulation_submit(struct stream *stream, struct op *op) {
    op->next = NULL;
    op->ready = host;
    if (stream->last)
        stream->last->next = op;
    else
        stream->first = op;
    stream->last = op;
}

bool simulation_idle(const struct stream *stream) { return !stream->first; }

static bool is_idle(const void *stream) { return simulation_idle(stream); }

static bool is_recorded(const void *event) {
    const struct event *e = event;
    return e->done == e->submitted || e->context->error;
}

void simulation_finish(struct stream *stream) {
    if (has_fault("plant_sync", stream->context->gpu, -1))
        return;
    work_until(is_idle, stream);
    host_until(stream->now);
}

void simulation_settle(int gpu) {
    for (struct stream *s = streams; s; s = s->next)
        if (s->context->gpu == gpu) {
            work_until(is_idle, s);
            host_until(s->now);
        }
}

void simulation_reach(struct event *event) {
    work_until(is_recorded, event);
    host_until(event->at);
}

/* --- The account ----------------------------------------------------------------------------- */

static double timed, timed_until;

void simulation_timed(double begin, double end) {
    /* What two pairs of events measure at once counts once. */
    const double from = begin > timed_until ? begin : timed_until;
    if (end > from)
        timed += end - from;
    timed_until = fmax(timed_until, end);
}

/* Adds a line to the file NUMAMICRO_STANDIN_ACCOUNT when the process ends: its virtual seconds,
 * those among them that lay between two events whose distance was asked for, and how often and how
 * long the host was in each call. What was not timed is what the harness costs. */
__attribute__((destructor)) static void simulation_account(void) {
    const char *path = getenv("NUMAMICRO_STANDIN_ACCOUNT");
    FILE *file = path && host > 0 ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "{\"seconds\": %.9f, \"timed\": %.9f, \"calls\": {", host, timed);
        for (const struct entry *e = entries; e->name; e++)
            fprintf(file, "%s\"%s\": [%lu, %.9f]", e == entries ? "" : ", ", e->name, e->calls,
                    e->seconds);
        fputs("}}\n", file);
        fclose(file);
    }
}

bool simulation_busy(int gpu) {
    for (struct stream *s = streams; s; s = s->next)
        if (s->context->gpu == gpu && s->first)
            return true;
    return false;
}
