#include "step.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct step_job {
    float *vector;
    float *table;
    size_t values;
    uint64_t repetitions;
    double sum;
};

static uint64_t norm_repeatedly(void *argument, size_t rank, size_t size) {
    (void)size;
    struct step_job *job = argument;
    if (rank)
        return 0;
    for (uint64_t i = 0; i < job->repetitions; i++) {
        double squares = 0;
        for (size_t at = 0; at < job->values; at++)
            squares += (double)(job->vector[at] * job->vector[at]);
        float scale = 1.0f / sqrtf((float)(squares / (double)job->values) + 1e-6f);
        for (size_t at = 0; at < job->values; at++)
            job->vector[at] *= scale * job->table[at];
        job->sum = squares;
    }
    return 0;
}

static uint64_t rotate_repeatedly(void *argument, size_t rank, size_t size) {
    (void)size;
    struct step_job *job = argument;
    if (rank)
        return 0;
    for (uint64_t i = 0; i < job->repetitions; i++) {
        float angle = (float)(i % 4096);
        for (size_t at = 0; at < job->values; at += 2) {
            job->table[at] = cosf(angle);
            job->table[at + 1] = sinf(angle);
            angle *= 0.9f;
        }
        for (size_t at = 0; at < job->values; at += 2) {
            float one = job->vector[at], other = job->vector[at + 1];
            job->vector[at] = one * job->table[at] - other * job->table[at + 1];
            job->vector[at + 1] = one * job->table[at + 1] + other * job->table[at];
        }
    }
    job->sum = 0;
    for (size_t at = 0; at < job->values; at++)
        job->sum += (double)job->vector[at] * job->vector[at];
    return 0;
}

int step(struct team *team, enum step kind, size_t values, uint64_t repetitions,
         struct step_result *result) {
    if (values == 0 || values % 2 || values > SIZE_MAX / 2 / sizeof(float))
        return -EINVAL;
    struct step_job job = {.values = values, .repetitions = repetitions};
    struct window window;
    job.vector = malloc(2 * values * sizeof *job.vector);
    if (!job.vector)
        return -ENOMEM;
    job.table = job.vector + values;
    for (size_t at = 0; at < values; at++) {
        job.vector[at] = (float)(at % 7) - 3;
        job.table[at] = 1;
    }
    int rc = team_run(team, kind == STEP_NORM ? norm_repeatedly : rotate_repeatedly, &job, &window);
    if (!rc)
        *result =
            (struct step_result){window.elapsed_ns, values * repetitions, job.sum, window.strays};
    free(job.vector);
    return rc;
}
