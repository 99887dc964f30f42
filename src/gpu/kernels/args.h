/* Arguments of the kernels. Plain C: the .cu file, the code that launches it and the tests share
 * it. A kernel takes one struct by value, so that kernelParams is always { &arguments }. */
#ifndef NUMAMICRO_KERNEL_ARGS_H
#define NUMAMICRO_KERNEL_ARGS_H

typedef unsigned int u32;
typedef unsigned long long u64;

#define FLAG_STRIDE 32 /* words of 4 bytes: a block's flag has a 128-byte line of its own */
#define MAX_RANKS 16

/* How a rank left its kernel. */
enum { RANK_OK = 0, RANK_TIMED_OUT = 1, RANK_ABORTED = 2 };

/* One rank of an all-reduce. Pull, push and host-staged are one kernel with other pointers:
 *
 *              send                                receive
 *   pull       own slots                           the slots in each peer's memory
 *   push       own slots in each peer's memory     own memory, slots of each peer
 *   staged     own slots in pinned host memory     the peers' slots in pinned host memory
 *
 * A place that is sent to holds two slots of `words`, used in turn: the peer may still read the one
 * of the last repetition. `input` and `output` hold `sets` vectors, used in turn. A word here is 16
 * bytes. Every rank has the same grid, and all its blocks must run at once. */
typedef struct {
    const void *input;
    void *output;
    void *send[MAX_RANKS];          /* the first `sends` of them */
    const void *receive[MAX_RANKS]; /* by rank; the own one is not used, as in the next two */
    u32 *signal[MAX_RANKS];         /* flag lines that tell that rank, one a block */
    const u32 *watch[MAX_RANKS];    /* flag lines by which that rank tells this one */
    u32 *generation;                /* a line a block in own memory; outlives a launch, so that a
                                     * graph can be replayed; 0 at first, like the flags */
    const u32 *abort;               /* host: not 0 means leave */
    u32 *status;                    /* host: RANK_*, written only by a rank that failed */
    u64 timeout_ns;                 /* of one wait for a peer */
    u32 words, repetitions, sets, rank, ranks, sends;
} AllReduceArgs;

typedef struct {
    const void *source;
    void *target; /* `read` takes a sink of one word that is not written in fact */
    u64 words;
    u32 repetitions;
} CopyArgs;

typedef struct {
    const u64 *next; /* next[i] is the index that follows i */
    u64 *result;     /* where the walk ended; ticks of the multiprocessor's clock */
    u64 start;
    u32 steps;
} ChaseArgs;

typedef struct {
    const u32 *release; /* host: not 0 means go on */
    u32 *status;
    u64 timeout_ns;
} SpinArgs;

#endif
