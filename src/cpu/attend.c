#include "attend.h"

#include "dot_inside.h"
#include "mix.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A layer: the keys of all positions, then their values; those of one position lie together, as an
 * engine's cache has them, so that one head's are apart by all heads of a position. */
enum { LEAST_GROUP = 4, ALIGNMENT = 64 };
static const size_t POSITION_BYTES = 2 * HEAD * sizeof(uint16_t); /* of a head's key and value */

struct attend_job {
    struct team *team;
    const struct arena *arena;
    size_t offset, length;
    attend_pass *pass;
    size_t positions, heads;
    uint64_t repetitions;
    uint64_t seed;
    uint16_t *mask; /* what is added to the score of each position: nothing, none is hidden */
};

/* Halves from a position to the next. */
static size_t stride_of(const struct attend_job *job) { return job->heads * HEAD; }

/* Halves of a layer's keys, or of its values. */
static size_t side_of(const struct attend_job *job) { return job->positions * stride_of(job); }

/* Divided step by step: a product of wild numbers would wrap around. */
static size_t layers_of(const struct attend_job *job) {
    return job->length / POSITION_BYTES / job->heads / job->positions;
}

static uint16_t *layer_at(const struct attend_job *job, size_t layer) {
    return (uint16_t *)(job->arena->address + job->offset) + layer * 2 * side_of(job);
}

/* Query heads that share a cached head: as many as models have, or as give every thread as many. */
static size_t group_of(const struct attend_job *job) {
    size_t group = LEAST_GROUP;
    while (group * job->heads % team_size(job->team))
        group++;
    return group;
}

static uint64_t fill_layers(void *argument, size_t rank, size_t size) {
    const struct attend_job *job = argument;
    size_t halves = 2 * side_of(job);
    for (size_t layer = rank; layer < layers_of(job); layer += size) {
        uint16_t *cache = layer_at(job, layer);
        for (size_t i = 0; i < halves; i += 4) {
            uint64_t four = mix(job->seed, layer * halves + i);
            four = (four & 0x83ff83ff83ff83ff) | 0x3400340034003400; /* 0.25 to 0.5, either sign */
            memcpy(cache + i, &four, sizeof four);
        }
    }
    return 0;
}

static void set_query(uint16_t query[HEAD], size_t head) {
    for (size_t i = 0; i < HEAD; i++)
        query[i] = (uint16_t)((mix(head, i) & 0x83ff) | 0x3800);
}

static void attend_one(const struct attend_job *job, size_t layer, size_t cached,
                       const uint16_t query[HEAD], float result[HEAD]) {
    const uint16_t *keys = layer_at(job, layer) + cached * HEAD;
    job->pass(query, keys, keys + side_of(job), job->mask, job->positions, stride_of(job), result);
}

/* Every layer's query heads are shared out, and all meet behind it: as in an engine, threads look
 * at neighbouring heads of the same positions, and one's pages and prefetched lines serve the
 * other where they share a core. */
static uint64_t attend_repeatedly(void *argument, size_t rank, size_t size) {
    const struct attend_job *job = argument;
    size_t group = group_of(job), share = group * job->heads / size;
    uint16_t query[HEAD];
    float result[HEAD];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < job->repetitions; i++) {
        for (size_t layer = 0; layer < layers_of(job); layer++) {
            for (size_t head = rank * share; head < (rank + 1) * share; head++) {
                set_query(query, head);
                attend_one(job, layer, head / group, query, result);
                for (size_t at = 0; at < HEAD; at++) {
                    uint32_t bits;
                    memcpy(&bits, result + at, sizeof bits);
                    sum += bits;
                }
            }
            team_meet(job->team);
        }
    }
    return sum;
}

/* In doubles and without keeping a maximum up. */
static void attend_plainly(const struct attend_job *job, size_t layer, size_t cached,
                           const uint16_t *query, double result[HEAD]) {
    const uint16_t *keys = layer_at(job, layer) + cached * HEAD, *values = keys + side_of(job);
    double total = 0;
    memset(result, 0, HEAD * sizeof *result);
    for (size_t position = 0; position < job->positions; position++) {
        size_t from = position * stride_of(job);
        double score = 0;
        for (size_t i = 0; i < HEAD; i++)
            score += (double)half_to_float(query[i]) * half_to_float(keys[from + i]);
        double weight = exp(score / sqrt(HEAD));
        total += weight;
        for (size_t i = 0; i < HEAD; i++)
            result[i] += weight * half_to_float(values[from + i]);
    }
    for (size_t i = 0; i < HEAD; i++)
        result[i] /= total;
}

static uint64_t check_head(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct attend_job *job = argument;
    size_t layer = rank % layers_of(job), cached = job->heads - 1 - rank % job->heads;
    uint16_t query[HEAD];
    float result[HEAD];
    double due[HEAD];
    uint64_t wrong = 0;
    set_query(query, rank);
    attend_one(job, layer, cached, query, result);
    attend_plainly(job, layer, cached, query, due);
    for (size_t i = 0; i < HEAD; i++)
        wrong += !(fabs(due[i] - (double)result[i]) <= 0.02);
    return wrong;
}

/* Runs one body, or two, the second when the first is done. */
static int run(struct attend_job *job, team_body *first, team_body *second, struct window *window) {
    if (job->offset % ALIGNMENT || job->offset > job->arena->size ||
        job->length > job->arena->size - job->offset || !job->positions || !job->heads ||
        !layers_of(job))
        return -EINVAL;
    job->pass = dot_attend();
    job->mask = malloc(job->positions * sizeof *job->mask);
    if (!job->mask)
        return -ENOMEM;
    memset(job->mask, 0, job->positions * sizeof *job->mask);
    int rc = team_run(job->team, first, job, window);
    if (!rc && second)
        rc = team_run(job->team, second, job, window);
    free(job->mask);
    return rc;
}

int attend_fill(struct team *team, const struct arena *arena, size_t offset, size_t length,
                size_t positions, size_t heads, uint64_t seed, uint64_t *wrong) {
    struct attend_job job = {team, arena, offset, length, NULL, positions, heads, 0, seed, NULL};
    struct window window;
    int rc = run(&job, fill_layers, check_head, &window);
    if (!rc)
        *wrong = window.sum;
    return rc;
}

int attend(struct team *team, const struct arena *arena, size_t offset, size_t length,
           size_t positions, size_t heads, uint64_t repetitions, struct attend_result *result) {
    struct attend_job job = {team,      arena, offset,      length, NULL,
                             positions, heads, repetitions, 0,      NULL};
    struct window window;
    int rc = run(&job, attend_repeatedly, NULL, &window);
    if (rc)
        return rc;
    uint64_t bytes = layers_of(&job) * positions * heads * POSITION_BYTES;
    *result = (struct attend_result){window.elapsed_ns, repetitions * group_of(&job) * bytes,
                                     window.sum, window.strays};
    return 0;
}
