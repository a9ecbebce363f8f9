/*
 * A shadow is host memory that replaces a buffer in device memory for one call.
 * An address in the shadow is the buffer's address plus a constant, so
 * counts, displacements and datatypes are valid for both. Any code that moves
 * host memory can therefore perform the call, transparently to other ranks.
 *
 * Only the bytes between the first and the last byte of each segment are
 * copied. If a datatype has gaps, these bytes include the gaps, which the
 * application must not change during the call.
 */
#ifndef MRAIL_MPI_COLL_SHADOW_H
#define MRAIL_MPI_COLL_SHADOW_H

#include "mpi/coll/args.h"
#include "mpi/coll/copy.h"
#include "mpi/coll/dt_segment.h"

/* Consecutive bytes of a buffer. */
typedef struct mca_coll_mrail_region {
    char *first;
    size_t bytes;
    uint64_t base; /* address of the device allocation; 0 for host memory */
} mca_coll_mrail_region_t;

/* The shadow of one side of a call. A zeroed object is valid and has no
 * shadow. */
typedef struct mca_coll_mrail_shadow {
    mca_coll_mrail_region_t *regions; /* by address */
    unsigned num_regions;
    int is_device; /* 1 if some region is device memory */
    int gpu;       /* ordinal of the GPU; -1 if there are several GPUs */
    int is_mixed;  /* 1 if some regions are device memory, others are not */
    int has_gaps;  /* 1 if some datatype has gaps */
    int is_filled; /* 1 if the shadow replaces the buffer */
    mca_coll_mrail_block_t block;
    ptrdiff_t shift; /* address of the shadow minus address of the buffer */
} mca_coll_mrail_shadow_t;

typedef struct mca_coll_mrail_shadows {
    mca_coll_mrail_shadow_t send, recv;
} mca_coll_mrail_shadows_t;

static inline int
mca_coll_mrail_shadows_are_needed(const mca_coll_mrail_shadows_t *shadows)
{
    return shadows->send.is_device || shadows->recv.is_device;
}

/* Determines the kind of memory of each buffer. `shadows` need not be
 * initialised, and must be cleaned up even after a failure. Returns
 * OMPI_SUCCESS, MPI_ERR_BUFFER for memory that cannot be moved (the error has
 * been printed), or MPI_ERR_NO_MEM. */
int mca_coll_mrail_shadows_init(mca_coll_mrail_shadows_t *shadows,
                                const mca_coll_mrail_args_t *args);
/* Reserves the required shadows. Fills only the shadows of buffers that have
 * gaps or are partly in host memory, and replaces these buffers in `args`.
 * Returns the same codes as mca_coll_mrail_shadows_init(). */
int mca_coll_mrail_shadows_reserve(mca_coll_mrail_shadows_t *shadows,
                                   mca_coll_mrail_args_t *args);
/* Fills the other shadows as well, and replaces their buffers in `args`.
 * Returns the same codes. */
int mca_coll_mrail_shadows_fill(mca_coll_mrail_shadows_t *shadows,
                                mca_coll_mrail_args_t *args);
/* Copies received data from the filled shadows to their buffers. Returns
 * OMPI_SUCCESS or MPI_ERR_BUFFER. */
int mca_coll_mrail_shadows_drain(const mca_coll_mrail_shadows_t *shadows);
void mca_coll_mrail_shadows_cleanup(mca_coll_mrail_shadows_t *shadows);
/* Cleans up and frees shadows from malloc(3). NULL is allowed. */
void mca_coll_mrail_shadows_free(mca_coll_mrail_shadows_t *shadows);

#endif
