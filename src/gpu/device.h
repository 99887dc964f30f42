/* The GPUs that the driver shows to this process, by their ordinal. */
#ifndef NUMAMICRO_GPU_DEVICE_H
#define NUMAMICRO_GPU_DEVICE_H

#include "driver.h"

struct device_facts {
    char name[128];
    char pci[32];
    unsigned char uuid[16];
    size_t memory;
    int capability_major, capability_minor;
    int processors; /* streaming multiprocessors */
    int l2_bytes;
    int copy_engines;
    int time_limit; /* kernels are ended after a while, for a display hangs on it */
    int integrated;
    int compute_mode;
    int host_node; /* -1: unknown */
};

struct peer_facts {
    int access;  /* the driver claims that `source` may address the memory of `target` */
    int atomics; /* and do arithmetic there */
};

/* Starts the driver and counts. */
int device_count(const struct driver *driver, int *version, int *count);

int device_facts(const struct driver *driver, int ordinal, struct device_facts *facts);

int device_peer(const struct driver *driver, int source, int target, struct peer_facts *facts);

/* The context is the device's primary one, shared with whatever else in the process uses it. */
int context_open(const struct driver *driver, int ordinal, cu_context *context);
int context_close(const struct driver *driver, int ordinal);

/* Lets `context` address the memory of `peer`, or no longer. Asking twice is no error. */
int context_reach(const struct driver *driver, cu_context context, cu_context peer, int on);

#endif
