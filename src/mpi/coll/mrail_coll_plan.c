/* The step that makes the plan. In a nonblocking call, a separate thread makes
 * a long plan, so that MPI_Test returns immediately. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/direct.h"
#include "mpi/coll/plan_cost.h"
#include "mpi/coll/staged.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>

/* A rank announces no cost while each of its plans takes less than this
 * time. */
#define LEAST_COST_NS (1 * MRAIL_NS_PER_MS)
/* Minimum expected time of a plan that a separate thread makes. */
#define LEAST_THREAD_NS (200.0 * MRAIL_NS_PER_US)

/* Returns the CPU time of this thread, which excludes the time in which other
 * threads used the core. */
static mrail_ns_t processor_now(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (mrail_ns_t)now.tv_sec * MRAIL_NS_PER_SEC + (mrail_ns_t)now.tv_nsec;
}

/* Updates the time per demand that this rank announces. */
static void note_cost(mca_coll_mrail_module_t *module, mrail_ns_t from_ns)
{
    const mca_coll_mrail_schedule_t *schedule = module->schedule;
    mrail_ns_t taken_ns = processor_now() - from_ns;

    if (schedule->forecast.is_planned &&
        (module->plan_cost_level > 0 || taken_ns >= LEAST_COST_NS)) {
        module->plan_cost_level = mca_coll_mrail_plan_cost_level(
            module->plan_cost_level,
            (double)taken_ns / (double)schedule->num_demands);
    }
}

/* Makes the plan. Any thread may call this function, because it does not use
 * the network. */
static void make(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;
    mca_coll_mrail_schedule_t *schedule = module->schedule;
    mrail_ns_t from_ns = mrail_clock_now(), from_cpu_ns = processor_now();
    int ret = mca_coll_mrail_schedule_make(schedule, &module->records);

    if (ret == 0) {
        note_cost(module, from_cpu_ns);
        ret = mca_coll_mrail_direct_reserve(module);
    }
    if (ret == 0 && mca_coll_mrail_schedule_has_chunks(schedule)) {
        ret = mca_coll_mrail_staged_reserve(op);
    }
    if (ret == 0 && mca_coll_mrail_pool(module)->relay != NULL) {
        ret = mrail_relay_reserve(mca_coll_mrail_pool(module)->relay,
                                  schedule->flows, schedule->num_flows);
        /* If there are too few in-slots, a later step reallocates them on all
         * ranks. */
        ret = (ret == -ENOSPC) ? 0 : ret;
    }
    if (ret < 0) {
        mca_coll_mrail_schedule_discard_warm_start(schedule);
    }
    MCA_COLL_MRAIL_COUNT(plan_ns, mrail_clock_now() - from_ns);
}

static void *run(void *arg)
{
    mca_coll_mrail_op_t *op = arg;

    prctl(PR_SET_NAME, "mrail-plan");
    make(op);
    __atomic_store_n(&op->module->is_planning, 0, __ATOMIC_RELEASE);
    return NULL;
}

/* Starts a thread that blocks all signals, so that the program's own threads
 * handle them. Returns 0 or an error number. */
static int start_thread(mca_coll_mrail_op_t *op)
{
    sigset_t all, before;
    int ret;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ret = pthread_create(&op->module->planner, NULL, run, op);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ret;
}

/* Returns the time in nanoseconds that a plan of these records should take on
 * this rank. */
static double expected_ns(const mca_coll_mrail_module_t *module)
{
    size_t count = 0;

    for (uint32_t i = 0; i < module->topology->num_ranks; ++i) {
        count += mca_coll_mrail_record_num_demands(
            mca_coll_mrail_records_get(&module->records, i));
    }
    return (double)count * mca_coll_mrail_plan_cost_ns(module->plan_cost_level);
}

void mca_coll_mrail_plan_start(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;

    module->has_planner = 0;
    if (!op->is_blocking && expected_ns(module) >= LEAST_THREAD_NS) {
        module->is_planning = 1;
        module->has_planner = start_thread(op) == 0;
    }
    if (!module->has_planner) {
        module->is_planning = 0;
        make(op);
    }
}

int mca_coll_mrail_plan_progress(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_module_t *module = op->module;

    if (__atomic_load_n(&module->is_planning, __ATOMIC_ACQUIRE)) {
        return 0;
    }
    if (module->has_planner) {
        pthread_join(module->planner, NULL);
        module->has_planner = 0;
    }
    return 1;
}
