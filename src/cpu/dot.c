#include "dot.h"

#include "dot_inside.h"
#include "mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct dot_family *const families[] = {&dot_vnni, &dot_avx2, &dot_neon, &dot_portable};

static const struct dot_format *format_at(size_t index) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        size_t count = families[i]->count && families[i]->supported() ? families[i]->count : 0;
        if (index < count)
            return &families[i]->formats[index];
        index -= count;
    }
    return NULL;
}

static const struct dot_format *format_named(const char *name) {
    const struct dot_format *format;
    for (size_t i = 0; (format = format_at(i)); i++) {
        if (strcmp(format->kernel.format, name) == 0)
            return format;
    }
    return NULL;
}

attend_pass *dot_attend(void) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (families[i]->count && families[i]->supported())
            return families[i]->attend;
    }
    return NULL; /* plain C is always there */
}

const struct dot_kernel *dot_kernel(size_t index) {
    const struct dot_format *format = format_at(index);
    return format ? &format->kernel : NULL;
}

/* ---- activations: small multiples of 1/64, which every form holds exactly ------------------- */

static const float UNIT = 1.0f / 64;

static uint16_t half_of(int quant) {
    if (quant == 0)
        return 0;
    int magnitude = abs(quant), exponent = 31 - __builtin_clz((unsigned)magnitude);
    int fraction = (magnitude << (10 - exponent)) & 0x3ff;
    return (uint16_t)((quant < 0) << 15 | (exponent - 6 + 15) << 10 | fraction);
}

static uint16_t brain_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static void set_token(struct activations *x, uint64_t token) {
    for (int i = 0; i < COLUMNS; i++) {
        int quant = (int)(mix(token, (uint64_t)i) % 255) - 127;
        x->quants[i] = (int8_t)quant;
        x->halves[i] = half_of(quant);
        x->brains[i] = brain_of((float)quant * UNIT);
    }
    for (int block = 0; block < BLOCKS; block++) {
        x->scales[block] = UNIT;
        x->sums[block] = 0;
        for (int i = 0; i < BLOCK; i++)
            x->sums[block] = (int16_t)(x->sums[block] + x->quants[block * BLOCK + i]);
    }
}

static void interleave(struct activations *four) {
    for (int column = 0; column < COLUMNS; column += CHUNK) {
        int8_t *to = (int8_t *)together(four, column);
        for (int token = 0; token < FOUR; token++)
            memcpy(to + token * CHUNK, four[token].quants + column, CHUNK);
    }
}

/* To be freed by the caller; NULL without memory. */
static struct activations *tokens_made(size_t count) {
    struct activations *tokens =
        aligned_alloc(_Alignof(struct activations), count * sizeof *tokens);
    for (size_t i = 0; tokens && i < count; i++)
        set_token(&tokens[i], i);
    for (size_t i = 0; tokens && i + FOUR <= count; i += FOUR)
        interleave(&tokens[i]);
    return tokens;
}

/* ---- weights ------------------------------------------------------------------------------ */

struct dot_job {
    const struct dot_format *format;
    const struct activations *tokens;
    size_t count; /* of the tokens */
    struct spans spans;
    struct team *team;
    uint64_t matrices; /* of a pass, after each of which all threads meet; 0: none do */
    uint64_t repetitions;
    uint64_t seed;
};

/* Rows of a slice: whole tiles of either kind. */
static size_t rows_of(const struct dot_format *format, struct slice slice) {
    size_t tile = format->rows > format->tile_rows ? format->rows : format->tile_rows;
    return slice.bytes / (tile * format->row_bytes) * tile;
}

/* Turns random bytes into weights of about 1: the halves in them get a sane exponent. Where they
 * lie follows from the size of a block. */
static void make_sane(const struct dot_format *format, unsigned char *weights, size_t bytes) {
    const char *name = format->kernel.format;
    uint16_t half;
    size_t step = sizeof half, count = 1;
    uint16_t keep = 0x83ff, exponent = 0x3800; /* 0.5 to 1 with either sign */
    if (strcmp(name, "BF16") == 0) {
        keep = 0x807f, exponent = 0x3f00;
    } else if (strcmp(name, "Q8_0") == 0) {
        step = Q8_0_BYTES, exponent = 0x2000; /* from 2^-7 */
    } else if (strcmp(name, "Q4_0") == 0) {
        step = Q4_0_BYTES, count = LANES, exponent = 0x3000;
    } else if (strcmp(name, "Q4_K") == 0) {
        step = Q4_K_BYTES, count = 2 * LANES, exponent = 0x1800;
    }
    for (size_t at = 0; at + step <= bytes; at += step) {
        for (size_t i = 0; i < count; i++) {
            unsigned char *where = weights + at + i * sizeof half;
            memcpy(&half, where, sizeof half);
            half = (half & keep) | exponent;
            memcpy(where, &half, sizeof half);
        }
    }
    /* ggml's quants are symmetric: -128 does not occur. */
    for (size_t at = 0; strcmp(name, "Q8_0") == 0 && at + step <= bytes; at += step) {
        for (size_t i = sizeof half; i < Q8_0_BYTES; i++)
            weights[at + i] = weights[at + i] == 0x80 ? 0x81 : weights[at + i];
    }
}

