#include "config.h"
#include "mpi/coll/schedule.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

/* Every plan reaches this gap, which is far below the 5 % by which an exchange
 * may exceed its bound. */
#define GAP 0.01
/* Large jobs accept more relayed bytes than the planner's default. A smaller gap
 * often takes ten times as long, which is longer than the exchange. */
#define LARGE_JOB 128u
#define LARGE_JOB_RELAYED_GAP 0.06

static size_t num_rails(const mca_coll_mrail_topology_t *topology)
{
    return (size_t)topology->num_nodes * topology->num_rails;
}

int mca_coll_mrail_schedule_create(const mca_coll_mrail_topology_t *topology,
                                   mca_coll_mrail_schedule_t **schedule_p)
{
    mca_coll_mrail_schedule_t *schedule = calloc(1, sizeof(*schedule));
    size_t ranks = topology->num_ranks;

    if (schedule == NULL) {
        return -ENOMEM;
    }
    schedule->topology = topology;
    schedule->told = calloc(ranks, sizeof(*schedule->told));
    schedule->rails = calloc(num_rails(topology), sizeof(*schedule->rails));
    schedule->new_rails =
        calloc(num_rails(topology), sizeof(*schedule->new_rails));
    schedule->channels = calloc(ranks, sizeof(*schedule->channels));
    schedule->sends = calloc(ranks, sizeof(*schedule->sends));
    schedule->recvs = calloc(ranks, sizeof(*schedule->recvs));
    if (mca_coll_mrail_records_init(&schedule->records, topology->num_ranks) <
            0 ||
        schedule->told == NULL || schedule->rails == NULL ||
        schedule->new_rails == NULL || schedule->channels == NULL ||
        schedule->sends == NULL || schedule->recvs == NULL) {
        mca_coll_mrail_schedule_destroy(schedule);
        return -ENOMEM;
    }
    *schedule_p = schedule;
    return 0;
}

void mca_coll_mrail_schedule_destroy(mca_coll_mrail_schedule_t *schedule)
{
    if (schedule != NULL) {
        mrail_plan_destroy(schedule->plan);
        mrail_plan_topo_destroy(schedule->topo);
        mca_coll_mrail_records_cleanup(&schedule->records);
        free(schedule->told);
        free(schedule->rails);
        free(schedule->new_rails);
        free(schedule->demands);
        free(schedule->channels);
        free(schedule->sends);
        free(schedule->recvs);
        free(schedule->flows);
        free(schedule);
    }
}

/* ---- capacities ---- */

static mca_coll_mrail_rail_t *rail_of(const mca_coll_mrail_topology_t *topology,
                                      mca_coll_mrail_rail_t *rails,
                                      unsigned node, unsigned rail)
{
    return &rails[(size_t)node * topology->num_rails + rail];
}

/* Returns the rate of the port, or the sum of what the ranks measured if that
 * is lower. A rank whose part of the rail was idle knows nothing. */
static double capacity(double port, double measured)
{
    double rate = (measured > 0) ? MRAIL_MIN(port, measured) : port;

    if (port <= 0) {
        return 0;
    }
    return MRAIL_MAX(MRAIL_MIN(rate, MRAIL_PLAN_MAX_CAPACITY),
                     MRAIL_PLAN_MIN_CAPACITY);
}

/* Sums come from other ranks, so they may be any number. */
static void add_small(uint64_t *sum, uint64_t bytes)
{
    *sum += MRAIL_MIN(bytes, MRAIL_PLAN_MAX_BACKGROUND - *sum);
}

/* Sets new_rails to the capacities and the small demands of these records. */
static void read_rails(mca_coll_mrail_schedule_t *schedule,
                       const mca_coll_mrail_records_t *records)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    mca_coll_mrail_rail_t *rails = schedule->new_rails;

    for (size_t i = 0; i < num_rails(topology); ++i) {
        rails[i] = (mca_coll_mrail_rail_t){.port = -1};
    }
    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        const uint64_t *record = mca_coll_mrail_records_get(records, i);
        mca_coll_mrail_rail_rate_t rate = mca_coll_mrail_record_rail(record, 0);
        mca_coll_mrail_rail_t *rail = rail_of(
            topology, rails, topology->node_of[i], topology->rail_of[i]);
        double port = (double)rate.port;

        rail->port = (rail->port < 0) ? port : MRAIL_MIN(rail->port, port);
        rail->out += (double)rate.out;
        rail->in += (double)rate.in;
        add_small(&rail->small_out, mca_coll_mrail_record_small_out(record));
        add_small(&rail->small_in, mca_coll_mrail_record_small_in(record));
    }
    for (size_t i = 0; i < num_rails(topology); ++i) {
        rails[i].out = capacity(rails[i].port, rails[i].out);
        rails[i].in = capacity(rails[i].port, rails[i].in);
    }
}

