/* All-reduce among ranks that are threads, many times, on random numbers: every result is held
 * against a sum made in another way, and the ranks against each other. No driver, no time: for the
 * kernels' own sake, and for the ThreadSanitizer.
 *
 *   race pull|push|staged f32|f16|bf16 RANKS LANES BLOCKS WORDS REPETITIONS LAUNCHES SEED
 *
 * Ends with 1 and a line that says what was wrong. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

enum { MAX_BLOCKS = 64, ALIGNMENT = 128, TIMEOUT_S = 60 };

struct format {
    const char *name;
    int bits, exponent_bits, fraction_bits;
};
static const struct format formats[] = {{"f32", 32, 8, 23}, {"f16", 16, 5, 10}, {"bf16", 16, 8, 7}};

struct rank {
    struct launch launch;
    AllReduceArgs args;
    pthread_t thread;
    char *input, *output, *slots;
    u32 *flags, *generation;
    u32 status;
};

static const struct format *format;
static int ranks, launches;
static u32 words, repetitions, abort_word;
static uint64_t state;

static uint64_t random_bits(void) { /* SplitMix64 */
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* --- Numbers, written apart from the kernels ------------------------------------------------- */

static double value_of(uint64_t bits) {
    const int fraction_bits = format->fraction_bits;
    const int top = (1 << format->exponent_bits) - 1;
    const int bias = top / 2;
    const int exponent = (int)(bits >> fraction_bits) & top;
    const double fraction = (double)(bits & ((1ULL << fraction_bits) - 1));
    const double sign = bits >> (format->bits - 1) & 1 ? -1 : 1;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + ldexp(1, fraction_bits), exponent - bias - fraction_bits);
}

/* The distance of the numbers of this format around a value. */
static double spacing(double value) {
    const int bias = ((1 << format->exponent_bits) - 1) / 2;
    int exponent;
    frexp(value, &exponent);
    if (exponent < 2 - bias)
        exponent = 2 - bias;
    return ldexp(1, exponent - 1 - format->fraction_bits);
}

static double nearest(double value) { return nearbyint(value / spacing(value)) * spacing(value); }

/* Finite, of any sign, zero and subnormal too, and small enough that no sum overflows. */
static uint64_t random_number(void) {
    const int top = (1 << format->exponent_bits) - 1;
    const uint64_t kind = random_bits() % 16;
    const int exponent = kind == 0 ? 0 : (int)(random_bits() % (uint64_t)(top - 6));
    const uint64_t fraction = kind == 1 ? 0 : random_bits() & ((1ULL << format->fraction_bits) - 1);
    return (random_bits() & 1) << (format->bits - 1) | (uint64_t)exponent << format->fraction_bits |
           fraction;
}

static uint64_t get(const char *memory, size_t index) {
    uint64_t bits = 0;
    memcpy(&bits, memory + index * (size_t)format->bits / 8, (size_t)format->bits / 8);
    return bits;
}

static void set(char *memory, size_t index, uint64_t bits) {
    memcpy(memory + index * (size_t)format->bits / 8, &bits, (size_t)format->bits / 8);
}

/* --- Ranks ----------------------------------------------------------------------------------- */

static void *room(size_t size) {
    void *memory = aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    memset(memory, 0, size);
    return memory;
}

static void open_rank(struct rank *rank) {
    const size_t vector = (size_t)words * 16;
    rank->input = room(vector * repetitions);
    rank->output = room(vector * repetitions);
    rank->slots = room(vector * 2 * (size_t)ranks);
    rank->flags = room(sizeof(u32) * FLAG_STRIDE * MAX_BLOCKS * (size_t)ranks);
    rank->generation = room(sizeof(u32) * FLAG_STRIDE * MAX_BLOCKS);
}

/* A rank's slots, one pair of them for each rank that may push there. */
static char *slots_for(struct rank *rank, int from) {
    return rank->slots + (size_t)words * 16 * 2 * (size_t)from;
}

static u32 *flags_for(struct rank *rank, int from) {
    return rank->flags + FLAG_STRIDE * MAX_BLOCKS * (size_t)from;
}

