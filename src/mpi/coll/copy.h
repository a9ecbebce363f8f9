/*
 * Copies between host and device memory by the copy engines of GPUs, and host
 * memory for these copies. Copies are not ordered with each other or with the
 * application's streams. The functions preserve the current context of the
 * thread. Any thread may call these functions.
 */
#ifndef MRAIL_MPI_COLL_COPY_H
#define MRAIL_MPI_COLL_COPY_H

#include "cuda/driver.h"

#include <stddef.h>

/* A copy in progress. A zeroed object is complete. */
typedef struct mca_coll_mrail_copy {
    CUevent event; /* NULL if complete */
    CUcontext ctx; /* context of the event */
} mca_coll_mrail_copy_t;

/* Starts a copy. Each of the two ranges may be in host or device memory.
 * Neither may change until the copy is complete. Returns 0, or prints an error
 * and returns -EIO. */
int mca_coll_mrail_copy_start(void *to, const void *from, size_t bytes,
                              mca_coll_mrail_copy_t *copy);
/* Returns 1 if the copy is complete, and 0 if it is in progress. If the copy
 * has failed, prints the error and returns -EIO. */
int mca_coll_mrail_copy_test(mca_coll_mrail_copy_t *copy);
/* Waits for a copy. Returns 0 or -EIO. */
int mca_coll_mrail_copy_wait(mca_coll_mrail_copy_t *copy);
/* Copies, and returns when the copy is complete. Returns 0 or -EIO. */
int mca_coll_mrail_copy_now(void *to, const void *from, size_t bytes);

/* A block of host memory. The memory is locked if possible, because the copy
 * engine can access only locked memory directly. */
typedef struct mca_coll_mrail_block {
    char *memory;
    size_t size;
    int is_pageable; /* 1 if the memory must not or cannot be locked */
    int is_locked;
    int gpu; /* as in mca_coll_mrail_block_lock() */
} mca_coll_mrail_block_t;

/* Returns a kept block, or allocates one. is_sparse: most of the memory will
 * never be used, so it must not be locked. Returns 0 or -ENOMEM. */
int mca_coll_mrail_block_get(size_t size, int is_sparse,
                             mca_coll_mrail_block_t *block);
/* Locks the memory before its first use, if possible. Later calls have no
 * effect. Uses the context of the thread, or the primary context of the GPU if
 * the thread has none. gpu: ordinal, or -1 to use only the thread's context. */
void mca_coll_mrail_block_lock(mca_coll_mrail_block_t *block, int gpu);
/* Keeps locked memory for later calls, unless the process already keeps enough,
 * and frees all other memory. All copies to and from it must be complete.
 * Ignores an empty block. */
void mca_coll_mrail_block_put(mca_coll_mrail_block_t *block);
/* Frees the memory and the streams of the process. */
void mca_coll_mrail_copy_close(void);

#endif
