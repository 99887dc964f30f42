/* Streams, events, copies, launches and graphs. */
#include "driver.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "module.h"

enum { SAMPLED_PAGES = 64 };

struct graph {
    struct op *first;
};

/* Every call below passes the host's time on and is served with the simulation held. */
static CUresult leave(CUresult result) {
    simulation_unlock();
    return result;
}

static void enter_as(const char *name) {
    simulation_lock();
    simulation_call(name);
}
#define enter() enter_as(__func__)

CUresult capture_error(void) {
    CUresult error = CUDA_SUCCESS;
    simulation_lock();
    for (struct stream *s = simulation_streams(); s; s = s->next)
        if (s->capturing) {
            s->broken = true;
            error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return leave(error);
}

/* --- Streams --------------------------------------------------------------------------------- */

API cuStreamCreate(CUstream *stream, unsigned flags) {
    NEEDS_CONTEXT;
    if (flags > 1)
        return CUDA_ERROR_INVALID_VALUE;
    enter();
    *stream = simulation_open(current);
    return leave(CUDA_SUCCESS);
}

API cuStreamDestroy_v2(CUstream stream) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    enter();
    simulation_close(stream);
    return leave(CUDA_SUCCESS);
}

/* Why a stream cannot be asked: it is not named (the product names its own), or captured. */
static CUresult unasked(struct stream *stream) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->capturing)
        return CUDA_SUCCESS;
    stream->broken = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

API cuStreamSynchronize(CUstream stream) {
    NEEDS_CONTEXT;
    enter();
    CUresult result = unasked(stream);
    if (!result) {
        simulation_finish(stream);
        result = stream->context->error;
    }
    return leave(result);
}

API cuStreamQuery(CUstream stream) {
    NEEDS_CONTEXT;
    enter();
    CUresult result = unasked(stream);
    if (!result)
        result = stream->context->error    ? stream->context->error
                 : simulation_idle(stream) ? CUDA_SUCCESS
                                           : CUDA_ERROR_NOT_READY;
    return leave(result);
}

API cuCtxSynchronize(void) {
    NEEDS_CONTEXT;
    REFUSED_IN_CAPTURE;
    enter();
    for (struct stream *s = simulation_streams(); s; s = s->next)
        if (s->context == current)
            simulation_finish(s);
    return leave(current->error);
}

/* --- Submission ------------------------------------------------------------------------------ */

/* Takes a copy of `op`, into the graph being captured or to the stream. */
static CUresult submit(struct stream *stream, const struct op *op) {
    struct op *own = malloc(sizeof *own);
    *own = *op;
    own->next = NULL;
    if (!stream->capturing) {
        simulation_submit(stream, own);
    } else {
        if (stream->captured_last)
            stream->captured_last->next = own;
        else
            stream->captured = own;
        stream->captured_last = own;
    }
    return CUDA_SUCCESS;
}

/* --- Events ---------------------------------------------------------------------------------- */

API cuEventCreate(CUevent *event, unsigned flags) {
    NEEDS_CONTEXT;
    *event = calloc(1, sizeof **event);
    (*event)->context = current;
    (*event)->timing = !(flags & 2);
    return CUDA_SUCCESS;
}

API cuEventDestroy_v2(CUevent event) {
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    enter();
    simulation_reach(event);
    free(event);
    return leave(CUDA_SUCCESS);
}

