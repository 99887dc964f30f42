/* Work for GPUs: copies, kernels and graphs, and how long several of them take side by side. */
#ifndef NUMAMICRO_GPU_WORK_H
#define NUMAMICRO_GPU_WORK_H

#include "driver.h"

/* A queue of one device, with events: one that others wait for, two that time what goes through. */
struct lane {
    cu_context context;
    cu_stream stream;
    cu_event gate;
    cu_event start;
    cu_event end;
};

int lane_open(const struct driver *driver, cu_context context, struct lane *lane);
void lane_close(const struct driver *driver, struct lane *lane);

enum work_kind { WORK_TO_DEVICE, WORK_TO_HOST, WORK_PEER, WORK_FILL, WORK_KERNEL, WORK_GRAPH };

struct work {
    enum work_kind kind;
    const struct lane *lane;
    uint64_t target, source; /* addresses, of the host's or a device's, as the kind says */
    cu_context target_context, source_context; /* of a peer copy */
    size_t bytes;
    unsigned char value; /* of a fill */
    cu_function function;
    unsigned grid, block;
    void *arguments; /* the one struct that the kernel takes; NULL if it takes none */
    cu_graph_exec graph;
};

/* Queues a work so many times, and does not wait. */
int work_start(const struct driver *driver, const struct work *work, uint64_t repetitions);

/* Waits until all that was queued is done. */
int lane_wait(const struct driver *driver, const struct lane *lane);

/* Does each of `count` works `repetitions` times, every one on a lane of its own, all of them
 * beginning when `hold`, which goes first through the first lane, is done. It gives the host time
 * to queue everything, so that neither a slow host nor the order of queueing is part of the figure.
 * nanoseconds[i] is what the repetitions of works[i] took, by its device's own clock. */
int work_time(const struct driver *driver, const struct work *works, size_t count,
              uint64_t repetitions, const struct work *hold, uint64_t hold_repetitions,
              double *nanoseconds);

/* Records `repetitions` of a work as one graph of its lane. */
int graph_open(const struct driver *driver, const struct work *work, uint64_t repetitions,
               cu_graph_exec *graph);
int graph_close(const struct driver *driver, cu_context context, cu_graph_exec graph);

enum launch_kind { LAUNCH_QUEUE, LAUNCH_WAIT, LAUNCH_EVENT };

/* What the host pays, by its own clock: to queue a work, to queue it and wait for its end, or to
 * queue an event and wait for that. */
int launch_time(const struct driver *driver, enum launch_kind kind, const struct work *work,
                uint64_t repetitions, int64_t *elapsed_ns);

int module_open(const struct driver *driver, cu_context context, const void *image,
                cu_module *module);
int module_close(const struct driver *driver, cu_context context, cu_module module);
int module_function(const struct driver *driver, cu_context context, cu_module module,
                    const char *name, cu_function *function);

#endif
