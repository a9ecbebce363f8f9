/*
 * Kernels as host code: what a program passes to cuModuleLoadData() in place of
 * PTX, and what a software GPU offers to the kernels that it runs. A real driver
 * refuses an image with CUDA_ERROR_INVALID_IMAGE, and a software GPU refuses
 * PTX with the same error, so a program tries one after the other.
 */
#ifndef MRAIL_KERNELS_IMAGE_H
#define MRAIL_KERNELS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_KERNEL_MAGIC "mrailker" /* 8 bytes, without the final 0 */
#define MRAIL_KERNEL_VERSION 1u

typedef struct mrail_kernel_block mrail_kernel_block_t;

/* Services for a block. If the block must end, they do not return. */
typedef struct mrail_kernel_ops {
    /* Returns the place at which host code accesses device memory. A range that
     * the context cannot access ends the kernel with
     * CUDA_ERROR_ILLEGAL_ADDRESS. */
    void *(*map)(mrail_kernel_block_t *block, uint64_t address, uint64_t bytes,
                 int is_write);
    /* Copies device or pinned memory, and takes the time that the links on the
     * way need. */
    void (*copy)(mrail_kernel_block_t *block, uint64_t to, uint64_t from,
                 uint64_t bytes);
    /* A loop that waits must call this in every iteration. */
    void (*pause)(mrail_kernel_block_t *block);
} mrail_kernel_ops_t;

/* One block of a launch, which one thread of the host executes. */
struct mrail_kernel_block {
    const mrail_kernel_ops_t *ops;
    uint32_t index, num; /* of the blocks in the launch */
};

typedef struct mrail_kernel_entry {
    const char *name;
    size_t args_size; /* of its only parameter, a struct */
    void (*run)(mrail_kernel_block_t *block, const void *args);
} mrail_kernel_entry_t;

/* The image and its entries must outlive the module. */
typedef struct mrail_kernel_image {
    char magic[8];
    uint32_t version;
    uint32_t num_entries;
    const mrail_kernel_entry_t *entries;
} mrail_kernel_image_t;

/* The kernels of this folder. */
extern const mrail_kernel_image_t mrail_kernel_image;

#endif
