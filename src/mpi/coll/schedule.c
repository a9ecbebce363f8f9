#include "config.h"
#include "mpi/coll/schedule_internal.h"

#include "base/grow.h"
#include "base/util.h"
#include "mpi/coll/plan_cost.h"
#include "mpi/coll/pool_shape.h"

#include <errno.h>
#include <stdlib.h>

/* Minimum fraction of the time that a plan must save if single-rail ranks are
 * planned under a budget. It equals the planner's gap. */
#define LEAST_GAIN 0.01
/* Hash of a schedule that has no plan. */
#define NO_PLAN 2u

void mca_coll_mrail_schedule_discard_plan(mca_coll_mrail_schedule_t *schedule)
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
    schedule->announced = calloc(ranks, sizeof(*schedule->announced));
    schedule->rails = calloc(mca_coll_mrail_schedule_num_rails(topology),
                             sizeof(*schedule->rails));
    schedule->new_rails = calloc(mca_coll_mrail_schedule_num_rails(topology),
                                 sizeof(*schedule->new_rails));
    schedule->channels = calloc(ranks, sizeof(*schedule->channels));
    schedule->sends = calloc(ranks, sizeof(*schedule->sends));
    schedule->recvs = calloc(ranks, sizeof(*schedule->recvs));
    if (mca_coll_mrail_records_init(&schedule->records, topology->num_ranks) <
            0 ||
        schedule->announced == NULL || schedule->rails == NULL ||
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
        mca_coll_mrail_schedule_discard_plan(schedule);
        mca_coll_mrail_records_cleanup(&schedule->records);
        free(schedule->announced);
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

/* ---- records ---- */

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

static int holds(mca_coll_mrail_schedule_t *schedule,
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
    mca_coll_mrail_schedule_read_rails(schedule, records);
    return mca_coll_mrail_schedule_same_rails(schedule);
}

/* Adds the time that a plan would have saved in this exchange. Returns 1 if the
 * sum is still below the cost of a plan. A plan is made when the missed savings
 * reach its cost. The total time is then at most twice the time of the best
 * choice, for any demands of later calls. */
static int defer(mca_coll_mrail_schedule_t *schedule)
{
    const mca_coll_mrail_forecast_t *forecast = &schedule->forecast;

    schedule->missed += MRAIL_MAX(forecast->unplanned - forecast->planned, 0);
    return schedule->missed < forecast->cost;
}

int mca_coll_mrail_schedule_fit(mca_coll_mrail_schedule_t *schedule,
                                const mca_coll_mrail_records_t *records)
{
    if (!holds(schedule, records)) {
        schedule->missed = 0;
        return 0;
    }
    return !schedule->forecast.is_deferred || defer(schedule);
}

/* ---- schedule ---- */

static uint64_t hash_flows(const mca_coll_mrail_schedule_t *schedule,
                           uint64_t hash)
{
    for (size_t i = 0; i < schedule->num_flows; ++i) {
        const mrail_relay_flow_t *flow = &schedule->flows[i];

        hash = mrail_mix64(hash ^ (((uint64_t)flow->from << 32) | flow->to));
        hash = mrail_mix64(
            hash ^ (((uint64_t)flow->relay_out << 32) | flow->relay_in));
        hash = mrail_mix64(hash ^
                           (((uint64_t)flow->rail_out << 32) | flow->rail_in));
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

/* Collects the demands that the records list, and notes which of them this rank
 * sends or receives. */
static int read_demands(mca_coll_mrail_schedule_t *schedule)
{
    uint32_t ranks = schedule->topology->num_ranks;
    uint32_t self = schedule->topology->self;

    if (grow_demands(schedule) < 0) {
        return -ENOMEM;
    }
    schedule->num_demands = 0;
    memset(schedule->announced, 0, ranks * sizeof(*schedule->announced));
    for (uint32_t from = 0; from < ranks; ++from) {
        const uint64_t *record =
            mca_coll_mrail_records_get(&schedule->records, from);

        for (size_t i = 0; i < mca_coll_mrail_record_num_demands(record); ++i) {
            mrail_plan_demand_t demand = {
                from, mca_coll_mrail_record_to(record, i),
                mca_coll_mrail_record_bytes(record, i)};

            schedule->demands[schedule->num_demands++] = demand;
            if (from == self) {
                schedule->announced[demand.to] |= MCA_COLL_MRAIL_ANNOUNCED_OUT;
            } else if (demand.to == self) {
                schedule->announced[from] |= MCA_COLL_MRAIL_ANNOUNCED_IN;
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
            const mca_coll_mrail_rail_t *now = mca_coll_mrail_schedule_rail(
                topology, schedule->rails, node, rail);

            mca_coll_mrail_unplanned_add(schedule->unplanned, node, rail,
                                         (double)now->small_out,
                                         (double)now->small_in);
        }
    }
}

/* Returns the expected time in seconds to make the plan, equal on all ranks. */
static double plan_cost(const mca_coll_mrail_schedule_t *schedule)
{
    unsigned level = 0;

    for (uint32_t i = 0; i < schedule->topology->num_ranks; ++i) {
        unsigned flags = mca_coll_mrail_record_flags(
            mca_coll_mrail_records_get(&schedule->records, i));

        level =
            MRAIL_MAX(level, (flags & 0xff) >> MCA_COLL_MRAIL_PLAN_COST_SHIFT);
    }
    return (double)schedule->num_demands * mca_coll_mrail_plan_cost_ns(level) *
           1e-9;
}

/* Returns 1 if an exchange of `planned` seconds justifies the cost of a plan.
 * Without a budget, single-rail ranks execute every plan, because their bytes
 * cannot use other rails without a plan. */
static int is_gain(const mca_coll_mrail_schedule_t *schedule, double planned)
{
    double unplanned = schedule->forecast.unplanned;

    return (schedule->topology->max_rails < 2)
               ? !schedule->topology->params.plan_budget ||
                     planned < (1 - LEAST_GAIN) * unplanned
               : mca_coll_mrail_is_gain(planned, unplanned);
}

/* Returns 0 if plans of these ranks cannot save time for any demands, or if the
 * ranks disable plans. */
static int can_help(const mca_coll_mrail_schedule_t *schedule)
{
    const mca_coll_mrail_topology_t *topology = schedule->topology;

    return !topology->refuses_plans &&
           (!topology->is_for_devices ||
            (schedule->is_on_devices && topology->gpus->any_pairwise));
}

/* Forecasts the exchange without a plan. Returns 1 if a plan may save more time
 * than it costs. */
static int may_gain(mca_coll_mrail_schedule_t *schedule)
{
    mca_coll_mrail_forecast_t *forecast = &schedule->forecast;
    int has_budget = schedule->topology->params.plan_budget != 0;

    mca_coll_mrail_unplanned_set(schedule->unplanned, schedule->demands,
                                 schedule->num_demands);
    add_background(schedule);
    *forecast = (mca_coll_mrail_forecast_t){
        .unplanned = mca_coll_mrail_unplanned_congestion(schedule->unplanned),
        .planned = mca_coll_mrail_unplanned_bound(schedule->unplanned),
        .cost = has_budget ? plan_cost(schedule) : 0};
    if (!can_help(schedule) || !is_gain(schedule, forecast->planned)) {
        return 0;
    }
    forecast->is_deferred = has_budget && defer(schedule);
    return !forecast->is_deferred;
}

static void clear_entries(mca_coll_mrail_schedule_t *schedule)
{
    schedule->num_sends = schedule->num_recvs = schedule->num_flows = 0;
    schedule->relayed = 0;
}

/* Rejects the plan. The schedule stays valid, so that the next call with the
 * same demands does not make the plan again. */
static void refuse_plan(mca_coll_mrail_schedule_t *schedule, const char *reason)
{
    clear_entries(schedule);
    schedule->forecast.is_gain = 0;
    schedule->forecast.refusal = reason;
}

/* Returns 1 if the relays of the plan fit into the buffers in host memory. If
 * buffers on GPUs do not fit, the caller makes a plan without GPUs. */
static int fits_pool(const mca_coll_mrail_schedule_t *schedule)
{
    mrail_relay_shape_t shape;

    return schedule->num_flows == 0 || schedule->is_on_devices ||
           mca_coll_mrail_pool_shape(schedule->topology, schedule->max_channels,
                                     0, &shape) == 0;
}

/* Plans the demands and cuts them into messages and flows. */
static int make_plan(mca_coll_mrail_schedule_t *schedule)
{
    mca_coll_mrail_forecast_t *forecast = &schedule->forecast;
    mrail_plan_summary_t summary;
    int ret = mrail_plan_make(schedule->plan, schedule->demands,
                              schedule->num_demands, 0, NULL, 0);

    if (ret == -EHOSTUNREACH) {
        refuse_plan(schedule, "a demand has no path");
        return 0;
    }
    if (ret < 0) {
        return ret;
    }
    ret = mca_coll_mrail_schedule_cut(schedule);
    if (ret == 0) {
        ret = count_channels(schedule);
    }
    mrail_plan_summary(schedule->plan, &summary);
    schedule->hash = hash_flows(schedule, summary.hash);
    forecast->planned = summary.congestion;
    forecast->is_planned = 1;
    forecast->is_gain = schedule->topology->max_rails < 2 ||
                        is_gain(schedule, forecast->planned);
    if (ret == 0 && !fits_pool(schedule)) {
        refuse_plan(schedule, "coll_mrail_relay_memory is too small");
    }
    return ret;
}

/* ---- device memory without a plan ---- */

static int any_device(const mca_coll_mrail_schedule_t *schedule)
{
    const unsigned device =
        MCA_COLL_MRAIL_DEVICE_OUT | MCA_COLL_MRAIL_DEVICE_IN;
    unsigned flags = 0;

    for (uint32_t i = 0; i < schedule->topology->num_ranks; ++i) {
        flags |= mca_coll_mrail_record_flags(
            mca_coll_mrail_records_get(&schedule->records, i));
    }
    return (flags & device) != 0;
}

/* Schedules all demands as direct messages. The transport splits them across
 * the receiver's rails. */
static int make_direct(mca_coll_mrail_schedule_t *schedule)
{
    int ret;

    clear_entries(schedule);
    ret = mca_coll_mrail_schedule_cut_direct(schedule);
    if (ret == 0) {
        ret = count_channels(schedule);
    }
    schedule->hash = hash_flows(schedule, NO_PLAN);
    schedule->forecast.is_device = 1;
    return ret;
}

int mca_coll_mrail_schedule_make(mca_coll_mrail_schedule_t *schedule,
                                 const mca_coll_mrail_records_t *records)
{
    int ret;

    schedule->is_valid = 0;
    clear_entries(schedule);
    schedule->hash = NO_PLAN;
    ret = mca_coll_mrail_records_copy(&schedule->records, records);
    if (ret == 0) {
        ret = mca_coll_mrail_schedule_need_plan(schedule);
    }
    if (ret == 0) {
        ret = mca_coll_mrail_schedule_set_background(schedule);
    }
    if (ret == 0) {
        ret = read_demands(schedule);
    }
    if (ret == 0 && may_gain(schedule)) {
        ret = make_plan(schedule);
    }
    if (ret == 0 && !schedule->forecast.is_gain && any_device(schedule)) {
        ret = make_direct(schedule);
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
    mca_coll_mrail_schedule_discard_plan(schedule);
    schedule->is_valid = 0;
}
