# cython: language_level=3, autotestdict=False, auto_pickle=False
"""The only door to the GPUs: one function each, one error check, the lock released."""

from libc.errno cimport ENOENT
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc

import os

from numamicro.errors import GpuError

cdef extern from "driver.h" nogil:
    ctypedef uint64_t cu_address
    ctypedef void *cu_context
    ctypedef void *cu_module
    ctypedef void *cu_function
    ctypedef void *cu_graph_exec
    enum:
        DRIVER_WHY
    struct c_driver "driver":
        const char *simulation
        int (*cuGetErrorName)(int error, const char **name)
        int (*cuGetErrorString)(int error, const char **text)
    int driver_open(c_driver *, const char *library, char *why)

cdef extern from "device.h" nogil:
    struct c_facts "device_facts":
        const char *name
        const char *pci
        unsigned char *uuid
        size_t memory
        int capability_major
        int capability_minor
        int processors
        int l2_bytes
        int copy_engines
        int time_limit
        int integrated
        int compute_mode
        int host_node
    struct peer_facts:
        int access
        int atomics
    int device_count(const c_driver *, int *version, int *count)
    int device_facts(const c_driver *, int ordinal, c_facts *)
    int device_peer(const c_driver *, int source, int target, peer_facts *)
    int context_open(const c_driver *, int ordinal, cu_context *)
    int context_close(const c_driver *, int ordinal)
    int context_reach(const c_driver *, cu_context, cu_context peer, int on)

cdef extern from "memory.h" nogil:
    int memory_free_bytes(const c_driver *, cu_context, size_t *)
    int memory_alloc(const c_driver *, cu_context, size_t, cu_address *)
    int memory_free(const c_driver *, cu_context, cu_address)
    int memory_register(const c_driver *, cu_context, void *, size_t, cu_address *)
    int memory_unregister(const c_driver *, cu_context, void *)
    int memory_host_alloc(const c_driver *, cu_context, size_t, int combined, void **, cu_address *)
    int memory_host_free(const c_driver *, cu_context, void *)

cdef extern from "work.h" nogil:
    struct c_lane "lane":
        cu_context context
    enum work_kind:
        WORK_TO_DEVICE
        WORK_TO_HOST
        WORK_PEER
        WORK_FILL
        WORK_KERNEL
        WORK_GRAPH
    enum launch_kind:
        LAUNCH_QUEUE
        LAUNCH_WAIT
        LAUNCH_EVENT
    struct c_work "work":
        work_kind kind
        const c_lane *lane
        uint64_t target
        uint64_t source
        cu_context target_context
        cu_context source_context
        size_t bytes
        unsigned char value
        cu_function function
        unsigned grid
        unsigned block
        void *arguments
        cu_graph_exec graph
    int lane_open(const c_driver *, cu_context, c_lane *)
    void lane_close(const c_driver *, c_lane *)
    int work_start(const c_driver *, const c_work *, uint64_t repetitions)
    int lane_wait(const c_driver *, const c_lane *)
    int work_time(const c_driver *, const c_work *, size_t count, uint64_t repetitions,
                  const c_work *hold, uint64_t hold_repetitions, double *nanoseconds)
    int graph_open(const c_driver *, const c_work *, uint64_t repetitions, cu_graph_exec *)
    int graph_close(const c_driver *, cu_context, cu_graph_exec)
    int launch_time(const c_driver *, launch_kind, const c_work *, uint64_t repetitions, int64_t *)
    int module_open(const c_driver *, cu_context, const void *image, cu_module *)
    int module_close(const c_driver *, cu_context, cu_module)
    int module_function(const c_driver *, cu_context, cu_module, const char *name, cu_function *)


