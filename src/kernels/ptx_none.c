/* A build without nvcc has no kernels for GPUs. */
#include "config.h"
#include "kernels/image.h"

const char *const mrail_kernel_ptx = NULL;
