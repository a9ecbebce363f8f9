/* Topology and memory of a communicator. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/direct.h"

#include "cuda/driver.h"
#include "cuda/relay_copy.h"

#include "base/util.h"

#include "opal/util/info.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MIN_CHUNK 4096u

/* ---- topology ---- */

void mca_coll_mrail_entry_fill(mca_coll_mrail_rank_entry_t *entry)
{
    const mca_coll_mrail_settings_t *settings = &mca_coll_mrail_settings;
    const mca_coll_mrail_topo_file_t *file = mca_coll_mrail_topo_file();
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];

    mca_coll_mrail_rank_entry_fill(entry, rails, mca_coll_mrail_rails(rails));
    entry->version = mca_coll_mrail_schedule_fingerprint();
    mca_coll_mrail_direct_entry_fill(entry);
    entry->has_gpu = mrail_cuda_find() != NULL;
    entry->topo_file = (file != NULL) ? file->hash : MCA_COLL_MRAIL_NO_FILE;
    entry->params = (mca_coll_mrail_params_t){
        .relay_threshold = settings->relay_threshold,
        .relay_chunk_size = MRAIL_MAX(settings->relay_chunk_size, MIN_CHUNK),
        .relay_buffers = settings->relay_buffers,
        .relay_memory = settings->relay_memory,
        .copy_bandwidth = MRAIL_MIN(MRAIL_MAX(settings->copy_bandwidth, 1),
                                    (uint64_t)MRAIL_PLAN_MAX_CAPACITY),
        .cross_rail = settings->cross_rail,
        .inflight_us = settings->inflight_us,
        .plan_budget = settings->plan_budget,
    };
}

/* Prints a reason that concerns the topology file, once per process and at any
 * verbosity, because the user has set the file. */
static void print_refusal(struct ompi_communicator_t *comm, const char *reason)
{
    static int is_printed;

    if (!__atomic_exchange_n(&is_printed, 1, __ATOMIC_RELAXED)) {
        fprintf(stderr, "mrail: coll: %s: no plans: %s\n", comm->c_name,
                reason);
    }
}

/* Compares the topology file with the entries. If they do not match, all ranks
 * work without plans, and one rank prints the reason. Returns 0 or -ENOMEM. */
static int check_topo_file(mca_coll_mrail_module_t *module,
                           struct ompi_communicator_t *comm,
                           const mca_coll_mrail_rank_entry_t *entries)
{
    unsigned printer = 0;
    int ret = mca_coll_mrail_topo_file_check(
        mca_coll_mrail_topo_file(), entries, module->world,
        (unsigned)ompi_comm_size(comm), &printer, module->reason,
        sizeof(module->reason));

    if (ret > 0) {
        module->away = module->reason;
        if ((unsigned)ompi_comm_rank(comm) == printer) {
            print_refusal(comm, module->reason);
        }
    }
    return MRAIL_MIN(ret, 0);
}

/* Reads the entries of all ranks. Only a topology file needs their ranks in
 * MPI_COMM_WORLD. */
static int read_entries(mca_coll_mrail_module_t *module,
                        struct ompi_communicator_t *comm,
                        mca_coll_mrail_rank_entry_t *entries)
{
    if (mca_coll_mrail_topo_file() != NULL) {
        module->world =
            calloc((size_t)ompi_comm_size(comm), sizeof(*module->world));
        if (module->world == NULL) {
            return -ENOMEM;
        }
    }
    return mca_coll_mrail_modex_read(comm, entries, module->world);
}

static int set_topology(mca_coll_mrail_module_t *module,
                        struct ompi_communicator_t *comm,
                        const mca_coll_mrail_rank_entry_t *entries)
{
    const mca_coll_mrail_topo_file_t *file = mca_coll_mrail_topo_file();
    unsigned ranks = (unsigned)ompi_comm_size(comm);
    int ret = 0;

    module->away = mca_coll_mrail_rank_entries_differ(entries, ranks);
    if (module->away == NULL) {
        ret = check_topo_file(module, comm, entries);
    }
    if (ret == 0 && module->away == NULL) {
        ret = mca_coll_mrail_topology_create(
            entries, ranks, (unsigned)ompi_comm_rank(comm),
            (file != NULL) ? file->text.topo : NULL, module->world,
            &module->topology, &module->away);
    }
    return MRAIL_MIN(ret, 0);
}

/* Builds the topology from the entries of all ranks. A rank that cannot take
 * part need not read the other entries. The other ranks detect its state when
 * they read its entry. */
