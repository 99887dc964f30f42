#define _GNU_SOURCE
#include "arena.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    ALIGNMENT = 2 << 20, /* a huge page; also apart from neighbours that have another policy */
    MASK_WORDS = NODE_LIMIT / (8 * sizeof(unsigned long)),
    MASK_BITS = NODE_LIMIT + 1, /* the kernel reads one bit fewer than it is told */
    CENSUS_BATCH = 512,
};

struct node_mask {
    unsigned long words[MASK_WORDS];
};

static size_t mapped_size(size_t size) { return (size + ALIGNMENT - 1) & ~((size_t)ALIGNMENT - 1); }

/* Behind an arena stays a page that nobody may touch: the kernel joins neighbours of one policy
 * into one mapping, and would tell of their pages only together (numa_maps, smaps). */
static size_t guard_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static int unmap(unsigned char *address, size_t size) {
    return munmap(address, mapped_size(size) + guard_size());
}

static unsigned char *map_aligned(size_t size) {
    unsigned char *wide =
        mmap(NULL, size + ALIGNMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wide == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)wide & (ALIGNMENT - 1);
    if (before)
        munmap(wide, before);
    size_t behind = ALIGNMENT - before - guard_size();
    if (behind)
        munmap(wide + before + size + guard_size(), behind);
    mprotect(wide + before + size, guard_size(), PROT_NONE);
    return wide + before;
}

static int mask_of(struct node_mask *mask, const int *nodes, size_t count) {
    const size_t bits = 8 * sizeof(unsigned long);
    memset(mask, 0, sizeof *mask);
    for (size_t i = 0; i < count; i++) {
        if (nodes[i] < 0 || nodes[i] >= NODE_LIMIT)
            return -EINVAL;
        mask->words[(size_t)nodes[i] / bits] |= 1UL << ((size_t)nodes[i] % bits);
    }
    return 0;
}

static int bind_pages(unsigned char *address, size_t size, int mode, const int *nodes,
                      size_t count) {
    struct node_mask asked;
    struct node_mask kept = {{0}};
    int rc = mask_of(&asked, nodes, count);
    if (rc)
        return rc;
    if (syscall(SYS_mbind, address, size, mode, &asked, MASK_BITS, 0))
        return -errno;
    /* A node without memory or outside the cpuset is dropped in silence when others remain. */
    if (syscall(SYS_get_mempolicy, NULL, &kept, MASK_BITS, address, MPOL_F_ADDR))
        return -errno;
    return memcmp(&asked, &kept, sizeof asked) ? -EINVAL : 0;
}

static int mode_of(enum placement placement) {
    return placement == PLACE_NONE   ? MPOL_DEFAULT
           : placement == PLACE_BIND ? MPOL_BIND
                                     : MPOL_INTERLEAVE;
}

int policy_set(enum placement placement, const int *nodes, size_t count) {
    struct node_mask mask;
    int rc = mask_of(&mask, nodes, count);
    if (rc || (placement == PLACE_NONE) != (count == 0))
        return rc ? rc : -EINVAL;
    return syscall(SYS_set_mempolicy, mode_of(placement), count ? &mask : NULL,
                   count ? MASK_BITS : 0)
               ? -errno
               : 0;
}

int arena_open(struct arena *arena, size_t size, int huge, enum placement placement,
               const int *nodes, size_t count) {
    if (size == 0 || (placement == PLACE_NONE) != (count == 0))
        return -EINVAL;
    if (size > SIZE_MAX - 2 * (size_t)ALIGNMENT)
        return -ENOMEM;
    unsigned char *address = map_aligned(mapped_size(size));
    if (!address)
        return -ENOMEM;
    /* Only advice, and unknown to a kernel without huge pages: which page size came of it is asked
     * of the kernel after the first touch. */
    madvise(address, mapped_size(size), huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    int rc = 0;
    if (placement != PLACE_NONE)
        rc = bind_pages(address, mapped_size(size), mode_of(placement), nodes, count);
    if (rc) {
        unmap(address, size);
        return rc;
    }
    *arena = (struct arena){.address = address, .size = size};
    return 0;
}

int arena_close(struct arena *arena) {
    if (arena->address && unmap(arena->address, arena->size))
        return -errno;
    *arena = (struct arena){0};
    return 0;
}

int arena_census(const struct arena *arena, size_t offset, size_t length, size_t step,
                 uint64_t pages[CENSUS_STATES]) {
    void *addresses[CENSUS_BATCH];
    int status[CENSUS_BATCH];
    if (offset > arena->size || length > arena->size - offset || step == 0)
        return -EINVAL;
    unsigned char *at = arena->address + offset;
    for (size_t left = length ? (length - 1) / step + 1 : 0; left > 0;) {
        size_t batch = left < CENSUS_BATCH ? left : CENSUS_BATCH;
        for (size_t i = 0; i < batch; i++)
            addresses[i] = at + i * step;
        if (syscall(SYS_move_pages, 0, batch, addresses, NULL, status, 0) < 0)
            return -errno;
        for (size_t i = 0; i < batch; i++) {
            if (status[i] <= -ERRNO_LIMIT || status[i] >= NODE_LIMIT)
                return -ERANGE;
            pages[ERRNO_LIMIT + status[i]]++;
        }
        at += batch * step;
        left -= batch;
    }
    return 0;
}
