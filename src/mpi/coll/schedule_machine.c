/* Derives from the records the planner's topology, and the loads that the
 * planner cannot move. */
#include "config.h"
#include "mpi/coll/schedule_internal.h"

#include "base/util.h"
#include "orchestrator/topo.h"

/* Every plan reaches this gap. It is far below the 5 % by which an exchange may
 * exceed its bound. */
#define GAP 0.01
/* Large jobs accept more relayed bytes than the planner's default. Planning
 * with a smaller gap often takes ten times as long, which is longer than the
 * exchange. */
#define LARGE_JOB 128u
#define LARGE_JOB_RELAYED_GAP 0.06

/* ---- capacities ---- */

/* Returns the lower of the port's rate and the sum of the rates that ranks
 * measured. A rank that did not use the rail has no measurement. */
static double capacity(double port, double measured)
{
    double rate = (measured > 0) ? MRAIL_MIN(port, measured) : port;

    if (port <= 0) {
        return 0;
    }
    return MRAIL_MAX(MRAIL_MIN(rate, MRAIL_PLAN_MAX_CAPACITY),
                     MRAIL_PLAN_MIN_CAPACITY);
}

/* Adds numbers without overflow, because the records of other ranks may contain
 * any values. */
static void add_small(uint64_t *sum, uint64_t bytes)
{
    *sum += MRAIL_MIN(bytes, MRAIL_PLAN_MAX_BACKGROUND - *sum);
}

/* Adds the rates that a rank reports for its rails. Small demands use all rails
 * of a rank equally. */
static void read_rank(mca_coll_mrail_schedule_t *schedule, uint32_t rank,
                      const uint64_t *record)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    unsigned count = mca_coll_mrail_topology_num_rails(topology, rank);

    for (unsigned k = 0; k < count; ++k) {
        mca_coll_mrail_rail_rate_t rate = mca_coll_mrail_record_rail(record, k);
        mca_coll_mrail_rail_t *rail = mca_coll_mrail_schedule_rail(
            topology, schedule->new_rails, topology->node_of[rank],
            mca_coll_mrail_topology_rail(topology, rank, k));
        double port = (double)rate.port;

        rail->port = (rail->port < 0) ? port : MRAIL_MIN(rail->port, port);
        rail->out += (double)rate.out;
        rail->in += (double)rate.in;
        add_small(&rail->small_out,
                  mca_coll_mrail_record_small_out(record) / count);
        add_small(&rail->small_in,
                  mca_coll_mrail_record_small_in(record) / count);
    }
}

void mca_coll_mrail_schedule_read_rails(mca_coll_mrail_schedule_t *schedule,
                                        const mca_coll_mrail_records_t *records)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    mca_coll_mrail_rail_t *rails = schedule->new_rails;

    for (size_t i = 0; i < mca_coll_mrail_schedule_num_rails(topology); ++i) {
        rails[i] = (mca_coll_mrail_rail_t){.port = -1};
    }
    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        read_rank(schedule, i, mca_coll_mrail_records_get(records, i));
    }
    for (size_t i = 0; i < mca_coll_mrail_schedule_num_rails(topology); ++i) {
        rails[i].out = capacity(rails[i].port, rails[i].out);
        rails[i].in = capacity(rails[i].port, rails[i].in);
    }
}

int mca_coll_mrail_schedule_same_rails(
    const mca_coll_mrail_schedule_t *schedule)
{
    for (size_t i = 0;
         i < mca_coll_mrail_schedule_num_rails(schedule->topology); ++i) {
        if (schedule->rails[i].out != schedule->new_rails[i].out ||
            schedule->rails[i].in != schedule->new_rails[i].in) {
            return 0;
        }
    }
    return 1;
}

/* ---- topology ---- */

static int add_ports(const mca_coll_mrail_schedule_t *schedule,
                     mrail_plan_topo_t *topo)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    int ret = 0;

    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        for (unsigned rail = 0; rail < topology->num_rails && ret == 0;
             ++rail) {
            const mca_coll_mrail_rail_t *now = mca_coll_mrail_schedule_rail(
                topology, schedule->rails, node, rail);

            ret = mrail_plan_topo_set_rail(topo, node, rail, now->out, now->in);
        }
    }
    return ret;
}

/* Adds the next rank with its rails. */
static int add_rank(const mca_coll_mrail_topology_t *topology, uint32_t rank,
                    mrail_plan_topo_t *topo)
{
    int ret = mrail_plan_topo_add_rank(topo, topology->node_of[rank]);

    for (unsigned rail = 0; rail < topology->num_rails && ret == 0; ++rail) {
        double out = MRAIL_PLAN_UNLIMITED, in = MRAIL_PLAN_UNLIMITED;

        if ((topology->rails_of[rank] >> rail & 1) == 0) {
            continue;
        }
        if (topology->file != NULL) {
            mrail_plan_topo_reach(topology->file, topology->world[rank], rail,
                                  &out, &in);
        }
        ret = mrail_plan_topo_set_reach(topo, rank, rail, out, in);
    }
    return ret;
}

/* Adds the link over which a rank copies bytes of its node: from and to the
 * GPU, or through shared memory. */
