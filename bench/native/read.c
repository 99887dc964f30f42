/* read CPU,CPU,... BYTES PASSES huge|small: bytes that plain C sums in a second.
 *
 * What STREAM would be without a store: every thread touches its own slice first, then adds up
 * its 64-bit words, as the compiler makes of it. The sum is checked. */
#define _GNU_SOURCE
#include "memory.h"

#include <pthread.h>

enum { MOST_THREADS = 1024, PAGE_BYTES = 4096 };

struct reader {
    pthread_t thread;
    int cpu;
    uint64_t *words;
    size_t count, passes;
    double begun, ended;
    int wrong;
};

static pthread_barrier_t together;

static uint64_t sum_of(const uint64_t *words, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += words[i];
    return sum;
}

static void *read_slice(void *argument) {
    struct reader *self = argument;
    uint64_t expected = 0;
    pin_to(self->cpu);
    for (size_t i = 0; i < self->count; i++)
        expected += self->words[i] = (i + 1) * 0x9e3779b97f4a7c15;
    uint64_t sum = sum_of(self->words, self->count); /* warm-up */
    pthread_barrier_wait(&together);
    self->begun = seconds_now();
    for (size_t pass = 0; pass < self->passes; pass++) {
        sum += sum_of(self->words, self->count);
        __asm__ volatile("" ::: "memory"); /* the next pass must load again */
    }
    self->ended = seconds_now();
    self->wrong = sum != expected * (self->passes + 1);
    return NULL;
}

int main(int count, char **words) {
    static struct reader readers[MOST_THREADS];
    size_t threads = 0;
    if (count != 5)
        return fputs("usage: read CPU,CPU,... BYTES PASSES huge|small\n", stderr), 2;
    for (char *cpu = strtok(words[1], ","); cpu && threads < MOST_THREADS; cpu = strtok(NULL, ","))
        readers[threads++].cpu = atoi(cpu);
    size_t slice = strtoull(words[2], NULL, 10) / threads / PAGE_BYTES * PAGE_BYTES;
    size_t passes = strtoull(words[3], NULL, 10);
    char *buffer = map_pages(slice * threads, words[4]);
    pthread_barrier_init(&together, NULL, (unsigned)threads);
    for (size_t i = 0; i < threads; i++) {
        readers[i].words = (uint64_t *)(buffer + i * slice);
        readers[i].count = slice / sizeof(uint64_t);
        readers[i].passes = passes;
        if (pthread_create(&readers[i].thread, NULL, read_slice, &readers[i]))
            die("pthread_create");
    }
    double begun = 0, ended = 0;
    int wrong = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(readers[i].thread, NULL);
        begun = i == 0 || readers[i].begun < begun ? readers[i].begun : begun;
        ended = readers[i].ended > ended ? readers[i].ended : ended;
        wrong |= readers[i].wrong;
    }
    printf("{\"bytes\": %llu, \"seconds\": %.9f, \"huge_bytes\": %llu}\n",
           (unsigned long long)(slice * threads * passes), ended - begun, huge_bytes());
    return wrong ? fputs("read: the sum is wrong\n", stderr), 1 : 0;
}
