/* Data in host memory that tell, after they went through a GPU, whether they arrived whole. */
#ifndef NUMAMICRO_GPU_DATA_H
#define NUMAMICRO_GPU_DATA_H

#include <stddef.h>
#include <stdint.h>

/* Words of 8 bytes, each unlike the others and unlike those of other seeds. */
void pattern_write(void *address, size_t bytes, uint64_t seed);

/* Counts the words that are not the pattern's. */
size_t pattern_wrong(const void *address, size_t bytes, uint64_t seed);

/* Numbers of 2 bytes (bfloat16), all whole and from 0 to 15: 16 ranks can add theirs and the sum is
 * exact, whatever the order. */
void addend_write(void *address, size_t bytes, uint64_t seed, unsigned rank);

/* Counts the words of 8 bytes with a number that is not the sum over ranks 0 to `ranks` - 1. */
size_t sum_wrong(const void *address, size_t bytes, uint64_t seed, unsigned ranks);

enum { CHAIN_LINE = 128 };

/* Links the lines of a buffer, a power of 2 in number, to one cycle: the first word of each holds
 * the index (in words of 8 bytes) of the next one's. */
void chain_write(void *address, size_t bytes);

/* Gives the index at which a walk from index 0 ends. */
uint64_t chain_position(size_t bytes, uint64_t steps);

#endif
