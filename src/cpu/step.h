/* The small operations between products: what one thread does while its team waits. */
#ifndef NUMAMICRO_STEP_H
#define NUMAMICRO_STEP_H

#include "team.h"

struct step_result {
    int64_t elapsed_ns;
    uint64_t values; /* that went through */
    double sum;
    int64_t strays;
};

enum step {
    /* Scales a vector to a root mean square of 1, its squares added one after the other in
     * doubles, as CPU engines do it. */
    STEP_NORM,
    /* Sets up a table of angles and turns pairs of values by them: the position of a token. */
    STEP_ROTATE,
    /* Turns the vector into 8-bit quants by blocks of 256, each with its scale and sums of 16, for
     * products with weights in such blocks (Q4_K). */
    STEP_QUANTIZE,
};

/* `values` is the length of the vector, even; to be quantised, a multiple of 256. */
int step(struct team *team, enum step kind, size_t values, uint64_t repetitions,
         struct step_result *result);

#endif