API cuEventRecord(CUevent event, CUstream stream) {
    NEEDS_CONTEXT;
    if (!event || !stream || event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    enter();
    event->captured = stream->capturing;
    if (stream->capturing) /* a mark of order, not of time */
        return leave(CUDA_SUCCESS);
    return leave(submit(
        stream, &(struct op){.work = WORK_RECORD, .event = event, .number = ++event->submitted}));
}

API cuEventQuery(CUevent event) {
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    enter();
    return leave(event->captured                   ? CUDA_ERROR_CAPTURED_EVENT
                 : event->done == event->submitted ? CUDA_SUCCESS
                                                   : CUDA_ERROR_NOT_READY);
}

API cuEventSynchronize(CUevent event) {
    NEEDS_CONTEXT;
    if (!event)
        return CUDA_ERROR_INVALID_HANDLE;
    enter();
    if (event->captured)
        return leave(CUDA_ERROR_CAPTURED_EVENT);
    simulation_reach(event);
    return leave(event->context->error);
}

static double ticked(double time) {
    const double tick = machine()->tick;
    return tick > 0 ? floor(time / tick) * tick : time;
}

API cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
    if (!begin || !end || !begin->timing || !end->timing || begin->context != end->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!begin->submitted || !end->submitted)
        return CUDA_ERROR_INVALID_HANDLE;
    enter();
    if (begin->captured || end->captured)
        return leave(CUDA_ERROR_CAPTURED_EVENT);
    if (begin->done != begin->submitted || end->done != end->submitted)
        return leave(CUDA_ERROR_NOT_READY);
    simulation_timed(begin->at, end->at);
    double elapsed = ticked(end->at) - ticked(begin->at);
    if (has_fault("plant_gib", -1, -1))
        elapsed *= 1.073741824;
    *milliseconds = (float)(elapsed * 1e3);
    return leave(CUDA_SUCCESS);
}

