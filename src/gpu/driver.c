#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LEGACY_STREAM = 1 };

typedef int finder(const char *name, void **address, int version, uint64_t flags, int *found);
/* Before 12.0 it fails where its successor tells by the last parameter. */
typedef int old_finder(const char *name, void **address, int version, uint64_t flags);

struct lookup {
    finder *find;
    old_finder *find_old;
};

/* ISO C has no conversion from an object's address to a function's. */
static void take_address(void *function, void *address) {
    memcpy(function, &address, sizeof address);
}

static int find(const struct lookup *lookup, const char *name, int version, void *function) {
    void *address = NULL;
    int found = 0;
    int rc = lookup->find ? lookup->find(name, &address, version, LEGACY_STREAM, &found)
                          : lookup->find_old(name, &address, version, LEGACY_STREAM);
    take_address(function, address);
    return rc || !address; /* the newer one may tell of success and give no address */
}

static int fill_table(struct driver *driver, char *why) {
    struct lookup lookup;
    take_address(&lookup.find, dlsym(driver->library, "cuGetProcAddress_v2"));
    take_address(&lookup.find_old, dlsym(driver->library, "cuGetProcAddress"));
    if (!lookup.find && !lookup.find_old) {
        snprintf(why, DRIVER_WHY, "it has no cuGetProcAddress: older than CUDA 11.3");
        return -ELIBBAD;
    }
#define FIND(name, version, parameters)                                                            \
    if (find(&lookup, #name, version, &driver->name)) {                                            \
        snprintf(why, DRIVER_WHY, "it has no %s of CUDA %d.%d", #name, version / 1000,             \
                 version % 1000 / 10);                                                             \
        return -ELIBBAD;                                                                           \
    }
    DRIVER_API(FIND)
#undef FIND
    return 0;
}

int driver_open(struct driver *driver, const char *library, char why[DRIVER_WHY]) {
    *driver = (struct driver){.library = dlopen(library, RTLD_NOW | RTLD_LOCAL)};
    if (!driver->library) {
        snprintf(why, DRIVER_WHY, "%s", dlerror());
        return -ENOENT;
    }
    const char *(*simulation)(void);
    take_address(&simulation, dlsym(driver->library, "numamicro_simulation"));
    driver->simulation = simulation ? simulation() : NULL;
    int rc = fill_table(driver, why);
    if (rc)
        dlclose(driver->library);
    return rc;
}
