#include "step.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

enum { QUANT_BLOCK = 256, QUANT_GROUP = 16 };

/* What a block becomes. */
struct quants {
    float scale;
    int8_t values[QUANT_BLOCK];
    int16_t sums[QUANT_BLOCK / QUANT_GROUP];
};

/* Of small values only: adding 1.5 x 2^23 leaves the nearest whole number in the low bits. */
static inline int nearest(float value) {
    float shifted = value + 12582912.0f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (bits & 0x7fffff) - 0x400000;
}

/* In plain C, as llama.cpp has it on every CPU: the value of largest magnitude keeps its sign, so
 * that each comparison waits for the one before. Not inlined, or all repetitions would be one. */
__attribute__((noinline)) static void quantize(const float *restrict from,
                                               struct quants *restrict to) {
    float largest = 0, magnitude = 0;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        float own = fabsf(from[i]);
        if (own > magnitude) {
            magnitude = own;
            largest = from[i];
        }
    }
    float inverse = magnitude > 0 ? -127 / largest : 0;
    for (int i = 0; i < QUANT_BLOCK; i++)
        to->values[i] = (int8_t)nearest(inverse * from[i]);
    for (int group = 0; group < QUANT_BLOCK / QUANT_GROUP; group++) {
        int sum = 0;
        for (int i = 0; i < QUANT_GROUP; i++)
            sum += to->values[group * QUANT_GROUP + i];
        to->sums[group] = (int16_t)sum;
    }
    to->scale = magnitude > 0 ? 1 / inverse : 0;
}

static uint64_t quantize_repeatedly(void *argument, size_t rank, size_t size) {
    (void)size;
    struct step_job *job = argument;
    struct quants block = {0};
    uint64_t seen = 0;
    if (rank)
        return 0;
    job->sum = 0;
    for (uint64_t i = 0; i < job->repetitions; i++) {
        bool last = i + 1 == job->repetitions;
        for (size_t at = 0; at < job->values; at += QUANT_BLOCK) {
            quantize(job->vector + at, &block);
            seen += (uint8_t)block.values[0]; /* or a compiler may leave out what nobody reads */
            for (int j = 0; last && j < QUANT_BLOCK; j++) {
                double value = (double)block.scale * block.values[j];
                job->sum += value * value;
            }
        }
    }
    return seen;
}

static team_body *const bodies[] = {
    [STEP_NORM] = norm_repeatedly,
    [STEP_ROTATE] = rotate_repeatedly,
    [STEP_QUANTIZE] = quantize_repeatedly,
};

int step(struct team *team, enum step kind, size_t values, uint64_t repetitions,
         struct step_result *result) {
    size_t grain = kind == STEP_QUANTIZE ? QUANT_BLOCK : 2;
    if (values == 0 || values % grain || values > SIZE_MAX / 2 / sizeof(float))
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
    int rc = team_run(team, bodies[kind], &job, &window);
    if (!rc)
        *result =
            (struct step_result){window.elapsed_ns, values * repetitions, job.sum, window.strays};
    free(job.vector);
    return rc;
}
