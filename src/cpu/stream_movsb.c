#include "stream_inside.h"

#ifdef __x86_64__

#include <cpuid.h>

/* The microcode's own copy loop; for long copies it writes lines without fetching them first. */
static uint64_t copy_movsb(const struct operands *o) {
    void *to = o->to;
    const void *from = o->from[0];
    size_t left = o->bytes;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
    return 0;
}

static const struct kernel kernels[] = {
    {"copy-movsb-erms", "erms", 1, 1, 1, 2, copy_movsb},
};

/* Without "enhanced rep movsb" it works too, byte by byte. */
static int supported(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx >> 9 & 1);
}

const struct kernel_family family_movsb = {kernels, sizeof kernels / sizeof *kernels, supported};

#else

const struct kernel_family family_movsb = {0};

#endif