/* Returns 1 if new_rails are the rails of the plan. */
static int same_rails(const mca_coll_mrail_schedule_t *schedule)
{
    for (size_t i = 0; i < num_rails(schedule->topology); ++i) {
        if (schedule->rails[i].out != schedule->new_rails[i].out ||
            schedule->rails[i].in != schedule->new_rails[i].in) {
            return 0;
        }
    }
    return 1;
}

static int same_demands(const mca_coll_mrail_schedule_t *schedule,
                        const mca_coll_mrail_records_t *records)
{
    for (uint32_t i = 0; i < schedule->topology->num_ranks; ++i) {
        if (!mca_coll_mrail_record_same_demands(
                mca_coll_mrail_records_get(records, i),
                mca_coll_mrail_records_get(&schedule->records, i))) {
            return 0;
        }
    }
    return 1;
}

int mca_coll_mrail_schedule_fit(mca_coll_mrail_schedule_t *schedule,
                                const mca_coll_mrail_records_t *records)
{
    if (!schedule->is_valid) {
        return 0;
    }
    if (mca_coll_mrail_records_equal(&schedule->records, records)) {
        return 1;
    }
    if (!same_demands(schedule, records)) {
        return 0;
    }
    read_rails(schedule, records);
    return same_rails(schedule);
}

/* ---- topology ---- */

static int fill_topo(const mca_coll_mrail_schedule_t *schedule,
                     mrail_plan_topo_t *topo)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    double copy_bandwidth = (double)topology->params.copy_bandwidth;
    int ret = 0;

    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        for (unsigned rail = 0; rail < topology->num_rails && ret == 0;
             ++rail) {
            const mca_coll_mrail_rail_t *now =
                rail_of(topology, schedule->rails, node, rail);

            ret = mrail_plan_topo_set_rail(topo, node, rail, now->out, now->in);
        }
    }
    for (uint32_t i = 0; i < topology->num_ranks && ret == 0; ++i) {
        ret = mrail_plan_topo_add_rank(topo, topology->node_of[i]);
        if (ret == 0) {
            ret = mrail_plan_topo_set_reach(topo, i, topology->rail_of[i],
                                            MRAIL_PLAN_UNLIMITED,
                                            MRAIL_PLAN_UNLIMITED);
        }
        if (ret == 0) {
            ret = mrail_plan_topo_set_switch(topo, i, copy_bandwidth,
                                             copy_bandwidth);
        }
    }
    mrail_plan_topo_set_cross_rail(topo, topology->params.cross_rail != 0);
    return ret;
}

/* A plan object is valid for only one set of capacities. */
static int need_plan(mca_coll_mrail_schedule_t *schedule)
{
    size_t size = num_rails(schedule->topology) * sizeof(*schedule->rails);
    mrail_plan_options_t options = MRAIL_PLAN_DEFAULTS;
    int ret, is_same;

    read_rails(schedule, &schedule->records);
    is_same = schedule->plan != NULL && same_rails(schedule);
    memcpy(schedule->rails, schedule->new_rails, size);
    if (is_same) {
        return 0;
    }
    mrail_plan_destroy(schedule->plan);
    mrail_plan_topo_destroy(schedule->topo);
    schedule->plan = NULL;
    schedule->topo = NULL;
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
    return mrail_plan_create(schedule->topo, &options, &schedule->plan);
}

/* Small demands load the rails of their ranks. */
static int set_background(mca_coll_mrail_schedule_t *schedule)
{
    int ret = 0;

    for (unsigned i = 0; i < mrail_plan_num_links(schedule->plan) && ret == 0;
         ++i) {
        const mca_coll_mrail_rail_t *rail;
        mrail_plan_link_t link;

        mrail_plan_link(schedule->plan, i, &link);
        if (link.kind == MRAIL_PLAN_RAIL_OUT ||
            link.kind == MRAIL_PLAN_RAIL_IN) {
            rail = rail_of(schedule->topology, schedule->rails, link.a, link.b);
            ret = mrail_plan_set_background(schedule->plan, i,
                                            (link.kind == MRAIL_PLAN_RAIL_OUT)
                                                ? rail->small_out
                                                : rail->small_in);
        }
    }
    return ret;
}

/* ---- schedule ---- */

