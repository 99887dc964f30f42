/* The virtual clock: streams of work on the simulated GPUs, and the copies that share its links.
 *
 * Nothing here runs by itself. The host has a virtual time, to which every call of the driver adds;
 * work may proceed up to it, and beyond it only while the host waits. So what overlaps does not
 * depend on how fast the real machine is. A kernel runs in a thread of its own, since two may wait
 * for each other; its end in virtual time is the engine's. */
#ifndef STANDIN_SIMULATION_H
#define STANDIN_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "machine.h"

struct context {
    int gpu;
    int error; /* sticky: of a kernel that was stopped */
    int holders;
};

struct event {
    struct context *context;
    uint64_t submitted, done; /* records so far */
    double at;                /* of the last one done, in seconds */
    bool timing, captured;
};

enum work { WORK_COPY, WORK_FILL, WORK_KERNEL, WORK_RECORD, WORK_WAIT };

struct op {
    struct op *next;
    enum work work;
    double ready; /* not before */
    double gap;   /* after what precedes it */
    /* A copy or fill: `delay`, then `bytes` over shared resources at `most` bytes per second. */
    void *target;
    const void *source;
    size_t bytes;
    unsigned pattern, pattern_bytes;
    double delay, most, left;
    const struct route *route;
    bool flowing, stuck;
    double rate; /* of the moment */
    /* A kernel. */
    struct launch launch;
    unsigned char args[sizeof(AllReduceArgs)];
    bool running, returned;
    /* A record or a wait for one. */
    struct event *event;
    uint64_t number;
};

struct stream {
    struct stream *next;
    struct context *context;
    struct op *first, *last;
    double now; /* when its last finished work ended */
    bool capturing, broken;
    struct op *captured, *captured_last;
};

/* Every function below is called between these two. */
void simulation_lock(void);
void simulation_unlock(void);

/* Lets a call pass, by whose name the account knows what the host spends until the simulation is
 * let go: the host's time moves on, and the work up to it is done. */
void simulation_call(const char *name);
/* Lets the host work on the call for so many seconds; streams go on meanwhile. */
void simulation_work(double seconds);
/* Holds the simulation for a call that takes so long and does nothing else with it. */
void simulation_pass(const char *name, double seconds);
struct stream *simulation_open(struct context *context);
void simulation_close(struct stream *stream);
/* Appends work, which may begin from the host's present time on; takes `op` over. */
void simulation_submit(struct stream *stream, struct op *op);
/* Work until the stream, or an event's records so far, are done; the host waits meanwhile. */
void simulation_finish(struct stream *stream);
void simulation_reach(struct event *event);
/* The same for all streams of a GPU, as memory is given back only when nothing uses it. */
void simulation_settle(int gpu);
bool simulation_idle(const struct stream *stream);
/* Whether a GPU has work that is not done. */
bool simulation_busy(int gpu);
struct stream *simulation_streams(void);

/* The host's virtual time, in seconds. */
double simulation_host(void);
/* Notes a stretch of virtual time that events have measured: see simulation_account in the source.
 */
void simulation_timed(double begin, double end);

#endif
