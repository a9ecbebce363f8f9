/* The steps of every call: the vote, the records, and one plan for all
 * ranks. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/rail_view.h"

#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void print_rail(const mca_coll_mrail_module_t *module,
                       const uint64_t *record)
{
    uint64_t port = record[MCA_COLL_MRAIL_PORT];
    uint64_t out = record[MCA_COLL_MRAIL_OUT], in = record[MCA_COLL_MRAIL_IN];

    fprintf(stderr,
            "mrail: coll: rank %d: rail carries %.1f MB/s out, %.1f in, of "
            "%.1f\n",
            ompi_comm_rank(module->comm), ((out > 0) ? out : port) / 1e6,
            ((in > 0) ? in : port) / 1e6, port / 1e6);
}

/* Reads the port rate and the measured bandwidth of this rank's rail. */
static void read_rail(mca_coll_mrail_module_t *module)
{
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];
    uint64_t *record = module->rail, last[MCA_COLL_MRAIL_RECORD_WORDS];
    double port = MRAIL_MIN((double)mca_coll_mrail_settings.rail_bandwidth,
                            MRAIL_PLAN_MAX_CAPACITY);
    double out = 0, in = 0;

    if (port == 0 && mca_coll_mrail_rails(rails) == 1 && rails[0].is_up) {
        port = rails[0].speed;
        out = rails[0].live_out;
        in = rails[0].live_in;
    }
    memcpy(last, record, sizeof(last));
    record[MCA_COLL_MRAIL_PORT] =
        mca_coll_mrail_rail_port(record[MCA_COLL_MRAIL_PORT], port);
    record[MCA_COLL_MRAIL_OUT] =
        mca_coll_mrail_rail_live(record[MCA_COLL_MRAIL_OUT], out, port);
    record[MCA_COLL_MRAIL_IN] =
        mca_coll_mrail_rail_live(record[MCA_COLL_MRAIL_IN], in, port);
    if (mca_coll_mrail_settings.verbose > 1 &&
        memcmp(last, record, sizeof(last)) != 0) {
        print_rail(module, record);
    }
}

/* ---- vote ---- */

static size_t vote_size(const mca_coll_mrail_op_t *op)
{
    return sizeof(uint64_t);
}

static void vote_fill(mca_coll_mrail_op_t *op, void *mine)
{
    uint64_t wanted = op->module->modes[op->func].wanted != 0;

    memcpy(mine, &wanted, sizeof(wanted));
}

static uint64_t bytes_for_others(const mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_topology_t *topology = op->module->topology;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        bytes += (i != topology->self) ? op->sends[i].bytes : 0;
    }
    return bytes;
}

static mca_coll_mrail_step_t vote_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;

    for (unsigned i = 0; i < module->gather.num_ranks; ++i) {
        uint64_t wanted;

        memcpy(&wanted, mca_coll_mrail_gather_block(&module->gather, i),
               sizeof(wanted));
        if (wanted) {
            return MCA_COLL_MRAIL_RECORD;
        }
    }
    mca_coll_mrail_mode_vote(&module->modes[op->func], 0);
    MCA_COLL_MRAIL_COUNT(calls, 1);
    MCA_COLL_MRAIL_COUNT(bytes, bytes_for_others(op));
    return mca_coll_mrail_pass(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_vote = {
    .size = vote_size,
    .fill = vote_fill,
    .take = vote_take,
    .is_sparing = 1,
};

/* ---- the plan ---- */

mca_coll_mrail_step_t mca_coll_mrail_go(mca_coll_mrail_op_t *op)
{
    op->is_planned = 1;
    return MCA_COLL_MRAIL_EXCHANGE;
}

static mca_coll_mrail_step_t make_plan(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_schedule_t *schedule = module->schedule;
    mrail_ns_t from_ns = mrail_clock_now();
    int ret;

    if (mca_coll_mrail_schedule_fit(schedule, module->records)) {
        /* already agreed, and no rank is out of memory */
        return mca_coll_mrail_go(op);
    }
    ret = mca_coll_mrail_schedule_make(schedule, module->records);
    if (ret == 0 && module->relay != NULL) {
        ret = mrail_relay_reserve(module->relay, schedule->flows,
                                  schedule->num_flows);
        /* Too few in-slots: all ranks get more. */
        ret = (ret == -ENOSPC) ? 0 : ret;
    }
    if (ret < 0) {
        mca_coll_mrail_schedule_discard_warm_start(schedule);
    }
    MCA_COLL_MRAIL_COUNT(plan_ns, mrail_clock_now() - from_ns);
    return MCA_COLL_MRAIL_AGREE;
}

/* ---- records ---- */

static int have_gaps(const mca_coll_mrail_dt_segment_t *segments,
                     unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        if (segments[i].bytes > 0 && segments[i].first == NULL) {
            return 1;
        }
    }
    return 0;
}

