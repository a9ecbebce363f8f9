/*
 * Handles device memory of the application: determines the kind of memory at an
 * address, and exports the memory to NICs as a dma-buf. No function changes the
 * current context of a thread.
 */
#ifndef MRAIL_CUDA_MEMORY_H
#define MRAIL_CUDA_MEMORY_H

#include "cuda/driver.h"

typedef enum mrail_cuda_memory {
    MRAIL_CUDA_HOST,    /* host memory, even if it is pinned or registered */
    MRAIL_CUDA_DEVICE,  /* the CPU cannot access it */
    MRAIL_CUDA_MANAGED, /* the driver moves it between host and devices */
} mrail_cuda_memory_t;

/* The allocation that contains an address. For host memory, only `memory` is
 * set, and the rest is 0. */
typedef struct mrail_cuda_range {
    mrail_cuda_memory_t memory;
    int device;         /* ordinal, as CUDA_VISIBLE_DEVICES numbers them */
    uint64_t buffer_id; /* differs for each allocation of the process, even at
                         * the same address; not 0 */
    uint64_t base;      /* address of the allocation */
    size_t size;        /* bytes of the allocation */
    /* context of the allocation; NULL: memory of cuMemMap() or of a pool */
    CUcontext ctx;
} mrail_cuda_range_t;

/*
 * Describes the memory at [address, address + length). A length of 0 counts as
 * 1. Without the driver, or before cuInit(), all memory is host memory. Any
 * thread may call it.
 *
 * Returns 0. With *range_p set for the first byte, returns:
 *   -EFAULT  one end is host memory, the other device or managed memory
 *   -ERANGE  the range is not within one allocation
 */
int mrail_cuda_recognise(const void *address, size_t length,
                         mrail_cuda_range_t *range_p);

/* Returns 1 if the CPU must not access the byte: it is in device memory, or in
 * managed memory, whose pages would migrate. Any thread may call it. */
static inline int mrail_cuda_is_device(const void *address)
{
    mrail_cuda_range_t range;

    (void)mrail_cuda_recognise(address, 1, &range);
    return range.memory != MRAIL_CUDA_HOST;
}

/* Returns a sentence for an error of mrail_cuda_recognise(). */
const char *mrail_cuda_range_text(int status);

/*
 * Makes a context current in which the memory can be used: the context of the
 * allocation or, if it has none, the primary context of its device. After each
 * successful call, the same thread must call mrail_cuda_leave(), which restores
 * the previous context. Returns 0, or -EIO if the driver rejects the context,
 * for example because it was destroyed.
 */
int mrail_cuda_enter(const mrail_cuda_range_t *range);
void mrail_cuda_leave(const mrail_cuda_range_t *range);

/*
 * Exports device memory that mrail_cuda_recognise() accepted, as a dma-buf that
 * covers whole pages. *offset_p is the offset of `address` in the dma-buf. The
 * caller closes the descriptor.
 *
 * Returns 0; -EOPNOTSUPP if the driver, the device or this kind of memory does
 * not support it; or -EIO.
 */
int mrail_cuda_export(const mrail_cuda_range_t *range, const void *address,
                      size_t length, int *fd_p, uint64_t *offset_p);

/* Makes every later cuMemcpy() call on the allocation return only after the
 * bytes have moved, even a call that could return earlier. This is necessary
 * because the order of a stream does not cover accesses by a NIC. Has no effect
 * on memory of cuMemCreate() and of pools, which lacks the attribute. Source:
 * [CUDA] GPUDirect RDMA, "Synchronization and Memory Ordering". */
void mrail_cuda_sync_copies(const mrail_cuda_range_t *range);

#endif
