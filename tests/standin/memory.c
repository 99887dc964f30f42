#include "memory.h"

#include "machine.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, MARGIN = 256 };

unsigned memory_peers[MAX_GPUS];

static struct range *ranges;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void *map_shadow(size_t size) {
    void *shadow = mmap(NULL, size + MARGIN, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return shadow == MAP_FAILED ? NULL : shadow;
}

struct range *memory_add(void *base, size_t size, int place, bool registered) {
    struct range *range = malloc(sizeof *range);
    double *arrivals = map_shadow(size);
    char *reflection = map_shadow(size);
    if (!range || !arrivals || !reflection)
        return NULL;
    *range = (struct range){base, size, place, registered, arrivals, reflection, NULL};
    pthread_rwlock_wrlock(&lock);
    range->next = ranges;
    ranges = range;
    pthread_rwlock_unlock(&lock);
    return range;
}

bool memory_remove(void *base) {
    struct range *found = NULL;
    pthread_rwlock_wrlock(&lock);
    for (struct range **at = &ranges; *at && !found; at = found ? at : &(*at)->next)
        if ((*at)->base == base) {
            found = *at;
            *at = found->next;
        }
    pthread_rwlock_unlock(&lock);
    if (!found)
        return false;
    munmap(found->arrivals, found->size + MARGIN);
    munmap(found->reflection, found->size + MARGIN);
    free(found);
    return true;
}

struct range *memory_find(const void *address) {
    const char *at = address;
    struct range *found = NULL;
    pthread_rwlock_rdlock(&lock);
    for (struct range *range = ranges; range && !found; range = range->next)
        if (at >= range->base && at < range->base + range->size)
            found = range;
    pthread_rwlock_unlock(&lock);
    return found;
}

struct range *memory_holding(const void *address, size_t size) {
    struct range *range = memory_find(address);
    const char *at = address;
    return range && size <= (size_t)(range->base + range->size - at) ? range : NULL;
}

bool memory_reachable(int gpu, const struct range *range) {
    return range->place >= MAX_GPUS || range->place == gpu || memory_peers[gpu] >> range->place & 1;
}

void *memory_through(int gpu, struct range *range, const void *address, bool writes) {
    const bool peer = range->place < MAX_GPUS && range->place != gpu;
    if (peer && has_fault("p2p_hang", gpu, range->place))
        for (;;)
            pause();
    const bool mirrors = peer && has_fault("p2p_mirror", gpu, range->place);
    const bool drops = peer && writes && has_fault("p2p_drop", gpu, range->place);
    if (mirrors || drops) /* what is dropped lands where nobody looks */
        return range->reflection + ((const char *)address - range->base);
    return (void *)(uintptr_t)address;
}

int memory_nodes(const void *address, size_t size, int *nodes, int most) {
    const uintptr_t first = (uintptr_t)address / PAGE;
    const uintptr_t pages = ((uintptr_t)address + size - 1) / PAGE - first + 1;
    const int count = pages < (uintptr_t)most ? (int)pages : most;
    void *asked[count];
    for (int i = 0; i < count; i++) {
        asked[i] = (void *)((first + pages * (uintptr_t)i / (uintptr_t)count) * PAGE);
        nodes[i] = -1;
    }
    syscall(SYS_move_pages, 0, (unsigned long)count, asked, NULL, nodes, 0);
    return count;
}
