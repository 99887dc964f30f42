/* The simulated machine, read once from the file that NUMAMICRO_STANDIN names; see machine.c. */
#ifndef STANDIN_MACHINE_H
#define STANDIN_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* A place is a GPU, or MAX_GPUS + the os index of a node. */
enum {
    MAX_GPUS = 16,
    MAX_NODES = 16,
    PLACES = MAX_GPUS + MAX_NODES,
    MAX_RESOURCES = 256,
    MAX_FAULTS = 32,
    ROUTE_LENGTH = 8,
    WORD = 96,
};

struct resource {
    char name[WORD];
    double rate; /* bytes per second, shared by all that pass it */
};

/* A way of data. `rate` is the least of what it passes. */
struct route {
    bool known;
    double latency, rate;
    int length;
    int over[ROUTE_LENGTH]; /* indices of resources */
};

struct gpu {
    char name[WORD], uuid[WORD], pci[WORD];
    int capability;  /* 90 for sm_90 */
    int node;        /* the host's node near it */
    int memory_node; /* the node that its own memory is; -1: none */
    int processors, display, compute_mode;
    int generation, width;                 /* of the PCIe link, at most */
    int trained_generation, trained_width; /* what it reaches under load */
    int switch_links;                      /* NVLinks to a switch that all GPUs share */
    int nvlinks[MAX_GPUS];                 /* to each other GPU */
    int levels[MAX_GPUS];                  /* NVML's topology level to each other GPU */
    size_t memory, bar1;
};

struct fault {
    char name[WORD];
    int gpu, peer; /* -1: any */
};

struct machine {
    char name[WORD], driver_text[WORD];
    int driver;
    double call, launch, graph_node, copy, tick, pageable;
    double context, module, allocation, release, pin, unpin, peer, instance; /* see machines.py */
    int gpus;
    struct gpu gpu[MAX_GPUS];
    int resources;
    struct resource resource[MAX_RESOURCES];
    struct route read[MAX_GPUS][PLACES];  /* data come to the GPU */
    struct route write[MAX_GPUS][PLACES]; /* data leave it */
    int faults;
    struct fault fault[MAX_FAULTS];
};

/* The machine; ends the process with a sentence when the file is no good. */
const struct machine *machine(void);

/* Whether a fault holds between two GPUs, or for one (peer -1). */
bool has_fault(const char *name, int gpu, int peer);

/* Peer access that the driver claims. */
bool may_access(int gpu, int peer);

#endif
