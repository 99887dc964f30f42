/* What the bandwidth programs share: pinned threads that pass over slices of their own, one window
 * around all of them, and a look at what was done.
 *
 * The arrays lie one behind the other, as STREAM's do; every thread touches its own part first. */
#ifndef BENCH_LOOPS_H
#define BENCH_LOOPS_H

#include "memory.h"

#include <pthread.h>

enum { MOST_THREADS = 1024, LINE_BYTES = 64 };

/* One thread's part of the arrays; the one written is the last. */
struct part {
    const double *from[2];
    double *to;
    size_t count;
};

struct loop {
    const char *name;
    size_t arrays;
    uint64_t (*pass)(struct part);     /* gives the sum of the words where it only reads */
    int (*is_done)(struct part, uint64_t sum); /* after one pass */
};

struct walker {
    pthread_t thread;
    int cpu;
    const struct loop *loop;
    struct part part;
    size_t passes;
    double begun, ended;
    int wrong;
};

static pthread_barrier_t together;

static void fill(double *array, size_t count) {
    for (size_t i = 0; i < count; i++)
        array[i] = (double)(i % 4093 + 1);
}

static void *walk(void *argument) {
    struct walker *self = argument;
    struct part part = self->part;
    pin_to(self->cpu);
    for (size_t i = 0; i + 1 < self->loop->arrays; i++)
        fill((double *)part.from[i], part.count);
    fill(part.to, part.count);
    self->wrong = !self->loop->is_done(part, self->loop->pass(part)); /* also the warm-up */
    pthread_barrier_wait(&together);
    self->begun = seconds_now();
    for (size_t pass = 0; pass < self->passes; pass++) {
        self->loop->pass(part);
        __asm__ volatile("" ::: "memory"); /* the next pass must do it all again */
    }
    self->ended = seconds_now();
    return NULL;
}

static struct part part_of(double *buffer, size_t arrays, size_t array, size_t slice, size_t rank) {
    double *first = buffer + rank * slice;
    return (struct part){{first, first + array}, first + (arrays - 1) * array, slice};
}

static const struct loop *named(const struct loop *loops, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (strcmp(loops[i].name, name) == 0)
            return &loops[i];
    }
    return NULL;
}

static int run_loop(const struct loop *loop, char **words) {
    static struct walker walkers[MOST_THREADS];
    size_t threads = 0;
    for (char *cpu = strtok(words[0], ","); cpu && threads < MOST_THREADS; cpu = strtok(NULL, ","))
        walkers[threads++].cpu = atoi(cpu);
    size_t bytes = strtoull(words[1], NULL, 10);
    size_t passes = strtoull(words[2], NULL, 10);
    size_t slice = bytes / loop->arrays / threads / LINE_BYTES * LINE_BYTES / sizeof(double);
    double *buffer = map_pages(bytes, words[3]);
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++) {
        walkers[i].loop = loop;
        walkers[i].part = part_of(buffer, loop->arrays, slice * threads, slice, i);
        walkers[i].passes = passes;
        if (pthread_create(&walkers[i].thread, NULL, walk, &walkers[i]))
            die("pthread_create");
    }
    double begun = 0, ended = 0;
    int wrong = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(walkers[i].thread, NULL);
        begun = i == 0 || walkers[i].begun < begun ? walkers[i].begun : begun;
        ended = walkers[i].ended > ended ? walkers[i].ended : ended;
        wrong |= walkers[i].wrong;
    }
    printf("{\"bytes\": %llu, \"seconds\": %.9f, \"huge_bytes\": %llu}\n",
           (unsigned long long)(slice * sizeof(double) * threads * loop->arrays * passes),
           ended - begun, huge_bytes());
    return wrong ? fputs("the data are wrong\n", stderr), 1 : 0;
}

static int main_of(const struct loop *loops, size_t count, int words_given, char **words) {
    const struct loop *loop = words_given == 6 ? named(loops, count, words[1]) : NULL;
    if (loop)
        return run_loop(loop, words + 2);
    fputs("usage: LOOP CPU,CPU,... BYTES PASSES huge|small\nloops:", stderr);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, " %s", loops[i].name);
    return fputs("\n", stderr), 2;
}

#endif