cdef class Driver:
    cdef c_driver api
    cdef readonly str simulation

    def __init__(self, str library="libcuda.so.1"):
        cdef char why[DRIVER_WHY]
        encoded = library.encode()
        cdef const char *name = encoded
        cdef int rc
        with nogil:
            rc = driver_open(&self.api, name, why)
        text = (<bytes>why).decode(errors="replace") if rc else ""
        if rc == -ENOENT:
            raise GpuError(f"no NVIDIA driver: {text}")
        if rc:
            raise GpuError(f"the NVIDIA driver is of no use here: {text}")
        cdef const char *simulated = self.api.simulation
        self.simulation = None if simulated is NULL else simulated.decode()

    cdef int check(self, int rc, str what) except -1:
        cdef const char *name = NULL
        cdef const char *text = NULL
        if rc == 0:
            return 0
        if rc < 0:
            raise OSError(-rc, os.strerror(-rc), what)
        self.api.cuGetErrorName(rc, &name)
        self.api.cuGetErrorString(rc, &text)
        known = f"error {rc}" if name is NULL else name.decode()
        words = "" if text is NULL else f" ({text.decode()})"
        raise GpuError(f"{what}: {known}{words}", known)

    def start(self):
        cdef int rc, version, count
        with nogil:
            rc = device_count(&self.api, &version, &count)
        self.check(rc, "starting the driver")
        return version, count

    def facts(self, int ordinal):
        cdef int rc
        cdef c_facts facts
        with nogil:
            rc = device_facts(&self.api, ordinal, &facts)
        self.check(rc, f"asking about GPU {ordinal}")
        return {
            "name": (<const char *>facts.name).decode(errors="replace"),
            "pci": (<const char *>facts.pci).decode(errors="replace").lower(),
            "uuid": facts.uuid[:16].hex(),
            "memory": facts.memory,
            "capability": [facts.capability_major, facts.capability_minor],
            "processors": facts.processors,
            "l2_bytes": facts.l2_bytes,
            "copy_engines": facts.copy_engines,
            "time_limit": bool(facts.time_limit),
            "integrated": bool(facts.integrated),
            "compute_mode": facts.compute_mode,
            "host_node": facts.host_node,
        }

    def peer(self, int source, int target):
        cdef int rc
        cdef peer_facts facts
        with nogil:
            rc = device_peer(&self.api, source, target, &facts)
        self.check(rc, f"asking what GPU {source} reaches of GPU {target}")
        return bool(facts.access), bool(facts.atomics)


cdef class Context:
    cdef readonly Driver driver
    cdef readonly int ordinal
    cdef cu_context handle

    def __init__(self, Driver driver not None, int ordinal):
        cdef int rc
        self.close()
        self.driver, self.ordinal = driver, ordinal
        with nogil:
            rc = context_open(&self.driver.api, ordinal, &self.handle)
        self.check(rc, "opening a context")

    cdef int check(self, int rc, str what) except -1:
        return self.driver.check(rc, f"GPU {self.ordinal}: {what}") if rc else 0

    @property
    def free_bytes(self):
        cdef int rc
        cdef size_t found
        with nogil:
            rc = memory_free_bytes(&self.driver.api, self.handle, &found)
        self.check(rc, "asking for its memory")
        return found

    def reach(self, Context peer not None, bint on):
        cdef int rc
        with nogil:
            rc = context_reach(&self.driver.api, self.handle, peer.handle, on)
        verb = "open" if on else "close"
        self.check(rc, f"{verb}ing the way to the memory of GPU {peer.ordinal}")

    def close(self):
        cdef int rc
        if self.handle is not NULL:
            self.handle = NULL
            with nogil:
                rc = context_close(&self.driver.api, self.ordinal)
            self.check(rc, "closing its context")


cdef class DeviceMemory:
    cdef readonly Context context
    cdef readonly size_t size
    cdef readonly uint64_t address

    def __init__(self, Context context not None, size_t size):
        cdef int rc
        cdef cu_address address
        self.close()
        self.context, self.size = context, size
        with nogil:
            rc = memory_alloc(&context.driver.api, context.handle, size, &address)
        context.check(rc, f"allocating {size} bytes")
        self.address = address

    def close(self):
        cdef int rc
        cdef cu_address address = self.address
        self.address = 0
        if address:
            with nogil:
                rc = memory_free(&self.context.driver.api, self.context.handle, address)
            self.context.check(rc, "freeing memory")


