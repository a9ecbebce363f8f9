#include "config.h"
#include "mpi/coll/schedule.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

/* Much less than the 1.05 that an exchange may take of what it has to, and reached
 * by every plan. */
#define GAP 0.01

static const uint64_t *words_of(const mca_coll_mrail_schedule_t *slices,
                                const uint64_t *words, uint32_t rank)
{
    return words + rank * mca_coll_mrail_record_words(slices->topology);
}

int mca_coll_mrail_schedule_create(const mca_coll_mrail_topology_t *topology,
                                   mca_coll_mrail_schedule_t **schedule_p)
{
    mca_coll_mrail_schedule_t *slices = calloc(1, sizeof(*slices));
    size_t ranks = topology->num_ranks;

    if (slices == NULL) {
        return -ENOMEM;
    }
    slices->topology = topology;
    slices->words =
        calloc(ranks * mca_coll_mrail_record_words(topology), sizeof(uint64_t));
    slices->demands = calloc(ranks * ranks, sizeof(*slices->demands));
    slices->sends = calloc(ranks, sizeof(*slices->sends));
    slices->recvs = calloc(ranks, sizeof(*slices->recvs));
    if (slices->words == NULL || slices->demands == NULL ||
        slices->sends == NULL || slices->recvs == NULL) {
        mca_coll_mrail_schedule_destroy(slices);
        return -ENOMEM;
    }
    *schedule_p = slices;
    return 0;
}

void mca_coll_mrail_schedule_destroy(mca_coll_mrail_schedule_t *slices)
{
    if (slices != NULL) {
        mrail_plan_destroy(slices->plan);
        mrail_plan_topo_destroy(slices->topo);
        free(slices->words);
        free(slices->demands);
        free(slices->sends);
        free(slices->recvs);
        free(slices->flows);
        free(slices);
    }
}

int mca_coll_mrail_schedule_fit(const mca_coll_mrail_schedule_t *slices,
                                const uint64_t *words)
{
    size_t size = slices->topology->num_ranks *
                  mca_coll_mrail_record_words(slices->topology);

    return slices->is_valid &&
           memcmp(words, slices->words, size * sizeof(*words)) == 0;
}

/* ---- topology ---- */

/* Of a rail one way (MCA_COLL_MRAIL_OUT, _IN): what its port can carry, as the least
 * hopeful of its ranks sees it, or what these get all together, if that is less. */
static double capacity_of(const mca_coll_mrail_schedule_t *slices,
                          const uint64_t *words, unsigned node, unsigned rail,
                          unsigned way)
{
    const mca_coll_mrail_topology_t *topology = slices->topology;
    double port = -1, seen = 0;

    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        const uint64_t *mine = words_of(slices, words, i);
        double capacity = (double)mine[MCA_COLL_MRAIL_PORT];

        if (topology->node_of[i] == node && topology->rail_of[i] == rail) {
            port = (port < 0) ? capacity : MRAIL_MIN(port, capacity);
            seen += (double)mine[way];
        }
    }
    if (port <= 0) {
        return 0; /* down, or nobody on this node has that rail */
    }
    return MRAIL_MAX(MRAIL_MIN(MRAIL_MIN(port, seen), MRAIL_PLAN_MAX_CAPACITY),
                     MRAIL_PLAN_MIN_CAPACITY);
}

static int fill_topo(const mca_coll_mrail_schedule_t *slices,
                     const uint64_t *words, mrail_plan_topo_t *topo)
{
    const mca_coll_mrail_topology_t *topology = slices->topology;
    double copy_rate = (double)topology->params.copy_rate;
    int ret = 0;

    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        for (unsigned rail = 0; rail < topology->num_rails && ret == 0;
             ++rail) {
            ret = mrail_plan_topo_set_rail(
                topo, node, rail,
                capacity_of(slices, words, node, rail, MCA_COLL_MRAIL_OUT),
                capacity_of(slices, words, node, rail, MCA_COLL_MRAIL_IN));
        }
    }
    for (uint32_t i = 0; i < topology->num_ranks && ret == 0; ++i) {
        ret = mrail_plan_topo_add_rank(topo, topology->node_of[i],
                                       topology->rail_of[i]);
        if (ret == 0) {
            ret = mrail_plan_topo_set_switch(topo, i, copy_rate, copy_rate);
        }
    }
    mrail_plan_topo_set_cross_rail(topo, topology->params.cross != 0);
    return ret;
}

