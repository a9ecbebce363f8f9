/* The agreement steps except the exchange of records: the vote, the decision,
 * and the comparison of plans. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "base/util.h"

#include <string.h>

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
        return MCA_COLL_MRAIL_RECORD; /* some rank wants a round */
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

/* Informs the mode whether the call justified its round. If calls cannot be
 * planned, or plans save no time, the mode backs off. */
static void vote(mca_coll_mrail_op_t *op, int pays)
{
    if (op->is_blocking) {
        mca_coll_mrail_mode_vote(&op->module->modes[op->func], pays);
    }
}

mca_coll_mrail_step_t mca_coll_mrail_go(mca_coll_mrail_op_t *op)
{
    op->is_planned = 1;
    return MCA_COLL_MRAIL_EXCHANGE;
}

/* Passes the result of the agreement to the mode, and prints the forecast in
 * verbose mode. Returns 1 if the schedule must be executed. */
static int pays(mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_forecast_t *forecast = &op->module->schedule->forecast;
    int is_executed = forecast->is_gain || forecast->is_device;

    vote(op, is_executed || forecast->is_deferred);
    mca_coll_mrail_explain(op->module);
    return is_executed;
}

mca_coll_mrail_step_t mca_coll_mrail_need_plan(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;

    if (!mca_coll_mrail_schedule_fit(module->schedule, &module->records)) {
        return MCA_COLL_MRAIL_PLAN;
    }
    /* all ranks have agreed on the plan, and none is out of memory */
    return pays(op) ? mca_coll_mrail_go(op) : mca_coll_mrail_pass(op);
}

/* Returns 1 if a plan for device memory needs the GPUs of the ranks. */
static int need_gpus(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_gpus_t *gpus = module->topology->gpus;

    return gpus != NULL && !gpus->is_refused &&
           mca_coll_mrail_gpus_serve(&module->records) &&
           (!gpus->is_known || module->agreement.any_new_gpu);
}

/* ---- decision ---- */

/* The call fails on all ranks, because one rank cannot take part. That rank has
 * printed the reason. */
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
                           "a rank is out of memory, or has a neighbour twice "
                           "or a buffer that cannot be divided");
    }
    if (agreement->any_cannot || !is_large) {
        vote(op, agreement->any_wanted && !agreement->any_cannot);
        return mca_coll_mrail_pass(op);
    }
    return need_gpus(module) ? MCA_COLL_MRAIL_GPUS
                             : mca_coll_mrail_need_plan(op);
}

/* ---- agreement on the plan ---- */

/* The plan is executed only if every rank computed the same plan, because each
 * rank derives the decision to execute it from the plan. If a rank has another
 * build of the planner, or runs out of memory, all ranks execute the call
 * without a plan. */
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
    mca_coll_mrail_export(module);
    return pays(op) ? mca_coll_mrail_need_pool(op) : mca_coll_mrail_pass(op);
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_agree = {
    .fill = agree_fill,
    .take = agree_take,
};
