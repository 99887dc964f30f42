/* The part of the CUDA driver API that the stand-in offers: own declarations of its types. */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "machine.h"
#include "simulation.h"

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct event *CUevent;
typedef struct module *CUmodule;
typedef const struct function *CUfunction;
typedef struct graph *CUgraph;
typedef struct graph *CUgraphExec;
typedef struct {
    unsigned char bytes[16];
} CUuuid;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
    CUDA_ERROR_TOO_MANY_PEERS = 711,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    CUDA_ERROR_CAPTURED_EVENT = 907,
};

#define API __attribute__((visibility("default"))) CUresult

API cuInit(unsigned flags);

/* The context of the calling thread. */
extern _Thread_local struct context *current;
/* Why a call cannot be served in the calling thread's context; 0 when it can. */
CUresult context_error(void);
/* Why a call is refused while some stream is captured, which spoils the capture; 0 when none is. */
CUresult capture_error(void);

#define NEEDS_CONTEXT                                                                              \
    do {                                                                                           \
        CUresult error = context_error();                                                          \
        if (error)                                                                                 \
            return error;                                                                          \
    } while (0)
#define REFUSED_IN_CAPTURE                                                                         \
    do {                                                                                           \
        CUresult error = capture_error();                                                          \
        if (error)                                                                                 \
            return error;                                                                          \
    } while (0)

#endif