static int same_capacities(const mca_coll_mrail_schedule_t *slices,
                           const uint64_t *words)
{
    size_t size =
        (MCA_COLL_MRAIL_RECORD_WORDS - MCA_COLL_MRAIL_PORT) * sizeof(*words);

    for (uint32_t i = 0; i < slices->topology->num_ranks; ++i) {
        if (memcmp(words_of(slices, words, i) + MCA_COLL_MRAIL_PORT,
                   words_of(slices, slices->words, i) + MCA_COLL_MRAIL_PORT,
                   size) != 0) {
            return 0;
        }
    }
    return 1;
}

/* A plan object is for capacities as they are. */
static int need_plan(mca_coll_mrail_schedule_t *slices, const uint64_t *words)
{
    mrail_plan_options_t options = MRAIL_PLAN_DEFAULTS;
    int ret;

    if (slices->plan != NULL && same_capacities(slices, words)) {
        return 0;
    }
    mrail_plan_destroy(slices->plan);
    mrail_plan_topo_destroy(slices->topo);
    slices->plan = NULL;
    slices->topo = NULL;
    ret = mrail_plan_topo_create(slices->topology->num_nodes,
                                 slices->topology->num_rails, &slices->topo);
    if (ret < 0) {
        return ret;
    }
    ret = fill_topo(slices, words, slices->topo);
    if (ret < 0) {
        return ret;
    }
    options.gap = GAP;
    options.relay_above = slices->topology->params.relay_above;
    options.min_piece = slices->topology->params.chunk;
    return mrail_plan_create(slices->topo, &options, &slices->plan);
}

/* ---- slices ---- */

static int add_flow(mca_coll_mrail_schedule_t *slices,
                    const mrail_plan_demand_t *demand,
                    const mrail_plan_piece_t *piece)
{
    if (slices->num_flows == slices->max_flows) {
        size_t max = 2 * slices->max_flows + 64;

        if (!mrail_grow(&slices->flows, max, sizeof(*slices->flows))) {
            return -ENOMEM;
        }
        slices->max_flows = max;
    }
    slices->flows[slices->num_flows++] =
        (mrail_relay_flow_t){.from = demand->from,
                             .to = demand->to,
                             .relay_out = piece->relay_out,
                             .relay_in = piece->relay_in,
                             .offset = piece->offset,
                             .bytes = piece->bytes};
    if (demand->from == slices->topology->self &&
        (piece->relay_out != MRAIL_PLAN_NONE ||
         piece->relay_in != MRAIL_PLAN_NONE)) {
        slices->relayed += piece->bytes;
    }
    return 0;
}

static void add_direct(mca_coll_mrail_schedule_t *slices,
                       const mrail_plan_demand_t *demand, uint64_t offset,
                       uint64_t bytes)
{
    mca_coll_mrail_slice_t slice = {
        .offset = offset, .bytes = bytes, .is_whole = bytes == demand->bytes};

    if (demand->from == slices->topology->self) {
        slice.peer = demand->to;
        slices->sends[slices->num_sends++] = slice;
    } else if (demand->to == slices->topology->self) {
        slice.peer = demand->from;
        slices->recvs[slices->num_recvs++] = slice;
    }
}

static int has_gaps(const mca_coll_mrail_schedule_t *slices,
                    const mrail_plan_demand_t *demand)
{
    return (words_of(slices, slices->words, demand->from)[0] &
            MCA_COLL_MRAIL_GAPS_OUT) != 0 ||
           (words_of(slices, slices->words, demand->to)[0] &
            MCA_COLL_MRAIL_GAPS_IN) != 0;
}

/* Within a node the transport below knows the best way, unless its ranks must not
 * meet: emulated nodes are on one machine, and their rails are for what goes out. */
static int cut_local(mca_coll_mrail_schedule_t *slices,
                     const mrail_plan_demand_t *demand)
{
    static const mrail_plan_piece_t none = {.relay_out = MRAIL_PLAN_NONE,
                                            .relay_in = MRAIL_PLAN_NONE};
    mrail_plan_piece_t piece = none;

    if (!slices->topology->is_soft) {
        add_direct(slices, demand, 0, demand->bytes);
        return 0;
    }
    piece.bytes = demand->bytes;
    return add_flow(slices, demand, &piece);
}

/* One piece goes straight, unless it is a part of bytes that lie apart in memory: then
 * it goes chunk by chunk, packed and unpacked, like relayed ones. */
