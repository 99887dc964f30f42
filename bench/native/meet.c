/* meet MEETINGS: seconds that OpenMP's barrier takes. OMP_PLACES says on which CPUs. */
#define _GNU_SOURCE
#include "memory.h"

#include <omp.h>

int main(int count, char **words) {
    if (count != 2)
        return fputs("usage: meet MEETINGS\n", stderr), 2;
    unsigned long meetings = strtoul(words[1], NULL, 10);
    double begun = 0, ended = 0;
#pragma omp parallel
    {
        for (int i = 0; i < 100; i++) {
#pragma omp barrier
        }
#pragma omp master
        begun = seconds_now();
        for (unsigned long i = 0; i < meetings; i++) {
#pragma omp barrier
        }
#pragma omp master
        ended = seconds_now();
    }
    printf("{\"steps\": %lu, \"seconds\": %.9f, \"threads\": %d, \"huge_bytes\": 0}\n", meetings,
           ended - begun, omp_get_max_threads());
    return 0;
}
