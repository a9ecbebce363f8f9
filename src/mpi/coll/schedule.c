#include "config.h"
#include "mpi/coll/schedule.h"

#include "base/grow.h"
#include "base/util.h"
#include "orchestrator/topo.h"

#include <errno.h>
#include <stdlib.h>

/* Every plan reaches this gap, which is far below the 5 % by which an exchange
 * may exceed its bound. */
#define GAP 0.01
/* Large jobs accept more relayed bytes than the planner's default. A smaller gap
 * often takes ten times as long, which is longer than the exchange. */
#define LARGE_JOB 128u
#define LARGE_JOB_RELAYED_GAP 0.06
/* Hash of a schedule without a plan. */
#define NO_PLAN 2u

static size_t num_rails(const mca_coll_mrail_topology_t *topology)
{
    return (size_t)topology->num_nodes * topology->num_rails;
}

static void discard_plan(mca_coll_mrail_schedule_t *schedule)
{
    mca_coll_mrail_unplanned_destroy(schedule->unplanned);
    mrail_plan_destroy(schedule->plan);
    mrail_plan_topo_destroy(schedule->topo);
    schedule->unplanned = NULL;
    schedule->plan = NULL;
    schedule->topo = NULL;
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
        discard_plan(schedule);
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

/* Adds what a rank reports about its rails. Small demands use all rails of a rank
 * equally. */
static void read_rank(mca_coll_mrail_schedule_t *schedule, uint32_t rank,
                      const uint64_t *record)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    unsigned count = mca_coll_mrail_topology_num_rails(topology, rank);

    for (unsigned k = 0; k < count; ++k) {
        mca_coll_mrail_rail_rate_t rate = mca_coll_mrail_record_rail(record, k);
        mca_coll_mrail_rail_t *rail =
            rail_of(topology, schedule->new_rails, topology->node_of[rank],
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
        read_rank(schedule, i, mca_coll_mrail_records_get(records, i));
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

static int add_ports(const mca_coll_mrail_schedule_t *schedule,
                     mrail_plan_topo_t *topo)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    int ret = 0;

    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        for (unsigned rail = 0; rail < topology->num_rails && ret == 0;
             ++rail) {
            const mca_coll_mrail_rail_t *now =
                rail_of(topology, schedule->rails, node, rail);

            ret = mrail_plan_topo_set_rail(topo, node, rail, now->out, now->in);
        }
    }
    return ret;
}

/* Adds the next rank with its rails, and its link for relayed bytes, which the
 * ranks of a node copy through shared memory. */
static int add_rank(const mca_coll_mrail_topology_t *topology, uint32_t rank,
                    mrail_plan_topo_t *topo)
{
    double copy_bandwidth = (double)topology->params.copy_bandwidth;
    int ret = mrail_plan_topo_add_rank(topo, topology->node_of[rank]);

    for (unsigned rail = 0; rail < topology->num_rails && ret == 0; ++rail) {
        double out = MRAIL_PLAN_UNLIMITED, in = MRAIL_PLAN_UNLIMITED;

        if ((topology->rails_of[rank] >> rail & 1) == 0) {
            continue;
        }
        if (topology->told != NULL) {
            mrail_plan_topo_reach(topology->told, topology->world[rank], rail,
                                  &out, &in);
        }
        ret = mrail_plan_topo_set_reach(topo, rank, rail, out, in);
    }
    return (ret == 0) ? mrail_plan_topo_set_switch(topo, rank, copy_bandwidth,
                                                   copy_bandwidth)
                      : ret;
}

/* Puts the node of a rank into its leaf group, and sets the uplinks of this
 * group. */
static int add_group(const mca_coll_mrail_topology_t *topology, uint32_t rank,
                     mrail_plan_topo_t *topo)
{
    uint32_t group = mrail_topo_group_of(topology->told, topology->world[rank]);
    int ret =
        mrail_plan_topo_set_leaf_group(topo, topology->node_of[rank], group);

    for (unsigned rail = 0; rail < topology->num_rails && ret == 0; ++rail) {
        mrail_topo_port_t uplink =
            mrail_topo_uplinks(topology->told, group, rail);

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
        if (ret == 0 && topology->told != NULL) {
            ret = add_group(topology, i, topo);
        }
    }
    mrail_plan_topo_set_cross_rail(
        topo, mca_coll_mrail_topology_has_cross_rail(topology));
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
    discard_plan(schedule);
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
    return mca_coll_mrail_unplanned_create(schedule->topology, schedule->plan,
                                           &schedule->unplanned);
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
                       const mrail_plan_demand_t *demand,
                       mca_coll_mrail_schedule_entry_t *entry)
{
    entry->is_whole = entry->bytes == demand->bytes;
    entry->is_read = is_read(schedule, demand, entry->bytes);
    if (demand->from == schedule->topology->self) {
        entry->peer = demand->to;
        schedule->sends[schedule->num_sends++] = *entry;
    } else if (demand->to == schedule->topology->self) {
        entry->peer = demand->from;
        schedule->recvs[schedule->num_recvs++] = *entry;
    }
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
        mca_coll_mrail_schedule_entry_t entry = {.bytes = demand->bytes};

        add_direct(schedule, demand, &entry);
        return 0;
    }
    piece.bytes = demand->bytes;
    return add_flow(schedule, demand, &piece);
}

static int is_direct(const mrail_plan_piece_t *piece)
{
    return piece->relay_out == MRAIL_PLAN_NONE &&
           piece->relay_in == MRAIL_PLAN_NONE;
}

/* Sums up the pieces without relays: their bytes, and how many of them enter by
 * each rail of the receiver. */
