/* Stand-in for NVML: what the machine file says, in the order of the PCI addresses, whatever
 * CUDA_VISIBLE_DEVICES hides. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "machine.h"

enum nvml {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    VERSION_MISMATCH = 18,
};
enum p2p_status { P2P_OK = 0, P2P_NOT_SUPPORTED = 5 };
enum { IDLE_GENERATION = 1 };

typedef const struct gpu *device_t;

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem_ids;
    char bus_id[32];
};
struct memory_info {
    unsigned long long total, free, used;
};

#define API __attribute__((visibility("default"))) enum nvml

static int index_of(device_t device) { return (int)(device - machine()->gpu); }

static bool has(const char *fault, device_t device) {
    return has_fault(fault, index_of(device), -1);
}

/* --- The library ----------------------------------------------------------------------------- */

API nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return has_fault("nvml_mismatch", -1, -1) ? VERSION_MISMATCH : SUCCESS;
}

API nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

API nvmlShutdown(void) { return SUCCESS; }

__attribute__((visibility("default"))) const char *nvmlErrorString(enum nvml error) {
    return error == VERSION_MISMATCH ? "Driver/library version mismatch" : "Error";
}

API nvmlSystemGetDriverVersion(char *text, unsigned size) {
    snprintf(text, size, "%s", machine()->driver_text);
    return SUCCESS;
}

API nvmlSystemGetCudaDriverVersion(int *version) {
    *version = machine()->driver;
    return SUCCESS;
}

/* --- Devices --------------------------------------------------------------------------------- */

API nvmlDeviceGetCount_v2(unsigned *count) {
    *count = (unsigned)machine()->gpus;
    return SUCCESS;
}

API nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    const struct machine *m = machine();
    for (int g = 0; g < m->gpus; g++) {
        unsigned before = 0;
        for (int other = 0; other < m->gpus; other++)
            before += strcmp(m->gpu[other].pci, m->gpu[g].pci) < 0;
        if (before == index) {
            *device = &m->gpu[g];
            return SUCCESS;
        }
    }
    return INVALID_ARGUMENT;
}

