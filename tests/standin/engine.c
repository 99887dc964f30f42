#include "engine.h"

#include "memory.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    MAX_KERNELS = 32,
    MAX_LANES = 8,
    CACHED = 8,
    IDLE_TURNS = 300,
    NAP_NS = 50000,
    GENERATIONS = 4
};

struct block {
    struct launch *launch;
    u32 lanes;
    atomic_uint arrived; /* counts for ever: a phase is arrived / lanes */
    atomic_int bits[3];  /* of engine_meet; phases take turns */
    /* The rest is for a modelled block, which has one lane. */
    struct books books;
    double now, seen;
    size_t read[PLACES], written[PLACES]; /* in this phase, by views that made room for others */
    unsigned victim;
    jmp_buf stop;
};

_Thread_local struct lane *engine_lane;
double (*engine_host_time)(void);

static _Thread_local u64 napped_ns;
static struct kernel kernels[MAX_KERNELS];
static int kernel_count;

void engine_register(const char *name, kernel_body *body, size_t args) {
    kernels[kernel_count++] = (struct kernel){name, body, args};
}

const struct kernel *engine_find(const char *name) {
    for (int i = 0; i < kernel_count; i++)
        if (!strcmp(kernels[i].name, name))
            return &kernels[i];
    return NULL;
}

/* --- Waiting --------------------------------------------------------------------------------- */

/* A short wait gives way to who is waited for; a long one leaves the processor to others. */
void engine_relax(void) {
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct launch *launch = engine_lane->block->launch;
    if (__atomic_fetch_add(&launch->idle, 1, __ATOMIC_RELAXED) < IDLE_TURNS) {
        sched_yield();
        return;
    }
    napped_ns += NAP_NS;
    nanosleep(&nap, NULL);
}

int engine_waits(struct launch *launch) {
    return __atomic_load_n(&launch->idle, __ATOMIC_RELAXED) > IDLE_TURNS;
}

/* The time this thread has run, or chose to sleep: a deadline must not pass because the machine is
 * busy with something else. */
u64 engine_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec + napped_ns;
}

/* --- Virtual time ---------------------------------------------------------------------------- */

/* What a place's share of a phase takes. */
static double of_phase(const struct block *b, int place) {
    const int gpu = b->launch->gpu;
    const struct route *in = &machine()->read[gpu][place];
    const struct route *out = &machine()->write[gpu][place];
    const double latency_in = b->read[place] ? in->latency : 0;
    const double latency_out = b->written[place] ? out->latency : 0;
    const double share = b->launch->grid; /* blocks share a link evenly */
    return (latency_in > latency_out ? latency_in : latency_out) +
           (double)b->read[place] * share / in->rate +
           (double)b->written[place] * share / out->rate;
}

static void book(struct block *b, struct view *view) {
    if (!view->size)
        return;
    b->read[view->range->place] += view->loaded;
    b->written[view->range->place] += view->stored;
    view->loaded = view->stored = 0;
}

/* Ends a phase: everything loaded and stored since the last meeting, each link at its own pace. */
static void settle(struct block *b) {
    double longest = 0;
    for (int i = 0; i < VIEWS; i++)
        book(b, &b->books.views[i]);
    for (int place = 0; place < PLACES; place++) {
        if (!b->read[place] && !b->written[place])
            continue;
        const double needed = of_phase(b, place);
        longest = needed > longest ? needed : longest;
        b->read[place] = b->written[place] = 0;
    }
    b->now += longest;
}

static double later(double a, double b) { return a > b ? a : b; }

struct view *engine_new_view(const void *address) {
    struct block *b = engine_lane->block;
    const int gpu = b->launch->gpu;
    const char *at = address;
    struct range *range = memory_find(at);
    if (!range || !memory_reachable(gpu, range)) {
        b->launch->fault = range ? "access to memory that this GPU may not reach"
                                 : "access to an address where nothing is mapped";
        longjmp(b->stop, 1);
    }
    struct view *view = &b->books.views[b->victim++ % VIEWS];
    book(b, view);
    *view = (struct view){.base = range->base,
                          .size = range->size,
                          .load_shift = (char *)memory_through(gpu, range, at, false) - at,
                          .store_shift = (char *)memory_through(gpu, range, at, true) - at,
                          .range = range};
    return view;
}

static struct range *range_of(struct block *b, const void *address) {
    return engine_view(&b->books, address)->range;
}

const void *engine_dependent_load(const void *address) {
    struct block *b = engine_lane->block;
    if (b->books.modelled)
        b->now += machine()->read[b->launch->gpu][range_of(b, address)->place].latency;
    return address;
}

