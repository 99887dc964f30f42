/* What the simulated GPUs can reach: their own memory, and host memory that was registered. */
#ifndef STANDIN_MEMORY_H
#define STANDIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct range {
    char *base;
    size_t size;
    int place;        /* see machine.h */
    bool registered;  /* by the host, rather than allocated here */
    double *arrivals; /* for each 8 bytes: when a flag stored there arrives; 4 generations each */
    char *reflection; /* what a peer sees and writes where the link only mirrors */
    struct range *next;
};

/* Adds memory that is mapped already; NULL when there is no room for its shadow. */
struct range *memory_add(void *base, size_t size, int place, bool registered);
/* Forgets a range that begins here; false when there is none. */
bool memory_remove(void *base);
struct range *memory_find(const void *address);
/* The range that holds all of it, else NULL. */
struct range *memory_holding(const void *address, size_t size);
/* Where an access by a GPU to a range really goes, which a faulty link changes. */
void *memory_through(int gpu, struct range *range, const void *address, bool writes);
/* Whether a GPU may touch a range; of its peers' memory, only where access is enabled. */
bool memory_reachable(int gpu, const struct range *range);
/* The peers whose memory each GPU has access to, as a mask. */
extern unsigned memory_peers[];

/* The node of each of up to `most` pages spread evenly over it; how many were asked. Negative: an
 * errno, the page was never touched for example. */
int memory_nodes(const void *address, size_t size, int *nodes, int most);

#endif
