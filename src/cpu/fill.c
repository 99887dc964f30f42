#include "fill.h"

#include "mix.h"

uint64_t fill_sum(uint64_t seed, uint64_t first, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = first; i < first + count; i++)
        sum += mix(seed, i);
    return sum;
}

struct fill_job {
    struct spans spans;
    uint64_t seed;
};

static uint64_t fill_slice(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct fill_job *job = argument;
    struct slice slice = slice_of(&job->spans, rank);
    uint64_t *words = (uint64_t *)(slice.arena->address + slice.offset);
    uint64_t first = slice.offset / sizeof *words;
    uint64_t sum = 0;
    for (size_t i = 0; i < slice.bytes / sizeof *words; i++) {
        words[i] = mix(job->seed, first + i);
        sum += words[i];
    }
    return sum;
}

int fill(struct team *team, struct spans spans, uint64_t seed, uint64_t *sum) {
    int rc = check_spans(&spans, team_size(team));
    if (rc)
        return rc;
    struct fill_job job = {spans, seed};
    struct window window;
    rc = team_run(team, fill_slice, &job, &window);
    if (!rc)
        *sum = window.sum;
    return rc;
}