static size_t record_size(const mca_coll_mrail_op_t *op)
{
    return mca_coll_mrail_record_words(op->module->topology) * sizeof(uint64_t);
}

/* Reads the rail, and writes the words of this rank's record before the
 * demands. */
static void fill_head(mca_coll_mrail_op_t *op,
                      uint64_t head[MCA_COLL_MRAIL_RECORD_WORDS])
{
    mca_coll_mrail_module_t *module = op->module;
    unsigned ranks = module->topology->num_ranks;

    read_rail(module);
    memcpy(head, module->rail, sizeof(module->rail));
    head[0] = op->flags;
    if (have_gaps(op->sends, ranks)) {
        head[0] |= MCA_COLL_MRAIL_GAPS_OUT;
    }
    if (have_gaps(op->recvs, ranks)) {
        head[0] |= MCA_COLL_MRAIL_GAPS_IN;
    }
}

static void record_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    uint64_t *record = mine;

    fill_head(op, record);
    if (op->is_blocking && module->modes[op->func].wanted) {
        record[0] |= MCA_COLL_MRAIL_WANTED;
    }
    for (unsigned i = 0; i < module->topology->num_ranks; ++i) {
        record[MCA_COLL_MRAIL_RECORD_WORDS + i] = op->sends[i].bytes;
    }
}

/* Replaces a record. Returns 1 if the new one is equal. */
static int take_record(uint64_t *record, const uint64_t *now, size_t words)
{
    /* This flag is left out, because it does not influence the plan and must
     * not cause a new one. */
    uint64_t flags = now[0] & ~(uint64_t)MCA_COLL_MRAIL_WANTED;

    if (record[0] == flags &&
        memcmp(record + 1, now + 1, (words - 1) * sizeof(*now)) == 0) {
        return 1;
    }
    memcpy(record, now, words * sizeof(*now));
    record[0] = flags;
    return 0;
}

static void add_demands(mca_coll_mrail_agreement_t *agreement,
                        const mca_coll_mrail_topology_t *topology,
                        unsigned from, const uint64_t *demands)
{
    for (unsigned to = 0; to < topology->num_ranks; ++to) {
        if (to != from) {
            agreement->largest = MRAIL_MAX(agreement->largest, demands[to]);
            agreement->mine += (from == topology->self) ? demands[to] : 0;
        }
    }
}

static void read_records(mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_topology_t *topology = module->topology;
    size_t stride = mca_coll_mrail_record_words(topology);
    mca_coll_mrail_agreement_t agreement = {0};

    module->is_steady = 1;
    for (unsigned from = 0; from < topology->num_ranks; ++from) {
        const uint64_t *now =
            mca_coll_mrail_gather_block(&module->gather, from);

        agreement.any_cannot |= (now[0] & MCA_COLL_MRAIL_CANNOT) != 0;
        agreement.any_wanted |= (now[0] & MCA_COLL_MRAIL_WANTED) != 0;
        add_demands(&agreement, topology, from,
                    now + MCA_COLL_MRAIL_RECORD_WORDS);
        module->is_steady &=
            take_record(module->records + from * stride, now, stride);
    }
    module->agreement = agreement;
}