static int cut(mca_coll_mrail_schedule_t *slices, size_t i)
{
    const mca_coll_mrail_topology_t *topology = slices->topology;
    const mrail_plan_demand_t *demand = &slices->demands[i];
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    unsigned count;
    int may_direct = 1, ret = 0;

    if (topology->node_of[demand->from] == topology->node_of[demand->to]) {
        return cut_local(slices, demand);
    }
    count = mrail_plan_pieces(slices->plan, i, pieces);
    for (unsigned k = 0; k < count && ret == 0; ++k) {
        const mrail_plan_piece_t *piece = &pieces[k];
        int is_direct = may_direct && piece->relay_out == MRAIL_PLAN_NONE &&
                        piece->relay_in == MRAIL_PLAN_NONE;

        if (is_direct &&
            (piece->bytes == demand->bytes || !has_gaps(slices, demand))) {
            add_direct(slices, demand, piece->offset, piece->bytes);
            may_direct = 0;
        } else {
            ret = add_flow(slices, demand, piece);
        }
    }
    return ret;
}

static uint64_t hash_flows(const mca_coll_mrail_schedule_t *slices,
                           uint64_t hash)
{
    for (size_t i = 0; i < slices->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &slices->flows[i];

        hash = mrail_mix64(hash ^ (((uint64_t)flow->from << 32) | flow->to));
        hash = mrail_mix64(
            hash ^ (((uint64_t)flow->relay_out << 32) | flow->relay_in));
        hash = mrail_mix64(hash ^ flow->offset) ^ flow->bytes;
    }
    return mrail_mix64(hash);
}

static void read_demands(mca_coll_mrail_schedule_t *slices)
{
    unsigned ranks = slices->topology->num_ranks;

    slices->num_demands = 0;
    for (uint32_t from = 0; from < ranks; ++from) {
        for (uint32_t to = 0; to < ranks; ++to) {
            uint64_t bytes = mca_coll_mrail_schedule_bytes(slices, from, to);

            if (bytes > 0 && from != to) {
                slices->demands[slices->num_demands++] =
                    (mrail_plan_demand_t){from, to, bytes};
            }
        }
    }
}

int mca_coll_mrail_schedule_make(mca_coll_mrail_schedule_t *slices,
                                 const uint64_t *words)
{
    size_t size = slices->topology->num_ranks *
                  mca_coll_mrail_record_words(slices->topology);
    mrail_plan_summary_t summary;
    int ret;

    slices->is_valid = 0;
    ret = need_plan(slices, words);
    memcpy(slices->words, words, size * sizeof(*words));
    if (ret < 0) {
        goto err_plan;
    }
    read_demands(slices);
    ret = mrail_plan_make(slices->plan, slices->demands, slices->num_demands, 0,
                          NULL, 0);
    if (ret < 0) {
        goto err_plan;
    }
    slices->num_sends = slices->num_recvs = slices->num_flows = 0;
    slices->relayed = 0;
    for (size_t i = 0; i < slices->num_demands; ++i) {
        ret = cut(slices, i);
        if (ret < 0) {
            return ret;
        }
    }
    mrail_plan_summary(slices->plan, &summary);
    slices->hash = hash_flows(slices, summary.hash);
    slices->is_valid = 1;
    return 0;

err_plan:
    mca_coll_mrail_schedule_forget(slices);
    return ret;
}

void mca_coll_mrail_schedule_forget(mca_coll_mrail_schedule_t *slices)
{
    mrail_plan_destroy(slices->plan);
    slices->plan = NULL;
    slices->is_valid = 0;
}

/* ---- version ---- */

/* Two nodes, two rails, four ranks, links in pairs, and demands that relay. */
static int make_sample(mrail_plan_topo_t *topo, mrail_plan_t **plan_p)
{
    mrail_plan_demand_t demands[] = {
        {0, 2, 12345678}, {1, 3, 2345678}, {0, 1, 3456789}, {2, 1, 10000001}};
    int ret = 0;

    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_set_rail(topo, i / 2, i % 2, 1e9, 7e8 + i);
    }
    for (unsigned i = 0; i < 4 && ret == 0; ++i) {
        ret = mrail_plan_topo_add_rank(topo, i / 2, i % 2);
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

uint64_t mca_coll_mrail_schedule_version(void)
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
    }
    mrail_plan_destroy(plan);
    mrail_plan_topo_destroy(topo);
    return hash;
}