static uint64_t fill_slice(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct dot_job *job = argument;
    struct slice slice = slice_of(&job->spans, rank);
    unsigned char *weights = slice.arena->address + slice.offset;
    size_t bytes = rows_of(job->format, slice) * job->format->row_bytes;
    for (size_t at = 0; at < slice.bytes; at += sizeof(uint64_t)) {
        uint64_t word = at < bytes ? mix(job->seed, slice.offset + at) : 0;
        size_t left = slice.bytes - at;
        memcpy(weights + at, &word, left < sizeof word ? left : sizeof word);
    }
    make_sane(job->format, weights, bytes);
    return 0;
}

/* A weight as the format's definition has it, found without any of the loops. */
static double weight_at(const struct dot_format *format, const unsigned char *rows, size_t row,
                        size_t column) {
    const char *name = format->kernel.format;
    size_t block = column / BLOCK, in = column % BLOCK, lane = row % LANES;
    const unsigned char *from = rows + row * format->row_bytes;
    uint16_t half;
    if (strcmp(name, "F16") == 0 || strcmp(name, "BF16") == 0) {
        memcpy(&half, from + column * sizeof half, sizeof half);
        return strcmp(name, "F16") == 0 ? half_to_float(half) : brain_to_float(half);
    }
    if (strcmp(name, "Q8_0") == 0) {
        memcpy(&half, from + block * Q8_0_BYTES, sizeof half);
        return (double)half_to_float(half) * (int8_t)from[block * Q8_0_BYTES + 2 + in];
    }
    from = rows + (row - lane) * format->row_bytes;
    size_t nibble = in / CHUNK * CHUNK * LANES + lane * CHUNK + in % CHUNK;
    if (strcmp(name, "Q4_0") == 0) {
        from += block * Q4_0_BYTES;
        memcpy(&half, from + lane * sizeof half, sizeof half);
        int both = from[2 * LANES + nibble % (BLOCK / 2 * LANES)];
        return (double)half_to_float(half) * ((in < 16 ? both & 15 : both >> 4) - 8);
    }
    size_t i = block % SUPER;
    from += block / SUPER * Q4_K_BYTES;
    memcpy(&half, from + lane * sizeof half, sizeof half);
    double unit = half_to_float(half);
    memcpy(&half, from + (LANES + lane) * sizeof half, sizeof half);
    double unit_of_minima = half_to_float(half);
    const unsigned char *scales = from + 4 * LANES, *minima = scales + SUPER * LANES;
    int packed = scales[i * LANES + lane], pair = minima[i / 2 * LANES + lane];
    int minimum = (i % 2 ? pair >> 4 : pair & 15) | packed >> 6 << 4;
    int both = minima[SUPER / 2 * LANES + i / 2 * LANES * BLOCK + nibble];
    return unit * (packed & 63) * (i % 2 ? both >> 4 : both & 15) - unit_of_minima * minimum;
}

/* ---- loops -------------------------------------------------------------------------------- */

enum { MOST_RESULTS = 32 };

static uint64_t bits_of(const float *results, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, results + i, sizeof bits);
        sum += bits;
    }
    return sum;
}

/* One token alone, or all of them: the loop, and what it takes at once. */
struct tile {
    dot_tile *multiply;
    size_t rows, tokens;
};

static struct tile tile_of(const struct dot_format *format, size_t tokens) {
    if (tokens == 1)
        return (struct tile){format->vector, format->rows, 1};
    return (struct tile){format->matrix, format->tile_rows, format->tile_tokens};
}

