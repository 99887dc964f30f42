#define _GNU_SOURCE
#include "work.h"

#include "clock.h"

#include <errno.h>

enum {
    STREAM_NON_BLOCKING = 1, /* never waits for the stream that others in the process may use */
    CAPTURE_RELAXED = 2,
};

int lane_open(const struct driver *driver, cu_context context, struct lane *lane) {
    *lane = (struct lane){.context = context};
    int rc = driver->cuCtxSetCurrent(context);
    if (!rc)
        rc = driver->cuStreamCreate(&lane->stream, STREAM_NON_BLOCKING);
    if (!rc)
        rc = driver->cuEventCreate(&lane->gate, 0);
    if (!rc)
        rc = driver->cuEventCreate(&lane->start, 0);
    if (!rc)
        rc = driver->cuEventCreate(&lane->end, 0);
    if (rc)
        lane_close(driver, lane);
    return rc;
}

void lane_close(const struct driver *driver, struct lane *lane) {
    if (lane->context)
        driver->cuCtxSetCurrent(lane->context);
    if (lane->end)
        driver->cuEventDestroy(lane->end);
    if (lane->start)
        driver->cuEventDestroy(lane->start);
    if (lane->gate)
        driver->cuEventDestroy(lane->gate);
    if (lane->stream)
        driver->cuStreamDestroy(lane->stream);
    *lane = (struct lane){0};
}

static void *host(uint64_t address) { return (void *)(uintptr_t)address; }

static int launch(const struct driver *driver, const struct work *work) {
    void *arguments[] = {work->arguments};
    return driver->cuLaunchKernel(work->function, work->grid, 1, 1, work->block, 1, 1, 0,
                                  work->lane->stream, work->arguments ? arguments : NULL, NULL);
}

/* The lane's context is current. */
static int queue(const struct driver *driver, const struct work *work) {
    cu_stream stream = work->lane->stream;
    switch (work->kind) {
    case WORK_TO_DEVICE:
        return driver->cuMemcpyHtoDAsync(work->target, host(work->source), work->bytes, stream);
    case WORK_TO_HOST:
        return driver->cuMemcpyDtoHAsync(host(work->target), work->source, work->bytes, stream);
    case WORK_PEER:
        return driver->cuMemcpyPeerAsync(work->target, work->target_context, work->source,
                                         work->source_context, work->bytes, stream);
    case WORK_FILL:
        return driver->cuMemsetD8Async(work->target, work->value, work->bytes, stream);
    case WORK_KERNEL:
        return launch(driver, work);
    case WORK_GRAPH:
        return driver->cuGraphLaunch(work->graph, stream);
    }
    return -EINVAL;
}

static int queue_repeatedly(const struct driver *driver, const struct work *work,
                            uint64_t repetitions) {
    int rc = 0;
    for (uint64_t i = 0; i < repetitions && !rc; i++)
        rc = queue(driver, work);
    return rc;
}

static int enter(const struct driver *driver, const struct work *work) {
    return driver->cuCtxSetCurrent(work->lane->context);
}

int work_start(const struct driver *driver, const struct work *work, uint64_t repetitions) {
    int rc = enter(driver, work);
    return rc ? rc : queue_repeatedly(driver, work, repetitions);
}

int lane_wait(const struct driver *driver, const struct lane *lane) {
    int rc = driver->cuCtxSetCurrent(lane->context);
    return rc ? rc : driver->cuStreamSynchronize(lane->stream);
}

/* Every lane waits for what the first one does before all else. */
static int close_gate(const struct driver *driver, const struct work *works, size_t count,
                      const struct work *hold, uint64_t hold_repetitions) {
    const struct lane *first = works[0].lane;
    int rc = work_start(driver, hold, hold_repetitions);
    if (!rc)
        rc = driver->cuEventRecord(first->gate, first->stream);
    for (size_t i = 1; i < count && !rc; i++) {
        rc = enter(driver, &works[i]);
        if (!rc)
            rc = driver->cuStreamWaitEvent(works[i].lane->stream, first->gate, 0);
    }
    return rc;
}

