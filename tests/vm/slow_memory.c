/* A plugin of QEMU that makes memory as slow as its distance says. A load that the cache of its CPU
 * does not hold, and that does not follow the line before, waits for so long as the matrix has for
 * the nodes of CPU and memory. The caches are modelled and the lines behind one another are
 * fetched ahead, or a guest would need minutes to start a program.
 *
 * Arguments: cpus=0/0/1/1 (node of each CPU), memory=START-END:NODE/... (hexadecimal, as
 * qemu_plugin_hwaddr_phys_addr tells addresses), wait=10/21/21/10 (ns, row by row). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is used of qemu-plugin.h, which distributions do not package. */
#define EXPORT __attribute__((visibility("default")))
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
enum { QEMU_PLUGIN_CB_NO_REGS = 0, QEMU_PLUGIN_MEM_RW = 3 };
typedef void translated(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void accessed(unsigned cpu, qemu_plugin_meminfo_t, uint64_t address, void *);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, translated *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, accessed *, int flags, int rw,
                                      void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t, uint64_t address);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);

enum {
    MOST = 16, /* CPUs, nodes */
    LINE_SHIFT = 6,
    LINES = 1 << 14, /* 1 MiB, direct mapped */
    USER_BITS = 47,
};

EXPORT int qemu_plugin_version = 1;

static struct cache {
    uint64_t lines[LINES];
    uint64_t last;
} caches[MOST];
static struct range {
    uint64_t start, end;
    unsigned node;
} ranges[MOST];
static size_t range_count, cpu_count;
static unsigned node_of_cpu[MOST];
static int64_t wait_ns[MOST * MOST];
static size_t nodes; /* the matrix has so many rows */

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static bool misses(struct cache *cache, uint64_t line) {
    uint64_t *kept = &cache->lines[line % LINES];
    bool follows = line == cache->last || line == cache->last + 1;
    bool missing = *kept != line;
    cache->last = line;
    *kept = line;
    return missing && !follows;
}

static void load(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *nothing) {
    (void)nothing;
    if (qemu_plugin_mem_is_store(info)) /* not left out below: QEMU 7.2 takes one for the other */
        return;
    if (cpu >= cpu_count || !misses(&caches[cpu], address >> LINE_SHIFT))
        return;
    int64_t start = now_ns();
    struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(info, address);
    if (!place || qemu_plugin_hwaddr_is_io(place))
        return;
    uint64_t at = qemu_plugin_hwaddr_phys_addr(place);
    for (const struct range *range = ranges; range < ranges + range_count; range++)
        if (range->start <= at && at < range->end)
            while (now_ns() - start < wait_ns[node_of_cpu[cpu] * nodes + range->node])
                ;
}

/* The kernel's own accesses are left alone. */
static void watch(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    if (qemu_plugin_tb_vaddr(block) >> USER_BITS)
        return;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(block, i), load,
                                         QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

/* Gives the next value of a list and moves behind the separator. */
static uint64_t next(char **at, int base) {
    uint64_t value = strtoull(*at, at, base);
    if (**at)
        ++*at;
    return value;
}

static int take(char *argument) {
    char *at = strchr(argument, '=');
    if (!at++)
        return -1;
    if (!strncmp(argument, "cpus=", 5)) {
        while (*at && cpu_count < MOST)
            node_of_cpu[cpu_count++] = (unsigned)next(&at, 10);
    } else if (!strncmp(argument, "memory=", 7)) {
        for (; *at && range_count < MOST; range_count++) {
            struct range *range = &ranges[range_count];
            range->start = next(&at, 16);
            range->end = next(&at, 16);
            range->node = (unsigned)next(&at, 10);
        }
    } else if (!strncmp(argument, "wait=", 5)) {
        size_t count = 0;
        while (*at && count < MOST * MOST)
            wait_ns[count++] = (int64_t)next(&at, 10);
        while (nodes * nodes < count)
            nodes++;
    } else {
        return -1;
    }
    return *at ? -1 : 0;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int count,
                               char **arguments) {
    (void)info;
    for (int i = 0; i < count; i++)
        if (take(arguments[i]))
            return -1;
    memset(caches, 0xff, sizeof caches);
    qemu_plugin_register_vcpu_tb_trans_cb(id, watch);
    return 0;
}
