#include "images.h"

const struct image gpu_images[1] = {{0}};
const int gpu_image_count = 0;