API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    NEEDS_CONTEXT;
    if (!stream || !event || flags)
        return CUDA_ERROR_INVALID_HANDLE;
    enter();
    if (stream->capturing || event->captured) { /* fork and join in a capture is not offered */
        stream->broken = true;
        return leave(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    return leave(submit(
        stream, &(struct op){.work = WORK_WAIT, .event = event, .number = event->submitted}));
}

/* --- Copies ---------------------------------------------------------------------------------- */

/* One end of a copy. */
struct end {
    int place;
    bool pinned;
    double node_share[MAX_NODES]; /* of its pages, where it is host memory */
};

static CUresult look_at(const void *address, size_t size, struct end *end) {
    int nodes[SAMPLED_PAGES];
    const struct range *range = memory_holding(address, size);
    *end = (struct end){.pinned = range != NULL};
    if (!range && memory_find(address))
        return CUDA_ERROR_INVALID_VALUE; /* runs over the end */
    if (range && range->place < MAX_GPUS) {
        end->place = range->place;
        return CUDA_SUCCESS;
    }
    const int count = memory_nodes(address, size, nodes, SAMPLED_PAGES);
    int best = 0;
    for (int i = 0; i < count; i++) {
        /* A page that was never written is brought in by the copy, near the GPU's driver: node 0.
         */
        const int node = nodes[i] < 0 || nodes[i] >= MAX_NODES ? 0 : nodes[i];
        end->node_share[node] += 1.0 / count;
        best = end->node_share[node] > end->node_share[best] ? node : best;
    }
    end->place = MAX_GPUS + best;
    if (has_fault("plant_node", -1, -1)) {
        int other = (best + 1) % MAX_NODES;
        while (!machine()->read[0][MAX_GPUS + other].known)
            other = (other + 1) % MAX_NODES;
        *end = (struct end){.place = MAX_GPUS + other, .pinned = end->pinned};
        end->node_share[other] = 1;
    }
    return CUDA_SUCCESS;
}

/* The rate over routes to several nodes, by the share of the pages that each holds. */
static double mixed_rate(const struct route *routes, const struct end *host) {
    double seconds = 0;
    for (int node = 0; node < MAX_NODES; node++)
        if (host->node_share[node] > 0)
            seconds += host->node_share[node] / routes[MAX_GPUS + node].rate;
    return 1 / seconds;
}

static CUresult copy_host(struct op *op, int gpu, const struct end *host, bool to_gpu) {
    const struct route *routes = to_gpu ? machine()->read[gpu] : machine()->write[gpu];
    op->route = &routes[host->place];
    if (!op->route->known)
        return CUDA_ERROR_INVALID_VALUE;
    op->delay += op->route->latency;
    op->most = mixed_rate(routes, host) * (host->pinned ? 1 : machine()->pageable);
    return CUDA_SUCCESS;
}

/* Without peer access the driver goes through host memory near the source. */
static void copy_staged(struct op *op, int source, int target) {
    const int node = MAX_GPUS + machine()->gpu[source].node;
    const struct route *out = &machine()->write[source][node];
    const struct route *in = &machine()->read[target][node];
    op->route = out->rate < in->rate ? out : in;
    op->delay += out->latency + in->latency;
    op->most = op->route->rate;
}

/* The engine of `gpu`, the stream's, moves the data: it reads the peer, or writes to it. */
static void copy_peer(struct op *op, int gpu, int source, int target) {
    const int peer = gpu == source ? target : source;
    const bool enabled = memory_peers[source] >> target & 1 || memory_peers[target] >> source & 1;
    if (source == target) {
        op->route = &machine()->read[gpu][gpu];
    } else if (!enabled) {
        copy_staged(op, source, target);
        return;
    } else {
        op->route = gpu == source ? &machine()->write[gpu][peer] : &machine()->read[gpu][peer];
        if (has_fault("plant_pair", -1, -1))
            op->route = gpu == source ? &machine()->read[gpu][peer] : &machine()->write[gpu][peer];
        op->stuck = has_fault("p2p_hang", gpu, peer);
        struct range *there = memory_find(gpu == source ? op->target : op->source);
        if (gpu == source)
            op->target = memory_through(gpu, there, op->target, true);
        else
            op->source = memory_through(gpu, there, op->source, false);
    }
    op->delay += op->route->latency;
    op->most = op->route->rate;
}

static CUresult copy(void *target, const void *source, size_t size, struct stream *stream) {
    struct op op = {.work = WORK_COPY, .target = target, .source = source, .bytes = size};
    struct end from, to;
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = look_at(source, size, &from);
    result = result ? result : look_at(target, size, &to);
    if (result)
        return result;
    const int gpu = stream->context->gpu;
    const bool from_host = from.place >= MAX_GPUS;
    const bool to_host = to.place >= MAX_GPUS;
    op.delay = machine()->copy;
    if (from_host && to_host)
        return CUDA_ERROR_INVALID_VALUE;
    if (from_host || to_host) {
        const int own = from_host ? to.place : from.place;
        result = copy_host(&op, own, from_host ? &from : &to, from_host);
    } else if (from.place != gpu && to.place != gpu) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else {
        copy_peer(&op, gpu, from.place, to.place);
    }
    return result ? result : submit(stream, &op);
}

static CUresult copied(const char *call, void *target, const void *source, size_t size,
                       struct stream *stream) {
    enter_as(call);
    return leave(size ? copy(target, source, size, stream) : CUDA_SUCCESS);
}

API cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t size, CUstream stream) {
    NEEDS_CONTEXT;
    return copied(__func__, (void *)target, source, size, stream);
}

API cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t size, CUstream stream) {
    NEEDS_CONTEXT;
    return copied(__func__, target, (void *)source, size, stream);
}

API cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source, size_t size, CUstream stream) {
    NEEDS_CONTEXT;
    return copied(__func__, (void *)target, (void *)source, size, stream);
}

API cuMemcpyPeerAsync(CUdeviceptr target, CUcontext to, CUdeviceptr source, CUcontext from,
                      size_t size, CUstream stream) {
    NEEDS_CONTEXT;
    const struct range *here = memory_find((void *)source);
    const struct range *there = memory_find((void *)target);
    if (!here || !there || !from || !to || here->place != from->gpu || there->place != to->gpu)
        return CUDA_ERROR_INVALID_VALUE;
    return copied(__func__, (void *)target, (void *)source, size, stream);
}