static uint64_t multiply_repeatedly(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct dot_job *job = argument;
    const struct dot_format *format = job->format;
    const struct tile tile = tile_of(format, job->count);
    struct slice slice = slice_of(&job->spans, rank);
    const unsigned char *weights = slice.arena->address + slice.offset;
    size_t tiles = rows_of(format, slice) / tile.rows;
    uint64_t parts = job->matrices ? job->matrices : 1;
    float results[MOST_RESULTS];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < job->repetitions * parts; i++) {
        /* Every thread has as many parts, whatever rows its slice has: none waits in vain. */
        size_t row = tiles * (i % parts) / parts * tile.rows;
        size_t end = tiles * (i % parts + 1) / parts * tile.rows;
        for (; row < end; row += tile.rows) {
            for (size_t token = 0; token < job->count; token += tile.tokens) {
                tile.multiply(weights + row * format->row_bytes, job->tokens + token, results);
                sum += bits_of(results, tile.rows * tile.tokens);
            }
        }
        if (job->matrices)
            team_meet(job->team);
    }
    return sum;
}

static uint64_t differing(const struct dot_job *job, const unsigned char *weights, size_t row,
                          size_t token, float result) {
    double sum = 0, sizes = 0;
    for (size_t column = 0; column < COLUMNS; column++) {
        double product = weight_at(job->format, weights, row, column) *
                         (double)job->tokens[token].quants[column] * UNIT;
        sum += product;
        sizes += fabs(product);
    }
    /* Rounding of a float for each of some hundred additions; a NaN differs too. */
    return !(fabs(sum - (double)result) <= sizes * 1e-5);
}

static uint64_t check_slice(void *argument, size_t rank, size_t size) {
    (void)size;
    const struct dot_job *job = argument;
    const struct dot_format *format = job->format;
    struct slice slice = slice_of(&job->spans, rank);
    const unsigned char *weights = slice.arena->address + slice.offset;
    float results[MOST_RESULTS];
    uint64_t wrong = 0;
    format->vector(weights, job->tokens, results);
    for (size_t row = 0; row < format->rows; row++)
        wrong += differing(job, weights, row, 0, results[row]);
    const size_t first = format->tile_tokens;
    format->matrix(weights, job->tokens + first, results);
    for (size_t token = 0; token < format->tile_tokens; token++) {
        for (size_t row = 0; row < format->tile_rows; row++)
            wrong += differing(job, weights, row, first + token,
                               results[token * format->tile_rows + row]);
    }
    return wrong;
}

/* ---- the door ------------------------------------------------------------------------------ */

static uint64_t rows_of_all(const struct team *team, const struct dot_job *job) {
    uint64_t rows = 0;
    for (size_t rank = 0; rank < team_size(team); rank++)
        rows += rows_of(job->format, slice_of(&job->spans, rank));
    return rows;
}

static int check_rows(const struct team *team, const struct dot_job *job) {
    int rc = job->format ? check_spans(&job->spans, team_size(team)) : -ENOTSUP;
    for (size_t rank = 0; !rc && rank < team_size(team); rank++) {
        if (rows_of(job->format, slice_of(&job->spans, rank)) == 0)
            rc = -EINVAL;
    }
    return rc;
}

static int run(struct team *team, struct dot_job *job, size_t tokens, team_body *body,
               struct window *window) {
    int rc = check_rows(team, job);
    if (rc)
        return rc;
    struct activations *made = tokens_made(tokens);
    if (!made)
        return -ENOMEM;
    job->tokens = made;
    job->count = tokens;
    rc = team_run(team, body, job, window);
    free(made);
    return rc;
}

int dot_fill(struct team *team, struct spans spans, const char *format, uint64_t seed,
             uint64_t *wrong) {
    struct dot_job job = {.format = format_named(format), .spans = spans, .seed = seed};
    struct window window;
    int rc = run(team, &job, 1, fill_slice, &window);
    if (!rc)
        rc = run(team, &job, TOKENS, check_slice, &window);
    if (!rc)
        *wrong = window.sum;
    return rc;
}

int dot(struct team *team, struct spans spans, const char *format, int many, uint64_t matrices,
        uint64_t repetitions, struct dot_result *result) {
    struct dot_job job = {.format = format_named(format),
                          .spans = spans,
                          .team = team,
                          .matrices = matrices,
                          .repetitions = repetitions};
    size_t tokens = many ? TOKENS : 1;
    struct window window;
    int rc = run(team, &job, tokens, multiply_repeatedly, &window);
    if (rc)
        return rc;
    uint64_t rows = rows_of_all(team, &job) * repetitions;
    *result = (struct dot_result){window.elapsed_ns, rows * job.format->row_bytes,
                                  2 * rows * COLUMNS * tokens, window.sum, window.strays};
    return 0;
}
