/* The loops of four bits as engines have them on x86, where lanes are of 128 bits and a vector's
 * factor cannot be one lane of another: for one token, rows are paired so that every lane is a row;
 * for four, every lane is a row and a token. Moving lanes costs as much as multiplying, so that
 * loops that need less of it would promise what engines do not reach. Part of dot_passes.h. */

/* Rows 0 to 3, or 4 to 7, by eight columns each, of nibbles. */
INLINE bytes low_nibbles(bytes both) { return both & (bytes)all_ints(0x0f0f0f0f); }

INLINE bytes high_nibbles(bytes both) { return low_nibbles((bytes)((words)both >> 4)); }

/* A nibble of 8 stands for 0. */
INLINE bytes around_zero(bytes nibbles) { return nibbles - (bytes)all_ints(0x08080808); }

INLINE ints signed_products(ints sum, bytes weights, bytes with) {
    return products(sum, absolute(weights), signed_by(with, weights));
}

/* ---- one token: lanes are rows 0 4 1 5, 2 6 3 7 -------------------------------------------- */

enum { FIRST_COLUMNS, LAST_COLUMNS }; /* four of a chunk's eight */

INLINE bytes every_row(bytes upper, bytes lower, int which) {
    ints a = (ints)upper, b = (ints)lower;
    if (which == FIRST_COLUMNS)
        return (bytes)LANES_OF_BOTH(a, LANES_OF(b, 1, 0, 3, 2, 5, 4, 7, 6), 0, 9, 2, 11, 4, 13, 6,
                                    15);
    return (bytes)LANES_OF_BOTH(LANES_OF(a, 1, 0, 3, 2, 5, 4, 7, 6), b, 0, 9, 2, 11, 4, 13, 6, 15);
}

INLINE ints paired_rows(ints value) { return LANES_OF(value, 0, 4, 1, 5, 2, 6, 3, 7); }

INLINE floats in_order(floats value) {
    return (floats)LANES_OF((ints)value, 0, 2, 4, 6, 1, 3, 5, 7);
}

/* Four columns of a token in every lane. */
INLINE bytes four_columns(const struct activations *x, int column) {
    int32_t four;
    memcpy(&four, x->quants + column, sizeof four);
    return (bytes)all_ints(four);
}

static TARGET void q4_0_vector(const unsigned char *weights, const struct activations *x,
                               float *results) {
    floats sum = {0};
    for (int block = 0; block < BLOCKS; block++) {
        const unsigned char *from = weights + block * Q4_0_BYTES, *quants = from + 2 * LANES;
        floats scales = (floats)paired_rows((ints)halves((const uint16_t *)from));
        ints count = {0};
#pragma GCC unroll 2
        for (int chunk = 0; chunk < 2; chunk++) {
            bytes upper = load_bytes(quants + chunk * 64),
                  lower = load_bytes(quants + chunk * 64 + 32);
            int column = block * BLOCK + chunk * CHUNK;
            bytes low[2] = {around_zero(low_nibbles(upper)), around_zero(low_nibbles(lower))};
            bytes high[2] = {around_zero(high_nibbles(upper)), around_zero(high_nibbles(lower))};
#pragma GCC unroll 2
            for (int which = FIRST_COLUMNS; which <= LAST_COLUMNS; which++) {
                int here = column + which * 4;
                count =
                    signed_products(count, every_row(low[0], low[1], which), four_columns(x, here));
                count = signed_products(count, every_row(high[0], high[1], which),
                                        four_columns(x, here + BLOCK / 2));
            }
        }
        sum = fused(scales * all(x->scales[block]), to_floats(count), sum);
    }
    sum = in_order(sum);
    memcpy(results, &sum, sizeof sum);
}

/* A 16-bit number in both halves of its lane. */
INLINE shorts twice(ints value) { return (shorts)(value | value << 16); }

