/* The file has a line for each fact; what follows the first word depends on it:
 *
 *   machine NAME
 *   driver 12080 570.86.15
 *   cost WHAT SECONDS              as machines.py has them; pageable is a share
 *   resource NAME BYTES_PER_SECOND
 *   gpu INDEX KEY VALUE ...        _ stands for a blank
 *   level GPU GPU NUMBER           NVML's topology level
 *   nvlink GPU GPU COUNT
 *   read GPU PLACE LATENCY RESOURCE ...     data come to the GPU
 *   write GPU PLACE LATENCY RESOURCE ...    data leave the GPU
 *   fault NAME [GPU [GPU]]
 */
#include "machine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct machine the_machine;

static void refuse(const char *line, const char *why) {
    fprintf(stderr, "stand-in: %s in the line: %s\n", why, line);
    exit(2);
}

static int place_of(const char *word, const char *line) {
    int index = -1;
    if (sscanf(word, "gpu%d", &index) == 1 && index >= 0 && index < MAX_GPUS)
        return index;
    if (sscanf(word, "node%d", &index) == 1 && index >= 0 && index < MAX_NODES)
        return MAX_GPUS + index;
    refuse(line, "no place");
    return -1;
}

static int gpu_of(const char *word, const char *line) {
    const int place = place_of(word, line);
    if (place >= MAX_GPUS)
        refuse(line, "no GPU");
    return place;
}

static void copy_word(char *to, const char *word) {
    snprintf(to, WORD, "%s", word);
    for (char *at = to; *at; at++)
        if (*at == '_')
            *at = ' ';
}

static void read_gpu(struct machine *m, char **words, int count, const char *line) {
    const int index = atoi(words[1]);
    if (index != m->gpus || index >= MAX_GPUS)
        refuse(line, "GPUs out of order");
    struct gpu *gpu = &m->gpu[m->gpus++];
    gpu->memory_node = -1;
    const struct {
        const char *key;
        int *number;
        size_t *size;
        char *text;
    } fields[] = {
        {"name", NULL, NULL, gpu->name},
        {"uuid", NULL, NULL, gpu->uuid},
        {"pci", NULL, NULL, gpu->pci},
        {"capability", &gpu->capability, NULL, NULL},
        {"node", &gpu->node, NULL, NULL},
        {"memory_node", &gpu->memory_node, NULL, NULL},
        {"processors", &gpu->processors, NULL, NULL},
        {"generation", &gpu->generation, NULL, NULL},
        {"width", &gpu->width, NULL, NULL},
        {"trained_generation", &gpu->trained_generation, NULL, NULL},
        {"trained_width", &gpu->trained_width, NULL, NULL},
        {"switch_links", &gpu->switch_links, NULL, NULL},
        {"display", &gpu->display, NULL, NULL},
        {"compute_mode", &gpu->compute_mode, NULL, NULL},
        {"memory", NULL, &gpu->memory, NULL},
        {"bar1", NULL, &gpu->bar1, NULL},
    };
    for (int i = 2; i + 1 < count; i += 2) {
        size_t f = 0;
        while (f < sizeof fields / sizeof *fields && strcmp(fields[f].key, words[i]))
            f++;
        if (f == sizeof fields / sizeof *fields)
            refuse(line, "unknown key");
        if (fields[f].text)
            copy_word(fields[f].text, words[i + 1]);
        else if (fields[f].number)
            *fields[f].number = atoi(words[i + 1]);
        else
            *fields[f].size = strtoull(words[i + 1], NULL, 10);
    }
}

static void read_cost(struct machine *m, char **words, const char *line) {
    const struct {
        const char *key;
        double *value;
    } costs[] = {
        {"call", &m->call},       {"launch", &m->launch},    {"graph_node", &m->graph_node},
        {"copy", &m->copy},       {"tick", &m->tick},        {"pageable", &m->pageable},
        {"context", &m->context}, {"module", &m->module},    {"allocation", &m->allocation},
        {"release", &m->release}, {"pin", &m->pin},          {"unpin", &m->unpin},
        {"peer", &m->peer},       {"instance", &m->instance}};
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (!strcmp(costs[i].key, words[1])) {
            *costs[i].value = atof(words[2]);
            return;
        }
    refuse(line, "unknown cost");
}

