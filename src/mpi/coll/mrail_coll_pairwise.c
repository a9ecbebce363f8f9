/* MPI_Alltoallv without a plan, under the in-flight limit of inflight.h. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/request.h"

#include "base/util.h"

#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"
#include "opal/runtime/opal_progress.h"

#include <errno.h>
#include <stdlib.h>

/* In step k (1 to ranks - 1), rank r sends to r + k and receives from r - k. */
typedef struct stepwise {
    mca_coll_mrail_module_t *module;
    const mca_coll_mrail_side_t *out, *in;
    unsigned ranks, self;
    ompi_request_t **recvs, **sends; /* indexed by step */
    int ret;                         /* the first error */
} stepwise_t;

static unsigned source(const stepwise_t *all, unsigned step)
{
    return (all->self >= step) ? all->self - step
                               : all->self + all->ranks - step;
}

static unsigned target(const stepwise_t *all, unsigned step)
{
    return (all->self + step < all->ranks) ? all->self + step
                                           : all->self + step - all->ranks;
}

static char *place(const mca_coll_mrail_side_t *side, unsigned peer)
{
    return side->buffer + side->disps[peer] * side->extent;
}

static uint64_t bytes_of(const mca_coll_mrail_side_t *side, unsigned peer)
{
    return (uint64_t)side->counts[peer] * side->size;
}

static uint64_t bytes_of_step(const stepwise_t *all, unsigned step)
{
    return MRAIL_MAX(bytes_of(all->out, target(all, step)),
                     bytes_of(all->in, source(all, step)));
}

/* Records the first error. The exchange continues, because other ranks wait for
 * the messages of this rank. */
static void keep_error(stepwise_t *all, int ret)
{
    all->ret = (all->ret == OMPI_SUCCESS) ? ret : all->ret;
}

/* Also posts empty messages, so that a receiver that expects no bytes detects a
 * nonempty message. */
static void post_recv(stepwise_t *all, unsigned step)
{
    unsigned peer = source(all, step);
    int ret = MCA_PML_CALL(irecv(
        place(all->in, peer), all->in->counts[peer], all->in->type, (int)peer,
        MCA_COLL_BASE_TAG_ALLTOALLV, all->module->comm, &all->recvs[step]));

    if (ret != OMPI_SUCCESS) {
        all->recvs[step] = NULL;
        keep_error(all, ret);
    }
}

static void post_send(stepwise_t *all, unsigned step)
{
    unsigned peer = target(all, step);
    int ret = MCA_PML_CALL(isend(
        place(all->out, peer), all->out->counts[peer], all->out->type,
        (int)peer, MCA_COLL_BASE_TAG_ALLTOALLV, MCA_PML_BASE_SEND_STANDARD,
        all->module->comm, &all->sends[step]));

    if (ret != OMPI_SUCCESS) {
        all->sends[step] = NULL;
        keep_error(all, ret);
    }
}

static void wait_for(stepwise_t *all, ompi_request_t *request)
{
    int error = MPI_SUCCESS;
    size_t length;

    if (request != NULL) {
        ompi_request_wait_completion(request);
        (void)mca_coll_mrail_request_take(request, &length, &error);
        keep_error(all, error);
    }
}

static uint64_t window_of(const stepwise_t *all)
{
    mca_coll_mrail_load_t out = {0}, in = {0};

    for (unsigned step = 1; step < all->ranks; ++step) {
        mca_coll_mrail_load_add(&out, bytes_of(all->out, target(all, step)));
        mca_coll_mrail_load_add(&in, bytes_of(all->in, source(all, step)));
    }
    return mca_coll_mrail_inflight_window(all->module->inflight_bytes, &out,
                                          &in);
}

