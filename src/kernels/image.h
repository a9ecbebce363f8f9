/*
 * Defines kernels as host code: the image that a program passes to
 * cuModuleLoadData() in place of PTX, and the services that a software GPU
 * offers to running kernels. A real driver rejects an image with
 * CUDA_ERROR_INVALID_IMAGE, and a software GPU refuses PTX with the same error,
 * so a program tries one form after the other.
 */
#ifndef MRAIL_KERNELS_IMAGE_H
#define MRAIL_KERNELS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_KERNEL_MAGIC "mrailker" /* 8 bytes, without the final 0 */
#define MRAIL_KERNEL_VERSION 2u

typedef struct mrail_kernel_block mrail_kernel_block_t;

/* Services for a block. If the block must end, a service does not return. */
typedef struct mrail_kernel_ops {
    /* Returns the host address of device memory. A range that the context
     * cannot access ends the kernel with CUDA_ERROR_ILLEGAL_ADDRESS. */
    void *(*map)(mrail_kernel_block_t *block, uint64_t address, uint64_t bytes,
                 int is_write);
    /* Copies device or pinned memory. The call lasts as long as the links on
     * the path need. */
    void (*copy)(mrail_kernel_block_t *block, uint64_t to, uint64_t from,
                 uint64_t bytes);
    /* A loop that waits must call this in every iteration. */
    void (*pause)(mrail_kernel_block_t *block);
    /* Returns the time in nanoseconds since an arbitrary origin. */
    uint64_t (*now)(mrail_kernel_block_t *block);
} mrail_kernel_ops_t;

/* One block of a launch, which one thread of the host executes. */
struct mrail_kernel_block {
    const mrail_kernel_ops_t *ops;
    uint32_t index, num; /* index of this block, number of blocks */
};

typedef struct mrail_kernel_entry {
    const char *name;
    size_t args_size; /* size of `args`, the only parameter */
    void (*run)(mrail_kernel_block_t *block, const void *args);
} mrail_kernel_entry_t;

/* The image and its entries must outlive the module. */
typedef struct mrail_kernel_image {
    char magic[8];
    uint32_t version;
    uint32_t num_entries;
    const mrail_kernel_entry_t *entries;
} mrail_kernel_image_t;

/* The kernels of this directory. */
extern const mrail_kernel_image_t mrail_kernel_image;

/* The same kernels as PTX, or NULL if mrail was built without nvcc. */
extern const char *const mrail_kernel_ptx;

#endif