int mca_coll_mrail_setup_topology(mca_coll_mrail_module_t *module,
                                  struct ompi_communicator_t *comm)
{
    size_t ranks = (size_t)ompi_comm_size(comm);
    mca_coll_mrail_rank_entry_t *entries;
    int ret;

    module->away =
        (ranks < 2)
            ? "there is only one rank"
            : mca_coll_mrail_rank_entry_refusal(mca_coll_mrail_modex_mine());
    if (module->away == NULL) {
        entries = calloc(ranks, sizeof(*entries));
        if (entries == NULL) {
            return -ENOMEM;
        }
        ret = read_entries(module, comm, entries);
        if (ret == 0) {
            ret = set_topology(module, comm, entries);
        }
        free(entries);
        if (ret < 0) {
            return ret;
        }
    }
    if (module->away == NULL) {
        module->relay_threshold = module->topology->params.relay_threshold;
        module->is_multi_rail = module->topology->max_rails > 1;
    } else {
        free(module->world);
        module->world = NULL;
        /* Without a third rank, this module serves the communicator only
         * because buffers may be in device memory. */
        module->is_pairwise_known = module->is_logged = ranks < 3;
    }
    module->agreed_away = module->away;
    return 0;
}

/* ---- memory ---- */

int mca_coll_mrail_setup_init(mca_coll_mrail_module_t *module)
{
    if (module->gather.words != NULL) {
        return 0;
    }
    return mca_coll_mrail_gather_init(&module->gather, module->comm);
}

/* Does not free the gather, because steps still read from it. */
static void release(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_pools_cleanup(module);
    mca_coll_mrail_direct_destroy(module->direct);
    module->direct = NULL;
    mca_coll_mrail_schedule_destroy(module->schedule);
    module->schedule = NULL;
    mca_coll_mrail_record_buffers_cleanup(module);
}

void mca_coll_mrail_setup_cleanup(mca_coll_mrail_module_t *module)
{
    release(module);
    mrail_cuda_relay_destroy_retired();
    mca_coll_mrail_topology_destroy(module->topology);
    free(module->world);
    mca_coll_mrail_gather_cleanup(&module->gather);
}

void mca_coll_mrail_agreed(mca_coll_mrail_op_t *op)
{
    mrail_ns_t now_ns = mrail_clock_now();

    MCA_COLL_MRAIL_COUNT(agreement_ns, now_ns - op->from_ns);
    op->from_ns = now_ns;
}

mca_coll_mrail_step_t mca_coll_mrail_pass(mca_coll_mrail_op_t *op)
{
    if (!op->is_blocking) {
        return MCA_COLL_MRAIL_EXCHANGE;
    }
    mca_coll_mrail_agreed(op);
    op->ret = MCA_COLL_MRAIL_PASS;
    return MCA_COLL_MRAIL_DONE;
}

mca_coll_mrail_step_t mca_coll_mrail_step_back_off(mca_coll_mrail_op_t *op,
                                                   const char *reason)
{
    op->module->away = reason;
    mca_coll_mrail_log_away(op->module);
    release(op->module);
    return mca_coll_mrail_pass(op);
}

/* Allocates this rank's memory for agreement rounds. Returns 0 or -ENOMEM. */
static int allocate(mca_coll_mrail_module_t *module)
{
    if (mca_coll_mrail_pools_reserve(module) < 0 ||
        mca_coll_mrail_gpus_reserve(module) < 0 ||
        mca_coll_mrail_record_buffers_init(module) < 0) {
        return -ENOMEM;
    }
    return mca_coll_mrail_schedule_create(module->topology, &module->schedule);
}

/* The second word determines on all ranks whether there are plans. */
static void ready_fill(mca_coll_mrail_op_t *op, void *mine)
{
    mca_coll_mrail_set_ok(&op->module->gather, allocate(op->module) == 0);
    op->module->gather.words[1] =
        mca_coll_mrail_comm_info(op->module->comm, "mrail_plan", 1) ? UINT64_MAX
                                                                    : 0;
}

/* Agreement rounds begin once all ranks have the memory for them. A rank
 * without this memory could not decide. */
static mca_coll_mrail_step_t ready_take(mca_coll_mrail_op_t *op)
{
    if (!mca_coll_mrail_all_ok(&op->module->gather)) {
        return mca_coll_mrail_step_back_off(op, MCA_COLL_MRAIL_NO_MEMORY);
    }
    op->module->is_agreed = 1;
    op->module->topology->refuses_plans = op->module->gather.words[1] == 0;
    return MCA_COLL_MRAIL_RECORD;
}

const mca_coll_mrail_step_ops_t mca_coll_mrail_step_ready = {
    .fill = ready_fill,
    .take = ready_take,
};
