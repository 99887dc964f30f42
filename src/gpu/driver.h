/* The part of NVIDIA's driver in use, by our own declarations: building needs neither driver nor
 * toolkit. The driver's library is looked for when it is first wanted. */
#ifndef NUMAMICRO_GPU_DRIVER_H
#define NUMAMICRO_GPU_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int cu_device;
typedef uint64_t cu_address; /* of device memory, or of host memory as a device sees it */
typedef struct cu_context_st *cu_context;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_exec_st *cu_graph_exec;

typedef struct {
    unsigned char bytes[16];
} cu_uuid;

enum {
    CU_SUCCESS = 0,
    CU_PEER_ACCESS_ALREADY_ENABLED = 704,
    CU_PEER_ACCESS_NOT_ENABLED = 705,
};

/* X(name, version, parameters). The version pins the meaning of the parameters: a driver knows
 * several functions by one name, and gives the newest that is not newer than the version. */
#define DRIVER_API(X)                                                                              \
    X(cuInit, 2000, (unsigned flags))                                                              \
    X(cuDriverGetVersion, 2020, (int *version))                                                    \
    X(cuGetErrorName, 6000, (int error, const char **name))                                        \
    X(cuGetErrorString, 6000, (int error, const char **text))                                      \
    X(cuDeviceGetCount, 2000, (int *count))                                                        \
    X(cuDeviceGet, 2000, (cu_device * device, int ordinal))                                        \
    X(cuDeviceGetName, 2000, (char *name, int size, cu_device device))                             \
    X(cuDeviceGetUuid, 11040, (cu_uuid * uuid, cu_device device))                                  \
    X(cuDeviceTotalMem, 3020, (size_t *bytes, cu_device device))                                   \
    X(cuDeviceGetAttribute, 2000, (int *value, int attribute, cu_device device))                   \
    X(cuDeviceGetPCIBusId, 4010, (char *id, int size, cu_device device))                           \
    X(cuDeviceCanAccessPeer, 4000, (int *can, cu_device device, cu_device peer))                   \
    X(cuDeviceGetP2PAttribute, 8000,                                                               \
      (int *value, int attribute, cu_device source, cu_device target))                             \
    X(cuDevicePrimaryCtxRetain, 7000, (cu_context * context, cu_device device))                    \
    X(cuDevicePrimaryCtxRelease, 11000, (cu_device device))                                        \
    X(cuCtxSetCurrent, 4000, (cu_context context))                                                 \
    X(cuCtxEnablePeerAccess, 4000, (cu_context peer, unsigned flags))                              \
    X(cuCtxDisablePeerAccess, 4000, (cu_context peer))                                             \
    X(cuMemAlloc, 3020, (cu_address * address, size_t bytes))                                      \
    X(cuMemFree, 3020, (cu_address address))                                                       \
    X(cuMemGetInfo, 3020, (size_t *unused, size_t *total))                                         \
    X(cuMemHostAlloc, 2020, (void **address, size_t bytes, unsigned flags))                        \
    X(cuMemFreeHost, 2000, (void *address))                                                        \
    X(cuMemHostRegister, 6050, (void *address, size_t bytes, unsigned flags))                      \
    X(cuMemHostUnregister, 4000, (void *address))                                                  \
    X(cuMemHostGetDevicePointer, 3020, (cu_address * device, void *address, unsigned flags))       \
    X(cuMemcpyHtoDAsync, 3020,                                                                     \
      (cu_address target, const void *source, size_t bytes, cu_stream stream))                     \
    X(cuMemcpyDtoHAsync, 3020, (void *target, cu_address source, size_t bytes, cu_stream stream))  \
    X(cuMemcpyPeerAsync, 4000,                                                                     \
      (cu_address target, cu_context target_context, cu_address source, cu_context source_context, \
       size_t bytes, cu_stream stream))                                                            \
    X(cuMemsetD8Async, 3020,                                                                       \
      (cu_address target, unsigned char value, size_t bytes, cu_stream stream))                    \
    X(cuStreamCreate, 2000, (cu_stream * stream, unsigned flags))                                  \
    X(cuStreamDestroy, 4000, (cu_stream stream))                                                   \
    X(cuStreamSynchronize, 2000, (cu_stream stream))                                               \
    X(cuStreamWaitEvent, 3020, (cu_stream stream, cu_event event, unsigned flags))                 \
    X(cuEventCreate, 2000, (cu_event * event, unsigned flags))                                     \
    X(cuEventDestroy, 4000, (cu_event event))                                                      \
    X(cuEventRecord, 2000, (cu_event event, cu_stream stream))                                     \
    X(cuEventSynchronize, 2000, (cu_event event))                                                  \
    X(cuEventElapsedTime, 2000, (float *milliseconds, cu_event start, cu_event end))               \
    X(cuModuleLoadData, 2000, (cu_module * module, const void *image))                             \
    X(cuModuleUnload, 2000, (cu_module module))                                                    \
    X(cuModuleGetFunction, 2000, (cu_function * function, cu_module module, const char *name))     \
    X(cuLaunchKernel, 4000,                                                                        \
      (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,  \
       unsigned block_y, unsigned block_z, unsigned shared, cu_stream stream, void **arguments,    \
       void **extra))                                                                              \
    X(cuStreamBeginCapture, 10010, (cu_stream stream, int mode))                                   \
    X(cuStreamEndCapture, 10000, (cu_stream stream, cu_graph * graph))                             \
    X(cuGraphInstantiateWithFlags, 11040,                                                          \
      (cu_graph_exec * exec, cu_graph graph, unsigned long long flags))                            \
    X(cuGraphUpload, 11010, (cu_graph_exec exec, cu_stream stream))                                \
    X(cuGraphLaunch, 10000, (cu_graph_exec exec, cu_stream stream))                                \
    X(cuGraphExecDestroy, 10000, (cu_graph_exec exec))                                             \
    X(cuGraphDestroy, 10000, (cu_graph graph))

#define DRIVER_MEMBER(name, version, parameters) int(*name) parameters;
struct driver {
    void *library;
    const char *simulation; /* what it simulates; NULL for NVIDIA's own */
    DRIVER_API(DRIVER_MEMBER)
};
#undef DRIVER_MEMBER

enum { DRIVER_WHY = 256 };

/* Loads the library and finds each entry point; calls none of them. On failure gives -ENOENT (no
 * library) or -ELIBBAD (one that is too old or none of NVIDIA's), and in `why` what is missing. The
 * library stays until the process ends: it has threads of its own. */
int driver_open(struct driver *driver, const char *library, char why[DRIVER_WHY]);

/* Every function that takes a driver gives 0, a positive error of the driver, or a negative errno.
 */

#endif
