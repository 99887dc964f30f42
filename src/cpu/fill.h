/* Data that no memory system can shorten: neither zero nor constant. */
#ifndef NUMAMICRO_FILL_H
#define NUMAMICRO_FILL_H

#include "span.h"
#include "team.h"

/* Sets 64-bit word i of each buffer to mix(seed, i), every thread its own slice (so that unbound
 * pages land where their reader runs). *sum gets the sum of all words modulo 2^64. */
int fill(struct team *team, struct spans spans, uint64_t seed, uint64_t *sum);

/* The sum of `count` such words from word `first` on. */
uint64_t fill_sum(uint64_t seed, uint64_t first, uint64_t count);

#endif
