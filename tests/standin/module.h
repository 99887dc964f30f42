/* What a loaded image offers. */
#ifndef STANDIN_MODULE_H
#define STANDIN_MODULE_H

#include "engine.h"

struct function {
    const struct kernel *kernel;
    int registers;
    struct function *next;
};

#endif
