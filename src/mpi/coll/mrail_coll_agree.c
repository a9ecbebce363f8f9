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

static void record_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_topology_t *topology = module->topology;
    uint64_t *record = mine;

    read_rail(module);
    memcpy(record, module->rail, sizeof(module->rail));
    record[0] = op->flags;
    record[0] |=
        (op->is_blocking && module->modes[op->func].wanted)
            ? MCA_COLL_MRAIL_WANTED
            : 0;
    if (have_gaps(op->sends, topology->num_ranks)) {
        record[0] |= MCA_COLL_MRAIL_GAPS_OUT;
    }
    if (have_gaps(op->recvs, topology->num_ranks)) {
        record[0] |= MCA_COLL_MRAIL_GAPS_IN;
    }
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        record[MCA_COLL_MRAIL_RECORD_WORDS + i] = op->sends[i].bytes;
    }
}

/* The combined result of all records, equal on all ranks. */
typedef struct agreement {
    int any_cannot, any_wanted;
    uint64_t largest; /* largest demand between two ranks */
    uint64_t mine;    /* bytes from this rank to all others */
} agreement_t;

static agreement_t read_records(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_topology_t *topology = module->topology;
    size_t stride = mca_coll_mrail_record_words(topology);
    agreement_t agreement = {0};

    for (unsigned from = 0; from < topology->num_ranks; ++from) {
        uint64_t *record = module->records + from * stride;

        memcpy(record, mca_coll_mrail_gather_block(&module->gather, from),
               stride * sizeof(*record));
        agreement.any_cannot |= (record[0] & MCA_COLL_MRAIL_CANNOT) != 0;
        agreement.any_wanted |= (record[0] & MCA_COLL_MRAIL_WANTED) != 0;
        for (unsigned to = 0; to < topology->num_ranks; ++to) {
            uint64_t bytes = record[MCA_COLL_MRAIL_RECORD_WORDS + to];

            if (to != from) {
                agreement.largest = MRAIL_MAX(agreement.largest, bytes);
                agreement.mine += (from == topology->self) ? bytes : 0;
            }
        }
        /* This flag is cleared, because it does not influence the plan and must
         * not cause a new one. */
        record[0] &= ~(uint64_t)MCA_COLL_MRAIL_WANTED;
    }
    return agreement;
}

static mca_coll_mrail_step_t record_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    agreement_t agreement = read_records(module);
    int is_large = agreement.largest > module->relay_threshold;

    if (op->is_blocking) {
        mca_coll_mrail_mode_vote(&module->modes[op->func],
                                 agreement.any_wanted || is_large);
    }
    MCA_COLL_MRAIL_COUNT(calls, 1);
    MCA_COLL_MRAIL_COUNT(bytes, agreement.mine);
    if (agreement.any_cannot || !is_large) {
        if (agreement.any_cannot && mca_coll_mrail_settings.verbose > 1) {
            mca_coll_mrail_log(
                module, "left to Open MPI",
                "a rank's buffers are in the memory of a GPU, or "
                "it has no memory for MPI_IN_PLACE");
        }
        return mca_coll_mrail_pass(op);
    }
    return make_plan(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_record = {
    .size = record_size,
    .fill = record_fill,
    .take = record_take,
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
