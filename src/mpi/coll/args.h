/*
 * The arguments of an exchange, in one form for all MPI functions, and the
 * datatype segments that they describe.
 */
#ifndef MRAIL_MPI_COLL_ARGS_H
#define MRAIL_MPI_COLL_ARGS_H

#include "mpi/coll/dt_segment.h"

#include "ompi/datatype/ompi_datatype.h"

#include <stdint.h>

/* MPI functions. A nonblocking function has the value of its blocking form. */
typedef enum mca_coll_mrail_func {
    MCA_COLL_MRAIL_ALLTOALL,
    MCA_COLL_MRAIL_ALLTOALLV,
    MCA_COLL_MRAIL_ALLTOALLW,
    MCA_COLL_MRAIL_NUM_FUNCS
} mca_coll_mrail_func_t;

/* The send or receive side of a call. Arrays are indexed by rank. */
typedef struct mca_coll_mrail_args_side {
    const void *buffer;
    int count;                            /* MPI_Alltoall */
    const int *counts, *disps;            /* MPI_Alltoallv, MPI_Alltoallw */
    struct ompi_datatype_t *type;         /* not used by MPI_Alltoallw */
    struct ompi_datatype_t *const *types; /* MPI_Alltoallw */
} mca_coll_mrail_args_side_t;

typedef struct mca_coll_mrail_args {
    mca_coll_mrail_func_t func;
    mca_coll_mrail_args_side_t send; /* buffer may be MPI_IN_PLACE */
    mca_coll_mrail_args_side_t recv;
} mca_coll_mrail_args_t;

/* Returns 1 if this rank sends more than `threshold` bytes to another rank. */
int mca_coll_mrail_args_is_large(const mca_coll_mrail_args_t *args, int ranks,
                                 int self, uint64_t threshold);

/* Fills in the segments of `side`, by rank. The buffer of `side` must not be
 * MPI_IN_PLACE. */
void mca_coll_mrail_args_segments(mca_coll_mrail_func_t func,
                                  const mca_coll_mrail_args_side_t *side,
                                  int ranks,
                                  mca_coll_mrail_dt_segment_t *segments);

#endif
