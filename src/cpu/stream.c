#include "stream.h"

#include "slice.h"
#include "stream_families.h"

#include <string.h>

static const struct kernel_family *const families[] = {
    &family_avx512, &family_avx2, &family_sse2, &family_neon, &family_portable,
};

const struct kernel *stream_kernel(size_t index) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t count = families[i]->count && families[i]->supported() ? families[i]->count : 0;
        if (index < count)
            return &families[i]->kernels[index];
        index -= count;
    }
    return NULL;
}

static const struct kernel *kernel_named(const char *name) {
    const struct kernel *kernel;
    for (size_t i = 0; (kernel = stream_kernel(i)); i++) {
        if (strcmp(kernel->name, name) == 0)
            return kernel;
    }
    return NULL;
}

struct read_job {
    const unsigned char *buffer;
    size_t length;
    stream_pass *pass;
    uint64_t repetitions;
};

static uint64_t read_slice(void *argument, size_t rank, size_t size) {
    const struct read_job *job = argument;
    struct slice slice = slice_of(job->length, rank, size);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < job->repetitions; i++)
        sum += job->pass(job->buffer + slice.offset, slice.bytes);
    return sum;
}

int stream_read(struct team *team, const struct arena *arena, size_t length, const char *name,
                uint64_t repetitions, struct stream_result *result) {
    const struct kernel *kernel = kernel_named(name);
    int rc = kernel ? check_slices(team, arena, length) : -ENOTSUP;
    if (rc)
        return rc;
    struct read_job job = {arena->address, length, kernel->pass, repetitions};
    struct window window;
    rc = team_run(team, read_slice, &job, &window);
    if (!rc)
        *result = (struct stream_result){window.elapsed_ns, length * repetitions, window.sum,
                                         window.strays};
    return rc;
}