static void join(struct rank *all, int own, int pushes) {
    AllReduceArgs *a = &all[own].args;
    *a = (AllReduceArgs){.input = all[own].input,
                         .output = all[own].output,
                         .generation = all[own].generation,
                         .abort = &abort_word,
                         .status = &all[own].status,
                         .timeout_ns = TIMEOUT_S * 1000000000ULL,
                         .words = words,
                         .repetitions = repetitions,
                         .sets = repetitions,
                         .rank = (u32)own,
                         .ranks = (u32)ranks};
    if (!pushes)
        a->send[a->sends++] = slots_for(&all[own], own);
    for (int peer = 0; peer < ranks; peer++) {
        if (peer == own)
            continue;
        if (pushes)
            a->send[a->sends++] = slots_for(&all[peer], own);
        a->receive[peer] = pushes ? slots_for(&all[own], peer) : slots_for(&all[peer], peer);
        a->signal[peer] = flags_for(&all[peer], own);
        a->watch[peer] = flags_for(&all[own], peer);
    }
}

static void *run(void *argument) {
    engine_run(argument);
    return NULL;
}

static void launch_all(struct rank *all) {
    for (int r = 0; r < ranks; r++) {
        all[r].launch.args = &all[r].args;
        pthread_create(&all[r].thread, NULL, run, &all[r].launch);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(all[r].thread, NULL);
}

/* --- The check ------------------------------------------------------------------------------- */

static size_t numbers(void) { return (size_t)words * 128 / (size_t)format->bits * repetitions; }

static void fill(struct rank *all) {
    for (int r = 0; r < ranks; r++) {
        for (size_t i = 0; i < numbers(); i++)
            set(all[r].input, i, random_number());
        memset(all[r].output, 0x5a, (size_t)words * 16 * repetitions);
    }
}

/* Two ranks round once, so their sum is the nearest number; more round at each step. */
static int is_right(double sum, double largest, double got) {
    if (ranks == 2)
        return nearest(sum) == got;
    return fabs(got - sum) <= (ranks - 1) * spacing(largest);
}

static size_t count_wrong(const struct rank *all) {
    size_t wrong = 0;
    for (size_t i = 0; i < numbers(); i++) {
        double sum = 0, largest = 0;
        for (int r = 0; r < ranks; r++) {
            const double value = value_of(get(all[r].input, i));
            sum += value;
            largest += fabs(value);
        }
        int right = is_right(sum, largest, value_of(get(all[0].output, i)));
        for (int r = 1; r < ranks; r++)
            right = right && get(all[r].output, i) == get(all[0].output, i);
        wrong += !right;
    }
    return wrong;
}

int main(int count, char **argument) {
    static struct rank all[MAX_RANKS];
    char kernel[64];
    size_t wrong = 0, failed = 0;
    if (count != 10)
        return 2;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        if (!strcmp(formats[f].name, argument[2]))
            format = &formats[f];
    ranks = atoi(argument[3]);
    const u32 blocks = (u32)atoi(argument[5]);
    words = (u32)atoi(argument[6]);
    repetitions = (u32)atoi(argument[7]);
    launches = atoi(argument[8]);
    state = strtoull(argument[9], NULL, 10);
    snprintf(kernel, sizeof kernel, "allreduce_%s_%s", ranks == 2 ? "pair" : "group", argument[2]);
    for (int r = 0; r < ranks; r++)
        open_rank(&all[r]);
    for (int r = 0; r < ranks; r++) {
        join(all, r, !strcmp(argument[1], "push"));
        all[r].launch = (struct launch){
            .kernel = engine_find(kernel), .grid = blocks, .lanes = (u32)atoi(argument[4])};
    }
    for (int l = 0; l < launches; l++) {
        fill(all);
        launch_all(all);
        wrong += count_wrong(all);
        for (int r = 0; r < ranks; r++)
            failed += all[r].status != RANK_OK;
    }
    printf("%zu of %zu numbers wrong, %zu ranks failed\n", wrong, numbers() * (size_t)launches,
           failed);
    return wrong || failed;
}