static int record(const struct driver *driver, const struct work *works, size_t count, int end) {
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        const struct lane *lane = works[i].lane;
        rc = enter(driver, &works[i]);
        if (!rc)
            rc = driver->cuEventRecord(end ? lane->end : lane->start, lane->stream);
    }
    return rc;
}

/* A repetition of each in turn: a lane must not run dry while another is being filled. */
static int queue_all(const struct driver *driver, const struct work *works, size_t count,
                     uint64_t repetitions) {
    int rc = 0;
    for (uint64_t repetition = 0; repetition < repetitions && !rc; repetition++)
        for (size_t i = 0; i < count && !rc; i++) {
            rc = count > 1 || repetition == 0 ? enter(driver, &works[i]) : 0;
            if (!rc)
                rc = queue(driver, &works[i]);
        }
    return rc;
}

static int read_times(const struct driver *driver, const struct work *works, size_t count,
                      double *nanoseconds) {
    int rc = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        float milliseconds = 0;
        rc = enter(driver, &works[i]);
        if (!rc)
            rc = driver->cuEventSynchronize(works[i].lane->end);
        if (!rc)
            rc =
                driver->cuEventElapsedTime(&milliseconds, works[i].lane->start, works[i].lane->end);
        nanoseconds[i] = (double)milliseconds * 1e6;
    }
    return rc;
}

int work_time(const struct driver *driver, const struct work *works, size_t count,
              uint64_t repetitions, const struct work *hold, uint64_t hold_repetitions,
              double *nanoseconds) {
    if (count == 0 || hold->lane != works[0].lane)
        return -EINVAL;
    int rc = close_gate(driver, works, count, hold, hold_repetitions);
    if (!rc)
        rc = record(driver, works, count, 0);
    if (!rc)
        rc = queue_all(driver, works, count, repetitions);
    if (!rc)
        rc = record(driver, works, count, 1);
    return rc ? rc : read_times(driver, works, count, nanoseconds);
}

int graph_open(const struct driver *driver, const struct work *work, uint64_t repetitions,
               cu_graph_exec *exec) {
    cu_stream stream = work->lane->stream;
    cu_graph graph = NULL;
    int rc = enter(driver, work);
    if (!rc)
        rc = driver->cuStreamBeginCapture(stream, CAPTURE_RELAXED);
    if (rc)
        return rc;
    rc = queue_repeatedly(driver, work, repetitions);
    int ended = driver->cuStreamEndCapture(stream, &graph);
    if (!rc)
        rc = ended;
    if (!rc)
        rc = driver->cuGraphInstantiateWithFlags(exec, graph, 0);
    if (graph)
        driver->cuGraphDestroy(graph);
    if (rc)
        return rc;
    rc = driver->cuGraphUpload(*exec, stream);
    if (rc)
        driver->cuGraphExecDestroy(*exec);
    return rc;
}

int graph_close(const struct driver *driver, cu_context context, cu_graph_exec graph) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuGraphExecDestroy(graph);
}

static int launch_once(const struct driver *driver, enum launch_kind kind,
                       const struct work *work) {
    const struct lane *lane = work->lane;
    int rc =
        kind == LAUNCH_EVENT ? driver->cuEventRecord(lane->end, lane->stream) : queue(driver, work);
    if (rc || kind == LAUNCH_QUEUE)
        return rc;
    return kind == LAUNCH_EVENT ? driver->cuEventSynchronize(lane->end)
                                : driver->cuStreamSynchronize(lane->stream);
}

int launch_time(const struct driver *driver, enum launch_kind kind, const struct work *work,
                uint64_t repetitions, int64_t *elapsed_ns) {
    int rc = enter(driver, work);
    int64_t start = clock_ns();
    for (uint64_t i = 0; i < repetitions && !rc; i++)
        rc = launch_once(driver, kind, work);
    *elapsed_ns = clock_ns() - start;
    return rc ? rc : driver->cuStreamSynchronize(work->lane->stream);
}

int module_open(const struct driver *driver, cu_context context, const void *image,
                cu_module *module) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuModuleLoadData(module, image);
}

int module_close(const struct driver *driver, cu_context context, cu_module module) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuModuleUnload(module);
}

int module_function(const struct driver *driver, cu_context context, cu_module module,
                    const char *name, cu_function *function) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuModuleGetFunction(function, module, name);
}
