/* chase CPU BYTES STEPS huge|small: how long a load takes that waits for the one before.
 *
 * One Sattolo cycle through every 64-byte line of a buffer; its links are byte offsets. */
#define _GNU_SOURCE
#include "memory.h"

enum { LINE_BYTES = 64, WARM_UP = 1 << 20 };

static uint64_t state = 88172645463325252;

static uint64_t below(uint64_t limit) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint64_t)((unsigned __int128)state * limit >> 64);
}

/* Sattolo: swapping with a strictly lower element leaves a single cycle. */
static void link_lines(char *buffer, uint64_t lines) {
    uint32_t *next = map_pages(lines * sizeof *next, "huge");
    for (uint64_t i = 0; i < lines; i++)
        next[i] = (uint32_t)i;
    for (uint64_t i = lines - 1; i > 0; i--) {
        uint64_t other = below(i);
        uint32_t kept = next[i];
        next[i] = next[other];
        next[other] = kept;
    }
    memset(buffer, 0xa5, lines * LINE_BYTES);
    for (uint64_t i = 0; i < lines; i++)
        *(uint64_t *)(buffer + i * LINE_BYTES) = (uint64_t)next[i] * LINE_BYTES;
    if (munmap(next, lines * sizeof *next))
        die("munmap");
}

static uint64_t walk(const char *buffer, uint64_t at, uint64_t steps) {
    while (steps--)
        at = *(const volatile uint64_t *)(buffer + at);
    return at;
}

int main(int count, char **words) {
    if (count != 5)
        return fputs("usage: chase CPU BYTES STEPS huge|small\n", stderr), 2;
    uint64_t lines = strtoull(words[2], NULL, 10) / LINE_BYTES;
    uint64_t steps = strtoull(words[3], NULL, 10);
    if (lines < 2 || lines > UINT32_MAX)
        return fputs("chase: BYTES must hold 2 to 2^32 - 1 lines\n", stderr), 2;
    pin_to(atoi(words[1]));
    char *buffer = map_pages(lines * LINE_BYTES, words[4]);
    link_lines(buffer, lines);
    uint64_t start = walk(buffer, 0, WARM_UP);
    double begun = seconds_now();
    uint64_t end = walk(buffer, start, steps);
    double seconds = seconds_now() - begun;
    printf("{\"steps\": %llu, \"seconds\": %.9f, \"lines\": %llu, \"start\": %llu, \"end\": %llu, "
           "\"huge_bytes\": %llu}\n",
           (unsigned long long)steps, seconds, (unsigned long long)lines, (unsigned long long)start,
           (unsigned long long)end, huge_bytes());
    return 0;
}