static int add_flow(mca_coll_mrail_schedule_t *schedule,
                    const mrail_plan_demand_t *demand,
                    const mrail_plan_piece_t *piece)
{
    if (schedule->num_flows == schedule->max_flows) {
        size_t max = 2 * schedule->max_flows + 64;

        if (!mrail_grow(&schedule->flows, max, sizeof(*schedule->flows))) {
            return -ENOMEM;
        }
        schedule->max_flows = max;
    }
    schedule->flows[schedule->num_flows++] =
        (mrail_relay_flow_t){.from = demand->from,
                             .to = demand->to,
                             .relay_out = piece->relay_out,
                             .relay_in = piece->relay_in,
                             .offset = piece->offset,
                             .bytes = piece->bytes};
    if (demand->from == schedule->topology->self &&
        (piece->relay_out != MRAIL_PLAN_NONE ||
         piece->relay_in != MRAIL_PLAN_NONE)) {
        schedule->relayed += piece->bytes;
    }
    return 0;
}

static int has_gaps(const mca_coll_mrail_schedule_t *schedule,
                    const mrail_plan_demand_t *demand)
{
    const mca_coll_mrail_records_t *records = &schedule->records;

    return (mca_coll_mrail_record_flags(
                mca_coll_mrail_records_get(records, demand->from)) &
            MCA_COLL_MRAIL_GAPS_OUT) != 0 ||
           (mca_coll_mrail_record_flags(
                mca_coll_mrail_records_get(records, demand->to)) &
            MCA_COLL_MRAIL_GAPS_IN) != 0;
}

/* Returns 1 if the receiver READs the bytes. Both ranks decide alike. */
static int is_read(const mca_coll_mrail_schedule_t *schedule,
                   const mrail_plan_demand_t *demand, uint64_t bytes)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;

    return topology->has_reads && bytes >= MCA_COLL_MRAIL_READ_MIN &&
           topology->node_of[demand->from] != topology->node_of[demand->to] &&
           !has_gaps(schedule, demand);
}

static void add_direct(mca_coll_mrail_schedule_t *schedule,
                       const mrail_plan_demand_t *demand, uint64_t offset,
                       uint64_t bytes)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    int is_send = demand->from == topology->self;
    mca_coll_mrail_schedule_entry_t *entry;

    if (!is_send && demand->to != topology->self) {
        return;
    }
    entry = is_send ? &schedule->sends[schedule->num_sends++]
                    : &schedule->recvs[schedule->num_recvs++];
    *entry = (mca_coll_mrail_schedule_entry_t){
        .peer = is_send ? demand->to : demand->from,
        .offset = offset,
        .bytes = bytes,
        .is_whole = bytes == demand->bytes,
        .is_read = is_read(schedule, demand, bytes),
    };
    entry->quota[topology->rail_of[demand->to]] = bytes;
}

/* Within a node, the transport below chooses the best path. The exception is
 * emulated nodes, whose ranks must not share memory: the nodes run on one
 * machine, and their rails are for traffic between nodes. */
static int cut_local(mca_coll_mrail_schedule_t *schedule,
                     const mrail_plan_demand_t *demand)
{
    static const mrail_plan_piece_t none = {.relay_out = MRAIL_PLAN_NONE,
                                            .relay_in = MRAIL_PLAN_NONE};
    mrail_plan_piece_t piece = none;

    if (!schedule->topology->is_soft) {
        add_direct(schedule, demand, 0, demand->bytes);
        return 0;
    }
    piece.bytes = demand->bytes;
    return add_flow(schedule, demand, &piece);
}

/* One piece may take the direct path as a message. However, a piece that is
 * only a part of data with gaps is packed and unpacked in relay chunks, like
 * relayed pieces. */
static int cut(mca_coll_mrail_schedule_t *schedule, size_t i)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    const mrail_plan_demand_t *demand = &schedule->demands[i];
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    unsigned count;
    int may_direct = 1, ret = 0;

    if (topology->node_of[demand->from] == topology->node_of[demand->to]) {
        return cut_local(schedule, demand);
    }
    count = mrail_plan_pieces(schedule->plan, i, pieces);
    for (unsigned k = 0; k < count && ret == 0; ++k) {
        const mrail_plan_piece_t *piece = &pieces[k];
        int is_direct = may_direct && piece->relay_out == MRAIL_PLAN_NONE &&
                        piece->relay_in == MRAIL_PLAN_NONE;

        if (is_direct &&
            (piece->bytes == demand->bytes || !has_gaps(schedule, demand))) {
            add_direct(schedule, demand, piece->offset, piece->bytes);
            may_direct = 0;
        } else {
            ret = add_flow(schedule, demand, piece);
        }
    }
    return ret;
}