cdef class Pinned:
    cdef readonly Context context
    cdef readonly size_t size
    cdef readonly uint64_t address
    cdef readonly uint64_t device

    def __init__(self, Context context not None, uint64_t address, size_t size):
        cdef int rc
        cdef cu_address device
        self.close()
        self.context, self.size = context, size
        with nogil:
            rc = memory_register(&context.driver.api, context.handle, <void *><uintptr_t>address,
                                 size, &device)
        context.check(rc, f"pinning {size} bytes")
        self.address, self.device = address, device

    def close(self):
        cdef int rc
        cdef void *address = <void *><uintptr_t>self.address
        self.address = 0
        if address is not NULL:
            with nogil:
                rc = memory_unregister(&self.context.driver.api, self.context.handle, address)
            self.context.check(rc, "unpinning memory")


cdef class HostMemory:
    cdef readonly Context context
    cdef readonly size_t size
    cdef readonly uint64_t address
    cdef readonly uint64_t device

    def __init__(self, Context context not None, size_t size, *, bint write_combined):
        cdef int rc
        cdef void *address
        cdef cu_address device
        self.close()
        self.context, self.size = context, size
        with nogil:
            rc = memory_host_alloc(&context.driver.api, context.handle, size, write_combined,
                                   &address, &device)
        context.check(rc, f"allocating {size} bytes of pinned memory")
        self.address, self.device = <uintptr_t>address, device

    def close(self):
        cdef int rc
        cdef void *address = <void *><uintptr_t>self.address
        self.address = 0
        if address is not NULL:
            with nogil:
                rc = memory_host_free(&self.context.driver.api, self.context.handle, address)
            self.context.check(rc, "freeing pinned memory")


cdef class Module:
    cdef readonly Context context
    cdef cu_module handle

    def __init__(self, Context context not None, bytes image not None):
        cdef int rc
        cdef const char *start = image
        self.close()
        self.context = context
        with nogil:
            rc = module_open(&context.driver.api, context.handle, start, &self.handle)
        context.check(rc, "loading the kernels")

    def function(self, str name not None):
        cdef int rc
        cdef Function found = Function.__new__(Function)
        encoded = name.encode()
        cdef const char *start = encoded
        found.module = self
        with nogil:
            rc = module_function(&self.context.driver.api, self.context.handle, self.handle, start,
                                 &found.handle)
        self.context.check(rc, f"finding the kernel {name}")
        return found

    def close(self):
        cdef int rc
        cdef cu_module handle = self.handle
        self.handle = NULL
        if handle is not NULL:
            with nogil:
                rc = module_close(&self.context.driver.api, self.context.handle, handle)
            self.context.check(rc, "unloading the kernels")


cdef class Function:
    cdef Module module
    cdef cu_function handle