/* Decides about a call from the records of all ranks. */
static mca_coll_mrail_step_t decide(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_agreement_t *agreement = &module->agreement;
    int is_large = agreement->largest > module->relay_threshold;

    if (op->is_blocking) {
        /* Where calls cannot be planned, rounds become rare. */
        mca_coll_mrail_mode_vote(&module->modes[op->func],
                                 (agreement->any_wanted || is_large) &&
                                     !agreement->any_cannot);
    }
    MCA_COLL_MRAIL_COUNT(calls, 1);
    MCA_COLL_MRAIL_COUNT(bytes, agreement->mine);
    if (agreement->any_cannot && mca_coll_mrail_settings.verbose > 1) {
        mca_coll_mrail_log(module, "left to Open MPI",
                           "a rank's buffers are in the memory of a GPU, or "
                           "it has no memory for MPI_IN_PLACE");
    }
    return (agreement->any_cannot || !is_large) ? mca_coll_mrail_pass(op)
                                                : make_plan(op);
}

static mca_coll_mrail_step_t record_take(mca_coll_mrail_op_t *op)
{
    read_records(op->module);
    return decide(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_record = {
    .size = record_size,
    .fill = record_fill,
    .take = record_take,
};

/* ---- unchanged records ---- */

/* If the last records equalled the ones before, a round with one word from each
 * rank asks first whether any record has changed. Usually none has. */
static size_t same_size(const mca_coll_mrail_op_t *op)
{
    return sizeof(int);
}

static void same_fill(mca_coll_mrail_op_t *op, void *mine)
{
    const mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_topology_t *topology = module->topology;
    const uint64_t *last =
        module->records +
        topology->self * mca_coll_mrail_record_words(topology);
    uint64_t head[MCA_COLL_MRAIL_RECORD_WORDS];
    int is_same;

    fill_head(op, head);
    is_same = memcmp(head, last, sizeof(head)) == 0;
    for (unsigned i = 0; i < topology->num_ranks && is_same; ++i) {
        is_same = op->sends[i].bytes == last[MCA_COLL_MRAIL_RECORD_WORDS + i];
    }
    memcpy(mine, &is_same, sizeof(is_same));
}

static mca_coll_mrail_step_t same_take(mca_coll_mrail_op_t *op)
{
    if (!mca_coll_mrail_all_ok(&op->module->gather)) {
        return MCA_COLL_MRAIL_RECORD;
    }
    /* In this mode every call holds a round, so no rank had other demands. */
    op->module->agreement.any_wanted = 0;
    MCA_COLL_MRAIL_COUNT(unchanged_calls, 1);
    return decide(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_same = {
    .size = same_size,
    .fill = same_fill,
    .take = same_take,
};

/* ---- agreement on the plan ---- */

/* The plan is executed only if every rank computed the same one. If a rank has
 * another build of the planner or no memory, all ranks leave the call
 * unplanned. */
static size_t agree_size(const mca_coll_mrail_op_t *op)
{
    return sizeof(uint64_t);
}

static void agree_fill(mca_coll_mrail_op_t *op, void *mine)
{
    const mca_coll_mrail_schedule_t *schedule = op->module->schedule;
    uint64_t hash = schedule->is_valid ? schedule->hash | 1 : 0;

    memcpy(mine, &hash, sizeof(hash));
}

static mca_coll_mrail_step_t agree_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_gather_t *gather = &module->gather;
    uint64_t first, hash;

    memcpy(&first, mca_coll_mrail_gather_block(gather, 0), sizeof(first));
    for (unsigned i = 0; i < gather->num_ranks; ++i) {
        memcpy(&hash, mca_coll_mrail_gather_block(gather, i), sizeof(hash));
        if (hash != first || hash == 0) {
            mca_coll_mrail_schedule_discard_warm_start(module->schedule);
            if (mca_coll_mrail_settings.verbose > 1) {
                mca_coll_mrail_log(module, "left to Open MPI",
                                   "ranks made different plans, or none");
            }
            return mca_coll_mrail_pass(op);
        }
    }
    return mca_coll_mrail_need_pool(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_agree = {
    .size = agree_size,
    .fill = agree_fill,
    .take = agree_take,
};
