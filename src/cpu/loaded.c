#include "loaded.h"

#include "clock.h"
#include "fill.h"
#include "span.h"
#include "stream.h"
#include "stream_inside.h"
#include "wait.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Each block costs a begin and an end (a kernel of four streams pays most), so a load without delay
 * takes long ones; but a throttled one comes in short bursts, for it stands for a steady load. */
enum { BLOCK = 16 << 10, LONG_BLOCK = 64 << 10 };

enum phase { BEFORE, CHASING, OVER };

/* What one thread streamed; its own lines, so that threads do not share what they write. */
struct streamed {
    _Alignas(CACHE_LINES) uint64_t blocks;
    uint64_t counted; /* of these, those that began and ended during the chase */
    uint64_t sum;     /* of the words read */
};

struct loaded_job {
    void *start;
    uint64_t steps;
    void *end;
    int64_t elapsed_ns;

    const struct kernel *kernel;
    struct spans spans; /* of the threads that stream: all but the first */
    uint64_t seed;
    uint64_t delay;
    size_t block; /* bytes */
    struct streamed *streamed;

    _Alignas(CACHE_LINES) atomic_size_t streaming; /* threads that have begun */
    _Alignas(CACHE_LINES) atomic_int phase;
};

static void chase(struct loaded_job *job, size_t others) {
    for (int spins = 0; atomic_load_explicit(&job->streaming, memory_order_acquire) < others;) {
        pause_cpu();
        spin_or_yield(&spins);
    }
    int64_t start_ns = clock_ns();
    atomic_store_explicit(&job->phase, CHASING, memory_order_release);
    job->end = chase_follow(job->start, job->steps);
    atomic_store_explicit(&job->phase, OVER, memory_order_release);
    job->elapsed_ns = clock_ns() - start_ns;
}

static void idle(uint64_t turns) {
    for (; turns > 0; turns--)
        __asm__ volatile("");
}

static void stream(struct loaded_job *job, size_t index) {
    struct slice slice = slice_of(&job->spans, index);
    size_t blocks = slice.bytes / job->block;
    struct streamed done = {0};
    for (;;) {
        int phase = atomic_load_explicit(&job->phase, memory_order_acquire);
        if (phase == OVER)
            break;
        unsigned char *block =
            slice.arena->address + slice.offset + done.blocks % blocks * job->block;
        struct operands operands = {{block, block}, block, job->block, job->seed};
        done.sum += job->kernel->pass(&operands);
        if (phase == CHASING)
            done.counted += atomic_load_explicit(&job->phase, memory_order_acquire) == CHASING;
        if (done.blocks++ == 0)
            atomic_fetch_add_explicit(&job->streaming, 1, memory_order_release);
        idle(job->delay);
    }
    job->streamed[index] = done;
}

static uint64_t chase_or_stream(void *argument, size_t rank, size_t size) {
    if (rank == 0)
        chase(argument, size - 1);
    else
        stream(argument, rank - 1);
    return 0;
}

/* What a thread must have read: its whole blocks lap after lap, and the begin of the last lap. */
static uint64_t due_sum(const struct loaded_job *job, struct slice slice, uint64_t streamed) {
    uint64_t words = job->block / sizeof words;
    uint64_t first = slice.offset / sizeof words;
    uint64_t blocks = slice.bytes / job->block;
    uint64_t laps = streamed / blocks;
    uint64_t rest = streamed % blocks * words;
    uint64_t begin = fill_sum(job->seed, first, rest);
    if (laps == 0)
        return begin;
    uint64_t lap = begin + fill_sum(job->seed, first + rest, blocks * words - rest);
    return laps * lap + begin;
}

static int written_right(const struct loaded_job *job, struct slice slice, uint64_t streamed) {
    uint64_t blocks = slice.bytes / job->block;
    uint64_t written = streamed < blocks ? streamed : blocks;
    uint64_t due = written * written_sum(job->block, (size_t)job->kernel->streams, job->seed);
    return sum_and_spoil(slice.arena->address + slice.offset, written * job->block) == due;
}

/* 1 for each thread that moved other words than it must. */
static uint64_t look_for_wrong(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct loaded_job *job = argument;
    if (rank == 0)
        return 0;
    const struct streamed *done = &job->streamed[rank - 1];
    struct slice slice = slice_of(&job->spans, rank - 1);
    return job->kernel->writes ? !written_right(job, slice, done->blocks)
                               : done->sum != due_sum(job, slice, done->blocks);
}

static int run_loaded(struct team *team, struct loaded_job *job, const struct arena *arena,
                      struct loaded_result *result) {
    struct window timed, checked;
    int rc = team_run(team, chase_or_stream, job, &timed);
    if (!rc)
        rc = team_run(team, look_for_wrong, job, &checked);
    if (rc)
        return rc;
    size_t offset = (size_t)((unsigned char *)job->end - arena->address);
    *result = (struct loaded_result){{job->elapsed_ns, offset, timed.strays}, 0, checked.sum};
    for (size_t i = 0; i + 1 < team_size(team); i++)
        result->bytes += job->streamed[i].counted * job->block;
    return 0;
}

/* A buffer that is also chased would lose its links. */
static int check_load(const struct spans *spans, size_t threads, const struct arena *chased) {
    int rc = threads ? check_spans(spans, threads) : -EINVAL;
    if (rc)
        return rc;
    const struct span *span = spans->items;
    return span->length / LONG_BLOCK < threads || span->arena->address == chased->address ? -EINVAL
                                                                                          : 0;
}

int loaded_walk(struct team *team, const struct arena *arena, size_t length, size_t line,
                uint64_t seed, uint64_t start, uint64_t steps, const struct load *load,
                struct loaded_result *result) {
    size_t offset;
    size_t others = team_size(team) - 1;
    struct span span = {load->arena, load->length, others};
    const struct kernel *kernel = stream_kernel_named(load->kernel);
    if (!kernel || kernel->reads + kernel->writes != 1)
        return -ENOTSUP;
    int rc = length > arena->size ? -EINVAL : chase_position(length, line, seed, start, &offset);
    struct loaded_job job = {
        .steps = steps,
        .kernel = kernel,
        .spans = {&span, 1},
        .seed = seed,
        .delay = load->delay,
        .block = load->delay ? BLOCK : LONG_BLOCK,
    };
    if (!rc)
        rc = check_load(&job.spans, others, arena);
    if (rc)
        return rc;
    job.start = arena->address + offset;
    job.streamed = aligned_alloc(CACHE_LINES, others * sizeof *job.streamed);
    if (!job.streamed)
        return -ENOMEM;
    rc = run_loaded(team, &job, arena, result);
    free(job.streamed);
    return rc;
}