static int add_link(const mca_coll_mrail_schedule_t *schedule, uint32_t rank,
                    mrail_plan_topo_t *topo)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    double copy_bandwidth = (double)topology->params.copy_bandwidth;

    return schedule->is_on_devices
               ? mca_coll_mrail_gpus_add(topology->gpus, rank, copy_bandwidth,
                                         topo)
               : mrail_plan_topo_set_switch(topo, rank, copy_bandwidth,
                                            copy_bandwidth);
}

/* Puts the node of a rank into its leaf group, and sets the uplinks of this
 * group. */
static int add_group(const mca_coll_mrail_topology_t *topology, uint32_t rank,
                     mrail_plan_topo_t *topo)
{
    uint32_t group = mrail_topo_group_of(topology->file, topology->world[rank]);
    int ret =
        mrail_plan_topo_set_leaf_group(topo, topology->node_of[rank], group);

    for (unsigned rail = 0; rail < topology->num_rails && ret == 0; ++rail) {
        mrail_topo_port_t uplink =
            mrail_topo_uplinks(topology->file, group, rail);

        if (uplink.out >= 0) {
            ret = mrail_plan_topo_set_uplink(topo, group, rail, uplink.out,
                                             uplink.in);
        }
    }
    return ret;
}

static int fill_topo(const mca_coll_mrail_schedule_t *schedule,
                     mrail_plan_topo_t *topo)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    int ret = add_ports(schedule, topo);

    for (uint32_t i = 0; i < topology->num_ranks && ret == 0; ++i) {
        ret = add_rank(topology, i, topo);
        if (ret == 0 && topology->file != NULL) {
            ret = add_group(topology, i, topo);
        }
    }
    for (uint32_t i = 0; i < topology->num_ranks && ret == 0; ++i) {
        ret = add_link(schedule, i, topo);
    }
    mrail_plan_topo_set_cross_rail(
        topo, mca_coll_mrail_topology_has_cross_rail(topology));
    return ret;
}

/* Relay buffers are on GPUs if all ranks have one, and all demands are between
 * device memory. If there are several nodes, all ranks must also support
 * READs. */
static int is_on_devices(const mca_coll_mrail_schedule_t *schedule)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    const mca_coll_mrail_gpus_t *gpus = topology->gpus;

    return gpus != NULL && gpus->is_known && gpus->has_all &&
           !gpus->is_refused &&
           (topology->num_nodes < 2 || topology->has_reads) &&
           mca_coll_mrail_gpus_serve(&schedule->records);
}

/* Creates the plan object, or keeps the existing one if no capacity has
 * changed, because it is valid for only one set of capacities. */
int mca_coll_mrail_schedule_need_plan(mca_coll_mrail_schedule_t *schedule)
{
    size_t size = mca_coll_mrail_schedule_num_rails(schedule->topology) *
                  sizeof(*schedule->rails);
    mrail_plan_options_t options = MRAIL_PLAN_DEFAULTS;
    int ret, is_same, was_on_devices = schedule->is_on_devices;

    mca_coll_mrail_schedule_read_rails(schedule, &schedule->records);
    schedule->is_on_devices = is_on_devices(schedule);
    is_same = schedule->plan != NULL &&
              schedule->is_on_devices == was_on_devices &&
              mca_coll_mrail_schedule_same_rails(schedule);
    memcpy(schedule->rails, schedule->new_rails, size);
    if (is_same) {
        return 0;
    }
    mca_coll_mrail_schedule_discard_plan(schedule);
    ret =
        mrail_plan_topo_create(schedule->topology->num_nodes,
                               schedule->topology->num_rails, &schedule->topo);
    if (ret < 0) {
        return ret;
    }
    ret = fill_topo(schedule, schedule->topo);
    if (ret < 0) {
        return ret;
    }
    options.gap = GAP;
    if (schedule->topology->num_ranks >= LARGE_JOB) {
        options.relayed_gap = LARGE_JOB_RELAYED_GAP;
    }
    options.relay_threshold = schedule->topology->params.relay_threshold;
    options.min_piece = schedule->topology->params.relay_chunk_size;
    ret = mrail_plan_create(schedule->topo, &options, &schedule->plan);
    if (ret < 0) {
        return ret;
    }
    return mca_coll_mrail_unplanned_create(
        schedule->topology, schedule->is_on_devices, schedule->plan,
        &schedule->unplanned);
}

/* Assigns the small demands to the rails of their ranks. */
int mca_coll_mrail_schedule_set_background(mca_coll_mrail_schedule_t *schedule)
{
    int ret = 0;

    for (unsigned i = 0; i < mrail_plan_num_links(schedule->plan) && ret == 0;
         ++i) {
        const mca_coll_mrail_rail_t *rail;
        mrail_plan_link_t link;

        mrail_plan_link(schedule->plan, i, &link);
        if (link.kind == MRAIL_PLAN_RAIL_OUT ||
            link.kind == MRAIL_PLAN_RAIL_IN) {
            rail = mca_coll_mrail_schedule_rail(
                schedule->topology, schedule->rails, link.a, link.b);
            ret = mrail_plan_set_background(schedule->plan, i,
                                            (link.kind == MRAIL_PLAN_RAIL_OUT)
                                                ? rail->small_out
                                                : rail->small_in);
        }
    }
    return ret;
}
