/*
 * The ops of each communicator. Their agreement rounds follow one another in
 * call order (mrail_coll.h).
 *
 * Each op is on the list of its module. The process has a list of the modules
 * with nonblocking ops, from which opal_progress() advances these ops. An op
 * leaves its list before it completes. The thread that completes an op holds no
 * lock, because the owner may then free the op and its communicator.
 *
 * Planning may take milliseconds, but holds only module->is_busy. Threads never
 * wait for this lock.
 */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/request.h"

#include "base/util.h"

#include "ompi/constants.h"
#include "opal/runtime/opal_progress.h"

#include <sched.h>
#include <stdlib.h>

/* Maximum number of ops that are in an exchange without a plan at the same
 * time. The limit delays only agreement rounds. An exchange on which the ranks
 * have agreed starts on all of them, so the limit cannot cause a deadlock. */
#define MAX_EXCHANGES 32

static const mca_coll_mrail_step_ops_t *const steps[] = {
    [MCA_COLL_MRAIL_READY] = &mca_coll_mrail_step_ready,
    [MCA_COLL_MRAIL_VOTE] = &mca_coll_mrail_step_vote,
    [MCA_COLL_MRAIL_SAME] = &mca_coll_mrail_step_same,
    [MCA_COLL_MRAIL_RECORD] = &mca_coll_mrail_step_record,
    [MCA_COLL_MRAIL_RESERVE] = &mca_coll_mrail_step_reserve,
    [MCA_COLL_MRAIL_REST] = &mca_coll_mrail_step_rest,
    [MCA_COLL_MRAIL_NAME] = &mca_coll_mrail_step_name,
    [MCA_COLL_MRAIL_SHARED] = &mca_coll_mrail_step_shared,
    [MCA_COLL_MRAIL_GPUS] = &mca_coll_mrail_step_gpus,
    [MCA_COLL_MRAIL_AGREE] = &mca_coll_mrail_step_agree,
};

/* ---- steps ---- */

static int try_lock(int *lock)
{
    return __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) == 0;
}

/* Acquires a lock that threads hold only for a few instructions. */
static void lock(int *lock)
{
    while (!try_lock(lock)) {
        sched_yield();
    }
}

