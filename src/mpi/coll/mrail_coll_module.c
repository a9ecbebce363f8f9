#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "cuda/driver.h"

#include "base/util.h"

#include "ompi/constants.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

void mca_coll_mrail_log(const mca_coll_mrail_module_t *module, const char *what,
                        const char *why)
{
    if (ompi_comm_rank(module->comm) == 0) {
        fprintf(stderr, "mrail: coll: %s: %s: %s\n", module->comm->c_name, what,
                why);
    }
}

void mca_coll_mrail_log_away(mca_coll_mrail_module_t *module)
{
    if (mca_coll_mrail_settings.verbose == 0 || module->is_logged ||
        module->away == NULL) {
        return;
    }
    module->is_logged = 1;
    mca_coll_mrail_log(module,
                       (module->inflight_bytes > 0)
                           ? "MPI_Alltoallv without a plan, all else left to "
                             "Open MPI"
                           : "left to Open MPI",
                       module->away);
}

/* ---- calls of the previous module ---- */

static int previous(mca_coll_mrail_module_t *module,
                    const mca_coll_mrail_args_t *args)
{
    const mca_coll_mrail_args_side_t *out = &args->send, *in = &args->recv;

    switch (args->func) {
    case MCA_COLL_MRAIL_ALLTOALLV:
        return module->alltoallv(out->buffer, out->counts, out->disps,
                                 out->type, (void *)in->buffer, in->counts,
                                 in->disps, in->type, module->comm,
                                 module->alltoallv_module);
    case MCA_COLL_MRAIL_ALLTOALLW:
        return module->alltoallw(out->buffer, out->counts, out->disps,
                                 out->types, (void *)in->buffer, in->counts,
                                 in->disps, in->types, module->comm,
                                 module->alltoallw_module);
    default:
        return module->alltoall(out->buffer, out->count, out->type,
                                (void *)in->buffer, in->count, in->type,
                                module->comm, module->alltoall_module);
    }
}

static int previous_later(mca_coll_mrail_module_t *module,
                          const mca_coll_mrail_args_t *args,
                          ompi_request_t **request_p)
{
    const mca_coll_mrail_args_side_t *out = &args->send, *in = &args->recv;

    switch (args->func) {
    case MCA_COLL_MRAIL_ALLTOALLV:
        return module->ialltoallv(out->buffer, out->counts, out->disps,
                                  out->type, (void *)in->buffer, in->counts,
                                  in->disps, in->type, module->comm, request_p,
                                  module->ialltoallv_module);
    case MCA_COLL_MRAIL_ALLTOALLW:
        return module->ialltoallw(out->buffer, out->counts, out->disps,
                                  out->types, (void *)in->buffer, in->counts,
                                  in->disps, in->types, module->comm, request_p,
                                  module->ialltoallw_module);
    default:
        return module->ialltoall(
            out->buffer, out->count, out->type, (void *)in->buffer, in->count,
            in->type, module->comm, request_p, module->ialltoall_module);
    }
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
    return previous(module, args);
}

/* ---- selection of a mode ---- */

/* Performs the call as an op if the call has an agreement round. `error` is not
 * OMPI_SUCCESS if this rank cannot take part in the exchange. Returns
 * OMPI_SUCCESS, an error, or MCA_COLL_MRAIL_PASS. The decision depends only on
 * state that is equal on all ranks.
 *
 * After MPI_ERR_NO_MEM, the other ranks wait for this rank in the round, so the
 * default error handler aborts the job. With MPI_ERRORS_RETURN, the program
 * must abort the job itself, as after any error of a collective. */
