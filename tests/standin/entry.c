/* cuGetProcAddress: the newest variant of an entry point that is not above the version asked for.
 */
#include "driver.h"

#include <dlfcn.h>
#include <string.h>

/* Where a later version changed the parameters or the meaning, and what that variant is called. */
static const struct {
    const char *name;
    int version;
    const char *symbol;
} variants[] = {
    {"cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"},
    {"cuDeviceTotalMem", 3020, "cuDeviceTotalMem_v2"},
    {"cuDevicePrimaryCtxRelease", 11000, "cuDevicePrimaryCtxRelease_v2"},
    {"cuDevicePrimaryCtxSetFlags", 11000, "cuDevicePrimaryCtxSetFlags_v2"},
    {"cuMemAlloc", 3020, "cuMemAlloc_v2"},
    {"cuMemFree", 3020, "cuMemFree_v2"},
    {"cuMemGetInfo", 3020, "cuMemGetInfo_v2"},
    {"cuMemHostRegister", 6050, "cuMemHostRegister_v2"},
    {"cuMemHostGetDevicePointer", 3020, "cuMemHostGetDevicePointer_v2"},
    {"cuMemcpyHtoDAsync", 3020, "cuMemcpyHtoDAsync_v2"},
    {"cuMemcpyDtoHAsync", 3020, "cuMemcpyDtoHAsync_v2"},
    {"cuMemcpyDtoDAsync", 3020, "cuMemcpyDtoDAsync_v2"},
    {"cuStreamDestroy", 4000, "cuStreamDestroy_v2"},
    {"cuEventDestroy", 4000, "cuEventDestroy_v2"},
    {"cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"},
};

enum { FOUND = 0, NOT_FOUND = 1, VERSION_TOO_LOW = 2, OLD_DRIVER = 11040 };

static void *symbol_of(const char *name) {
    Dl_info own;
    dladdr((void *)(uintptr_t)cuInit, &own);
    void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

static void *find(const char *name, int version, int *status) {
    /* An old driver does not know what came later. */
    if (has_fault("driver_too_old", -1, -1) && version >= OLD_DRIVER) {
        *status = NOT_FOUND;
        return NULL;
    }
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (!strcmp(variants[i].name, name)) {
            *status = version < variants[i].version ? VERSION_TOO_LOW : FOUND;
            return *status ? NULL : symbol_of(variants[i].symbol);
        }
    void *found = symbol_of(name);
    *status = found ? FOUND : NOT_FOUND;
    return found;
}

/* Says success with a null pointer where there is nothing, as the driver does. */
API cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags,
                        int *status) {
    int found;
    (void)flags;
    *address = find(name, version, status ? status : &found);
    return CUDA_SUCCESS;
}