static TARGET void q4_k_vector(const unsigned char *weights, const struct activations *x,
                               float *results) {
    floats sum = {0}, minima = {0};
    for (int super = 0; super < BLOCKS / SUPER; super++) {
        const unsigned char *from = weights + super * Q4_K_BYTES;
        ints total = {0}, least = {0};
        for (int i = 0; i < SUPER; i += 2) {
            const unsigned char *quants = q4_k_quants(from, i);
            int block = super * SUPER + i;
            shorts counts[2] = {{0}};
#pragma GCC unroll 4
            for (int chunk = 0; chunk < 4; chunk++) {
                bytes upper = load_bytes(quants + chunk * 64),
                      lower = load_bytes(quants + chunk * 64 + 32);
                int column = block * BLOCK + chunk * CHUNK;
#pragma GCC unroll 2
                for (int which = FIRST_COLUMNS; which <= LAST_COLUMNS; which++) {
                    int here = column + which * 4;
                    counts[0] += pairs(every_row(low_nibbles(upper), low_nibbles(lower), which),
                                       four_columns(x, here));
                    counts[1] += pairs(every_row(high_nibbles(upper), high_nibbles(lower), which),
                                       four_columns(x, here + BLOCK));
                }
            }
            ints scale[2], minimum[2];
            q4_k_scales(from, i, &scale[0], &minimum[0]);
            q4_k_scales(from, i + 1, &scale[1], &minimum[1]);
            total += joined(counts[0], twice(paired_rows(scale[0])));
            total += joined(counts[1], twice(paired_rows(scale[1])));
            least += joined((shorts)(minimum[0] | minimum[1] << 16), two_sums(x, block));
        }
        floats scale = all(x->scales[super * SUPER]);
        floats unit = (floats)paired_rows((ints)halves((const uint16_t *)from));
        sum = fused(unit * scale, to_floats(total), sum);
        minima = fused(halves((const uint16_t *)from + LANES) * scale, to_floats(least), minima);
    }
    sum = in_order(sum) - minima;
    memcpy(results, &sum, sizeof sum);
}

/* ---- four tokens: lanes are row, next row of a token, then of the next ----------------------- */

/* Rows 0 1 4 5, and 2 3 6 7, of two vectors. */
INLINE bytes rows_0145(bytes upper, bytes lower) {
    return (bytes)LANES_OF_BOTH((ints)upper, (ints)lower, 0, 1, 2, 3, 8, 9, 10, 11);
}

INLINE bytes rows_2367(bytes upper, bytes lower) {
    return (bytes)LANES_OF_BOTH((ints)upper, (ints)lower, 4, 5, 6, 7, 12, 13, 14, 15);
}

INLINE bytes columns_of_rows(bytes rows, int which) {
    return (bytes)(which == FIRST_COLUMNS ? LANES_OF((ints)rows, 0, 2, 0, 2, 4, 6, 4, 6)
                                          : LANES_OF((ints)rows, 1, 3, 1, 3, 5, 7, 5, 7));
}

/* Tokens 0 and 1, or 2 and 3, each for two rows. */
INLINE bytes columns_of_tokens(bytes four, int pair, int which) {
    ints two = pair ? LANES_OF((ints)four, 4, 5, 6, 7, 4, 5, 6, 7)
                    : LANES_OF((ints)four, 0, 1, 2, 3, 0, 1, 2, 3);
    return (bytes)(which == FIRST_COLUMNS ? LANES_OF(two, 0, 0, 2, 2, 4, 4, 6, 6)
                                          : LANES_OF(two, 1, 1, 3, 3, 5, 5, 7, 7));
}

/* The rows of one token, of what its pair has for rows 0 1 4 5 and for 2 3 6 7. */
INLINE ints of_token(const ints sums[2], int second) {
    return second ? LANES_OF_BOTH(sums[0], sums[1], 2, 3, 10, 11, 6, 7, 14, 15)
                  : LANES_OF_BOTH(sums[0], sums[1], 0, 1, 8, 9, 4, 5, 12, 13);
}