static void unlock(int *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

static void fail(mca_coll_mrail_op_t *op, int ret)
{
    op->ret = ret;
    op->step = MCA_COLL_MRAIL_DONE;
}

static mca_coll_mrail_step_t first_step(mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_module_t *module = op->module;

    if (module->away != NULL) {
        return mca_coll_mrail_pass(op);
    }
    if (!module->is_agreed) {
        return MCA_COLL_MRAIL_READY;
    }
    if (op->is_blocking &&
        mca_coll_mrail_mode_is_backed_off(&module->modes[op->func])) {
        return MCA_COLL_MRAIL_VOTE;
    }
    return module->is_steady ? MCA_COLL_MRAIL_SAME : MCA_COLL_MRAIL_RECORD;
}

static int start_gather(mca_coll_mrail_op_t *op,
                        const mca_coll_mrail_step_ops_t *step)
{
    mca_coll_mrail_gather_t *gather = &op->module->gather;
    unsigned ports = step->is_sparing ? 1 : MCA_COLL_MRAIL_GATHER_PORTS;
    int tag = mca_coll_mrail_op_tag_gather(op);

    if (step->size == NULL && step->starts == NULL) {
        step->fill(op, gather->words);
        return mca_coll_mrail_reduce_start(gather, ports, tag);
    }
    step->fill(op, mca_coll_mrail_gather_mine(gather));
    return (step->size != NULL)
               ? mca_coll_mrail_gather_start(gather, step->size(op), ports, tag)
               : mca_coll_mrail_gather_start_sized(gather, step->starts(op),
                                                   ports, tag);
}

/* Starts the current step. */
static void start_step(mca_coll_mrail_op_t *op)
{
    int ret;

    if (op->step == MCA_COLL_MRAIL_PLAN) {
        mca_coll_mrail_plan_start(op);
        return;
    }
    if (op->step == MCA_COLL_MRAIL_EXCHANGE) {
        if (op->is_planned) {
            op->module->relaying = op;
        } else {
            ++op->module->num_exchanges;
        }
        mca_coll_mrail_exchange_start(op);
        return;
    }
    ret = start_gather(op, steps[op->step]);
    if (ret != OMPI_SUCCESS) {
        fail(op, ret);
    }
}

static void start_op(mca_coll_mrail_op_t *op)
{
    op->is_started = 1;
    op->from_ns = mrail_clock_now();
    op->step = first_step(op);
    if (op->step != MCA_COLL_MRAIL_DONE) {
        start_step(op);
    }
}

static void end_exchange(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_dt_cursors_cleanup(&op->cursors);
    if (op->is_planned) {
        op->module->relaying = NULL;
    } else {
        --op->module->num_exchanges;
    }
    op->step = MCA_COLL_MRAIL_DONE;
}

static int end_follow(mca_coll_mrail_op_t *op)
{
    size_t length;

    if (!mca_coll_mrail_request_take(op->previous, &length, &op->ret)) {
        return 0;
    }
    op->step = MCA_COLL_MRAIL_DONE;
    return 1;
}

/* Returns 1 if a step ended and the next one started, or the op is done. */
static int end_step(mca_coll_mrail_op_t *op)
{
    int is_done = 0, ret;

    if (op->step == MCA_COLL_MRAIL_FOLLOW) {
        return end_follow(op);
    }
    if (op->step == MCA_COLL_MRAIL_EXCHANGE) {
        if (!mca_coll_mrail_exchange_progress(op)) {
            return 0;
        }
        end_exchange(op);
        return 1;
    }
    if (op->step == MCA_COLL_MRAIL_PLAN) {
        if (!mca_coll_mrail_plan_progress(op)) {
            return 0;
        }
        op->step = MCA_COLL_MRAIL_AGREE;
        start_step(op);
        return 1;
    }
    ret = mca_coll_mrail_gather_progress(&op->module->gather, &is_done);
    if (ret != OMPI_SUCCESS) {
        fail(op, ret);
        return 1;
    }
    if (!is_done) {
        return 0;
    }
    op->step = steps[op->step]->take(op);
    if (op->step != MCA_COLL_MRAIL_DONE) {
        start_step(op);
    }
    return 1;
}

/* ---- ops of a module ---- */

static mca_coll_mrail_op_t *op_of(mrail_list_t *node)
{
    return MRAIL_CONTAINER_OF(node, mca_coll_mrail_op_t, node);
}

/* Moves new ops to module->ops. */
static void take_posted(mca_coll_mrail_module_t *module)
{
    lock(&module->posted_lock);
    while (!mrail_list_empty(&module->posted)) {
        mrail_list_t *node = module->posted.next;

        mrail_list_del(node);
        mrail_list_add_tail(&module->ops, node);
    }
    unlock(&module->posted_lock);
}

static void finish(mca_coll_mrail_op_t *op, mrail_list_t *finished)
{
    mrail_list_del(&op->node);
    if (op->shadows != NULL && !op->is_blocking && op->ret == OMPI_SUCCESS) {
        op->ret = mca_coll_mrail_shadows_drain(op->shadows);
    }
    if (op->is_blocking) {
        __atomic_store_n(&op->is_finished, 1, __ATOMIC_RELEASE);
    } else {
        mrail_list_add_tail(finished, &op->node);
        __atomic_fetch_sub(&op->module->num_nonblocking, 1, __ATOMIC_RELAXED);
    }
}

/* Returns 1 if the ops after this one have to wait: it is in an agreement round
 * or in a planned exchange. */
static int holds_others(const mca_coll_mrail_op_t *op)
{
    return (op->step != MCA_COLL_MRAIL_EXCHANGE &&
            op->step != MCA_COLL_MRAIL_FOLLOW) ||
           op->is_planned;
}

/* Advances the ops. Moves completed nonblocking ops to `finished`. */
static void module_progress(mca_coll_mrail_module_t *module,
                            mrail_list_t *finished)
{
    if (!try_lock(&module->is_busy)) {
        return;
    }
    take_posted(module);
    for (mrail_list_t *node = module->ops.next, *next; node != &module->ops;
         node = next) {
        mca_coll_mrail_op_t *op = op_of(node);

        next = node->next;
        if (!op->is_started) {
            if (module->num_exchanges == MAX_EXCHANGES) {
                break;
            }
            start_op(op);
        }
        while (op->step != MCA_COLL_MRAIL_DONE && end_step(op)) {
        }
        if (op->step == MCA_COLL_MRAIL_DONE) {
            finish(op, finished);
        } else if (holds_others(op)) {
            break;
        }
    }
    unlock(&module->is_busy);
}

/* Starts a new op, unless it has to wait. */
static void module_start(mca_coll_mrail_module_t *module)
{
    if (!try_lock(&module->is_busy)) {
        return; /* the op starts when its owner or another thread waits */
    }
    take_posted(module);
    for (mrail_list_t *node = module->ops.next; node != &module->ops;
         node = node->next) {
        mca_coll_mrail_op_t *op = op_of(node);

        if (!op->is_started && module->num_exchanges < MAX_EXCHANGES) {
            start_op(op);
        }
        if (!op->is_started || holds_others(op)) {
            break;
        }
    }
    unlock(&module->is_busy);
}

/* Completes the request of an op. The owner may then free it. */
static void complete_one(mca_coll_mrail_op_t *op)
{
    ompi_request_t *request = &op->request.super;
    ompi_request_t *persistent = op->persistent;
    int ret = op->ret;

    if (persistent != NULL) {
        /* The op was for one start. The communicator stays, because the
         * persistent request also refers to it. */
        request->req_complete = REQUEST_COMPLETED;
        (void)request->req_free(&request);
        request = persistent;
    }
    request->req_status.MPI_ERROR = ret;
    ompi_request_complete(request, true);
}

static void complete(mrail_list_t *finished)
{
    while (!mrail_list_empty(finished)) {
        mca_coll_mrail_op_t *op = op_of(finished->next);

        mrail_list_del(&op->node);
        complete_one(op);
    }
}

/* ---- nonblocking ops ---- */

/* Protects the list, the pins of its modules, and is_registered. */
static int active_lock;
/* Modules with nonblocking ops. */
static mrail_list_t active = {&active, &active};
static unsigned num_active; /* atomic: threads read it without the lock */
static int is_registered;

/* Pins the first module of the list, so that it is not freed before it is
 * unpinned, and moves it to the end. Returns NULL if the list is empty. */
static mca_coll_mrail_module_t *active_get(void)
{
    mca_coll_mrail_module_t *module = NULL;

    lock(&active_lock);
    if (!mrail_list_empty(&active)) {
        module =
            MRAIL_CONTAINER_OF(active.next, mca_coll_mrail_module_t, active);
        /* the next call takes the next module */
        mrail_list_del(&module->active);
        mrail_list_add_tail(&active, &module->active);
        ++module->pins;
    }
    unlock(&active_lock);
    return module;
}

static void remove_active(mca_coll_mrail_module_t *module)
{
    if (!mrail_list_empty(&module->active)) {
        mrail_list_del(&module->active);
        mrail_list_init(&module->active);
        __atomic_fetch_sub(&num_active, 1, __ATOMIC_RELAXED);
    }
}

static void active_put(mca_coll_mrail_module_t *module)
{
    lock(&active_lock);
    if (__atomic_load_n(&module->num_nonblocking, __ATOMIC_RELAXED) == 0) {
        remove_active(module);
    }
    --module->pins;
    unlock(&active_lock);
}

/* Advances every module on the list once. */
static int progress_all(void)
{
    unsigned left = __atomic_load_n(&num_active, __ATOMIC_RELAXED);
    mca_coll_mrail_module_t *module;
    mrail_list_t finished;
    int num;

    mrail_list_init(&finished);
    for (; left > 0 && (module = active_get()) != NULL; --left) {
        module_progress(module, &finished);
        active_put(module);
    }
    num = !mrail_list_empty(&finished);
    complete(&finished);
    return num;
}

static void activate(mca_coll_mrail_module_t *module)
{
    lock(&active_lock);
    if (!is_registered) {
        is_registered = 1;
        (void)opal_progress_register(progress_all);
    }
    if (mrail_list_empty(&module->active)) {
        mrail_list_add_tail(&active, &module->active);
        __atomic_fetch_add(&num_active, 1, __ATOMIC_RELAXED);
    }
    unlock(&active_lock);
}

void mca_coll_mrail_ops_free(mca_coll_mrail_module_t *module)
{
    int is_pinned = 1;

    while (is_pinned) {
        lock(&active_lock);
        remove_active(module);
        is_pinned = module->pins > 0;
        unlock(&active_lock);
        if (is_pinned) {
            sched_yield(); /* the other thread soon notices that the list is
                            * empty */
        }
    }
}

void mca_coll_mrail_ops_close(void)
{
    if (is_registered) {
        is_registered = 0;
        (void)opal_progress_unregister(progress_all);
    }
}

/* ---- start and end of an op ---- */

void mca_coll_mrail_op_append(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;

    if (!op->is_blocking) {
        __atomic_fetch_add(&module->num_nonblocking, 1, __ATOMIC_RELAXED);
    }
    lock(&module->posted_lock);
    mrail_list_add_tail(&module->posted, &op->node);
    unlock(&module->posted_lock);
    if (!op->is_blocking) {
        activate(module);
        module_start(module);
    }
}

int mca_coll_mrail_op_wait(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mrail_list_t finished;

    for (;;) {
        mrail_list_init(&finished);
        module_progress(module, &finished);
        complete(&finished);
        if (__atomic_load_n(&op->is_finished, __ATOMIC_ACQUIRE)) {
            break;
        }
        opal_progress();
    }
    free(op->copy);
    op->copy = NULL;
    module->spare = op;
    return op->ret;
}
