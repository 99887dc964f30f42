/* Preloaded into a peer: what it takes by posix_memalign it gets in huge pages, at the address that
 * it would have had. likwid-bench asks for none; so its loops can be compared on equal pages. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>

enum { PAGE_BYTES = 4096, LEAST_BYTES = 4 << 20 };

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    char *taken = memalign(alignment, bytes);
    if (!taken)
        return ENOMEM;
    char *first = (char *)(((uintptr_t)taken + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1));
    if (bytes >= LEAST_BYTES && madvise(first, bytes - PAGE_BYTES, MADV_HUGEPAGE))
        return EINVAL;
    *memory = taken;
    return 0;
}
