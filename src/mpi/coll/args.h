/*
 * The arguments of an exchange, in one form for all MPI functions, and the
 * datatype segments that they describe.
 */
#ifndef MRAIL_MPI_COLL_ARGS_H
#define MRAIL_MPI_COLL_ARGS_H

#include "mpi/coll/dt_segment.h"

#include "ompi/datatype/ompi_datatype.h"

#include <stddef.h>
#include <stdint.h>

/* MPI functions. A nonblocking or persistent function has the value of its
 * blocking form. */
typedef enum mca_coll_mrail_func {
    MCA_COLL_MRAIL_ALLTOALL,
    MCA_COLL_MRAIL_ALLTOALLV,
    MCA_COLL_MRAIL_ALLTOALLW,
    MCA_COLL_MRAIL_ALLGATHERV,
    MCA_COLL_MRAIL_NEIGHBOR_ALLGATHER,
    MCA_COLL_MRAIL_NEIGHBOR_ALLGATHERV,
    MCA_COLL_MRAIL_NEIGHBOR_ALLTOALL,
    MCA_COLL_MRAIL_NEIGHBOR_ALLTOALLV,
    MCA_COLL_MRAIL_NEIGHBOR_ALLTOALLW,
    MCA_COLL_MRAIL_NUM_FUNCS
} mca_coll_mrail_func_t;

/* Returns 1 if the peers of a function are the neighbours of a rank, not all
 * ranks. */
static inline int
mca_coll_mrail_func_is_neighborhood(mca_coll_mrail_func_t func)
{
    return func >= MCA_COLL_MRAIL_NEIGHBOR_ALLGATHER;
}

/* Where a buffer contains the blocks of the peers. */
typedef enum mca_coll_mrail_layout {
    MCA_COLL_MRAIL_LAYOUT_BLOCKS, /* consecutive blocks of `count` elements */
    /* the same block of `count` elements for all peers */
    MCA_COLL_MRAIL_LAYOUT_SHARED,
    MCA_COLL_MRAIL_LAYOUT_V, /* `counts`, and `disps` in extents of `type` */
    MCA_COLL_MRAIL_LAYOUT_W  /* `counts`, `types`, and displacements in bytes */
} mca_coll_mrail_layout_t;

/* The send or receive side of a call. Arrays have one element for each block. */
typedef struct mca_coll_mrail_args_side {
    mca_coll_mrail_layout_t layout;
    const void *buffer;
    int count;                            /* LAYOUT_BLOCKS, LAYOUT_SHARED */
    const int *counts;                    /* LAYOUT_V, LAYOUT_W */
    const int *disps;                     /* LAYOUT_V, LAYOUT_W */
    const ptrdiff_t *wide_disps;          /* LAYOUT_W, if `disps` is NULL */
    struct ompi_datatype_t *type;         /* all except LAYOUT_W */
    struct ompi_datatype_t *const *types; /* LAYOUT_W */
    /* The ranks of the blocks, some of which may be MPI_PROC_NULL. If NULL,
     * block i belongs to rank i. */
    const int *peers;
    int num_peers;
} mca_coll_mrail_args_side_t;

typedef struct mca_coll_mrail_args {
    mca_coll_mrail_func_t func;
    mca_coll_mrail_args_side_t send; /* buffer may be MPI_IN_PLACE */
    mca_coll_mrail_args_side_t recv;
    /* 1 if this rank cannot take part, for example because a peer has several
     * blocks. The call then goes to the previous module on all ranks. */
    int is_refused;
} mca_coll_mrail_args_t;

/* Returns 1 if this rank sends more than `threshold` bytes to another rank. */
int mca_coll_mrail_args_is_large(const mca_coll_mrail_args_t *args, int self,
                                 uint64_t threshold);

/* Fills in the segment of block i, which is empty for MPI_PROC_NULL. The buffer
 * of `side` must not be MPI_IN_PLACE. */
void mca_coll_mrail_args_block(const mca_coll_mrail_args_side_t *side, int i,
                               mca_coll_mrail_dt_segment_t *segment);

/* Fills in the segments of `side`, by rank. Ranks that are not peers have empty
 * segments. The buffer of `side` must not be MPI_IN_PLACE, and no peer may have
 * several blocks. */
void mca_coll_mrail_args_segments(const mca_coll_mrail_args_side_t *side,
                                  int ranks,
                                  mca_coll_mrail_dt_segment_t *segments);

#endif
