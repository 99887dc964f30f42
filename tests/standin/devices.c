/* Devices, contexts and peer access. */
#include "driver.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "memory.h"

enum { MOST_PEERS = 8 };

_Thread_local struct context *current;

static struct context contexts[MAX_GPUS];
static pid_t owner; /* the process that initialised; a forked child has no contexts */
static int visible[MAX_GPUS];
static int visible_count;

CUresult context_error(void) {
    if (owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    return current ? current->error : CUDA_ERROR_INVALID_CONTEXT;
}

/* --- CUDA_VISIBLE_DEVICES -------------------------------------------------------------------- */

static bool is_mig(int gpu) { return has_fault("mig", gpu, -1); }

static void device_uuid(int gpu, char *text, size_t size) {
    snprintf(text, size, "%s-%s", is_mig(gpu) ? "MIG" : "GPU", machine()->gpu[gpu].uuid);
}

/* The GPU that an entry names, by index or by the start of its UUID; -1 when it names none. */
static int named(const char *entry) {
    const struct machine *m = machine();
    char *end;
    const long index = strtol(entry, &end, 10);
    if (end != entry && !*end)
        return index >= 0 && index < m->gpus ? (int)index : -1;
    int found = -1;
    for (int g = 0; g < m->gpus; g++) {
        char uuid[WORD + 8];
        device_uuid(g, uuid, sizeof uuid);
        if (strlen(entry) > 4 && !strncasecmp(uuid, entry, strlen(entry))) {
            if (found >= 0)
                return -1; /* ambiguous */
            found = g;
        }
    }
    return found;
}

/* Which GPUs a process sees: those before the first entry that is no good; none when one is twice.
 */
static void read_visible(void) {
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    if (!list) {
        for (int g = 0; g < machine()->gpus; g++)
            visible[visible_count++] = g;
        return;
    }
    char copy[4096];
    char *rest = copy;
    snprintf(copy, sizeof copy, "%s", list);
    for (char *entry; (entry = strsep(&rest, ","));) {
        while (isspace((unsigned char)*entry))
            entry++;
        const int gpu = named(entry);
        if (gpu < 0 || visible_count == MAX_GPUS)
            return;
        for (int i = 0; i < visible_count; i++)
            if (visible[i] == gpu) {
                visible_count = 0;
                return;
            }
        visible[visible_count++] = gpu;
    }
}

static const struct gpu *gpu_of(CUdevice device) {
    return device >= 0 && device < visible_count ? &machine()->gpu[visible[device]] : NULL;
}

#define NEEDS_DEVICE(device)                                                                       \
    if (owner != getpid())                                                                         \
        return CUDA_ERROR_NOT_INITIALIZED;                                                         \
    const struct gpu *gpu = gpu_of(device);                                                        \
    if (!gpu)                                                                                      \
    return CUDA_ERROR_INVALID_DEVICE

/* --- Initialisation -------------------------------------------------------------------------- */

API cuInit(unsigned flags) {
    static pid_t first;
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!first)
        first = getpid();
    if (first != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (has_fault("driver_mismatch", -1, -1))
        return CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    read_visible();
    if (has_fault("no_device", -1, -1) || !visible_count)
        return CUDA_ERROR_NO_DEVICE;
    for (int g = 0; g < MAX_GPUS; g++)
        contexts[g].gpu = g;
    owner = first;
    return CUDA_SUCCESS;
}

API cuDriverGetVersion(int *version) {
    *version = machine()->driver;
    return CUDA_SUCCESS;
}

/* The mark of the stand-in: a real driver has no such symbol. */
__attribute__((visibility("default"))) const char *numamicro_simulation(void) {
    return machine()->name;
}

/* Whether a GPU, by its number in the machine file, has unfinished work: NVML wants to know. */
__attribute__((visibility("default"))) int numamicro_simulation_busy(int gpu) {
    simulation_lock();
    const int busy = simulation_busy(gpu);
    simulation_unlock();
    return busy;
}

/* --- What a device is ------------------------------------------------------------------------ */

API cuDeviceGetCount(int *count) {
    if (owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED;
    *count = visible_count;
    return CUDA_SUCCESS;
}

API cuDeviceGet(CUdevice *device, int ordinal) {
    NEEDS_DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

API cuDeviceGetName(char *name, int length, CUdevice device) {
    NEEDS_DEVICE(device);
    snprintf(name, (size_t)length, "%s%s", gpu->name,
             is_mig(visible[device]) ? " MIG 1g.10gb" : "");
    return CUDA_SUCCESS;
}

API cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
    NEEDS_DEVICE(device);
    const char *at = gpu->uuid;
    for (int i = 0; i < 16; i++) {
        unsigned byte = 0;
        at += *at == '-';
        sscanf(at, "%2x", &byte);
        uuid->bytes[i] = (unsigned char)byte;
        at += 2;
    }
    return CUDA_SUCCESS;
}

API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    NEEDS_DEVICE(device);
    *bytes = gpu->memory;
    return CUDA_SUCCESS;
}

API cuDeviceGetPCIBusId(char *id, int length, CUdevice device) {
    NEEDS_DEVICE(device);
    snprintf(id, (size_t)length, "%s", gpu->pci);
    return CUDA_SUCCESS;
}

API cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    NEEDS_DEVICE(device);
    unsigned domain = 0, bus = 0, slot = 0;
    sscanf(gpu->pci, "%x:%x:%x", &domain, &bus, &slot);
    switch (attribute) {
    case 16: /* multiprocessors */
        *value = gpu->processors;
        break;
    case 17: /* kernels have a time limit: a display is attached */
        *value = gpu->display;
        break;
    case 18: /* integrated */
        *value = 0;
        break;
    case 20: /* compute mode */
        *value = gpu->compute_mode;
        break;
    case 19: /* can map host memory */
    case 41: /* unified addressing */
        *value = 1;
        break;
    case 33:
        *value = (int)bus;
        break;
    case 34:
        *value = (int)slot;
        break;
    case 50:
        *value = (int)domain;
        break;
    case 38: /* bytes of its last-level cache */
        *value = 50 << 20;
        break;
    case 40: /* copy engines */
        *value = 3;
        break;
    case 75:
        *value = gpu->capability / 10;
        break;
    case 76:
        *value = gpu->capability % 10;
        break;
    case 134: /* host NUMA id */
        *value = has_fault("no_host_node", visible[device], -1) ? -1 : gpu->node;
        break;
    default:
        fprintf(stderr, "stand-in: device attribute %d is not modelled\n", attribute);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* --- Peers ----------------------------------------------------------------------------------- */

static bool claims(int gpu, int peer) {
    return may_access(gpu, peer) && !is_mig(gpu) && !is_mig(peer);
}

API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    NEEDS_DEVICE(device);
    if (!gpu_of(peer))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = claims(visible[device], visible[peer]);
    return CUDA_SUCCESS;
}

API cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice source, CUdevice target) {
    enum { RANK = 1, ACCESS = 2, NATIVE_ATOMICS = 3, ARRAYS = 4 };
    NEEDS_DEVICE(source);
    if (!gpu_of(target) || source == target || attribute < RANK || attribute > ARRAYS)
        return CUDA_ERROR_INVALID_VALUE;
    const int other = visible[target];
    const bool linked = gpu->nvlinks[other] > 0 || gpu->switch_links > 0;
    *value = attribute == RANK     ? !linked
             : attribute == ACCESS ? claims(visible[source], other)
                                   : linked && claims(visible[source], other);
    return CUDA_SUCCESS;
}

API cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    NEEDS_CONTEXT;
    if (!peer || flags)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned *peers = &memory_peers[current->gpu];
    const unsigned bit = 1U << peer->gpu;
    if (!claims(current->gpu, peer->gpu) || has_fault("enable_fails", current->gpu, peer->gpu))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (*peers & bit)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (__builtin_popcount(*peers) >= MOST_PEERS)
        return CUDA_ERROR_TOO_MANY_PEERS;
    simulation_pass(__func__, machine()->peer);
    *peers |= bit;
    return CUDA_SUCCESS;
}

API cuCtxDisablePeerAccess(CUcontext peer) {
    NEEDS_CONTEXT;
    if (!peer)
        return CUDA_ERROR_INVALID_VALUE;
    const unsigned bit = 1U << peer->gpu;
    if (!(memory_peers[current->gpu] & bit))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    simulation_pass(__func__, machine()->peer);
    memory_peers[current->gpu] &= ~bit;
    return CUDA_SUCCESS;
}

/* --- Contexts -------------------------------------------------------------------------------- */

API cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    NEEDS_DEVICE(device);
    if (gpu->compute_mode == 2)
        return CUDA_ERROR_NO_DEVICE; /* prohibited */
    *context = &contexts[visible[device]];
    simulation_pass(__func__, (*context)->holders++ ? 0 : machine()->context);
    return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    NEEDS_DEVICE(device);
    contexts[visible[device]].holders--;
    return CUDA_SUCCESS;
}

API cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    NEEDS_DEVICE(device);
    return flags > 0x7f ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API cuCtxSetCurrent(CUcontext context) {
    current = context;
    return CUDA_SUCCESS;
}

API cuCtxGetCurrent(CUcontext *context) {
    *context = current;
    return CUDA_SUCCESS;
}

API cuCtxGetDevice(CUdevice *device) {
    NEEDS_CONTEXT;
    for (int i = 0; i < visible_count; i++)
        if (visible[i] == current->gpu)
            *device = i;
    return CUDA_SUCCESS;
}

/* --- Errors ---------------------------------------------------------------------------------- */

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain."},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {711, "CUDA_ERROR_TOO_MANY_PEERS", "peer mapping resources exhausted"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
};

static int error_index(CUresult error) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error)
            return (int)i;
    return -1;
}

API cuGetErrorName(CUresult error, const char **name) {
    const int index = error_index(error);
    *name = index < 0 ? NULL : errors[index].name;
    return index < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

API cuGetErrorString(CUresult error, const char **text) {
    const int index = error_index(error);
    *text = index < 0 ? NULL : errors[index].text;
    return index < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
