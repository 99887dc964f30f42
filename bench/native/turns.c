/* turns CPU,CPU LINES TRIPS: seconds in which two threads hand a cache line to and fro.
 *
 * Each tells the other by exchanging an expected number for the next, on a fresh line every TRIPS
 * round trips. */
#define _GNU_SOURCE
#include "memory.h"

#include <pthread.h>
#include <stdatomic.h>

enum { STRIDE = 256, MOST_LINES = 4096, PATIENCE = 10000 };

static _Alignas(STRIDE) unsigned char lines[MOST_LINES][STRIDE];
static pthread_barrier_t together;
static unsigned long count_lines, trips;
static double seconds;

struct side {
    int cpu;
    unsigned long parity;
};

static void *hand_over(void *argument) {
    const struct side *side = argument;
    pin_to(side->cpu);
    for (unsigned long line = 0; line < count_lines; line++) {
        _Atomic unsigned long *flag = (_Atomic unsigned long *)lines[line];
        pthread_barrier_wait(&together);
        double begun = seconds_now();
        for (unsigned long at = side->parity; at < 2 * trips; at += 2) {
            unsigned long expected = at;
            for (int spins = 0; !atomic_compare_exchange_weak(flag, &expected, at + 1); spins++) {
                expected = at;
                if (spins > PATIENCE) /* the other side may need this very CPU */
                    sched_yield();
            }
        }
        pthread_barrier_wait(&together);
        if (side->parity == 0)
            seconds += seconds_now() - begun;
    }
    return NULL;
}

int main(int count, char **words) {
    if (count != 4)
        return fputs("usage: turns CPU,CPU LINES TRIPS\n", stderr), 2;
    char *comma = strchr(words[1], ',');
    struct side one = {atoi(words[1]), 0}, other = {comma ? atoi(comma + 1) : 0, 1};
    count_lines = strtoul(words[2], NULL, 10);
    trips = strtoul(words[3], NULL, 10);
    if (!comma || count_lines > MOST_LINES)
        return fputs("turns: two CPUs and at most 4096 lines\n", stderr), 2;
    memset(lines, 0, sizeof lines);
    pthread_barrier_init(&together, NULL, 2);
    pthread_t thread;
    if (pthread_create(&thread, NULL, hand_over, &other))
        die("pthread_create");
    hand_over(&one);
    pthread_join(thread, NULL);
    printf("{\"steps\": %lu, \"seconds\": %.9f, \"huge_bytes\": 0}\n", count_lines * trips, seconds);
    return 0;
}
