/*
 * The bytes that each rail of a rank should carry of the relay chunks that
 * arrive over the network, one quota for each channel. The chunks of a channel
 * share its quota: for the loads of links, it does not matter which chunk takes
 * which rail, because all of them have the same ends. Pure.
 */
#ifndef MRAIL_MPI_COLL_RELAY_QUOTA_H
#define MRAIL_MPI_COLL_RELAY_QUOTA_H

#include "mpi/coll/topology.h"
#include "relay/relay.h"

typedef struct mca_coll_mrail_relay_quota {
    uint32_t from; /* the rank that sends the chunks over the network */
    /* by place of the rail in this rank's entry; includes headers */
    uint64_t bytes[UCT_MRAIL_MAX_RAILS];
} mca_coll_mrail_relay_quota_t;

/* Size in bytes of a chunk without its header, and of the part of the header
 * that a READ carries. */
typedef struct mca_coll_mrail_relay_sizes {
    size_t chunk, header;
} mca_coll_mrail_relay_sizes_t;

/*
 * Computes the quotas of the topology's rank `self`. Writes quotas[0..n), by the
 * order in which the flows mention their channels, and returns n. `quotas` has
 * room for the channels of this rank (mrail_relay_channels()). place[rank]
 * receives the index of a channel, or MRAIL_RELAY_NONE.
 *
 * Flows without a rail, and those whose rail this rank does not reach, add
 * nothing: any rail may carry their chunks.
 */
unsigned mca_coll_mrail_relay_quotas(const mca_coll_mrail_topology_t *topology,
                                     const mrail_relay_flow_t *flows,
                                     size_t num_flows,
                                     const mca_coll_mrail_relay_sizes_t *sizes,
                                     uint32_t *place,
                                     mca_coll_mrail_relay_quota_t *quotas);

#endif
