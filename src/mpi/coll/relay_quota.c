#include "config.h"
#include "mpi/coll/relay_quota.h"

/* Returns the rank from which `self` receives the chunks of a flow over the
 * network, or MRAIL_RELAY_NONE. */
static uint32_t channel_of(const mca_coll_mrail_topology_t *topology,
                           const mrail_relay_flow_t *flow)
{
    uint32_t to =
        (flow->relay_in != MRAIL_RELAY_NONE) ? flow->relay_in : flow->to;

    if (to != topology->self || flow->bytes == 0 ||
        topology->node_of[flow->from] == topology->node_of[flow->to]) {
        return MRAIL_RELAY_NONE;
    }
    return (flow->relay_out != MRAIL_RELAY_NONE) ? flow->relay_out : flow->from;
}

static void add_flow(const mca_coll_mrail_topology_t *topology,
                     const mrail_relay_flow_t *flow,
                     const mca_coll_mrail_relay_sizes_t *sizes,
                     mca_coll_mrail_relay_quota_t *quota)
{
    uint64_t chunks = (flow->bytes - 1) / sizes->chunk + 1;
    int rail = (flow->rail_in < topology->num_rails)
                   ? mca_coll_mrail_topology_own_rail(topology, flow->rail_in)
                   : -1;

    if (rail >= 0) {
        quota->bytes[rail] += flow->bytes + chunks * sizes->header;
    }
}

unsigned mca_coll_mrail_relay_quotas(const mca_coll_mrail_topology_t *topology,
                                     const mrail_relay_flow_t *flows,
                                     size_t num_flows,
                                     const mca_coll_mrail_relay_sizes_t *sizes,
                                     uint32_t *place,
                                     mca_coll_mrail_relay_quota_t *quotas)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        place[i] = MRAIL_RELAY_NONE;
    }
    for (size_t i = 0; i < num_flows; ++i) {
        uint32_t from = channel_of(topology, &flows[i]);

        if (from == MRAIL_RELAY_NONE) {
            continue;
        }
        if (place[from] == MRAIL_RELAY_NONE) {
            place[from] = count;
            quotas[count++] = (mca_coll_mrail_relay_quota_t){.from = from};
        }
        add_flow(topology, &flows[i], sizes, &quotas[place[from]]);
    }
    return count;
}
