/* What both programs need: one pinned thread, memory of one page size, and a clock. */
#ifndef BENCH_MEMORY_H
#define BENCH_MEMORY_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void pin_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        die("sched_setaffinity");
}

/* Memory on a 2 MiB boundary, in huge or in small pages; where it lies is left to the first touch.
 */
static inline void *map_pages(size_t bytes, const char *pages) {
    const size_t huge = 2 << 20;
    char *wide =
        mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wide == MAP_FAILED)
        die("mmap");
    char *aligned = (char *)(((uintptr_t)wide + huge - 1) & ~(huge - 1));
    if (madvise(aligned, bytes, strcmp(pages, "huge") ? MADV_NOHUGEPAGE : MADV_HUGEPAGE))
        die("madvise");
    return aligned;
}

/* Bytes of this process that huge pages hold: advice is not a promise. */
static inline unsigned long long huge_bytes(void) {
    char line[256];
    unsigned long long kib = 0;
    FILE *rollup = fopen("/proc/self/smaps_rollup", "r");
    if (!rollup)
        die("/proc/self/smaps_rollup");
    while (fgets(line, sizeof line, rollup) && sscanf(line, "AnonHugePages: %llu", &kib) != 1)
        ;
    fclose(rollup);
    return kib * 1024;
}

#endif