cdef class Lane:
    cdef readonly Context context
    cdef c_lane queue

    def __init__(self, Context context not None):
        cdef int rc
        self.close()
        self.context = context
        with nogil:
            rc = lane_open(&context.driver.api, context.handle, &self.queue)
        context.check(rc, "opening a stream")

    def close(self):
        if self.queue.context is not NULL:
            with nogil:
                lane_close(&self.context.driver.api, &self.queue)

    def wait(self):
        cdef int rc
        with nogil:
            rc = lane_wait(&self.context.driver.api, &self.queue)
        self.context.check(rc, "waiting for a stream")

    def to_device(self, uint64_t target, uint64_t source, size_t size):
        return self._work(WORK_TO_DEVICE, target, source, size)

    def to_host(self, uint64_t target, uint64_t source, size_t size):
        return self._work(WORK_TO_HOST, target, source, size)

    def fill(self, uint64_t target, unsigned char value, size_t size):
        cdef Work work = self._work(WORK_FILL, target, 0, size)
        work.item.value = value
        return work

    def peer(self, DeviceMemory target not None, DeviceMemory source not None, size_t size):
        cdef Work work = self._work(WORK_PEER, target.address, source.address, size)
        work.item.target_context = target.context.handle
        work.item.source_context = source.context.handle
        return work

    def kernel(self, Function function not None, unsigned grid, unsigned block,
               bytes arguments=None):
        cdef Work work = self._work(WORK_KERNEL, 0, 0, 0)
        work.kept = (function, arguments)
        work.item.function, work.item.grid, work.item.block = function.handle, grid, block
        work.item.arguments = NULL if arguments is None else <void *><char *>arguments
        return work

    cdef Work _work(self, work_kind kind, uint64_t target, uint64_t source, size_t size):
        cdef Work work = Work.__new__(Work)
        work.lane = self
        work.item.kind, work.item.lane = kind, &self.queue
        work.item.target, work.item.source, work.item.bytes = target, source, size
        return work


cdef class Work:
    cdef readonly Lane lane
    cdef object kept
    cdef c_work item

    def start(self, uint64_t repetitions):
        cdef int rc
        with nogil:
            rc = work_start(&self.lane.context.driver.api, &self.item, repetitions)
        self.lane.context.check(rc, f"queueing {repetitions} works")

    def do(self):
        self.start(1)
        self.lane.wait()

    def repeated(self, uint64_t repetitions):
        return Graph(self, repetitions)

    def launch(self, str kind not None, uint64_t repetitions):
        cdef int rc
        cdef int64_t elapsed
        cdef launch_kind how = {
            "queue": LAUNCH_QUEUE, "wait": LAUNCH_WAIT, "event": LAUNCH_EVENT}[kind]
        with nogil:
            rc = launch_time(&self.lane.context.driver.api, how, &self.item, repetitions, &elapsed)
        self.lane.context.check(rc, f"launching {repetitions} works")
        return elapsed


cdef class Graph:
    cdef readonly Work work
    cdef Work repeated

    def __init__(self, Work repeated not None, uint64_t repetitions):
        cdef int rc
        cdef cu_graph_exec handle
        cdef Lane lane = repeated.lane
        self.close()
        self.repeated = repeated
        with nogil:
            rc = graph_open(&lane.context.driver.api, &repeated.item, repetitions, &handle)
        lane.context.check(rc, f"making a graph of {repetitions} works")
        self.work = lane._work(WORK_GRAPH, 0, 0, 0)
        self.work.item.graph = handle

    def close(self):
        cdef int rc
        cdef Work work = self.work
        self.work = None
        if work is not None:
            with nogil:
                rc = graph_close(&work.lane.context.driver.api, work.lane.context.handle,
                                 work.item.graph)
            work.lane.context.check(rc, "closing a graph")


def time_each(works, uint64_t repetitions, Work hold not None, uint64_t hold_repetitions):
    cdef int rc
    cdef Context context = hold.lane.context
    cdef Work work
    kept = list(works)
    cdef size_t count = len(kept)
    cdef c_work *items = <c_work *>malloc((count + 1) * sizeof(c_work))
    cdef double *nanoseconds = <double *>malloc((count + 1) * sizeof(double))
    try:
        if items is NULL or nanoseconds is NULL:
            raise MemoryError
        for i, work in enumerate(kept):
            items[i] = work.item
        with nogil:
            rc = work_time(&context.driver.api, items, count, repetitions, &hold.item,
                           hold_repetitions, nanoseconds)
        context.check(rc, f"timing {count} works, {repetitions} times each")
        return [nanoseconds[i] for i in range(count)]
    finally:
        free(items)
        free(nanoseconds)
