/* Preloaded into the product, so that it sees another machine than the one it runs on: /sys and
 * /proc of the folder NUMAMICRO_STAGE, its CPUs, and its nodes. Memory stays where it is; which
 * node the kernel would have put it on is kept here, by the same calls that would have put it
 * there. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_SPANS = 4096, MAX_CPUS = 1024, INTERLEAVE_SHIFT = 21 };

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* --- Files ----------------------------------------------------------------------------------- */

static bool starts(const char *path, const char *folder) {
    return !strncmp(path, folder, strlen(folder));
}

/* The path to use instead; `path` itself for what is not staged. */
static const char *staged(const char *path, char room[PATH_MAX]) {
    const char *root = getenv("NUMAMICRO_STAGE");
    if (!root || !path || !(starts(path, "/sys") || starts(path, "/proc/")))
        return path;
    snprintf(room, PATH_MAX, "%s%s", root, path);
    /* What the tree lacks of /proc is the process' own; what it lacks of /sys is not there. */
    if (starts(path, "/proc/") && REAL(syscall)(SYS_faccessat, AT_FDCWD, room, F_OK) != 0)
        return path;
    return room;
}

static int mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
}

#define STAGED_OPEN(name)                                                                          \
    EXPORT int name(const char *path, int flags, ...) {                                            \
        char room[PATH_MAX];                                                                       \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        const int mode = mode_of(flags, arguments);                                                \
        va_end(arguments);                                                                         \
        return REAL(name)(staged(path, room), flags, mode);                                        \
    }
#define STAGED_OPENAT(name)                                                                        \
    EXPORT int name(int folder, const char *path, int flags, ...) {                                \
        char room[PATH_MAX];                                                                       \
        va_list arguments;                                                                         \
        va_start(arguments, flags);                                                                \
        const int mode = mode_of(flags, arguments);                                                \
        va_end(arguments);                                                                         \
        return REAL(name)(folder, staged(path, room), flags, mode);                                \
    }
#define STAGED_STAT(name, type)                                                                    \
    EXPORT int name(const char *restrict path, struct type *restrict result) {                     \
        char room[PATH_MAX];                                                                       \
        return REAL(name)(staged(path, room), result);                                             \
    }
#define STAGED_STATAT(name, type)                                                                  \
    EXPORT int name(int folder, const char *restrict path, struct type *restrict result,           \
                    int flags) {                                                                   \
        char room[PATH_MAX];                                                                       \
        return REAL(name)(folder, staged(path, room), result, flags);                              \
    }
STAGED_OPEN(open)
STAGED_OPEN(open64)
STAGED_OPENAT(openat)
STAGED_OPENAT(openat64)
STAGED_STAT(stat, stat)
STAGED_STAT(lstat, stat)
STAGED_STAT(stat64, stat64)
STAGED_STAT(lstat64, stat64)
STAGED_STATAT(fstatat, stat)
STAGED_STATAT(fstatat64, stat64)

EXPORT DIR *opendir(const char *path) {
    char room[PATH_MAX];
    return REAL(opendir)(staged(path, room));
}

EXPORT ssize_t readlink(const char *restrict path, char *restrict target, size_t size) {
    char room[PATH_MAX];
    return REAL(readlink)(staged(path, room), target, size);
}

EXPORT int access(const char *path, int mode) {
    char room[PATH_MAX];
    return REAL(access)(staged(path, room), mode);
}

/* The ids in one of the tree's list files, which have no ranges. */
static int read_ids(const char *path, int *ids, int most) {
    char text[8192];
    char *rest = text;
    int count = 0;
    const int file = open(path, O_RDONLY);
    const ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length < 0 ? 0 : length] = 0;
    for (char *word; count < most && (word = strtok_r(rest, ",\n", &rest));)
        ids[count++] = atoi(word);
    return count;
}

/* --- CPUs ------------------------------------------------------------------------------------ */

static _Thread_local int chosen[MAX_CPUS];
static _Thread_local int chosen_count;

EXPORT int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
    (void)pid;
    chosen_count = 0;
    for (int cpu = 0; cpu < MAX_CPUS && (size_t)cpu < 8 * size; cpu++)
        if (CPU_ISSET_S((size_t)cpu, size, set))
            chosen[chosen_count++] = cpu;
    return 0;
}

EXPORT int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    int online[MAX_CPUS];
    const int count =
        chosen_count ? chosen_count : read_ids("/sys/devices/system/cpu/online", online, MAX_CPUS);
    (void)pid;
    CPU_ZERO_S(size, set);
    for (int i = 0; i < count; i++)
        CPU_SET_S((size_t)(chosen_count ? chosen[i] : online[i]), size, set);
    return 0;
}

/* Threads run where the real kernel likes: the CPUs they are meant for are not there. */
EXPORT int pthread_attr_setaffinity_np(pthread_attr_t *attributes, size_t size,
                                       const cpu_set_t *set) {
    (void)attributes, (void)size, (void)set;
    return 0;
}

/* And so none says where it runs. */
EXPORT int sched_getcpu(void) {
    errno = ENOSYS;
    return -1;
}

/* --- Nodes ----------------------------------------------------------------------------------- */

