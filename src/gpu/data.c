#include "data.h"

#include "mix.h"

#include <string.h>

void pattern_write(void *address, size_t bytes, uint64_t seed, size_t begin) {
    uint64_t *words = address;
    const size_t first = begin / sizeof *words;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = mix(seed, first + i);
}

size_t pattern_wrong(const void *address, size_t bytes, uint64_t seed, size_t begin) {
    const uint64_t *words = address;
    const size_t first = begin / sizeof *words;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        wrong += words[i] != mix(seed, first + i);
    return wrong;
}

/* Four numbers from 0 to 15, each in 16 bits. */
static uint64_t addends(uint64_t seed, unsigned rank, size_t index) {
    return mix(mix(seed, rank), index) & 0x000f000f000f000f;
}

/* A bfloat16 is the upper half of a float, and keeps whole numbers up to 256. */
static uint16_t bfloat16(uint16_t number) {
    float value = number;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static uint64_t as_bfloat16(uint64_t numbers) {
    uint64_t word = 0;
    for (int shift = 0; shift < 64; shift += 16)
        word |= (uint64_t)bfloat16((uint16_t)(numbers >> shift)) << shift;
    return word;
}

void addend_write(void *address, size_t bytes, uint64_t seed, unsigned rank, size_t begin) {
    uint64_t *words = address;
    const size_t first = begin / sizeof *words;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = as_bfloat16(addends(seed, rank, first + i));
}

size_t sum_wrong(const void *address, size_t bytes, uint64_t seed, unsigned ranks, size_t begin) {
    const uint64_t *words = address;
    const size_t first = begin / sizeof *words;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes / sizeof *words; i++) {
        uint64_t sum = 0;
        for (unsigned rank = 0; rank < ranks; rank++)
            sum += addends(seed, rank, first + i);
        wrong += words[i] != as_bfloat16(sum);
    }
    return wrong;
}

/* A congruential generator goes through all residues of a power of 2 when its factor is 1 more than
 * a multiple of 4 and its increment is odd (Hull and Dobell). The factor leaves no stride. */
static size_t next_line(size_t line, size_t lines) {
    return (line * 0x5851f42d4c957f2d + 0x14057b7ef767814f) & (lines - 1);
}

enum { CHAIN_WORDS = CHAIN_LINE / sizeof(uint64_t) };

void chain_write(void *address, size_t bytes, size_t whole, size_t begin) {
    uint64_t *words = address;
    const size_t lines = whole / CHAIN_LINE, first = begin / CHAIN_LINE;
    for (size_t line = 0; line < bytes / CHAIN_LINE; line++)
        words[line * CHAIN_WORDS] = next_line(first + line, lines) * CHAIN_WORDS;
}

uint64_t chain_position(size_t bytes, uint64_t steps) {
    size_t line = 0, lines = bytes / CHAIN_LINE;
    for (uint64_t step = 0; step < steps % lines; step++)
        line = next_line(line, lines);
    return line * CHAIN_WORDS;
}
