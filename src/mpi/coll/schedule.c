#include "config.h"
#include "mpi/coll/schedule.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

/* Every plan reaches this gap, which is far below the 5 % by which an exchange
 * may exceed its bound. */
#define GAP 0.01

static const uint64_t *record_of(const mca_coll_mrail_schedule_t *schedule,
                                 const uint64_t *records, uint32_t rank)
{
    return records + rank * mca_coll_mrail_record_words(schedule->topology);
}

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
    schedule->records =
        calloc(ranks * mca_coll_mrail_record_words(topology), sizeof(uint64_t));
    schedule->rails = calloc(num_rails(topology), sizeof(*schedule->rails));
    schedule->new_rails =
        calloc(num_rails(topology), sizeof(*schedule->new_rails));
    schedule->channels = calloc(ranks, sizeof(*schedule->channels));
    schedule->sends = calloc(ranks, sizeof(*schedule->sends));
    schedule->recvs = calloc(ranks, sizeof(*schedule->recvs));
    if (schedule->records == NULL || schedule->rails == NULL ||
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
        free(schedule->records);
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

/* Sets new_rails to the capacities that these records report. */
static void read_rails(mca_coll_mrail_schedule_t *schedule,
                       const uint64_t *records)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;
    mca_coll_mrail_rail_t *rails = schedule->new_rails;

    for (size_t i = 0; i < num_rails(topology); ++i) {
        rails[i] = (mca_coll_mrail_rail_t){.port = -1};
    }
    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        const uint64_t *record = record_of(schedule, records, i);
        mca_coll_mrail_rail_t *rail = rail_of(
            topology, rails, topology->node_of[i], topology->rail_of[i]);
        double port = (double)record[MCA_COLL_MRAIL_PORT];

        rail->port = (rail->port < 0) ? port : MRAIL_MIN(rail->port, port);
        rail->out += (double)record[MCA_COLL_MRAIL_OUT];
        rail->in += (double)record[MCA_COLL_MRAIL_IN];
    }
    for (size_t i = 0; i < num_rails(topology); ++i) {
        rails[i] = (mca_coll_mrail_rail_t){
            .out = capacity(rails[i].port, rails[i].out),
            .in = capacity(rails[i].port, rails[i].in)};
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

/* Compares flags and demands. */
static int same_demands(const mca_coll_mrail_schedule_t *schedule,
                        const uint64_t *records)
{
    size_t ranks = schedule->topology->num_ranks;

    for (uint32_t i = 0; i < ranks; ++i) {
        const uint64_t *now = record_of(schedule, records, i);
        const uint64_t *then = record_of(schedule, schedule->records, i);

        if (now[0] != then[0] || memcmp(now + MCA_COLL_MRAIL_RECORD_WORDS,
                                        then + MCA_COLL_MRAIL_RECORD_WORDS,
                                        ranks * sizeof(*now)) != 0) {
            return 0;
        }
    }
    return 1;
}

int mca_coll_mrail_schedule_fit(mca_coll_mrail_schedule_t *schedule,
                                const uint64_t *records)
{
    if (!schedule->is_valid || !same_demands(schedule, records)) {
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
static int need_plan(mca_coll_mrail_schedule_t *schedule,
                     const uint64_t *records)
{
    size_t size = num_rails(schedule->topology) * sizeof(*schedule->rails);
    mrail_plan_options_t options = MRAIL_PLAN_DEFAULTS;
    int ret;

    read_rails(schedule, records);
    if (schedule->plan != NULL && same_rails(schedule)) {
        return 0;
    }
    memcpy(schedule->rails, schedule->new_rails, size);
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
    options.relay_threshold = schedule->topology->params.relay_threshold;
    options.min_piece = schedule->topology->params.relay_chunk_size;
    return mrail_plan_create(schedule->topo, &options, &schedule->plan);
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

static void add_direct(mca_coll_mrail_schedule_t *schedule,
                       const mrail_plan_demand_t *demand, uint64_t offset,
                       uint64_t bytes)
{
    mca_coll_mrail_schedule_entry_t entry = {
        .offset = offset, .bytes = bytes, .is_whole = bytes == demand->bytes};

    if (demand->from == schedule->topology->self) {
        entry.peer = demand->to;
        schedule->sends[schedule->num_sends++] = entry;
    } else if (demand->to == schedule->topology->self) {
        entry.peer = demand->from;
        schedule->recvs[schedule->num_recvs++] = entry;
    }
}

static int has_gaps(const mca_coll_mrail_schedule_t *schedule,
                    const mrail_plan_demand_t *demand)
{
    return (record_of(schedule, schedule->records, demand->from)[0] &
            MCA_COLL_MRAIL_GAPS_OUT) != 0 ||
           (record_of(schedule, schedule->records, demand->to)[0] &
            MCA_COLL_MRAIL_GAPS_IN) != 0;
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

/* Lists the demands. The array grows, because most pairs of a large job often
 * have none. */
static int read_demands(mca_coll_mrail_schedule_t *schedule)
{
    unsigned ranks = schedule->topology->num_ranks;

    schedule->num_demands = 0;
    for (uint32_t from = 0; from < ranks; ++from) {
        if (schedule->num_demands + ranks > schedule->max_demands) {
            size_t max = 2 * schedule->max_demands + ranks;

            if (!mrail_grow(&schedule->demands, max,
                            sizeof(*schedule->demands))) {
                return -ENOMEM;
            }
            schedule->max_demands = max;
        }
        for (uint32_t to = 0; to < ranks; ++to) {
            uint64_t bytes = mca_coll_mrail_schedule_bytes(schedule, from, to);

            if (bytes > 0 && from != to) {
                schedule->demands[schedule->num_demands++] =
                    (mrail_plan_demand_t){from, to, bytes};
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
                                 const uint64_t *records)
{
    size_t size = schedule->topology->num_ranks *
                  mca_coll_mrail_record_words(schedule->topology);
    mrail_plan_summary_t summary;
    int ret;

    schedule->is_valid = 0;
    ret = need_plan(schedule, records);
    memcpy(schedule->records, records, size * sizeof(*records));
    if (ret < 0) {
        goto err_plan;
    }
    ret = read_demands(schedule);
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

/* ---- version ---- */

/* Computes a plan for two nodes with two rails, four ranks and pairwise GPU
 * links, and for demands that need relays. */
static int make_sample(mrail_plan_topo_t *topo, mrail_plan_t **plan_p)
{
    mrail_plan_demand_t demands[] = {
        {0, 2, 12345678}, {1, 3, 2345678}, {0, 1, 3456789}, {2, 1, 10000001}};
    int ret = 0;

    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_set_rail(topo, i / 2, i % 2, 1e9, 7e8 + i);
    }
    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_add_rank(topo, i / 2);
        if (ret == 0) {
            ret = mrail_plan_topo_set_reach(
                topo, i, i % 2, MRAIL_PLAN_UNLIMITED, MRAIL_PLAN_UNLIMITED);
        }
    }
    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_set_link(topo, i, i ^ 1, 3e9);
    }
    if (ret < 0) {
        return ret;
    }
    ret = mrail_plan_create(topo, NULL, plan_p);
    if (ret < 0) {
        return ret;
    }
    return mrail_plan_make(*plan_p, demands, MRAIL_ARRAY_SIZE(demands), 0, NULL,
                           0);
}

uint64_t mca_coll_mrail_schedule_fingerprint(void)
{
    mrail_plan_topo_t *topo = NULL;
    mrail_plan_t *plan = NULL;
    mrail_plan_summary_t summary = {0};
    uint64_t hash = 0;

    if (mrail_plan_topo_create(2, 2, &topo) == 0 &&
        make_sample(topo, &plan) == 0) {
        mrail_plan_summary(plan, &summary);
        hash = summary.hash;
        for (const char *text = PACKAGE_VERSION; *text != '\0'; ++text) {
            hash = mrail_mix64(hash ^ (uint8_t)*text);
        }
        hash = MRAIL_MAX(hash, MCA_COLL_MRAIL_FOREIGN + 1);
    }
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
    return hash;
}