static void copy_self(stepwise_t *all)
{
    const mca_coll_mrail_side_t *out = all->out, *in = all->in;
    unsigned self = all->self;
    mca_coll_mrail_dt_segment_t from, to;

    if (out->counts[self] == 0) {
        return;
    }
    mca_coll_mrail_dt_segment_init(&from, place(out, self),
                                   (size_t)out->counts[self], out->type);
    mca_coll_mrail_dt_segment_init(&to, place(in, self),
                                   (size_t)in->counts[self], in->type);
    keep_error(all, mca_coll_mrail_copy_code(
                        mca_coll_mrail_dt_segment_copy(&from, &to)));
}

static void exchange(stepwise_t *all)
{
    uint64_t window = window_of(all), under_way = 0;
    unsigned first = 1; /* first step in flight */

    for (unsigned step = 1; step < all->ranks; ++step) {
        uint64_t bytes = bytes_of_step(all, step);

        while (step - first >= MCA_COLL_MRAIL_MIN_STEPS &&
               under_way + bytes > window) {
            wait_for(all, all->recvs[first]);
            wait_for(all, all->sends[first]);
            under_way -= bytes_of_step(all, first);
            ++first;
        }
        post_send(all, step);
        under_way += bytes;
    }
    MCA_COLL_MRAIL_COUNT(limited_calls, first > 1);
    copy_self(all);
    for (; first < all->ranks; ++first) {
        wait_for(all, all->recvs[first]);
        wait_for(all, all->sends[first]);
    }
}

/* ---- agreement ---- */

/* Reads the entries and sets module->inflight_bytes accordingly. */
static int read_inflight(mca_coll_mrail_module_t *module)
{
    unsigned ranks = (unsigned)ompi_comm_size(module->comm);
    mca_coll_mrail_rank_entry_t *entries = calloc(ranks, sizeof(*entries));
    int ret = (entries != NULL)
                  ? mca_coll_mrail_modex_read(module->comm, entries, NULL)
                  : -ENOMEM;

    if (ret == 0 &&
        mca_coll_mrail_rank_entries_differ(entries, ranks) == NULL) {
        module->inflight_bytes = mca_coll_mrail_inflight_bytes(
            entries, ranks, (unsigned)ompi_comm_rank(module->comm));
    }
    free(entries);
    return ret;
}

/* Allocates the memory for pairwise exchanges. Sets *ok_p to 1 if all ranks have
 * it. */
static int agreement_round(mca_coll_mrail_module_t *module, int *ok_p)
{
    module->requests =
        calloc(2 * (size_t)ompi_comm_size(module->comm), sizeof(void *));
    return mca_coll_mrail_check_all(module, module->requests != NULL, ok_p);
}

int mca_coll_mrail_pairwise_agree(mca_coll_mrail_module_t *module)
{
    int ret = OMPI_SUCCESS, is_ok = 0;

    if (module->is_pairwise_known) {
        return OMPI_SUCCESS;
    }
    if (read_inflight(module) < 0) {
        return MPI_ERR_NO_MEM;
    }
    if (module->inflight_bytes > 0) {
        ret = agreement_round(module, &is_ok);
    }
    module->inflight_bytes = is_ok ? module->inflight_bytes : 0;
    module->is_pairwise_known = ret == OMPI_SUCCESS;
    module->is_logged &= !is_ok;
    mca_coll_mrail_log_away(module);
    return ret;
}

/* ---- the whole exchange ---- */

int mca_coll_mrail_pairwise(mca_coll_mrail_module_t *module,
                            const mca_coll_mrail_side_t *out,
                            const mca_coll_mrail_side_t *in)
{
    stepwise_t all = {
        .module = module,
        .out = out,
        .in = in,
        .ranks = (unsigned)ompi_comm_size(module->comm),
        .self = (unsigned)ompi_comm_rank(module->comm),
    };

    all.recvs = module->requests;
    all.sends = module->requests + all.ranks;
    for (unsigned step = 1; step < all.ranks; ++step) {
        post_recv(&all, step);
    }
    exchange(&all);
    return all.ret;
}
