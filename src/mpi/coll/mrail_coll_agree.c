/* The agreement steps other than the exchange of records: the vote, the
 * decision, and the comparison of plans. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/direct.h"
#include "mpi/coll/staged.h"

#include "base/util.h"
#include "mpi/coll/plan_cost.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* ---- vote ---- */

uint64_t mca_coll_mrail_bytes_for_others(const mca_coll_mrail_op_t *op)
{
    unsigned ranks = (unsigned)ompi_comm_size(op->module->comm);
    unsigned self = (unsigned)ompi_comm_rank(op->module->comm);
    uint64_t bytes = 0;

    for (unsigned i = 0; i < ranks; ++i) {
        bytes += (i != self) ? op->sends[i].bytes : 0;
    }
    return bytes;
}

static void vote_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_set_ok(&op->module->gather,
                          !op->module->modes[op->func].wanted &&
                              (op->flags & MCA_COLL_MRAIL_BROKEN) == 0);
}

static mca_coll_mrail_step_t vote_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;

    if (!mca_coll_mrail_all_ok(&module->gather)) {
        return MCA_COLL_MRAIL_RECORD; /* some rank has a reason */
    }
    mca_coll_mrail_mode_vote(&module->modes[op->func], 0);
    MCA_COLL_MRAIL_COUNT(calls, 1);
    MCA_COLL_MRAIL_COUNT(bytes, mca_coll_mrail_bytes_for_others(op));
    return mca_coll_mrail_pass(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_vote = {
    .fill = vote_fill,
    .take = vote_take,
    .is_sparing = 1,
};

/* ---- the plan ---- */

/* Reports to the mode whether the call was worth its round. If calls cannot be
 * planned, or plans gain nothing, the mode backs off. */
static void vote(mca_coll_mrail_op_t *op, int is_worth)
{
    if (op->is_blocking) {
        mca_coll_mrail_mode_vote(&op->module->modes[op->func], is_worth);
    }
}

mca_coll_mrail_step_t mca_coll_mrail_go(mca_coll_mrail_op_t *op)
{
    op->is_planned = 1;
    return MCA_COLL_MRAIL_EXCHANGE;
}

/* Executes the plan on which the ranks have agreed, if it is worth its cost. */
static int is_worth(mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_forecast_t *forecast = &op->module->schedule->forecast;
    int is_executed = forecast->is_gain || forecast->is_device;

    vote(op, is_executed || forecast->is_deferred);
    mca_coll_mrail_explain(op->module);
    return is_executed;
}

static int has_chunks(const mca_coll_mrail_schedule_t *schedule)
{
    int count = 0;

    for (size_t i = 0; i < schedule->num_sends; ++i) {
        count += schedule->sends[i].is_chunked;
    }
    for (size_t i = 0; i < schedule->num_recvs; ++i) {
        count += schedule->recvs[i].is_chunked;
    }
    return count > 0;
}

/* Returns the processor time of this thread. It does not count the time in which
 * other processes used the processor. */
static mrail_ns_t processor_now(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (mrail_ns_t)now.tv_sec * MRAIL_NS_PER_SEC + (mrail_ns_t)now.tv_nsec;
}

/* Keeps what the plan has taken, to announce it. */
static void note_cost(mca_coll_mrail_module_t *module, mrail_ns_t from_ns)
{
    const mca_coll_mrail_schedule_t *schedule = module->schedule;

    if (schedule->forecast.is_planned) {
        module->plan_cost_level = mca_coll_mrail_plan_cost_level(
            module->plan_cost_level, (double)(processor_now() - from_ns) /
                                         (double)schedule->num_demands);
    }
}

static mca_coll_mrail_step_t make_plan(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_schedule_t *schedule = module->schedule;
    mrail_ns_t from_ns = mrail_clock_now(), from_cpu_ns = processor_now();
    int ret;

    if (mca_coll_mrail_schedule_fit(schedule, &module->records)) {
        /* already agreed, and no rank is out of memory */
        return is_worth(op) ? mca_coll_mrail_go(op) : mca_coll_mrail_pass(op);
    }
    ret = mca_coll_mrail_schedule_make(schedule, &module->records);
    if (ret == 0) {
        note_cost(module, from_cpu_ns);
        ret = mca_coll_mrail_direct_reserve(module);
    }
    if (ret == 0 && has_chunks(schedule)) {
        ret = mca_coll_mrail_staged_reserve(op);
    }
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

/* ---- decision ---- */

/* The call fails on all ranks, because one of them cannot take part. That rank
 * has printed why. */
static mca_coll_mrail_step_t end_broken(mca_coll_mrail_op_t *op)
{
    vote(op, op->module->agreement.any_wanted);
    mca_coll_mrail_agreed(op);
    op->ret =
        ((op->flags & MCA_COLL_MRAIL_BROKEN) != 0) ? op->error : MPI_ERR_OTHER;
    return MCA_COLL_MRAIL_DONE;
}

mca_coll_mrail_step_t mca_coll_mrail_decide(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    const mca_coll_mrail_agreement_t *agreement = &module->agreement;
    int is_large = agreement->largest > module->relay_threshold;

    MCA_COLL_MRAIL_COUNT(calls, 1);
    MCA_COLL_MRAIL_COUNT(bytes, mca_coll_mrail_bytes_for_others(op));
    op->is_mismatched = agreement->is_mismatched;
    if (agreement->any_broken) {
        return end_broken(op);
    }
    if (agreement->any_cannot && mca_coll_mrail_settings.verbose > 1) {
        mca_coll_mrail_log(module, "left to Open MPI",
                           "a rank has no memory for the call");
    }
    if (agreement->any_cannot || !is_large) {
        vote(op, agreement->any_wanted && !agreement->any_cannot);
        return mca_coll_mrail_pass(op);
    }
    return make_plan(op);
}

/* ---- agreement on the plan ---- */

/* The plan is executed only if every rank computed the same one. The decision
 * whether to execute it follows from the plan. If a rank has
 * another build of the planner or no memory, all ranks leave the call
 * unplanned. */
static void agree_fill(mca_coll_mrail_op_t *op, void *mine)
{
    const mca_coll_mrail_schedule_t *schedule = op->module->schedule;
    uint64_t *words = mine;

    words[0] = schedule->is_valid ? schedule->hash | 1 : 0;
    words[1] = ~words[0];
}

/* All hashes are equal if and only if the bitwise ANDs of the hashes and of
 * their complements are complements of each other. */
static mca_coll_mrail_step_t agree_take(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    const uint64_t *words = module->gather.words;

    if (words[0] == 0 || words[0] != ~words[1]) {
        vote(op, 1);
        mca_coll_mrail_schedule_discard_warm_start(module->schedule);
        if (mca_coll_mrail_settings.verbose > 1) {
            mca_coll_mrail_log(module, "left to Open MPI",
                               "ranks made different plans, or none");
        }
        return mca_coll_mrail_pass(op);
    }
    return is_worth(op) ? mca_coll_mrail_need_pool(op)
                        : mca_coll_mrail_pass(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_agree = {
    .fill = agree_fill,
    .take = agree_take,
};
