/* Runs one launch of a kernel on the host, on the calling thread, and keeps its virtual time.
 *
 * Blocks run one after another, which is stricter than a GPU: a kernel whose blocks wait for each
 * other never ends. A block is one lane, with time; or several threads, without, for the
 * ThreadSanitizer. Bytes are counted at every load and store, and time is carried on the flags: a
 * phase between two meetings costs the slowest of its links, a release store says when it arrives,
 * and who sees a flag is no earlier than that. */
#ifndef STANDIN_ENGINE_H
#define STANDIN_ENGINE_H

#include <stddef.h>

#include "args.h"
#include "machine.h"

struct dim {
    u32 x, y, z;
};

/* How a block's GPU sees a range of memory: where its loads and stores go, which a faulty link
 * shifts, and how much of each there was in this phase. */
struct view {
    const char *base;
    size_t size; /* 0: none yet */
    ptrdiff_t load_shift, store_shift;
    size_t loaded, stored; /* bytes */
    struct range *range;
};
enum { VIEWS = 12 };

/* A block's books; where nothing is modelled they have no views, and addresses are what they are.
 */
struct books {
    int modelled;
    struct view views[VIEWS];
};

struct block;
struct lane {
    struct dim thread, block_index, block_size, grid_size;
    struct books *books;
    struct block *block;
};
/* Looked at with every access: the quick sort of thread-local memory. */
extern _Thread_local struct lane *engine_lane __attribute__((tls_model("initial-exec")));

typedef void kernel_body(const void *args);
struct kernel {
    const char *name;
    kernel_body *body;
    size_t args;
};
void engine_register(const char *name, kernel_body *body, size_t args);
const struct kernel *engine_find(const char *name);

struct launch {
    const struct kernel *kernel;
    const void *args;
    u32 grid;          /* blocks */
    u32 lanes;         /* threads that run a block */
    int modelled;      /* whether memory is looked up and time kept; needs one lane */
    int gpu;           /* the rest is for a modelled launch */
    double start;      /* seconds */
    double end;        /* seconds, told by engine_run */
    unsigned idle;     /* turns of waiting since something was seen: see engine_waits */
    const char *fault; /* told by engine_run: why it was stopped; NULL when it was not */
};

/* Runs it to its end. */
void engine_run(struct launch *launch);
/* Whether the launch does nothing but wait for another or for the host. */
int engine_waits(struct launch *launch);
/* Gives the host's virtual time; set by who has one. */
extern double (*engine_host_time)(void);

/* --- What kernels call ---------------------------------------------------------------------- */

int engine_meet(int bit);
struct view *engine_new_view(const void *address);
const void *engine_dependent_load(const void *address);
u32 *engine_flag(u32 *flag, u32 value, int signals);
void engine_flag_seen(const u32 *flag, u32 generation);
void engine_released(void);
void engine_relax(void);
u64 engine_ticks(void);
u64 engine_clock_ns(void);

static inline struct view *engine_view(struct books *books, const void *address) {
    for (int i = 0; i < VIEWS; i++)
        if ((size_t)((const char *)address - books->views[i].base) < books->views[i].size)
            return &books->views[i];
    return engine_new_view(address);
}

static inline const void *engine_load(const void *address, u32 bytes) {
    struct books *books = engine_lane->books;
    if (!books->modelled)
        return address;
    struct view *view = engine_view(books, address);
    view->loaded += bytes;
    return (const char *)address + view->load_shift;
}

static inline void *engine_store(void *address, u32 bytes) {
    struct books *books = engine_lane->books;
    if (!books->modelled)
        return address;
    struct view *view = engine_view(books, address);
    view->stored += bytes;
    return (char *)address + view->store_shift;
}

#endif
