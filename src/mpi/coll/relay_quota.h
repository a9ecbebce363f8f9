/*
 * Computes how many bytes of relay chunks each rail of a rank should receive
 * over the network. Each channel has one quota, which all its chunks share. All
 * chunks of a channel have the same two ends, so it does not matter for the
 * loads of links which chunk takes which rail. The functions are pure.
 */
#ifndef MRAIL_MPI_COLL_RELAY_QUOTA_H
#define MRAIL_MPI_COLL_RELAY_QUOTA_H

#include "mpi/coll/topology.h"
#include "relay/relay.h"

typedef struct mca_coll_mrail_relay_quota {
    uint32_t from; /* the rank that sends the chunks over the network */
    /* by index of the rail in this rank's entry; the bytes include headers */
    uint64_t bytes[UCT_MRAIL_MAX_RAILS];
} mca_coll_mrail_relay_quota_t;

/* Size in bytes of a chunk without its header, and of the part of the header
 * that a READ carries. */
typedef struct mca_coll_mrail_relay_sizes {
    size_t chunk, header;
} mca_coll_mrail_relay_sizes_t;

/*
 * Computes the quotas of the topology's rank `self`. Writes quotas[0..n), in
 * the order in which the flows first use the channels, and returns n. `quotas`
 * must hold one element for each channel of this rank (mrail_relay_channels()).
 * place[rank] receives the index of the channel from that rank, or
 * MRAIL_RELAY_NONE.
 *
 * Some flows have no rail, or a rail that this rank does not reach. Quotas do
 * not include their bytes, so any rail may carry their chunks.
 */
unsigned mca_coll_mrail_relay_quotas(const mca_coll_mrail_topology_t *topology,
                                     const mrail_relay_flow_t *flows,
                                     size_t num_flows,
                                     const mca_coll_mrail_relay_sizes_t *sizes,
                                     uint32_t *place,
                                     mca_coll_mrail_relay_quota_t *quotas);

#endif