static CUresult filled(const char *call, CUdeviceptr target, unsigned pattern, unsigned width,
                       size_t count, struct stream *stream) {
    if (!stream)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!memory_holding((void *)target, count * width))
        return CUDA_ERROR_INVALID_VALUE;
    const int gpu = stream->context->gpu;
    enter_as(call);
    return leave(submit(
        stream, &(struct op){.work = WORK_FILL,
                             .target = (void *)target,
                             .bytes = count * width,
                             .pattern = pattern,
                             .pattern_bytes = width,
                             .delay = machine()->copy +
                                      (double)(count * width) / machine()->write[gpu][gpu].rate}));
}

API cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
    NEEDS_CONTEXT;
    return filled(__func__, target, value, 1, count, stream);
}

API cuMemsetD32Async(CUdeviceptr target, unsigned value, size_t count, CUstream stream) {
    NEEDS_CONTEXT;
    return filled(__func__, target, value, 4, count, stream);
}

/* --- Launches -------------------------------------------------------------------------------- */

API cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   CUstream stream, void **params, void **extra) {
    NEEDS_CONTEXT;
    (void)shared;
    if (!function || !stream || extra || !grid_x || grid_y != 1 || grid_z != 1 || !block_x ||
        block_x > 1024 || block_y != 1 || block_z != 1)
        return CUDA_ERROR_INVALID_VALUE;
    const struct kernel *kernel = function->kernel;
    struct op op = {.work = WORK_KERNEL,
                    .launch = {.kernel = kernel,
                               .grid = grid_x,
                               .lanes = 1,
                               .modelled = 1,
                               .gpu = stream->context->gpu}};
    if (kernel->args)
        memcpy(op.args, params[0], kernel->args); /* the driver copies them at the call */
    enter();
    if (stream->capturing)
        op.gap = machine()->graph_node;
    return leave(submit(stream, &op));
}

/* --- Graphs: one line of work ----------------------------------------------------------------- */

static struct graph *graph_of(const struct op *ops) {
    struct graph *graph = calloc(1, sizeof *graph);
    struct op **last = &graph->first;
    for (; ops; ops = ops->next, last = &(*last)->next) {
        *last = malloc(sizeof **last);
        **last = *ops;
    }
    return graph;
}

static CUresult forget(struct graph *graph) {
    if (!graph)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct op *op = graph->first, *next; op; op = next) {
        next = op->next;
        free(op);
    }
    free(graph);
    return CUDA_SUCCESS;
}

API cuStreamBeginCapture_v2(CUstream stream, int mode) {
    NEEDS_CONTEXT;
    if (!stream || mode < 0 || mode > 2)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    stream->capturing = true;
    stream->broken = false;
    stream->captured = stream->captured_last = NULL;
    return CUDA_SUCCESS;
}

API cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    NEEDS_CONTEXT;
    if (!stream || !stream->capturing)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *captured = calloc(1, sizeof *captured);
    captured->first = stream->captured;
    stream->capturing = false;
    *graph = captured;
    if (!stream->broken)
        return CUDA_SUCCESS;
    forget(captured);
    *graph = NULL;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

API cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    NEEDS_CONTEXT;
    if (!graph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    *exec = graph_of(graph->first);
    enter();
    for (const struct op *op = graph->first; op; op = op->next)
        simulation_work(machine()->instance);
    return leave(CUDA_SUCCESS);
}

API cuGraphUpload(CUgraphExec exec, CUstream stream) {
    NEEDS_CONTEXT;
    return exec && stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    NEEDS_CONTEXT;
    if (!exec || !stream)
        return CUDA_ERROR_INVALID_VALUE;
    enter();
    for (const struct op *op = exec->first; op; op = op->next)
        submit(stream, op);
    return leave(CUDA_SUCCESS);
}

API cuGraphExecDestroy(CUgraphExec exec) { return forget(exec); }

API cuGraphDestroy(CUgraph graph) { return forget(graph); }
