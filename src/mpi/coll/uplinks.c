#include "config.h"
#include "mpi/coll/uplinks.h"

#include "base/util.h"
#include "orchestrator/topo.h"

#include <math.h>

/* The division of a rail's bytes from one rank to another over its uplinks. */
typedef struct split {
    unsigned count;                           /* number of paths; 0 if
                                               * unknown */
    double paths[MCA_COLL_MRAIL_MAX_UPLINKS]; /* capacities */
} split_t;

/* Returns the number of a rank's lanes that use an uplink. */
static unsigned lanes_on(const uct_mrail_direct_lanes_t *lanes, unsigned place,
                         uint64_t uplink)
{
    uint64_t first = (uint64_t)lanes->nic_index[place] * lanes->num_lanes;
    unsigned count = 0;

    for (uint32_t lane = 0; lane < lanes->num_lanes; ++lane) {
        count += (first + lane) % lanes->uplinks == uplink;
    }
    return count;
}

/* Returns the weight of an uplink: 0 if no lane uses it; its capacity if all
 * capacities are known; otherwise the number of its lanes, because lanes carry
 * equal parts. */
static double weight_of(const uct_mrail_direct_lanes_t *lanes, unsigned place,
                        const split_t *split, unsigned uplink)
{
    unsigned count = lanes_on(lanes, place, uplink);

    return (split->count == lanes->uplinks) ? (count > 0) * split->paths[uplink]
                                            : count;
}

/* Splits bytes across the uplinks of a sender's lanes, and adds them to `row`,
 * the sums by uplink. */
static void add_lanes(unsigned long long *row,
                      const uct_mrail_direct_lanes_t *lanes, unsigned place,
                      const split_t *split, uint64_t bytes)
{
    unsigned count = MRAIL_MIN(lanes->uplinks, MCA_COLL_MRAIL_MAX_UPLINKS);
    double sum = 0, left = (double)bytes;

    for (unsigned i = 0; i < lanes->uplinks; ++i) {
        sum += weight_of(lanes, place, split, i);
    }
    for (unsigned i = 0; i < count && sum > 0; ++i) {
        double weight = weight_of(lanes, place, split, i);
        double part = ceil(left * weight / sum);

        row[i] += (unsigned long long)part;
        left -= part;
        sum -= weight;
    }
}

/* Returns 1 if the two ends of a piece are on different leaves. */
static int is_far(const mca_coll_mrail_topology_t *topology,
                  const mrail_plan_demand_t *demand,
                  const mrail_plan_piece_t *piece)
{
    return piece->rail_out != piece->rail_in ||
           (topology->file != NULL &&
            mrail_topo_group_of(topology->file,
                                topology->world[demand->from]) !=
                mrail_topo_group_of(topology->file,
                                    topology->world[demand->to]));
}

/* Adds the bytes of a piece to the uplinks that it crosses. It takes the uplink
 * of the sender's port at both leaves. */
static void add_piece(mca_coll_mrail_uplinks_t *uplinks,
                      const mca_coll_mrail_topology_t *topology,
                      const mrail_plan_demand_t *demand,
                      const mrail_plan_piece_t *piece,
                      mca_coll_mrail_lanes_func_t lanes_of, void *arg)
{
    uint32_t from =
        (piece->relay_out != MRAIL_PLAN_NONE) ? piece->relay_out : demand->from;
    uint32_t to =
        (piece->relay_in != MRAIL_PLAN_NONE) ? piece->relay_in : demand->to;
    int out = mca_coll_mrail_topology_place(topology, from, piece->rail_out);
    int in = mca_coll_mrail_topology_place(topology, to, piece->rail_in);
    const uct_mrail_direct_lanes_t *lanes;
    split_t split = {.count = 0};

    if (out < 0 || in < 0 || (from != topology->self && to != topology->self)) {
        return;
    }
    lanes = lanes_of(arg, from);
    if (lanes == NULL || lanes->uplinks == 0) {
        return;
    }
    if (piece->rail_out == piece->rail_in) {
        split.count = mca_coll_mrail_topology_uplinks(
            topology, from, to, piece->rail_in, split.paths);
    }
    if (from == topology->self) {
        add_lanes(uplinks->up[out], lanes, (unsigned)out, &split, piece->bytes);
    }
    if (to == topology->self) {
        add_lanes(uplinks->down[in], lanes, (unsigned)out, &split,
                  piece->bytes);
    }
}

void mca_coll_mrail_uplinks_add(mca_coll_mrail_uplinks_t *uplinks,
                                const mca_coll_mrail_schedule_t *schedule,
                                mca_coll_mrail_lanes_func_t lanes_of, void *arg)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];

    for (size_t i = 0; i < schedule->num_demands; ++i) {
        const mrail_plan_demand_t *demand = &schedule->demands[i];
        unsigned count = 0;

        if (topology->node_of[demand->from] != topology->node_of[demand->to]) {
            count = mrail_plan_pieces(schedule->plan, i, pieces);
        }
        for (unsigned k = 0; k < count; ++k) {
            if (is_far(topology, demand, &pieces[k])) {
                add_piece(uplinks, topology, demand, &pieces[k], lanes_of, arg);
            }
        }
    }
}
