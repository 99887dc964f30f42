#include "attend.h"

#include "dot_inside.h"
#include "mix.h"

#include <math.h>
#include <string.h>

/* A layer: the keys of all positions, then their values; those of one position lie together, as an
 * engine's cache has them, so that one head's are apart by all heads of a position. */
enum { GROUP = 4 }; /* query heads that share a cached head */

struct attend_job {
    struct spans spans;
    attend_pass *pass;
    size_t positions, heads;
    uint64_t repetitions;
    uint64_t seed;
};

/* Halves from a position to the next. */
static size_t stride_of(const struct attend_job *job) { return job->heads * HEAD; }

/* Halves of a layer's keys, or of its values. */
static size_t side_of(const struct attend_job *job) { return job->positions * stride_of(job); }

static size_t layer_bytes(const struct attend_job *job) {
    return 2 * side_of(job) * sizeof(uint16_t);
}

/* Divided step by step: a product of wild numbers would wrap around. */
static size_t layers_of(const struct attend_job *job, size_t rank) {
    size_t heads = slice_of(&job->spans, rank).bytes / (2 * HEAD * sizeof(uint16_t));
    return heads / job->heads / job->positions;
}

static uint16_t *layer_at(const struct attend_job *job, size_t rank, size_t layer) {
    struct slice slice = slice_of(&job->spans, rank);
    return (uint16_t *)(slice.arena->address + slice.offset + layer * layer_bytes(job));
}

static uint64_t fill_layers(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct attend_job *job = argument;
    size_t halves = 2 * side_of(job);
    for (size_t layer = 0; layer < layers_of(job, rank); layer++) {
        uint16_t *cache = layer_at(job, rank, layer);
        for (size_t i = 0; i < halves; i += 4) {
            uint64_t four = mix(job->seed, (rank << 40) + layer * halves + i);
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

static uint64_t attend_repeatedly(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct attend_job *job = argument;
    uint16_t query[HEAD];
    float result[HEAD];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < job->repetitions; i++) {
        for (size_t layer = 0; layer < layers_of(job, rank); layer++) {
            const uint16_t *cache = layer_at(job, rank, layer);
            for (size_t head = 0; head < job->heads * GROUP; head++) {
                const uint16_t *keys = cache + head / GROUP * HEAD;
                set_query(query, head);
                job->pass(query, keys, keys + side_of(job), job->positions, stride_of(job), result);
                for (size_t at = 0; at < HEAD; at++) {
                    uint32_t bits;
                    memcpy(&bits, result + at, sizeof bits);
                    sum += bits;
                }
            }
        }
    }
    return sum;
}

/* In doubles and without keeping a maximum up. */
static void attend_plainly(const struct attend_job *job, const uint16_t *query,
                           const uint16_t *keys, double result[HEAD]) {
    const uint16_t *values = keys + side_of(job);
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

static uint64_t check_layer(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct attend_job *job = argument;
    size_t head = job->heads - 1;
    const uint16_t *keys = layer_at(job, rank, 0) + head * HEAD;
    uint16_t query[HEAD];
    float result[HEAD];
    double due[HEAD];
    uint64_t wrong = 0;
    set_query(query, head * GROUP);
    job->pass(query, keys, keys + side_of(job), job->positions, stride_of(job), result);
    attend_plainly(job, query, keys, due);
    for (size_t i = 0; i < HEAD; i++)
        wrong += !(fabs(due[i] - (double)result[i]) <= 0.02);
    return wrong;
}

static int check_layers(const struct team *team, struct attend_job *job) {
    int rc = check_spans(&job->spans, team_size(team));
    if (!rc && !(job->positions && job->heads))
        rc = -EINVAL;
    for (size_t rank = 0; !rc && rank < team_size(team); rank++)
        rc = layers_of(job, rank) ? 0 : -EINVAL;
    job->pass = dot_attend();
    return rc;
}

static int run(struct team *team, struct attend_job *job, team_body *body, struct window *window) {
    int rc = check_layers(team, job);
    return rc ? rc : team_run(team, body, job, window);
}

int attend_fill(struct team *team, struct spans spans, size_t positions, size_t heads,
                uint64_t seed, uint64_t *wrong) {
    struct attend_job job = {spans, NULL, positions, heads, 0, seed};
    struct window window;
    int rc = run(team, &job, fill_layers, &window);
    if (!rc)
        rc = run(team, &job, check_layer, &window);
    if (!rc)
        *wrong = window.sum;
    return rc;
}

int attend(struct team *team, struct spans spans, size_t positions, size_t heads,
           uint64_t repetitions, struct attend_result *result) {
    struct attend_job job = {spans, NULL, positions, heads, repetitions, 0};
    struct window window;
    int rc = run(team, &job, attend_repeatedly, &window);
    if (rc)
        return rc;
    uint64_t layers = 0;
    for (size_t rank = 0; rank < team_size(team); rank++)
        layers += layers_of(&job, rank);
    *result =
        (struct attend_result){window.elapsed_ns, layers * repetitions * GROUP * layer_bytes(&job),
                               window.sum, window.strays};
    return 0;
}
