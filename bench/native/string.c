/* string LOOP CPU,CPU,... BYTES PASSES huge|small: the C library's memset and memcpy, which choose
 * their stores by size, and the string instructions of x86. */
#define _GNU_SOURCE
#include "loops.h"

enum { BYTE = 0x5a };

static uint64_t set(struct part part) {
    memset(part.to, BYTE, part.count * sizeof(double));
    return 0;
}

static uint64_t copy(struct part part) {
    memcpy(part.to, part.from[0], part.count * sizeof(double));
    return 0;
}

static int is_set(struct part part, uint64_t sum) {
    const unsigned char *bytes = (const unsigned char *)part.to;
    size_t same = 0;
    for (size_t i = 0; i < part.count * sizeof(double); i++)
        same += bytes[i] == BYTE;
    return same == part.count * sizeof(double) && sum == 0;
}

static int is_copied(struct part part, uint64_t sum) {
    return memcmp(part.to, part.from[0], part.count * sizeof(double)) == 0 && sum == 0;
}

#ifdef __x86_64__
static uint64_t rep_stosb(struct part part) {
    void *to = part.to;
    size_t left = part.count * sizeof(double);
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(left) : "a"(BYTE) : "memory");
    return 0;
}

static uint64_t rep_movsb(struct part part) {
    void *to = part.to;
    const void *from = part.from[0];
    size_t left = part.count * sizeof(double);
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
    return 0;
}
#endif

static const struct loop loops[] = {
    {"memset", 1, set, is_set},
    {"memcpy", 2, copy, is_copied},
#ifdef __x86_64__
    {"stosb", 1, rep_stosb, is_set},
    {"movsb", 2, rep_movsb, is_copied},
#endif
};

int main(int count, char **words) {
    return main_of(loops, sizeof loops / sizeof *loops, count, words);
}
