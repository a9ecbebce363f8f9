/*
 * Copies between host and device memory by the copy engines of GPUs, and host
 * memory for them. Copies are ordered neither among each other nor with the
 * application's streams. No function changes the current context of a thread.
 * Any thread may call them.
 */
#ifndef MRAIL_MPI_COLL_COPY_H
#define MRAIL_MPI_COLL_COPY_H

#include "cuda/driver.h"

#include <stddef.h>

/* A copy in progress. A zeroed object is complete. */
typedef struct mca_coll_mrail_copy {
    CUevent event; /* NULL: complete */
    CUcontext ctx; /* of the event */
} mca_coll_mrail_copy_t;

/* Starts a copy. Both ends may be host or device memory. They must not change
 * until the copy is complete. Returns 0, or -EIO: the error has been
 * printed. */
int mca_coll_mrail_copy_start(void *to, const void *from, size_t bytes,
                              mca_coll_mrail_copy_t *copy);
/* Returns 1 if the copy is complete, 0 if not, or -EIO: the error has been
 * printed, and the copy has ended. */
int mca_coll_mrail_copy_test(mca_coll_mrail_copy_t *copy);
/* Waits for a copy. Returns 0 or -EIO. */
int mca_coll_mrail_copy_wait(mca_coll_mrail_copy_t *copy);
/* Copies, and waits. Returns 0 or -EIO. */
int mca_coll_mrail_copy_now(void *to, const void *from, size_t bytes);

/* Host memory, locked if possible, so that copies to and from it need no
 * further copy. */
typedef struct mca_coll_mrail_block {
    char *memory;
    size_t size;
    int is_pageable; /* 1: it must not be locked, or cannot be */
    int is_locked;
} mca_coll_mrail_block_t;

/* is_sparse: most of the memory will never be used, so it must not be locked.
 * Returns 0 or -ENOMEM. */
int mca_coll_mrail_block_get(size_t size, int is_sparse,
                             mca_coll_mrail_block_t *block);
/* Locks the memory before its first use, if possible. Later calls do
 * nothing. */
void mca_coll_mrail_block_lock(mca_coll_mrail_block_t *block);
/* Keeps the memory for later calls, or frees it if the process keeps too much
 * already. All copies to and from it must be complete. An empty block is left
 * as it is. */
void mca_coll_mrail_block_put(mca_coll_mrail_block_t *block);
/* Frees the memory and the streams of the process. */
void mca_coll_mrail_copy_close(void);

#endif
