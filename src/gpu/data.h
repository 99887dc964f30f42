/* Data in host memory that tell, after they went through a GPU, whether they arrived whole. */
#ifndef NUMAMICRO_GPU_DATA_H
#define NUMAMICRO_GPU_DATA_H

#include <stddef.h>
#include <stdint.h>

/* All but the chain can be written and looked at part by part: `begin` is where in the whole the
 * part begins, in bytes, a multiple of 8. */

/* Words of 8 bytes, each unlike the others and unlike those of other seeds. */
void pattern_write(void *address, size_t bytes, uint64_t seed, size_t begin);

/* Counts the words that are not the pattern's. */
size_t pattern_wrong(const void *address, size_t bytes, uint64_t seed, size_t begin);

/* Numbers of 2 bytes (bfloat16), all whole and from 0 to 15: 16 ranks can add theirs and the sum is
 * exact, whatever the order. */
void addend_write(void *address, size_t bytes, uint64_t seed, unsigned rank, size_t begin);

/* Counts the words of 8 bytes with a number that is not the sum over ranks 0 to `ranks` - 1. */
size_t sum_wrong(const void *address, size_t bytes, uint64_t seed, unsigned ranks, size_t begin);

enum { CHAIN_LINE = 128 };

/* Links the lines of a buffer, a power of 2 in number, to one cycle: the first word of each holds
 * the index (in words of 8 bytes) of the next one's. Writes the part of `bytes` that begins at
 * `begin` of `whole`, both multiples of a line. */
void chain_write(void *address, size_t bytes, size_t whole, size_t begin);

/* Gives the index at which a walk from index 0 ends. */
uint64_t chain_position(size_t bytes, uint64_t steps);

#endif
