#include "stream.h"

#include "fill.h"
#include "stream_inside.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static const struct kernel_family *const families[] = {
    &family_avx512, &family_avx2, &family_sse2, &family_movsb, &family_neon, &family_portable,
};

const struct kernel *stream_kernel(size_t index) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t count = families[i]->count && families[i]->supported() ? families[i]->count : 0;
        if (index < count)
            return &families[i]->kernels[index];
        index -= count;
    }
    return NULL;
}

const struct kernel *stream_kernel_named(const char *name) {
    const struct kernel *kernel;
    for (size_t i = 0; (kernel = stream_kernel(i)); i++) {
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    }
    return NULL;
}

struct stream_job {
    const struct kernel *kernel;
    struct spans spans;
    uint64_t repetitions;
    uint64_t seed;
};

/* Bytes of each array in a slice: the arrays read lie first, the one written last. */
static size_t array_bytes(const struct kernel *kernel, size_t slice_bytes) {
    size_t arrays = (size_t)(kernel->reads + kernel->writes);
    return arrays == 1 ? slice_bytes : staggered_distance(slice_bytes, arrays, ARRAY_STAGGER);
}

static struct operands operands_of(const struct stream_job *job, size_t rank) {
    struct slice slice = slice_of(&job->spans, rank);
    unsigned char *base = slice.arena->address + slice.offset;
    size_t bytes = array_bytes(job->kernel, slice.bytes);
    return (struct operands){
        .from = {base, base + bytes},
        .to = base + (size_t)job->kernel->reads * bytes,
        .bytes = bytes,
        .value = job->seed,
    };
}

static uint64_t pass_repeatedly(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct stream_job *job = argument;
    struct operands operands = operands_of(job, rank);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < job->repetitions; i++)
        sum += job->kernel->pass(&operands);
    return sum;
}

#ifdef __SSE2__

typedef uint64_t word_pair __attribute__((vector_size(16), may_alias));

enum { LINE_PAIRS = LINE / sizeof(word_pair) };

/* As below, for the whole lines at the beginning; gives how many bytes those are. What is changed
 * passes the caches: left there, the next timed pass would have to write it back, which cost
 * non-temporal copies and triads 1 to 3 % on a Zen 3. */
static size_t sum_and_spoil_lines(unsigned char *written, size_t bytes, uint64_t *sum) {
    word_pair *pairs = (word_pair *)written, sums = {0};
    size_t count = bytes / LINE * LINE_PAIRS;
    for (size_t at = 0; at < count; at += LINE_PAIRS) {
        word_pair line[LINE_PAIRS];
        for (size_t i = 0; i < LINE_PAIRS; i++)
            sums += line[i] = pairs[at + i];
        for (size_t i = 0; i < LINE_PAIRS; i++)
            _mm_stream_si128((__m128i *)&pairs[at + i], (__m128i)(line[i] + RAMP));
    }
    _mm_sfence();
    *sum += sums[0] + sums[1];
    return count * sizeof *pairs;
}

#else

static size_t sum_and_spoil_lines(unsigned char *written, size_t bytes, uint64_t *sum) {
    (void)written, (void)bytes, (void)sum;
    return 0;
}

#endif

uint64_t sum_and_spoil(unsigned char *written, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = sum_and_spoil_lines(written, bytes, &sum); i < bytes; i += sizeof sum) {
        uint64_t *word = (uint64_t *)(written + i);
        sum += *word;
        *word += RAMP;
    }
    return sum;
}

static uint64_t sum_written(void *argument, size_t rank, size_t size) {
    (void)size;
    struct operands operands = operands_of(argument, rank);
    return sum_and_spoil(operands.to, operands.bytes);
}

static int check_arrays(const struct team *team, const struct stream_job *job) {
    for (size_t rank = 0; rank < team_size(team); rank++) {
        if (array_bytes(job->kernel, slice_of(&job->spans, rank).bytes) == 0)
            return -EINVAL;
    }
    return 0;
}

static uint64_t bytes_moved(const struct team *team, const struct stream_job *job) {
    uint64_t bytes = 0;
    for (size_t rank = 0; rank < team_size(team); rank++)
        bytes += array_bytes(job->kernel, slice_of(&job->spans, rank).bytes);
    return bytes * (uint64_t)(job->kernel->reads + job->kernel->writes) * job->repetitions;
}

static int run_timed(struct team *team, struct stream_job *job, struct stream_result *result) {
    struct window window;
    int rc = team_run(team, pass_repeatedly, job, &window);
    if (!rc)
        *result = (struct stream_result){window.elapsed_ns, bytes_moved(team, job), window.sum,
                                         window.strays};
    return rc;
}

int stream_read(struct team *team, struct spans spans, const char *name, uint64_t repetitions,
                struct stream_result *result) {
    const struct kernel *kernel = stream_kernel_named(name);
    int rc = kernel && !kernel->writes ? check_spans(&spans, team_size(team)) : -ENOTSUP;
    if (rc)
        return rc;
    struct stream_job job = {kernel, spans, repetitions, 0};
    return run_timed(team, &job, result);
}

int stream_store(struct team *team, struct spans spans, const char *name, uint64_t repetitions,
                 uint64_t seed, struct stream_result *result) {
    const struct kernel *kernel = stream_kernel_named(name);
    int rc = kernel && kernel->writes ? check_spans(&spans, team_size(team)) : -ENOTSUP;
    if (rc)
        return rc;
    struct stream_job job = {kernel, spans, repetitions, seed};
    struct window window;
    rc = check_arrays(team, &job);
    if (!rc)
        rc = run_timed(team, &job, result);
    if (!rc)
        rc = team_run(team, sum_written, &job, &window);
    if (!rc)
        result->sum = window.sum;
    return rc;
}

/* The sum of value, value + RAMP, ... over so many words. */
static uint64_t ramp_sum(uint64_t value, uint64_t words) {
    uint64_t pairs = words % 2 ? (words - 1) / 2 * words : words / 2 * (words - 1);
    return words * value + pairs * RAMP;
}

uint64_t written_sum(size_t bytes, size_t streams, uint64_t value) {
    size_t distance = stream_distance(bytes, streams);
    size_t rest = bytes - streams * distance;
    return streams * ramp_sum(value, distance / sizeof value) +
           ramp_sum(value, rest / sizeof value);
}

static uint64_t expected_of_slice(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct stream_job *job = argument;
    struct slice slice = slice_of(&job->spans, rank);
    size_t bytes = array_bytes(job->kernel, slice.bytes);
    if (job->kernel->reads == 0)
        return written_sum(bytes, (size_t)job->kernel->streams, job->seed);
    uint64_t sum = 0;
    for (int i = 0; i < job->kernel->reads; i++) {
        uint64_t first = (slice.offset + (size_t)i * bytes) / sizeof sum;
        sum += fill_sum(job->seed, first, bytes / sizeof sum)
               << i; /* a triad takes the second twice */
    }
    return sum;
}

int stream_expected(struct team *team, struct spans spans, const char *name, uint64_t repetitions,
                    uint64_t seed, uint64_t *sum) {
    const struct kernel *kernel = stream_kernel_named(name);
    int rc = kernel ? check_threads(&spans, team_size(team)) : -ENOTSUP;
    if (rc)
        return rc;
    struct stream_job job = {kernel, spans, repetitions, seed};
    struct window window;
    rc = team_run(team, expected_of_slice, &job, &window);
    if (!rc)
        *sum = kernel->writes ? window.sum : window.sum * repetitions;
    return rc;
}