static int resource_of(const struct machine *m, const char *name, const char *line) {
    for (int i = 0; i < m->resources; i++)
        if (!strcmp(m->resource[i].name, name))
            return i;
    refuse(line, "unknown resource");
    return -1;
}

static void read_route(struct machine *m, char **words, int count, const char *line) {
    const int gpu = gpu_of(words[1], line);
    const int place = place_of(words[2], line);
    struct route *route = words[0][0] == 'r' ? &m->read[gpu][place] : &m->write[gpu][place];
    if (count - 4 > ROUTE_LENGTH)
        refuse(line, "too long a way");
    *route = (struct route){.known = true, .latency = atof(words[3]), .rate = 1e18};
    for (int i = 4; i < count; i++) {
        const int over = resource_of(m, words[i], line);
        route->over[route->length++] = over;
        if (m->resource[over].rate < route->rate)
            route->rate = m->resource[over].rate;
    }
}

static void read_line(struct machine *m, char **words, int count, const char *line) {
    const char *what = words[0];
    if (!strcmp(what, "machine") && count == 2) {
        snprintf(m->name, WORD, "%s", words[1]);
    } else if (!strcmp(what, "driver") && count == 3) {
        m->driver = atoi(words[1]);
        snprintf(m->driver_text, WORD, "%s", words[2]);
    } else if (!strcmp(what, "cost") && count == 3) {
        read_cost(m, words, line);
    } else if (!strcmp(what, "resource") && count == 3 && m->resources < MAX_RESOURCES) {
        struct resource *resource = &m->resource[m->resources++];
        snprintf(resource->name, WORD, "%s", words[1]);
        resource->rate = atof(words[2]);
    } else if (!strcmp(what, "gpu") && count >= 2) {
        read_gpu(m, words, count, line);
    } else if ((!strcmp(what, "level") || !strcmp(what, "nvlink")) && count == 4) {
        const int a = gpu_of(words[1], line);
        const int b = gpu_of(words[2], line);
        int *of_a = *what == 'l' ? m->gpu[a].levels : m->gpu[a].nvlinks;
        int *of_b = *what == 'l' ? m->gpu[b].levels : m->gpu[b].nvlinks;
        of_a[b] = of_b[a] = atoi(words[3]);
    } else if ((!strcmp(what, "read") || !strcmp(what, "write")) && count >= 4) {
        read_route(m, words, count, line);
    } else if (!strcmp(what, "fault") && count >= 2 && m->faults < MAX_FAULTS) {
        struct fault *fault = &m->fault[m->faults++];
        snprintf(fault->name, WORD, "%s", words[1]);
        fault->gpu = count > 2 ? gpu_of(words[2], line) : -1;
        fault->peer = count > 3 ? gpu_of(words[3], line) : -1;
    } else {
        refuse(line, "nothing to be made of it");
    }
}

static void read_machine(void) {
    const char *path = getenv("NUMAMICRO_STANDIN");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file)
        refuse(path ? path : "", "NUMAMICRO_STANDIN names no file that can be read;");
    char line[1024];
    while (fgets(line, sizeof line, file)) {
        char kept[sizeof line];
        char *words[64];
        char *rest = line;
        int count = 0;
        line[strcspn(line, "\n")] = 0;
        memcpy(kept, line, sizeof line);
        for (char *word; count < 64 && (word = strtok_r(rest, " ", &rest));)
            words[count++] = word;
        if (count)
            read_line(&the_machine, words, count, kept);
    }
    fclose(file);
}

const struct machine *machine(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_machine);
    return &the_machine;
}

bool has_fault(const char *name, int gpu, int peer) {
    const struct machine *m = machine();
    for (int i = 0; i < m->faults; i++) {
        const struct fault *f = &m->fault[i];
        if (!strcmp(f->name, name) && (f->gpu < 0 || f->gpu == gpu) &&
            (f->peer < 0 || f->peer == peer))
            return true;
    }
    return false;
}

bool may_access(int gpu, int peer) { return gpu != peer && machine()->read[gpu][peer].known; }
