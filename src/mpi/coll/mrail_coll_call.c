/* One call: as an op if the ranks may plan it, or else without a plan. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "cuda/driver.h"

#include "ompi/constants.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "opal/runtime/opal_progress.h"

#include <mpi.h>

#include <stdlib.h>

/* ---- agreement without an op ---- */

int mca_coll_mrail_check_all(mca_coll_mrail_module_t *module, int is_ok,
                             int *all_p)
{
    mca_coll_mrail_gather_t gather;
    int ret, is_done = 0;

    if (mca_coll_mrail_gather_init(&gather, module->comm) < 0) {
        return MPI_ERR_NO_MEM;
    }
    mca_coll_mrail_set_ok(&gather, is_ok);
    ret = mca_coll_mrail_reduce_start(&gather, MCA_COLL_MRAIL_GATHER_PORTS,
                                      MCA_COLL_BASE_TAG_ALLTOALLV);
    while (ret == OMPI_SUCCESS && !is_done) {
        opal_progress();
        ret = mca_coll_mrail_gather_progress(&gather, &is_done);
    }
    *all_p = ret == OMPI_SUCCESS && mca_coll_mrail_all_ok(&gather);
    mca_coll_mrail_gather_cleanup(&gather);
    return ret;
}

/* ---- calls without a plan ---- */

static void fill_side(mca_coll_mrail_side_t *side,
                      const mca_coll_mrail_args_side_t *args)
{
    side->buffer = (char *)args->buffer;
    side->counts = args->counts;
    side->disps = args->disps;
    side->type = args->type;
    ompi_datatype_type_extent(args->type, &side->extent);
    ompi_datatype_type_size(args->type, &side->size);
}

/* Executes a call without a plan. All conditions are equal on all ranks. */
static int call_unplanned(mca_coll_mrail_module_t *module,
                          const mca_coll_mrail_args_t *args)
{
    mca_coll_mrail_side_t out, in;
    int ret;

    if (args->func == MCA_COLL_MRAIL_ALLTOALLV &&
        (module->agreed_away != NULL || module->is_multi_rail) &&
        args->send.buffer != MPI_IN_PLACE) {
        ret = mca_coll_mrail_pairwise_agree(module);
        if (ret != OMPI_SUCCESS) {
            return ret;
        }
        if (module->inflight_bytes > 0) {
            fill_side(&out, &args->send);
            fill_side(&in, &args->recv);
            return mca_coll_mrail_pairwise(module, &out, &in);
        }
    }
    mca_coll_mrail_log_away(module);
    return mca_coll_mrail_previous(module, args);
}

/* ---- selection of a mode ---- */

int mca_coll_mrail_serve(mca_coll_mrail_module_t *module,
                         const mca_coll_mrail_args_t *args, int error,
                         mca_coll_mrail_shadows_t *shadows)
{
    int is_large =
        error == OMPI_SUCCESS &&
        mca_coll_mrail_args_is_large(args, ompi_comm_rank(module->comm),
                                     module->relay_threshold);
    mca_coll_mrail_op_t *op;
    int ret;

    if (!mca_coll_mrail_mode_call(&module->modes[args->func], is_large)) {
        return MCA_COLL_MRAIL_PASS;
    }
    op = mca_coll_mrail_op_get(module, args->func, 1);
    if (op == NULL) {
        return MPI_ERR_NO_MEM;
    }
    op->shadows = shadows;
    ret = mca_coll_mrail_op_post(op, args, error);
    if (ret == OMPI_SUCCESS) {
        ret = mca_coll_mrail_op_wait(op);
    }
    /* Both change in blocking calls only, because nonblocking ops set `away` at
     * different times on different ranks. */
    module->agreed_away = module->away;
    if (module->away != NULL) {
        module->is_pairwise_known = 1; /* there are no pairwise exchanges */
    }
    return ret;
}

/* ---- peers ---- */

/* Sets the peers of both sides. Returns OMPI_SUCCESS or an MPI error. */
static int set_peers(mca_coll_mrail_module_t *module,
                     mca_coll_mrail_args_t *args)
{
    mca_coll_mrail_neighbors_t *neighbors = &module->neighbors;
    int ret;

    if (!mca_coll_mrail_func_is_neighborhood(args->func)) {
        args->send.num_peers = args->recv.num_peers =
            ompi_comm_size(module->comm);
        return OMPI_SUCCESS;
    }
    ret = mca_coll_mrail_neighbors_find(neighbors, module->comm);
    args->send.peers = neighbors->targets;
    args->send.num_peers = neighbors->num_targets;
    args->recv.peers = neighbors->sources;
    args->recv.num_peers = neighbors->num_sources;
    args->is_refused = neighbors->has_repeated_peers;
    return ret;
}

/* Returns 1 if a call never has an agreement round. All ranks return the same.
 * Before it calls coll, Open MPI returns from MPI_Neighbor_allgather and
 * MPI_Neighbor_alltoall if the counts are 0. In a graph, this may happen on some
 * ranks only, because it need not be connected. */
static int is_left(const mca_coll_mrail_module_t *module,
                   mca_coll_mrail_func_t func)
{
    return (func == MCA_COLL_MRAIL_NEIGHBOR_ALLGATHER ||
            func == MCA_COLL_MRAIL_NEIGHBOR_ALLTOALL) &&
           !OMPI_COMM_IS_CART(module->comm);
}

/* ---- modes of execution ---- */

