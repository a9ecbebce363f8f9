/*
 * Computes the dimensions of the relay buffers. There are as many buffers as
 * any plan so far needs, but no more than the parameters allow. Equal inputs
 * give equal buffers on all ranks. This code does not use MPI.
 */
#ifndef MRAIL_MPI_COLL_POOL_SHAPE_H
#define MRAIL_MPI_COLL_POOL_SHAPE_H

#include "mpi/coll/topology.h"
#include "relay/shm_pool.h"

/*
 * Computes the dimensions for this rank's node. `channels` is the largest
 * number of ranks from which a rank receives over the network in the plan
 * (mrail_relay_channels()). Relay chunks have the same size on all nodes.
 *
 * Returns 0, or -ENOSPC if relay_memory is too small, or there are too many
 * channels or ranks per node. relay_memory covers all memory of the pool,
 * divided among the ranks of the node. If payloads are in other memory
 * (is_external), it also covers this memory.
 */
int mca_coll_mrail_pool_shape(const mca_coll_mrail_topology_t *topology,
                              unsigned channels, int is_external,
                              mrail_relay_shape_t *shape_p);

#endif