API nvmlDeviceGetHandleByPciBusId_v2(const char *id, device_t *device) {
    for (int g = 0; g < machine()->gpus; g++) {
        const char *pci = machine()->gpu[g].pci;
        const size_t skipped = strlen(id) > strlen(pci) ? strlen(id) - strlen(pci) : 0;
        if (!strcasecmp(pci, id + skipped)) {
            *device = &machine()->gpu[g];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

API nvmlDeviceGetUUID(device_t device, char *text, unsigned size) {
    snprintf(text, size, "GPU-%s", device->uuid);
    return SUCCESS;
}

API nvmlDeviceGetHandleByUUID(const char *uuid, device_t *device) {
    for (int g = 0; g < machine()->gpus; g++) {
        char own[WORD + 8];
        nvmlDeviceGetUUID(&machine()->gpu[g], own, sizeof own);
        if (!strcmp(own, uuid)) {
            *device = &machine()->gpu[g];
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}

API nvmlDeviceGetName(device_t device, char *text, unsigned size) {
    snprintf(text, size, "%s", device->name);
    return SUCCESS;
}

static struct pci_info pci_of(const char *address) {
    struct pci_info info = {.ids = 0x233010de};
    sscanf(address, "%x:%x:%x", &info.domain, &info.bus, &info.device);
    snprintf(info.legacy, sizeof info.legacy, "%s", address);
    snprintf(info.bus_id, sizeof info.bus_id, "%08X:%02X:%02X.0", info.domain, info.bus,
             info.device);
    return info;
}

API nvmlDeviceGetPciInfo_v3(device_t device, struct pci_info *info) {
    *info = pci_of(device->pci);
    return SUCCESS;
}

API nvmlDeviceGetMemoryInfo(device_t device, struct memory_info *info) {
    *info = (struct memory_info){.total = device->memory, .free = device->memory};
    return SUCCESS;
}

API nvmlDeviceGetBAR1MemoryInfo(device_t device, struct memory_info *info) {
    *info = (struct memory_info){.total = device->bar1, .free = device->bar1};
    return device->bar1 ? SUCCESS : NOT_SUPPORTED;
}

API nvmlDeviceGetComputeMode(device_t device, int *mode) {
    *mode = device->compute_mode;
    return SUCCESS;
}

API nvmlDeviceGetDisplayMode(device_t device, int *mode) {
    *mode = device->display;
    return SUCCESS;
}

API nvmlDeviceGetDisplayActive(device_t device, int *mode) {
    *mode = device->display;
    return SUCCESS;
}

API nvmlDeviceGetMigMode(device_t device, unsigned *now, unsigned *pending) {
    if (device->capability < 80)
        return NOT_SUPPORTED;
    *now = *pending = has("mig", device);
    return SUCCESS;
}

/* --- Where it is ----------------------------------------------------------------------------- */

API nvmlDeviceGetNumaNodeId(device_t device, int *node) {
    *node = device->memory_node;
    return device->memory_node < 0 ? NOT_SUPPORTED : SUCCESS;
}

API nvmlDeviceGetMemoryAffinity(device_t device, unsigned words, unsigned long *nodes,
                                unsigned scope) {
    (void)scope;
    if (has("no_host_node", device))
        return NOT_SUPPORTED;
    if (!words)
        return INVALID_ARGUMENT;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[0] = 1UL << device->node;
    return SUCCESS;
}

API nvmlDeviceGetMaxPcieLinkGeneration(device_t device, unsigned *generation) {
    *generation = (unsigned)device->generation;
    return SUCCESS;
}

API nvmlDeviceGetMaxPcieLinkWidth(device_t device, unsigned *width) {
    *width = (unsigned)device->width;
    return SUCCESS;
}

/* Whether this process' driver has work for it, which wakes the link. */
static bool is_busy(device_t device) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    int (*busy)(int) = NULL;
    if (driver)
        *(void **)&busy = dlsym(driver, "numamicro_simulation_busy");
    return busy && busy(index_of(device));
}

API nvmlDeviceGetCurrPcieLinkGeneration(device_t device, unsigned *generation) {
    *generation = is_busy(device) ? (unsigned)device->trained_generation : IDLE_GENERATION;
    return SUCCESS;
}

API nvmlDeviceGetCurrPcieLinkWidth(device_t device, unsigned *width) {
    *width = (unsigned)device->trained_width;
    return SUCCESS;
}

/* --- Pairs ----------------------------------------------------------------------------------- */

API nvmlDeviceGetTopologyCommonAncestor(device_t device, device_t other, unsigned *level) {
    *level = (unsigned)device->levels[index_of(other)];
    return SUCCESS;
}

API nvmlDeviceGetP2PStatus(device_t device, device_t other, unsigned capability,
                           enum p2p_status *status) {
    if (capability > 4)
        return INVALID_ARGUMENT;
    const bool claimed =
        may_access(index_of(device), index_of(other)) && !has("mig", device) && !has("mig", other);
    *status = claimed ? P2P_OK : P2P_NOT_SUPPORTED;
    return SUCCESS;
}

/* The PCI address at the other end of an NVLink; NULL when there is no such link. */
static const char *remote(device_t device, unsigned link) {
    if (device->switch_links)
        return link < (unsigned)device->switch_links ? "0000:c5:00.0" : NULL;
    for (int peer = 0; peer < machine()->gpus; peer++) {
        const unsigned links = (unsigned)device->nvlinks[peer];
        if (link < links)
            return machine()->gpu[peer].pci;
        link -= links;
    }
    return NULL;
}

API nvmlDeviceGetNvLinkState(device_t device, unsigned link, unsigned *active) {
    *active = remote(device, link) != NULL;
    return *active ? SUCCESS : NOT_SUPPORTED;
}

API nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t device, unsigned link, struct pci_info *info) {
    const char *address = remote(device, link);
    if (!address)
        return NOT_SUPPORTED;
    *info = pci_of(address);
    return SUCCESS;
}