struct policy {
    int mode;
    uint64_t nodes;
};
struct span {
    uintptr_t begin, end;
    struct policy policy;
};

static struct span spans[MAX_SPANS]; /* the last one that holds an address counts */
static int span_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct policy own_policy;

static uint64_t nodes_with_memory(void) {
    int ids[64];
    const int count = read_ids("/sys/devices/system/node/has_memory", ids, 64);
    uint64_t mask = 0;
    for (int i = 0; i < count; i++)
        mask |= 1ULL << ids[i];
    return mask;
}

static void cut(uintptr_t begin, uintptr_t end) {
    const int count = span_count;
    for (int i = 0; i < count; i++) {
        struct span *span = &spans[i];
        if (span->end <= begin || span->begin >= end)
            continue;
        if (span->end > end && span_count < MAX_SPANS)
            spans[span_count++] = (struct span){end, span->end, span->policy};
        span->end = span->begin < begin ? begin : span->begin;
    }
    int kept = 0;
    for (int i = 0; i < span_count; i++)
        if (spans[i].begin < spans[i].end)
            spans[kept++] = spans[i];
    span_count = kept;
}

static void put(uintptr_t begin, size_t size, struct policy policy) {
    pthread_mutex_lock(&lock);
    cut(begin, begin + size);
    if (policy.mode != MPOL_DEFAULT && span_count < MAX_SPANS)
        spans[span_count++] = (struct span){begin, begin + size, policy};
    pthread_mutex_unlock(&lock);
}

static struct policy policy_at(uintptr_t address) {
    struct policy found = {MPOL_DEFAULT, 0};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < span_count; i++)
        if (address >= spans[i].begin && address < spans[i].end)
            found = spans[i].policy;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The node of the CPU this thread was told to run on: where its first touches go. */
static int local_node(void) {
    char path[96];
    for (int node = 0; node < 64 && chosen_count; node++) {
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpu%d", node, chosen[0]);
        if (!access(path, F_OK))
            return node;
    }
    return 0;
}

static int node_of(uintptr_t address) {
    const struct policy policy = policy_at(address);
    if (!policy.nodes)
        return local_node();
    int turn =
        policy.mode == MPOL_INTERLEAVE
            ? (int)((address >> INTERLEAVE_SHIFT) % (unsigned)__builtin_popcountll(policy.nodes))
            : 0;
    uint64_t left = policy.nodes;
    while (turn-- > 0)
        left &= left - 1;
    return __builtin_ctzll(left);
}

static long set_policy(int mode, const uint64_t *mask, struct policy *policy) {
    *policy = (struct policy){mode & ~MPOL_MODE_FLAGS, mask ? *mask : 0};
    if (policy->nodes & ~nodes_with_memory() || (policy->mode != MPOL_DEFAULT && !policy->nodes)) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

static long get_policy(int *mode, uint64_t *mask, unsigned long bits, uintptr_t address,
                       unsigned long flags) {
    const struct policy policy = flags & MPOL_F_ADDR ? policy_at(address) : own_policy;
    const uint64_t nodes = flags & MPOL_F_MEMS_ALLOWED ? nodes_with_memory() : policy.nodes;
    if (mode)
        *mode = flags & MPOL_F_NODE ? node_of(address) : policy.mode;
    if (mask) {
        memset(mask, 0, bits / 8);
        *mask = nodes;
    }
    return 0;
}

static long ask_pages(unsigned long count, void *const *pages, int *status) {
    const long result = REAL(syscall)(SYS_move_pages, 0, count, pages, NULL, status, 0);
    for (unsigned long i = 0; result >= 0 && i < count; i++)
        if (status[i] >= 0)
            status[i] = node_of((uintptr_t)pages[i]);
    return result;
}

EXPORT long syscall(long number, ...) {
    long a[6];
    va_list arguments;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(arguments, long);
    va_end(arguments);
    struct policy policy;
    switch (number) {
    case SYS_mbind:
        if (set_policy((int)a[2], (const uint64_t *)a[3], &policy))
            return -1;
        put((uintptr_t)a[0], (size_t)a[1], policy);
        return 0;
    case SYS_set_mempolicy:
        if (set_policy((int)a[0], (const uint64_t *)a[1], &policy))
            return -1;
        own_policy = policy;
        return 0;
    case SYS_get_mempolicy:
        return get_policy((int *)a[0], (uint64_t *)a[1], (unsigned long)a[2], (uintptr_t)a[3],
                          (unsigned long)a[4]);
    case SYS_move_pages:
        if (!a[3])
            return ask_pages((unsigned long)a[1], (void *const *)a[2], (int *)a[4]);
        break;
    default:
        break;
    }
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

EXPORT void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    void *memory = REAL(mmap)(address, size, protection, flags, file, offset);
    if (memory != MAP_FAILED && own_policy.mode != MPOL_DEFAULT)
        put((uintptr_t)memory, size, own_policy);
    return memory;
}

EXPORT int munmap(void *address, size_t size) {
    put((uintptr_t)address, size, (struct policy){MPOL_DEFAULT, 0});
    return REAL(munmap)(address, size);
}
