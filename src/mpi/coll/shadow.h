/*
 * A shadow is host memory that replaces a buffer in device memory for one call.
 * The addresses of the shadow are those of the buffer plus a constant, so that
 * counts, displacements and datatypes hold for both. Any code that moves host
 * memory can therefore serve the call, and other ranks notice nothing.
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
    uint64_t base; /* address of the device allocation; 0: host memory */
} mca_coll_mrail_region_t;

/* The shadow of one side of a call. A zeroed object has none. */
typedef struct mca_coll_mrail_shadow {
    mca_coll_mrail_region_t *regions; /* by address */
    unsigned num_regions;
    int is_device; /* 1: some region is device memory */
    int gpu;       /* ordinal of the GPU; -1: several */
    int is_mixed;  /* 1: some region is device memory, some is not */
    int has_gaps;  /* 1: some datatype has gaps */
    int is_filled; /* 1: the shadow takes the place of the buffer */
    mca_coll_mrail_block_t block;
    ptrdiff_t shift; /* address of the shadow, minus that of the buffer */
} mca_coll_mrail_shadow_t;

typedef struct mca_coll_mrail_shadows {
    mca_coll_mrail_shadow_t send, recv;
} mca_coll_mrail_shadows_t;

static inline int
mca_coll_mrail_shadows_are_needed(const mca_coll_mrail_shadows_t *shadows)
{
    return shadows->send.is_device || shadows->recv.is_device;
}

/* Determines in which kind of memory the buffers are. `shadows` need not be
 * initialised, and must be cleaned up whatever the result. Returns
 * OMPI_SUCCESS, MPI_ERR_BUFFER for memory that cannot be moved (the error has
 * been printed), or MPI_ERR_NO_MEM. */
int mca_coll_mrail_shadows_init(mca_coll_mrail_shadows_t *shadows,
                                const mca_coll_mrail_args_t *args, int ranks);
/* Reserves the shadows that are needed. Fills only the shadows of buffers that
 * have gaps or are partly host memory, and puts them into `args` in place of
 * the buffers. Returns the same codes as mca_coll_mrail_shadows_init(). */
int mca_coll_mrail_shadows_reserve(mca_coll_mrail_shadows_t *shadows,
                                   mca_coll_mrail_args_t *args);
/* Fills the other shadows as well, and puts them into `args`. */
int mca_coll_mrail_shadows_fill(mca_coll_mrail_shadows_t *shadows,
                                mca_coll_mrail_args_t *args);
/* Copies received data from a shadow that was filled to the buffer. Returns
 * OMPI_SUCCESS or MPI_ERR_BUFFER. */
int mca_coll_mrail_shadows_drain(const mca_coll_mrail_shadows_t *shadows);
void mca_coll_mrail_shadows_cleanup(mca_coll_mrail_shadows_t *shadows);
/* Cleans up shadows from malloc(3), and frees them. NULL is allowed. */
void mca_coll_mrail_shadows_free(mca_coll_mrail_shadows_t *shadows);

#endif
