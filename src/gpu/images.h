/* The compiled kernels that the package carries. */
#ifndef NUMAMICRO_IMAGES_H
#define NUMAMICRO_IMAGES_H

#include <stddef.h>

struct image {
    const char *arch; /* sm_90: machine code for that capability; compute_70: PTX, text */
    const unsigned char *bytes;
    size_t size;
};

extern const struct image gpu_images[];
extern const int gpu_image_count; /* 0 where the package was built without kernels */

#endif