static mca_coll_mrail_schedule_entry_t
direct_part(const mrail_plan_piece_t *pieces, unsigned count)
{
    mca_coll_mrail_schedule_entry_t entry = {0};

    for (unsigned k = 0; k < count; ++k) {
        if (is_direct(&pieces[k])) {
            entry.bytes += pieces[k].bytes;
            entry.quota[pieces[k].rail_in] += pieces[k].bytes;
        }
    }
    return entry;
}

static int add_flows(mca_coll_mrail_schedule_t *schedule,
                     const mrail_plan_demand_t *demand,
                     const mrail_plan_piece_t *pieces, unsigned count)
{
    int ret = 0;

    for (unsigned k = 0; k < count && ret == 0; ++k) {
        ret = add_flow(schedule, demand, &pieces[k]);
    }
    return ret;
}

/* Removes the pieces without relays, and closes the gaps: the first of the other
 * pieces begins at `offset`. Returns the number of pieces left. */
static unsigned keep_relayed(mrail_plan_piece_t *pieces, unsigned count,
                             uint64_t offset)
{
    unsigned left = 0;

    for (unsigned k = 0; k < count; ++k) {
        if (!is_direct(&pieces[k])) {
            pieces[left] = pieces[k];
            pieces[left].offset = offset;
            offset += pieces[left++].bytes;
        }
    }
    return left;
}

/*
 * The pieces without relays become one message. Pieces get new offsets, so that
 * these are contiguous: it is the number of bytes on each path that counts. The
 * last piece stays last, because only its length may not be a multiple of 64.
 *
 * However, a part of data with gaps is packed and unpacked in relay chunks, like
 * relayed pieces.
 */
static int cut(mca_coll_mrail_schedule_t *schedule, size_t i)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    const mrail_plan_demand_t *demand = &schedule->demands[i];
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    mca_coll_mrail_schedule_entry_t direct;
    unsigned count;
    int is_last;

    if (topology->node_of[demand->from] == topology->node_of[demand->to]) {
        return cut_local(schedule, demand);
    }
    count = mrail_plan_pieces(schedule->plan, i, pieces);
    direct = direct_part(pieces, count);
    if (direct.bytes > 0 &&
        (direct.bytes == demand->bytes || !has_gaps(schedule, demand))) {
        is_last = is_direct(&pieces[count - 1]);
        direct.offset = is_last ? demand->bytes - direct.bytes : 0;
        add_direct(schedule, demand, &direct);
        count = keep_relayed(pieces, count, is_last ? 0 : direct.bytes);
    }
    return add_flows(schedule, demand, pieces, count);
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

static void add_background(mca_coll_mrail_schedule_t *schedule)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;

    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        for (unsigned rail = 0; rail < topology->num_rails; ++rail) {
            const mca_coll_mrail_rail_t *now =
                rail_of(topology, schedule->rails, node, rail);

            mca_coll_mrail_unplanned_add(schedule->unplanned, node, rail,
                                         (double)now->small_out,
                                         (double)now->small_in);
        }
    }
}

/* Forecasts the exchange without a plan. Returns 1 if some plan may be better by
 * more than its cost. */
static int may_gain(mca_coll_mrail_schedule_t *schedule)
{
    mca_coll_mrail_forecast_t *forecast = &schedule->forecast;

    mca_coll_mrail_unplanned_set(schedule->unplanned, schedule->demands,
                                 schedule->num_demands);
    add_background(schedule);
    *forecast = (mca_coll_mrail_forecast_t){
        .unplanned = mca_coll_mrail_unplanned_congestion(schedule->unplanned),
        .planned = mca_coll_mrail_unplanned_bound(schedule->unplanned)};
    return schedule->topology->max_rails < 2 ||
           mca_coll_mrail_is_gain(forecast->planned, forecast->unplanned);
}

/* Plans the demands and cuts them into messages and flows. */
static int make_plan(mca_coll_mrail_schedule_t *schedule)
{
    mca_coll_mrail_forecast_t *forecast = &schedule->forecast;
    mrail_plan_summary_t summary;
    int ret = mrail_plan_make(schedule->plan, schedule->demands,
                              schedule->num_demands, 0, NULL, 0);

    if (ret < 0) {
        return ret;
    }
    for (size_t i = 0; i < schedule->num_demands && ret == 0; ++i) {
        ret = cut(schedule, i);
    }
    if (ret == 0) {
        ret = count_channels(schedule);
    }
    mrail_plan_summary(schedule->plan, &summary);
    schedule->hash = hash_flows(schedule, summary.hash);
    forecast->planned = summary.congestion;
    forecast->is_planned = 1;
    forecast->is_gain =
        schedule->topology->max_rails < 2 ||
        mca_coll_mrail_is_gain(forecast->planned, forecast->unplanned);
    return ret;
}

int mca_coll_mrail_schedule_make(mca_coll_mrail_schedule_t *schedule,
                                 const mca_coll_mrail_records_t *records)
{
    int ret;

    schedule->is_valid = 0;
    schedule->num_sends = schedule->num_recvs = schedule->num_flows = 0;
    schedule->relayed = 0;
    schedule->hash = NO_PLAN;
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
    if (ret == 0 && may_gain(schedule)) {
        ret = make_plan(schedule);
    }
    if (ret < 0) {
        mca_coll_mrail_schedule_discard_warm_start(schedule);
    }
    schedule->is_valid = ret == 0;
    return ret;
}

void mca_coll_mrail_schedule_discard_warm_start(
    mca_coll_mrail_schedule_t *schedule)
{
    discard_plan(schedule);
    schedule->is_valid = 0;
}
