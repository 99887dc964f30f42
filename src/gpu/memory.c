#include "memory.h"

enum {
    REGISTER_PORTABLE = 1,
    REGISTER_MAPPED = 2,
    HOST_PORTABLE = 1,
    HOST_MAPPED = 2,
    HOST_WRITE_COMBINED = 4,
};

int memory_free_bytes(const struct driver *driver, cu_context context, size_t *bytes) {
    size_t total;
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuMemGetInfo(bytes, &total);
}

int memory_alloc(const struct driver *driver, cu_context context, size_t bytes,
                 cu_address *address) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuMemAlloc(address, bytes);
}

int memory_free(const struct driver *driver, cu_context context, cu_address address) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuMemFree(address);
}

int memory_register(const struct driver *driver, cu_context context, void *address, size_t bytes,
                    cu_address *device) {
    int rc = driver->cuCtxSetCurrent(context);
    if (!rc)
        rc = driver->cuMemHostRegister(address, bytes, REGISTER_PORTABLE | REGISTER_MAPPED);
    if (rc)
        return rc;
    rc = driver->cuMemHostGetDevicePointer(device, address, 0);
    if (rc)
        driver->cuMemHostUnregister(address);
    return rc;
}

int memory_unregister(const struct driver *driver, cu_context context, void *address) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuMemHostUnregister(address);
}

int memory_host_alloc(const struct driver *driver, cu_context context, size_t bytes,
                      int write_combined, void **address, cu_address *device) {
    unsigned flags = HOST_PORTABLE | HOST_MAPPED | (write_combined ? HOST_WRITE_COMBINED : 0);
    int rc = driver->cuCtxSetCurrent(context);
    if (!rc)
        rc = driver->cuMemHostAlloc(address, bytes, flags);
    if (rc)
        return rc;
    rc = driver->cuMemHostGetDevicePointer(device, *address, 0);
    if (rc)
        driver->cuMemFreeHost(*address);
    return rc;
}

int memory_host_free(const struct driver *driver, cu_context context, void *address) {
    int rc = driver->cuCtxSetCurrent(context);
    return rc ? rc : driver->cuMemFreeHost(address);
}
