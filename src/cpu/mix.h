/* Scrambling of 64 bits: what a counter becomes when it must look random (SplitMix64's steps). */
#ifndef NUMAMICRO_MIX_H
#define NUMAMICRO_MIX_H

#include <stdint.h>

static inline uint64_t mix(uint64_t seed, uint64_t counter) {
    uint64_t x = seed + (counter + 1) * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

#endif
