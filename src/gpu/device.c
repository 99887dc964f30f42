#include "device.h"

enum attribute {
    PROCESSORS = 16,
    TIME_LIMIT = 17,
    INTEGRATED = 18,
    COMPUTE_MODE = 20,
    L2_BYTES = 38,
    COPY_ENGINES = 40,
    CAPABILITY_MAJOR = 75,
    CAPABILITY_MINOR = 76,
    HOST_NODE = 134,
};

enum peer_attribute { PEER_ATOMICS = 3 };

int device_count(const struct driver *driver, int *version, int *count) {
    int rc = driver->cuInit(0);
    if (!rc)
        rc = driver->cuDriverGetVersion(version);
    return rc ? rc : driver->cuDeviceGetCount(count);
}

/* What a driver does not know is left at `unknown`: older ones lack the newer attributes. */
static int attribute(const struct driver *driver, cu_device device, enum attribute which,
                     int unknown) {
    int value;
    return driver->cuDeviceGetAttribute(&value, which, device) ? unknown : value;
}

int device_facts(const struct driver *driver, int ordinal, struct device_facts *facts) {
    cu_device device;
    cu_uuid uuid;
    *facts = (struct device_facts){0};
    int rc = driver->cuDeviceGet(&device, ordinal);
    if (!rc)
        rc = driver->cuDeviceGetName(facts->name, sizeof facts->name, device);
    if (!rc)
        rc = driver->cuDeviceGetPCIBusId(facts->pci, sizeof facts->pci, device);
    if (!rc)
        rc = driver->cuDeviceGetUuid(&uuid, device);
    if (!rc)
        rc = driver->cuDeviceTotalMem(&facts->memory, device);
    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof uuid.bytes; i++)
        facts->uuid[i] = uuid.bytes[i];
    facts->capability_major = attribute(driver, device, CAPABILITY_MAJOR, 0);
    facts->capability_minor = attribute(driver, device, CAPABILITY_MINOR, 0);
    facts->processors = attribute(driver, device, PROCESSORS, 0);
    facts->l2_bytes = attribute(driver, device, L2_BYTES, 0);
    facts->copy_engines = attribute(driver, device, COPY_ENGINES, 0);
    facts->time_limit = attribute(driver, device, TIME_LIMIT, 0);
    facts->integrated = attribute(driver, device, INTEGRATED, 0);
    facts->compute_mode = attribute(driver, device, COMPUTE_MODE, 0);
    facts->host_node = attribute(driver, device, HOST_NODE, -1);
    return 0;
}

int device_peer(const struct driver *driver, int source, int target, struct peer_facts *facts) {
    cu_device from, to;
    *facts = (struct peer_facts){0};
    int rc = driver->cuDeviceGet(&from, source);
    if (!rc)
        rc = driver->cuDeviceGet(&to, target);
    if (!rc)
        rc = driver->cuDeviceCanAccessPeer(&facts->access, from, to);
    if (rc || driver->cuDeviceGetP2PAttribute(&facts->atomics, PEER_ATOMICS, from, to))
        facts->atomics = 0;
    return rc;
}

int context_open(const struct driver *driver, int ordinal, cu_context *context) {
    cu_device device;
    int rc = driver->cuDeviceGet(&device, ordinal);
    return rc ? rc : driver->cuDevicePrimaryCtxRetain(context, device);
}

int context_close(const struct driver *driver, int ordinal) {
    cu_device device;
    int rc = driver->cuDeviceGet(&device, ordinal);
    return rc ? rc : driver->cuDevicePrimaryCtxRelease(device);
}

int context_reach(const struct driver *driver, cu_context context, cu_context peer, int on) {
    int rc = driver->cuCtxSetCurrent(context);
    if (rc)
        return rc;
    rc = on ? driver->cuCtxEnablePeerAccess(peer, 0) : driver->cuCtxDisablePeerAccess(peer);
    return rc == (on ? CU_PEER_ACCESS_ALREADY_ENABLED : CU_PEER_ACCESS_NOT_ENABLED) ? 0 : rc;
}
