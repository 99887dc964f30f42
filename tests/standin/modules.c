/* Modules: an image is read as a driver reads it, and each kernel in it must be in the stand-in. */
#include "driver.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

enum { EM_NVIDIA = 190, ABI_OF_NEW_NUMBERS = 8, PARAMETER_BYTES = 0x19, NAME = 128 };

struct module {
    struct function *functions;
};

static CUresult add(struct module *module, const char *name, size_t bytes, int registers) {
    const struct kernel *kernel = engine_find(name);
    if (!kernel || (bytes && bytes != kernel->args)) {
        fprintf(stderr, "stand-in: the image's kernel %s is not the one the stand-in has\n", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    struct function *function = malloc(sizeof *function);
    *function = (struct function){kernel, registers, module->functions};
    module->functions = function;
    return CUDA_SUCCESS;
}

/* Bytes of a kernel's parameters, from the attributes of its section; 0 when it has none. */
static size_t parameter_bytes(const char *image, const Elf64_Shdr *sections, int count,
                              const char *names, const char *kernel) {
    char wanted[NAME];
    snprintf(wanted, sizeof wanted, ".nv.info.%s", kernel);
    for (int i = 0; i < count; i++) {
        if (strcmp(names + sections[i].sh_name, wanted))
            continue;
        const char *at = image + sections[i].sh_offset;
        const char *end = at + sections[i].sh_size;
        while (at < end) { /* format, attribute, and 16 bits: the value, or the size of it */
            unsigned short value;
            memcpy(&value, at + 2, sizeof value);
            if (at[1] == PARAMETER_BYTES)
                return value;
            at += 4 + (at[0] == 4 ? value : 0);
        }
    }
    return 0;
}

static CUresult read_cubin(struct module *module, const char *image, int capability) {
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(image + head->e_shoff);
    const char *names = image + sections[head->e_shstrndx].sh_offset;
    if (head->e_machine != EM_NVIDIA)
        return CUDA_ERROR_INVALID_IMAGE;
    const int made_for =
        (int)(head->e_ident[EI_ABIVERSION] < ABI_OF_NEW_NUMBERS ? head->e_flags & 0xff
                                                                : head->e_flags >> 8 & 0xff);
    if (made_for / 10 != capability / 10 || made_for > capability)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    for (int i = 0; i < head->e_shnum; i++) {
        const char *name = names + sections[i].sh_name;
        if (strncmp(name, ".text.", 6))
            continue;
        const size_t bytes = parameter_bytes(image, sections, head->e_shnum, names, name + 6);
        CUresult result = add(module, name + 6, bytes, (int)(sections[i].sh_info >> 24));
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

/* The oldest driver that takes a version of the PTX language. */
static int driver_for(int major, int minor) {
    return major < 8 ? 11000 : major > 8 ? 13000 : 12000 + 10 * (minor <= 5 ? minor : minor + 1);
}

static CUresult read_ptx(struct module *module, const char *text, int capability) {
    int major = 0, minor = 0, target = 0;
    const char *version = strstr(text, ".version ");
    const char *made_for = strstr(text, ".target sm_");
    if (!version || !made_for || sscanf(version, ".version %d.%d", &major, &minor) != 2 ||
        sscanf(made_for, ".target sm_%d", &target) != 1)
        return CUDA_ERROR_INVALID_IMAGE;
    if (machine()->driver < driver_for(major, minor))
        return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    if (target > capability)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    for (const char *at = text; (at = strstr(at, ".entry "));) {
        char name[NAME];
        at += strlen(".entry ");
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "( \n"), at);
        CUresult result = add(module, name, 0, 32);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

API cuModuleUnload(CUmodule module) {
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (struct function *f = module->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(module);
    return CUDA_SUCCESS;
}

API cuModuleLoadData(CUmodule *module, const void *image) {
    NEEDS_CONTEXT;
    REFUSED_IN_CAPTURE;
    struct module *loaded = calloc(1, sizeof *loaded);
    const int capability = machine()->gpu[current->gpu].capability;
    CUresult result = memcmp(image, ELFMAG, SELFMAG) ? read_ptx(loaded, image, capability)
                                                     : read_cubin(loaded, image, capability);
    if (result) {
        cuModuleUnload(loaded);
        return result;
    }
    simulation_pass(__func__, machine()->module);
    *module = loaded;
    return CUDA_SUCCESS;
}

API cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    for (const struct function *f = module->functions; f; f = f->next)
        if (!strcmp(f->kernel->name, name)) {
            *function = f;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_NOT_FOUND;
}

API cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    enum { MAX_THREADS = 0, REGISTERS = 4 };
    if (attribute != MAX_THREADS && attribute != REGISTERS)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == MAX_THREADS ? 1024 : function->registers;
    return CUDA_SUCCESS;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                size_t shared) {
    (void)shared;
    if (threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    const int registers = function->registers > 16 ? function->registers : 16;
    const int by_threads = 2048 / threads;
    const int by_registers = 65536 / (registers * threads);
    *blocks = by_threads < by_registers ? by_threads : by_registers;
    return CUDA_SUCCESS;
}
