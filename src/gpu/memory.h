/* Memory of a device, and host memory that a device may address. */
#ifndef NUMAMICRO_GPU_MEMORY_H
#define NUMAMICRO_GPU_MEMORY_H

#include "driver.h"

int memory_free_bytes(const struct driver *driver, cu_context context, size_t *bytes);

int memory_alloc(const struct driver *driver, cu_context context, size_t bytes,
                 cu_address *address);
int memory_free(const struct driver *driver, cu_context context, cu_address address);

/* Pins pages that are there already; every context may then address them, by `device`. */
int memory_register(const struct driver *driver, cu_context context, void *address, size_t bytes,
                    cu_address *device);
int memory_unregister(const struct driver *driver, cu_context context, void *address);

/* Pinned memory of the driver's own making, where the calling thread's policy puts it. */
int memory_host_alloc(const struct driver *driver, cu_context context, size_t bytes,
                      int write_combined, void **address, cu_address *device);
int memory_host_free(const struct driver *driver, cu_context context, void *address);

#endif