/* `shadows` is NULL if all buffers are host memory. */
static int perform(mca_coll_mrail_module_t *module, mca_coll_mrail_args_t *args,
                   int error, mca_coll_mrail_shadows_t *shadows)
{
    int ret = MCA_COLL_MRAIL_PASS;

    if (module->agreed_away == NULL && !is_left(module, args->func)) {
        ret = mca_coll_mrail_serve(module, args, error, shadows);
    }
    if (ret != MCA_COLL_MRAIL_PASS) {
        return ret;
    }
    if (error == OMPI_SUCCESS && shadows != NULL) {
        error = mca_coll_mrail_shadows_fill(shadows, args);
    }
    return (error == OMPI_SUCCESS) ? call_unplanned(module, args) : error;
}

/* Performs a nonblocking call. Earlier calls may still be in progress, so the
 * function uses only state that is guaranteed to be equal on all ranks. The op
 * takes over `shadows`, which may be NULL. It completes `persistent` instead of
 * its own request, unless this is NULL. */
static int start(mca_coll_mrail_module_t *module, mca_coll_mrail_args_t *args,
                 int error, mca_coll_mrail_shadows_t *shadows,
                 ompi_request_t *persistent, mca_coll_mrail_op_t **op_p)
{
    mca_coll_mrail_op_t *op = mca_coll_mrail_op_get(module, args->func, 0);
    int ret;

    if (op == NULL) {
        mca_coll_mrail_shadows_free(shadows);
        return MPI_ERR_NO_MEM;
    }
    op->shadows = shadows;
    op->persistent = persistent;
    *op_p = op;
    if (module->agreed_away != NULL) {
        ret = (error == OMPI_SUCCESS && shadows != NULL)
                  ? mca_coll_mrail_shadows_fill(shadows, args)
                  : error;
        if (ret == OMPI_SUCCESS) {
            ret = mca_coll_mrail_previous_later(module, args, &op->previous);
        }
        if (ret != OMPI_SUCCESS) {
            OBJ_RELEASE(op);
            return ret;
        }
        mca_coll_mrail_op_follow(op);
    } else {
        ret = mca_coll_mrail_op_post(op, args, error);
        if (ret != OMPI_SUCCESS) {
            return ret;
        }
        MCA_COLL_MRAIL_COUNT(nonblocking_calls, 1);
    }
    return OMPI_SUCCESS;
}

/* ---- buffers in device memory ---- */

/* Reserves shadows for buffers in device memory. Returns OMPI_SUCCESS, or an
 * MPI error if this rank cannot take part. */
static int need_shadows(mca_coll_mrail_shadows_t *shadows,
                        mca_coll_mrail_args_t *args)
{
    int ret = mca_coll_mrail_shadows_init(shadows, args);

    return (ret == OMPI_SUCCESS) ? mca_coll_mrail_shadows_reserve(shadows, args)
                                 : ret;
}

/* ---- calls ---- */

int mca_coll_mrail_call(mca_coll_mrail_module_t *module,
                        mca_coll_mrail_args_t *args)
{
    mca_coll_mrail_shadows_t shadows;
    int error = set_peers(module, args), ret;

    if (mrail_cuda_find() == NULL) {
        /* Host memory needs no list of peers without a plan. */
        args->is_refused |= error != OMPI_SUCCESS;
        return perform(module, args, OMPI_SUCCESS, NULL);
    }
    if (error != OMPI_SUCCESS) {
        return perform(module, args, error, NULL);
    }
    error = need_shadows(&shadows, args);
    ret =
        perform(module, args, error,
                mca_coll_mrail_shadows_are_needed(&shadows) ? &shadows : NULL);
    if (ret == OMPI_SUCCESS) {
        ret = mca_coll_mrail_shadows_drain(&shadows);
    }
    mca_coll_mrail_shadows_cleanup(&shadows);
    return ret;
}

/* Sets *shadows_p to the shadows of a nonblocking call, or to NULL if it needs
 * none. The caller frees them even after an error. */
static int get_shadows(mca_coll_mrail_args_t *args,
                       mca_coll_mrail_shadows_t **shadows_p)
{
    int ret;

    *shadows_p = NULL;
    if (mrail_cuda_find() == NULL) {
        return OMPI_SUCCESS;
    }
    *shadows_p = malloc(sizeof(**shadows_p));
    if (*shadows_p == NULL) {
        return MPI_ERR_NO_MEM;
    }
    ret = need_shadows(*shadows_p, args);
    if (!mca_coll_mrail_shadows_are_needed(*shadows_p)) {
        mca_coll_mrail_shadows_free(*shadows_p);
        *shadows_p = NULL;
    }
    return ret;
}

int mca_coll_mrail_call_later(mca_coll_mrail_module_t *module,
                              mca_coll_mrail_args_t *args,
                              ompi_request_t **request_p)
{
    mca_coll_mrail_shadows_t *shadows;
    mca_coll_mrail_op_t *op;
    int error, ret;

    (void)set_peers(module, args); /* cannot fail: no neighbours */
    error = get_shadows(args, &shadows);
    if (module->agreed_away == NULL ||
        (shadows != NULL && error == OMPI_SUCCESS)) {
        ret = start(module, args, error, shadows, NULL, &op);
        if (ret == OMPI_SUCCESS) {
            *request_p = &op->request.super;
        }
        return ret;
    }
    mca_coll_mrail_shadows_free(shadows);
    if (error != OMPI_SUCCESS) {
        return error;
    }
    mca_coll_mrail_log_away(module);
    return mca_coll_mrail_previous_later(module, args, request_p);
}

int mca_coll_mrail_call_started(mca_coll_mrail_module_t *module,
                                mca_coll_mrail_args_t *args,
                                ompi_request_t *request)
{
    mca_coll_mrail_shadows_t *shadows;
    mca_coll_mrail_op_t *op;
    int error;

    (void)set_peers(module, args);
    error = get_shadows(args, &shadows);
    return start(module, args, error, shadows, request, &op);
}