/* A flag's line has room for when its last four values arrive: a rank may be one generation ahead
 * of the one that another still looks for. */
static double *arrival(struct range *range, const u32 *flag, u32 generation) {
    const size_t word = (size_t)((const char *)flag - range->base) / sizeof(double);
    return &range->arrivals[word + generation % GENERATIONS];
}

u32 *engine_flag(u32 *flag, u32 value, int signals) {
    struct block *b = engine_lane->block;
    if (!b->books.modelled)
        return flag;
    const struct view *view = engine_view(&b->books, flag);
    if (signals) {
        settle(b);
        *arrival(view->range, flag, value) =
            b->now + machine()->write[b->launch->gpu][view->range->place].latency;
    }
    return (u32 *)((char *)flag + view->store_shift);
}

void engine_flag_seen(const u32 *flag, u32 generation) {
    struct block *b = engine_lane->block;
    __atomic_store_n(&b->launch->idle, 0, __ATOMIC_RELAXED);
    if (!b->books.modelled)
        return;
    struct range *range = range_of(b, flag);
    /* The threads of a block look at their flags side by side: the last counts, when they meet. */
    b->seen = later(b->seen, later(b->now, *arrival(range, flag, generation)) +
                                 machine()->read[b->launch->gpu][range->place].latency);
}

void engine_released(void) {
    struct block *b = engine_lane->block;
    if (b->books.modelled)
        b->now = later(b->now, engine_host_time());
}

u64 engine_ticks(void) {
    struct block *b = engine_lane->block;
    return b->books.modelled ? (u64)(b->now * 1e9 + 0.5) : engine_clock_ns();
}

/* --- Running --------------------------------------------------------------------------------- */

int engine_meet(int bit) {
    struct block *b = engine_lane->block;
    if (b->books.modelled) {
        settle(b);
        b->now = later(b->now, b->seen);
        b->seen = 0;
    }
    if (b->lanes == 1)
        return bit != 0;
    /* A lane that is not yet in phase k sees a count in [k, k + 1) * lanes. The next phase's bits
     * were last read before any lane arrived in the phase before this, so they can be cleared. */
    const unsigned phase = atomic_load_explicit(&b->arrived, memory_order_acquire) / b->lanes;
    atomic_int *bits = &b->bits[phase % 3];
    atomic_store_explicit(&b->bits[(phase + 1) % 3], 0, memory_order_relaxed);
    if (bit)
        atomic_fetch_or_explicit(bits, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&b->arrived, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&b->arrived, memory_order_acquire) < (phase + 1) * b->lanes)
        sched_yield();
    return atomic_load_explicit(bits, memory_order_relaxed);
}

struct team {
    struct launch *launch;
    struct block *blocks;
    u32 thread;
};

static void run_block(struct block *block, u32 index, u32 thread) {
    const struct launch *launch = block->launch;
    struct lane lane = {
        .thread = {thread, 0, 0},
        .block_index = {index, 0, 0},
        .block_size = {block->lanes, 1, 1},
        .grid_size = {launch->grid, 1, 1},
        .books = &block->books,
        .block = block,
    };
    engine_lane = &lane;
    launch->kernel->body(launch->args);
}

static void *run_lane(void *argument) {
    const struct team *team = argument;
    for (u32 i = 0; i < team->launch->grid; i++)
        run_block(&team->blocks[i], i, team->thread);
    return NULL;
}

static void run_threads(struct launch *launch) {
    struct block *blocks = calloc(launch->grid, sizeof *blocks);
    pthread_t threads[MAX_LANES];
    struct team teams[MAX_LANES];
    for (u32 i = 0; i < launch->grid; i++) {
        blocks[i].launch = launch;
        blocks[i].lanes = launch->lanes;
    }
    for (u32 t = 0; t < launch->lanes; t++) {
        teams[t] = (struct team){launch, blocks, t};
        pthread_create(&threads[t], NULL, run_lane, &teams[t]);
    }
    for (u32 t = 0; t < launch->lanes; t++)
        pthread_join(threads[t], NULL);
    free(blocks);
}

void engine_run(struct launch *launch) {
    launch->end = launch->start;
    if (launch->lanes > 1) {
        run_threads(launch);
        return;
    }
    struct block *block = malloc(sizeof *block);
    for (u32 i = 0; i < launch->grid && !launch->fault; i++) {
        memset(block, 0, sizeof *block);
        block->launch = launch;
        block->lanes = 1;
        block->now = launch->start;
        block->books.modelled = launch->modelled;
        if (!setjmp(block->stop))
            run_block(block, i, 0);
        if (launch->modelled)
            settle(block);
        launch->end = later(launch->end, block->now);
    }
    free(block);
}
