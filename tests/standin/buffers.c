/* Memory: of the GPUs, and of the host where it is registered. */
#include "driver.h"

#include <string.h>
#include <sys/mman.h>

#include "memory.h"

enum { SAMPLED_PAGES = 64 };

static size_t used[MAX_GPUS];

static void *map(size_t size, int flags) {
    void *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static size_t total_of(int gpu) {
    return has_fault("out_of_memory", gpu, -1) ? 1 << 20 : machine()->gpu[gpu].memory;
}

static CUresult add(void *base, size_t size, int place, bool registered) {
    return memory_add(base, size, place, registered) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    NEEDS_CONTEXT;
    REFUSED_IN_CAPTURE;
    const int gpu = current->gpu;
    if (!size)
        return CUDA_ERROR_INVALID_VALUE;
    void *memory = size > total_of(gpu) - used[gpu] ? NULL : map(size, MAP_NORESERVE);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    simulation_pass(__func__, machine()->allocation);
    used[gpu] += size;
    *address = (CUdeviceptr)memory;
    return add(memory, size, gpu, false);
}

API cuMemFree_v2(CUdeviceptr address) {
    NEEDS_CONTEXT;
    REFUSED_IN_CAPTURE;
    struct range *range = memory_find((void *)address);
    if (!range || range->base != (char *)address || range->place >= MAX_GPUS)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t size = range->size;
    simulation_lock();
    simulation_call(__func__);
    simulation_settle(range->place);
    simulation_work(machine()->release);
    simulation_unlock();
    used[range->place] -= size;
    memory_remove((void *)address);
    munmap((void *)address, size);
    return CUDA_SUCCESS;
}

API cuMemGetInfo_v2(size_t *free, size_t *total) {
    NEEDS_CONTEXT;
    *total = machine()->gpu[current->gpu].memory;
    *free = total_of(current->gpu) - used[current->gpu];
    return CUDA_SUCCESS;
}

/* The place that holds most of the sampled pages; negative when a page has none yet. */
static int place_of(const void *address, size_t size) {
    int nodes[SAMPLED_PAGES];
    int votes[MAX_NODES] = {0};
    const int count = memory_nodes(address, size, nodes, SAMPLED_PAGES);
    int best = 0;
    for (int i = 0; i < count; i++) {
        if (nodes[i] < 0 || nodes[i] >= MAX_NODES)
            return -1;
        if (++votes[nodes[i]] > votes[best])
            best = nodes[i];
    }
    return MAX_GPUS + best;
}

API cuMemHostRegister_v2(void *address, size_t size, unsigned flags) {
    NEEDS_CONTEXT;
    REFUSED_IN_CAPTURE;
    if (!address || !size || flags > 0xf)
        return CUDA_ERROR_INVALID_VALUE;
    if (memory_find(address) || memory_find((char *)address + size - 1))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    /* To pin a page that is not there yet brings it in, as the kernel does. */
    for (size_t at = 0; at < size; at += 4096)
        (void)((volatile char *)address)[at];
    const int place = place_of(address, size);
    simulation_pass(__func__, machine()->pin * (double)size);
    return place < 0 ? CUDA_ERROR_INVALID_VALUE : add(address, size, place, true);
}

API cuMemHostUnregister(void *address) {
    NEEDS_CONTEXT;
    struct range *range = memory_find(address);
    if (!range || !range->registered || range->base != address)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    simulation_pass(__func__, machine()->unpin * (double)range->size);
    memory_remove(address);
    return CUDA_SUCCESS;
}

API cuMemHostAlloc(void **address, size_t size, unsigned flags) {
    NEEDS_CONTEXT;
    REFUSED_IN_CAPTURE;
    if (!size || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    void *memory = map(size, 0);
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(memory, 0, size); /* first touch, under the caller's memory policy */
    simulation_pass(__func__, machine()->pin * (double)size);
    *address = memory;
    return add(memory, size, place_of(memory, size), true);
}

API cuMemFreeHost(void *address) {
    NEEDS_CONTEXT;
    struct range *range = memory_find(address);
    if (!range || range->base != address || range->place < MAX_GPUS)
        return CUDA_ERROR_INVALID_VALUE;
    const size_t size = range->size;
    simulation_pass(__func__, machine()->unpin * (double)size);
    memory_remove(address);
    munmap(address, size);
    return CUDA_SUCCESS;
}

API cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *address, unsigned flags) {
    NEEDS_CONTEXT;
    if (flags || !memory_find(address))
        return CUDA_ERROR_INVALID_VALUE;
    *device = (CUdeviceptr)address;
    return CUDA_SUCCESS;
}