static int serve(mca_coll_mrail_module_t *module,
                 const mca_coll_mrail_args_t *args, int error,
                 mca_coll_mrail_shadows_t *shadows)
{
    struct ompi_communicator_t *comm = module->comm;
    int is_large = error == OMPI_SUCCESS &&
                   mca_coll_mrail_args_is_large(args, ompi_comm_size(comm),
                                                ompi_comm_rank(comm),
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
    module->agreed_away = module->away;
    return ret;
}

/* `shadows` is NULL if all buffers are host memory. */
static int perform(mca_coll_mrail_module_t *module, mca_coll_mrail_args_t *args,
                   int error, mca_coll_mrail_shadows_t *shadows)
{
    int ret = MCA_COLL_MRAIL_PASS;

    if (module->agreed_away == NULL) {
        ret = serve(module, args, error, shadows);
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
 * takes over `shadows`, which may be NULL. */
static int start(mca_coll_mrail_module_t *module, mca_coll_mrail_args_t *args,
                 int error, mca_coll_mrail_shadows_t *shadows,
                 ompi_request_t **request_p)
{
    mca_coll_mrail_op_t *op = mca_coll_mrail_op_get(module, args->func, 0);
    int ret;

    if (op == NULL) {
        mca_coll_mrail_shadows_free(shadows);
        return MPI_ERR_NO_MEM;
    }
    op->shadows = shadows;
    if (module->agreed_away != NULL) {
        ret = mca_coll_mrail_shadows_fill(shadows, args);
        if (ret == OMPI_SUCCESS) {
            ret = previous_later(module, args, &op->previous);
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
    *request_p = &op->request.super;
    return OMPI_SUCCESS;
}

/* ---- buffers in device memory ---- */

/* Reserves shadows for buffers in device memory. Returns OMPI_SUCCESS, or an
 * MPI error if this rank cannot take part. */
static int need_shadows(mca_coll_mrail_shadows_t *shadows,
                        mca_coll_mrail_args_t *args, int ranks)
{
    int ret = mca_coll_mrail_shadows_init(shadows, args, ranks);

    return (ret == OMPI_SUCCESS) ? mca_coll_mrail_shadows_reserve(shadows, args)
                                 : ret;
}

static int call(mca_coll_mrail_module_t *module, mca_coll_mrail_args_t *args)
{
    mca_coll_mrail_shadows_t shadows;
    int error, ret;

    if (mrail_cuda_find() == NULL) {
        return perform(module, args, OMPI_SUCCESS, NULL);
    }
    error = need_shadows(&shadows, args, ompi_comm_size(module->comm));
    ret =
        perform(module, args, error,
                mca_coll_mrail_shadows_are_needed(&shadows) ? &shadows : NULL);
    if (ret == OMPI_SUCCESS) {
        ret = mca_coll_mrail_shadows_drain(&shadows);
    }
    mca_coll_mrail_shadows_cleanup(&shadows);
    return ret;
}

static int call_later(mca_coll_mrail_module_t *module,
                      mca_coll_mrail_args_t *args, ompi_request_t **request_p)
{
    mca_coll_mrail_shadows_t *shadows = NULL;
    int error = OMPI_SUCCESS;

    if (mrail_cuda_find() != NULL) {
        shadows = malloc(sizeof(*shadows));
        if (shadows == NULL) {
            return MPI_ERR_NO_MEM;
        }
        error = need_shadows(shadows, args, ompi_comm_size(module->comm));
        if (!mca_coll_mrail_shadows_are_needed(shadows)) {
            mca_coll_mrail_shadows_free(shadows);
            shadows = NULL;
        }
    }
    if (module->agreed_away == NULL ||
        (shadows != NULL && error == OMPI_SUCCESS)) {
        return start(module, args, error, shadows, request_p);
    }
    mca_coll_mrail_shadows_free(shadows);
    if (error != OMPI_SUCCESS) {
        return error;
    }
    mca_coll_mrail_log_away(module);
    return previous_later(module, args, request_p);
}

/* ---- MPI calls ---- */

static int coll_alltoallv(const void *sbuf, const int *scounts,
                          const int *sdisps, struct ompi_datatype_t *sdtype,
                          void *rbuf, const int *rcounts, const int *rdisps,
                          struct ompi_datatype_t *rdtype,
                          struct ompi_communicator_t *comm,
                          mca_coll_base_module_t *base)
{
    mca_coll_mrail_args_t args = {
        .func = MCA_COLL_MRAIL_ALLTOALLV,
        .send = {sbuf, 0, scounts, sdisps, sdtype, NULL},
        .recv = {rbuf, 0, rcounts, rdisps, rdtype, NULL}};

    return call((mca_coll_mrail_module_t *)base, &args);
}

static int coll_ialltoallv(const void *sbuf, const int *scounts,
                           const int *sdisps, struct ompi_datatype_t *sdtype,
                           void *rbuf, const int *rcounts, const int *rdisps,
                           struct ompi_datatype_t *rdtype,
                           struct ompi_communicator_t *comm,
                           ompi_request_t **request,
                           mca_coll_base_module_t *base)
{
    mca_coll_mrail_args_t args = {
        .func = MCA_COLL_MRAIL_ALLTOALLV,
        .send = {sbuf, 0, scounts, sdisps, sdtype, NULL},
        .recv = {rbuf, 0, rcounts, rdisps, rdtype, NULL}};

    return call_later((mca_coll_mrail_module_t *)base, &args, request);
}

static int coll_alltoall(const void *sbuf, int scount,
                         struct ompi_datatype_t *sdtype, void *rbuf, int rcount,
                         struct ompi_datatype_t *rdtype,
                         struct ompi_communicator_t *comm,
                         mca_coll_base_module_t *base)
{
    mca_coll_mrail_args_t args = {
        .func = MCA_COLL_MRAIL_ALLTOALL,
        .send = {sbuf, scount, NULL, NULL, sdtype, NULL},
        .recv = {rbuf, rcount, NULL, NULL, rdtype, NULL}};

    return call((mca_coll_mrail_module_t *)base, &args);
}

static int coll_ialltoall(const void *sbuf, int scount,
                          struct ompi_datatype_t *sdtype, void *rbuf,
                          int rcount, struct ompi_datatype_t *rdtype,
                          struct ompi_communicator_t *comm,
                          ompi_request_t **request,
                          mca_coll_base_module_t *base)
{
    mca_coll_mrail_args_t args = {
        .func = MCA_COLL_MRAIL_ALLTOALL,
        .send = {sbuf, scount, NULL, NULL, sdtype, NULL},
        .recv = {rbuf, rcount, NULL, NULL, rdtype, NULL}};

    return call_later((mca_coll_mrail_module_t *)base, &args, request);
}

static int coll_alltoallw(const void *sbuf, const int *scounts,
                          const int *sdisps,
                          struct ompi_datatype_t *const *sdtypes, void *rbuf,
                          const int *rcounts, const int *rdisps,
                          struct ompi_datatype_t *const *rdtypes,
                          struct ompi_communicator_t *comm,
                          mca_coll_base_module_t *base)
{
    mca_coll_mrail_args_t args = {
        .func = MCA_COLL_MRAIL_ALLTOALLW,
        .send = {sbuf, 0, scounts, sdisps, NULL, sdtypes},
        .recv = {rbuf, 0, rcounts, rdisps, NULL, rdtypes}};

    return call((mca_coll_mrail_module_t *)base, &args);
}

static int coll_ialltoallw(const void *sbuf, const int *scounts,
                           const int *sdisps,
                           struct ompi_datatype_t *const *sdtypes, void *rbuf,
                           const int *rcounts, const int *rdisps,
                           struct ompi_datatype_t *const *rdtypes,
                           struct ompi_communicator_t *comm,
                           ompi_request_t **request,
                           mca_coll_base_module_t *base)
{
    mca_coll_mrail_args_t args = {
        .func = MCA_COLL_MRAIL_ALLTOALLW,
        .send = {sbuf, 0, scounts, sdisps, NULL, sdtypes},
        .recv = {rbuf, 0, rcounts, rdisps, NULL, rdtypes}};

    return call_later((mca_coll_mrail_module_t *)base, &args, request);
}

/* ---- module of a communicator ---- */

/* Until Open MPI installs this module, the communicator holds the functions of
 * the previous modules. */
#define SAVE(name)                                                             \
    do {                                                                       \
        module->name = comm->c_coll->coll_##name;                              \
        module->name##_module = comm->c_coll->coll_##name##_module;            \
        if (module->name == NULL) {                                            \
            return OMPI_ERROR;                                                 \
        }                                                                      \
        OBJ_RETAIN(module->name##_module);                                     \
    } while (0)

static int coll_enable(mca_coll_base_module_t *base,
                       struct ompi_communicator_t *comm)
{
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;

    SAVE(alltoall);
    SAVE(alltoallv);
    SAVE(alltoallw);
    SAVE(ialltoall);
    SAVE(ialltoallv);
    SAVE(ialltoallw);
    module->comm = comm;
    return OMPI_SUCCESS;
}

mca_coll_base_module_t *
mca_coll_mrail_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_coll_mrail_module_t *module;

    if (OMPI_COMM_IS_INTER(comm)) {
        return NULL;
    }
    module = OBJ_NEW(mca_coll_mrail_module_t);
    if (module == NULL || mca_coll_mrail_setup_topology(module, comm) < 0) {
        /* If this rank returned an error, Open MPI would use another component
         * on this rank only, and the other ranks would wait indefinitely. */
        fprintf(stderr,
                "mrail: coll: rank %d ran out of memory while setting up a "
                "communicator; aborting the job\n",
                ompi_comm_rank(comm));
        PMPI_Abort(MPI_COMM_WORLD, 1);
        return NULL;
    }
    *priority = mca_coll_mrail_settings.priority;
    module->super.coll_module_enable = coll_enable;
    module->super.coll_alltoall = coll_alltoall;
    module->super.coll_alltoallv = coll_alltoallv;
    module->super.coll_alltoallw = coll_alltoallw;
    module->super.coll_ialltoall = coll_ialltoall;
    module->super.coll_ialltoallv = coll_ialltoallv;
    module->super.coll_ialltoallw = coll_ialltoallw;
    return &module->super;
}

static void module_construct(mca_coll_mrail_module_t *module)
{
    size_t skip = sizeof(module->super);

    memset((char *)module + skip, 0, sizeof(*module) - skip);
    mrail_relay_memory_init(&module->host_memory, &mrail_relay_host_memory_ops);
    module->host_pool = (mca_coll_mrail_pool_t){.memory = &module->host_memory};
    module->gpu = -1;
    mrail_list_init(&module->ops);
    mrail_list_init(&module->posted);
    mrail_list_init(&module->active);
}

static void release(mca_coll_base_module_t *module)
{
    if (module != NULL) {
        OBJ_RELEASE(module);
    }
}

static void module_destruct(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_ops_free(module);
    mca_coll_mrail_export_free(module);
    if (module->spare != NULL) {
        OBJ_RELEASE(module->spare);
    }
    mca_coll_mrail_setup_cleanup(module);
    free(module->requests);
    release(module->alltoall_module);
    release(module->alltoallv_module);
    release(module->alltoallw_module);
    release(module->ialltoall_module);
    release(module->ialltoallv_module);
    release(module->ialltoallw_module);
}

OBJ_CLASS_INSTANCE(mca_coll_mrail_module_t, mca_coll_base_module_t,
                   module_construct, module_destruct);