static uint64_t hash_flows(const mca_coll_mrail_schedule_t *schedule,
                           uint64_t hash)
{
    for (size_t i = 0; i < schedule->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &schedule->flows[i];

        hash = mrail_mix64(hash ^ (((uint64_t)flow->from << 32) | flow->to));
        hash = mrail_mix64(
            hash ^ (((uint64_t)flow->relay_out << 32) | flow->relay_in));
        hash = mrail_mix64(hash ^ flow->offset) ^ flow->bytes;
    }
    return mrail_mix64(hash);
}

static int grow_demands(mca_coll_mrail_schedule_t *schedule)
{
    size_t count = 0;

    for (uint32_t i = 0; i < schedule->topology->num_ranks; ++i) {
        count += mca_coll_mrail_record_num_demands(
            mca_coll_mrail_records_get(&schedule->records, i));
    }
    if (count > schedule->max_demands) {
        if (!mrail_grow(&schedule->demands, count,
                        sizeof(*schedule->demands))) {
            return -ENOMEM;
        }
        schedule->max_demands = count;
    }
    return 0;
}

/* Lists the demands that ranks tell, and marks those of this rank. */
static int read_demands(mca_coll_mrail_schedule_t *schedule)
{
    uint32_t ranks = schedule->topology->num_ranks;
    uint32_t self = schedule->topology->self;

    if (grow_demands(schedule) < 0) {
        return -ENOMEM;
    }
    schedule->num_demands = 0;
    memset(schedule->told, 0, ranks * sizeof(*schedule->told));
    for (uint32_t from = 0; from < ranks; ++from) {
        const uint64_t *record =
            mca_coll_mrail_records_get(&schedule->records, from);

        for (size_t i = 0; i < mca_coll_mrail_record_num_demands(record); ++i) {
            mrail_plan_demand_t demand = {
                from, mca_coll_mrail_record_to(record, i),
                mca_coll_mrail_record_bytes(record, i)};

            schedule->demands[schedule->num_demands++] = demand;
            if (from == self) {
                schedule->told[demand.to] |= MCA_COLL_MRAIL_TOLD_OUT;
            } else if (demand.to == self) {
                schedule->told[from] |= MCA_COLL_MRAIL_TOLD_IN;
            }
        }
    }
    return 0;
}

static int count_channels(mca_coll_mrail_schedule_t *schedule)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    int ret = mrail_relay_channels(schedule->flows, schedule->num_flows,
                                   topology->node_of, topology->num_ranks,
                                   schedule->channels);

    schedule->max_channels = 0;
    for (uint32_t i = 0; ret == 0 && i < topology->num_ranks; ++i) {
        schedule->max_channels =
            MRAIL_MAX(schedule->max_channels, schedule->channels[i]);
    }
    return ret;
}

int mca_coll_mrail_schedule_make(mca_coll_mrail_schedule_t *schedule,
                                 const mca_coll_mrail_records_t *records)
{
    mrail_plan_summary_t summary;
    int ret;

    schedule->is_valid = 0;
    ret = mca_coll_mrail_records_copy(&schedule->records, records);
    if (ret == 0) {
        ret = need_plan(schedule);
    }
    if (ret == 0) {
        ret = set_background(schedule);
    }
    if (ret == 0) {
        ret = read_demands(schedule);
    }
    if (ret < 0) {
        goto err_plan;
    }
    ret = mrail_plan_make(schedule->plan, schedule->demands,
                          schedule->num_demands, 0, NULL, 0);
    if (ret < 0) {
        goto err_plan;
    }
    schedule->num_sends = schedule->num_recvs = schedule->num_flows = 0;
    schedule->relayed = 0;
    for (size_t i = 0; i < schedule->num_demands; ++i) {
        ret = cut(schedule, i);
        if (ret < 0) {
            return ret;
        }
    }
    ret = count_channels(schedule);
    if (ret < 0) {
        return ret;
    }
    mrail_plan_summary(schedule->plan, &summary);
    schedule->hash = hash_flows(schedule, summary.hash);
    schedule->forecast_ns = (uint64_t)(summary.congestion * 1e9);
    schedule->is_valid = 1;
    return 0;

err_plan:
    mca_coll_mrail_schedule_discard_warm_start(schedule);
    return ret;
}

void mca_coll_mrail_schedule_discard_warm_start(
    mca_coll_mrail_schedule_t *schedule)
{
    mrail_plan_destroy(schedule->plan);
    schedule->plan = NULL;
    schedule->is_valid = 0;
}
