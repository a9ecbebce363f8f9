/*
 * The neighbours of a rank on a communicator with a Cartesian, graph or
 * distributed graph topology. They are the peers of its neighbourhood
 * collectives.
 */
#ifndef MRAIL_MPI_COLL_NEIGHBORS_H
#define MRAIL_MPI_COLL_NEIGHBORS_H

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"

/* Ranks in the order of the blocks. MPI_PROC_NULL means that a Cartesian
 * topology ends there. A zeroed object is valid and unknown. */
typedef struct mca_coll_mrail_neighbors {
    int is_known;
    int *sources, *targets;
    int num_sources, num_targets;
    /* 1 if a rank is more than once among the sources or the targets */
    int has_repeated_peers;
} mca_coll_mrail_neighbors_t;

/* Sets `neighbors`, unless they are known. Returns OMPI_SUCCESS,
 * MPI_ERR_TOPOLOGY if the communicator has no topology, or MPI_ERR_NO_MEM. */
int mca_coll_mrail_neighbors_find(mca_coll_mrail_neighbors_t *neighbors,
                                  struct ompi_communicator_t *comm);
void mca_coll_mrail_neighbors_cleanup(mca_coll_mrail_neighbors_t *neighbors);

#endif