static TARGET void q4_0_matrix(const unsigned char *weights, const struct activations *x,
                               float *results) {
    floats sums[FOUR] = {{0}};
    for (int block = 0; block < BLOCKS; block++) {
        const unsigned char *from = weights + block * Q4_0_BYTES, *quants = from + 2 * LANES;
        floats scales = halves((const uint16_t *)from);
        ints counts[2][2] = {{{0}}};
#pragma GCC unroll 4
        for (int chunk = 0; chunk < 4; chunk++) {
            bytes upper = load_bytes(quants + chunk % 2 * 64),
                  lower = load_bytes(quants + chunk % 2 * 64 + 32);
            bytes rows[2] = {rows_0145(upper, lower), rows_2367(upper, lower)};
            bytes four = load_bytes(together(x, block * BLOCK + chunk * CHUNK));
#pragma GCC unroll 2
            for (int group = 0; group < 2; group++) {
                bytes part =
                    around_zero(chunk < 2 ? low_nibbles(rows[group]) : high_nibbles(rows[group]));
#pragma GCC unroll 2
                for (int which = FIRST_COLUMNS; which <= LAST_COLUMNS; which++) {
#pragma GCC unroll 2
                    for (int pair = 0; pair < 2; pair++)
                        counts[pair][group] =
                            signed_products(counts[pair][group], columns_of_rows(part, which),
                                            columns_of_tokens(four, pair, which));
                }
            }
        }
#pragma GCC unroll 4
        for (int token = 0; token < FOUR; token++) {
            floats count = to_floats(of_token(counts[token / 2], token % 2));
            sums[token] = fused(scales * all(x[token].scales[block]), count, sums[token]);
        }
    }
    memcpy(results, sums, sizeof sums);
}

static TARGET void q4_k_matrix(const unsigned char *weights, const struct activations *x,
                               float *results) {
    floats sums[FOUR] = {{0}};
    for (int super = 0; super < BLOCKS / SUPER; super++) {
        const unsigned char *from = weights + super * Q4_K_BYTES;
        ints total[2][2] = {{{0}}}, least[FOUR] = {{0}};
        for (int i = 0; i < SUPER; i += 2) {
            const unsigned char *quants = q4_k_quants(from, i);
            int block = super * SUPER + i;
            ints minimum[2];
#pragma GCC unroll 2
            for (int high = 0; high < 2; high++) {
                shorts counts[2][2] = {{{0}}};
#pragma GCC unroll 4
                for (int chunk = 0; chunk < 4; chunk++) {
                    bytes upper = load_bytes(quants + chunk * 64),
                          lower = load_bytes(quants + chunk * 64 + 32);
                    bytes rows[2] = {rows_0145(upper, lower), rows_2367(upper, lower)};
                    bytes four = load_bytes(together(x, (block + high) * BLOCK + chunk * CHUNK));
#pragma GCC unroll 2
                    for (int group = 0; group < 2; group++) {
                        bytes part = high ? high_nibbles(rows[group]) : low_nibbles(rows[group]);
#pragma GCC unroll 2
                        for (int which = FIRST_COLUMNS; which <= LAST_COLUMNS; which++) {
#pragma GCC unroll 2
                            for (int pair = 0; pair < 2; pair++)
                                counts[pair][group] += pairs(columns_of_rows(part, which),
                                                             columns_of_tokens(four, pair, which));
                        }
                    }
                }
                ints scale;
                q4_k_scales(from, i + high, &scale, &minimum[high]);
                shorts scales[2] = {twice(LANES_OF(scale, 0, 1, 0, 1, 4, 5, 4, 5)),
                                    twice(LANES_OF(scale, 2, 3, 2, 3, 6, 7, 6, 7))};
#pragma GCC unroll 4
                for (int at = 0; at < 4; at++)
                    total[at / 2][at % 2] += joined(counts[at / 2][at % 2], scales[at % 2]);
            }
            shorts minima = (shorts)(minimum[0] | minimum[1] << 16);
#pragma GCC unroll 4
            for (int token = 0; token < FOUR; token++)
                least[token] += joined(minima, two_sums(x + token, block));
        }
        floats unit = halves((const uint16_t *)from),
               unit_of_minima = halves((const uint16_t *)from + LANES);
#pragma GCC unroll 4
        for (int token = 0; token < FOUR; token++) {
            floats scale = all(x[token].scales[super * SUPER]);
            floats count = to_floats(of_token(total[token / 2], token % 2));
            sums[token] = fused(unit * scale, count, sums[token]);
            sums[token] -= unit_of_minima * scale * to_floats(least[token]);
        }
    }
    memcpy(results, sums, sizeof sums);
}
