/* The loops of four bits in which a row has two lanes until the end. Part of dot_passes.h. */

/* Eight columns of a token, for every row. */
INLINE bytes eight_columns(const struct activations *x, int column) {
    int64_t eight;
    memcpy(&eight, x->quants + column, sizeof eight);
    return (bytes)(longs){eight, eight, eight, eight};
}

/* Adds the products of CHUNK bytes of each row, of which `low` columns of a token lie in the low
 * nibbles and `high` ones in the high. */
INLINE void chunk_products(const unsigned char *chunk, const struct activations *x, int low,
                           int high, int tokens, ints sums[][2], ints high_sums[][2]) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        bytes both = load_bytes(chunk + half * 32);
        bytes lows = both & (bytes)all_ints(0x0f0f0f0f);
        bytes highs = (bytes)((words)both >> 4) & (bytes)all_ints(0x0f0f0f0f);
#pragma GCC unroll 4
        for (int token = 0; token < tokens; token++) {
            ints *into = &sums[token][half], *high_into = &high_sums[token][half];
            *into = products(*into, lows, eight_columns(x + token, low));
            *high_into = products(*high_into, highs, eight_columns(x + token, high));
        }
    }
}

/* One lane a row, of two vectors with two lanes a row. */
INLINE ints by_row(const ints sums[2]) {
    return LANES_OF_BOTH(sums[0], sums[1], 0, 2, 4, 6, 8, 10, 12, 14) +
           LANES_OF_BOTH(sums[0], sums[1], 1, 3, 5, 7, 9, 11, 13, 15);
}

INLINE void q4_0_tile(const unsigned char *weights, const struct activations *x, float *results,
                      int tokens) {
    floats sums[FOUR] = {{0}};
    for (int block = 0; block < BLOCKS; block++) {
        const unsigned char *from = weights + block * Q4_0_BYTES, *quants = from + 2 * LANES;
        floats scales = halves((const uint16_t *)from);
        ints counts[FOUR][2] = {{{0}}};
#pragma GCC unroll 2
        for (int chunk = 0; chunk < 2; chunk++) {
            int column = block * BLOCK + chunk * CHUNK;
            chunk_products(quants + chunk * CHUNK * LANES, x, column, column + BLOCK / 2, tokens,
                           counts, counts);
        }
#pragma GCC unroll 4
        for (int token = 0; token < tokens; token++) {
            /* A quant of 8 stands for 0. */
            ints value = by_row(counts[token]) - all_ints(8 * x[token].sums[block]);
            floats scale = scales * all(x[token].scales[block]);
            sums[token] = fused(scale, to_floats(value), sums[token]);
        }
    }
    memcpy(results, sums, (size_t)tokens * sizeof *sums);
}

INLINE void q4_k_tile(const unsigned char *weights, const struct activations *x, float *results,
                      int tokens) {
    floats sums[FOUR] = {{0}};
    for (int super = 0; super < BLOCKS / SUPER; super++) {
        const unsigned char *from = weights + super * Q4_K_BYTES;
        ints total[FOUR] = {{0}}, least[FOUR] = {{0}};
        for (int i = 0; i < SUPER; i += 2) {
            int block = super * SUPER + i;
            ints counts[2][FOUR][2] = {{{{0}}}};
#pragma GCC unroll 4
            for (int chunk = 0; chunk < 4; chunk++) {
                int column = block * BLOCK + chunk * CHUNK;
                chunk_products(q4_k_quants(from, i) + chunk * CHUNK * LANES, x, column,
                               column + BLOCK, tokens, counts[0], counts[1]);
            }
#pragma GCC unroll 2
            for (int which = 0; which < 2; which++) {
                ints scale, minimum;
                q4_k_scales(from, i + which, &scale, &minimum);
#pragma GCC unroll 4
                for (int token = 0; token < tokens; token++) {
                    total[token] += by_row(counts[which][token]) * scale;
                    least[token] += minimum * all_ints(x[token].sums[block + which]);
                }
            }
        }
        floats unit = halves((const uint16_t *)from),
               unit_of_minima = halves((const uint16_t *)from + LANES);
#pragma GCC unroll 4
        for (int token = 0; token < tokens; token++) {
            floats scale = all(x[token].scales[super * SUPER]);
            sums[token] = fused(unit * scale, to_floats(total[token]), sums[token]);
            sums[token] -= unit_of_minima * scale * to_floats(least[token]);
        }
    }
    memcpy(results, sums, (size_t)tokens * sizeof *sums);
}

static TARGET void q4_0_vector(const unsigned char *w, const struct activations *x, float *r) {
    q4_0_tile(w, x, r, 1);
}

static TARGET void q4_0_matrix(const unsigned char *w, const struct activations *x, float *r) {
    q4_0_tile(w, x, r, FOUR);
}

static TARGET void q4_k_vector(const unsigned char *w, const struct activations *x, float *r) {
    q4_k_tile(w, x, r, 1);
}

static TARGET void q4_k_matrix(const unsigned char *w, const struct activations *x, float *r) {
    q4_k_tile(w, x, r, FOUR);
}
