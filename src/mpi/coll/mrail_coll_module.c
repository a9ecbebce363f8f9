#include "config.h"
#include "mpi/coll/mrail_coll.h"

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

/* ---- selection of a mode ---- */

/* Gets an op in *op_p for a call. is_large: this rank has a large demand.
 * Returns OMPI_SUCCESS, an error, or MCA_COLL_MRAIL_PASS. The decision uses
 * only state that is equal on all ranks.
 *
 * After MPI_ERR_NO_MEM the other ranks wait for this one in the round. The
 * default error handler ends the job. With MPI_ERRORS_RETURN the program must
 * do so, as after any error of a collective. */
static int enter(mca_coll_mrail_module_t *module, mca_coll_mrail_func_t func,
                 int is_large, mca_coll_mrail_op_t **op_p)
{
    if (!mca_coll_mrail_mode_call(&module->modes[func], is_large)) {
        return MCA_COLL_MRAIL_PASS;
    }
    *op_p = mca_coll_mrail_op_get(module, func, 1);
    return (*op_p != NULL) ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
}

/* Performs the exchange of an op whose arguments are filled in. */
static int serve(mca_coll_mrail_op_t *op, const void *sbuf)
{
    mca_coll_mrail_module_t *module = op->module;
    int ret = mca_coll_mrail_op_post(op, sbuf);

    if (ret == OMPI_SUCCESS) {
        ret = mca_coll_mrail_op_wait(op);
    }
    module->agreed_away = module->away;
    return ret;
}

/* Like enter(), but for a nonblocking call. Earlier calls may still be in
 * progress, so this uses only state that all ranks are known to share. */
static int enter_later(mca_coll_mrail_module_t *module,
                       mca_coll_mrail_func_t func, mca_coll_mrail_op_t **op_p)
{
    *op_p = mca_coll_mrail_op_get(module, func, 0);
    return (*op_p != NULL) ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
}

static int serve_later(mca_coll_mrail_op_t *op, const void *sbuf,
                       ompi_request_t **request_p)
{
    int ret = mca_coll_mrail_op_post(op, sbuf);

    if (ret == OMPI_SUCCESS) {
        *request_p = &op->request.super;
        MCA_COLL_MRAIL_COUNT(nonblocking_calls, 1);
    }
    return ret;
}

/* ---- arguments ---- */

/* Arguments of MPI_Alltoallv. */
typedef struct args_v {
    const void *sbuf;
    const int *scounts, *sdisps;
    struct ompi_datatype_t *sdtype;
    void *rbuf;
    const int *rcounts, *rdisps;
    struct ompi_datatype_t *rdtype;
} args_v_t;

static int is_large_v(const mca_coll_mrail_module_t *module,
                      const args_v_t *args)
{
    int is_in_place = args->sbuf == MPI_IN_PLACE;
    const int *counts = is_in_place ? args->rcounts : args->scounts;
    int size = ompi_comm_size(module->comm);
    int rank = ompi_comm_rank(module->comm);
    size_t bytes;
    int largest = 0;

    for (int i = 0; i < size; ++i) {
        if (counts[i] > largest && i != rank) {
            largest = counts[i];
        }
    }
    ompi_datatype_type_size(is_in_place ? args->rdtype : args->sdtype, &bytes);
    return (uint64_t)largest * bytes > module->relay_threshold;
}

static void fill_v(mca_coll_mrail_op_t *op, const args_v_t *args)
{
    int size = ompi_comm_size(op->module->comm);
    ptrdiff_t extent;

    ompi_datatype_type_extent(args->rdtype, &extent);
    for (int i = 0; i < size; ++i) {
        mca_coll_mrail_dt_segment_init(
            &op->recvs[i], (char *)args->rbuf + args->rdisps[i] * extent,
            (size_t)args->rcounts[i], args->rdtype);
    }
    if (args->sbuf == MPI_IN_PLACE) {
        return;
    }
    ompi_datatype_type_extent(args->sdtype, &extent);
    for (int i = 0; i < size; ++i) {
        mca_coll_mrail_dt_segment_init(
            &op->sends[i], (const char *)args->sbuf + args->sdisps[i] * extent,
            (size_t)args->scounts[i], args->sdtype);
    }
}

static void fill_side(mca_coll_mrail_side_t *side, const void *buffer,
                      const int *counts, const int *disps,
                      struct ompi_datatype_t *type)
{
    side->buffer = (char *)buffer;
    side->counts = counts;
    side->disps = disps;
    side->type = type;
    ompi_datatype_type_extent(type, &side->extent);
    ompi_datatype_type_size(type, &side->size);
}

/* Arguments of MPI_Alltoall. */
typedef struct args {
    const void *sbuf;
    int scount;
    struct ompi_datatype_t *sdtype;
    void *rbuf;
    int rcount;
    struct ompi_datatype_t *rdtype;
} args_t;

static int is_large(const mca_coll_mrail_module_t *module, const args_t *args)
{
    size_t bytes;

    ompi_datatype_type_size(args->rdtype, &bytes);
    return (uint64_t)args->rcount * bytes > module->relay_threshold;
}

static void fill(mca_coll_mrail_op_t *op, const args_t *args)
{
    int size = ompi_comm_size(op->module->comm);
    ptrdiff_t extent;

    ompi_datatype_type_extent(args->rdtype, &extent);
    for (int i = 0; i < size; ++i) {
        mca_coll_mrail_dt_segment_init(
            &op->recvs[i], (char *)args->rbuf + i * extent * args->rcount,
            (size_t)args->rcount, args->rdtype);
    }
    if (args->sbuf == MPI_IN_PLACE) {
        return;
    }
    ompi_datatype_type_extent(args->sdtype, &extent);
    for (int i = 0; i < size; ++i) {
        mca_coll_mrail_dt_segment_init(
            &op->sends[i], (const char *)args->sbuf + i * extent * args->scount,
            (size_t)args->scount, args->sdtype);
    }
}

/* Arguments of MPI_Alltoallw. */
typedef struct args_w {
    const void *sbuf;
    const int *scounts, *sdisps;
    struct ompi_datatype_t *const *sdtypes;
    void *rbuf;
    const int *rcounts, *rdisps;
    struct ompi_datatype_t *const *rdtypes;
} args_w_t;

static int is_large_w(const mca_coll_mrail_module_t *module,
                      const args_w_t *args)
{
    int is_in_place = args->sbuf == MPI_IN_PLACE;
    const int *counts = is_in_place ? args->rcounts : args->scounts;
    struct ompi_datatype_t *const *types =
        is_in_place ? args->rdtypes : args->sdtypes;
    int size = ompi_comm_size(module->comm);
    int rank = ompi_comm_rank(module->comm);

    for (int i = 0; i < size; ++i) {
        size_t bytes;

        if (counts[i] == 0 || i == rank) {
            continue; /* an empty message may have an invalid datatype */
        }
        ompi_datatype_type_size(types[i], &bytes);
        if ((uint64_t)counts[i] * bytes > module->relay_threshold) {
            return 1;
        }
    }
    return 0;
}

static void segment_init_w(mca_coll_mrail_dt_segment_t *segment,
                           const void *buffer, int disp, int count,
                           struct ompi_datatype_t *type)
{
    mca_coll_mrail_dt_segment_init(segment, (const char *)buffer + disp,
                                   (size_t)count,
                                   (count == 0) ? &ompi_mpi_byte.dt : type);
}

static void fill_w(mca_coll_mrail_op_t *op, const args_w_t *args)
{
    int size = ompi_comm_size(op->module->comm);

    for (int i = 0; i < size; ++i) {
        segment_init_w(&op->recvs[i], args->rbuf, args->rdisps[i],
                       args->rcounts[i], args->rdtypes[i]);
    }
    for (int i = 0; i < size && args->sbuf != MPI_IN_PLACE; ++i) {
        segment_init_w(&op->sends[i], args->sbuf, args->sdisps[i],
                       args->scounts[i], args->sdtypes[i]);
    }
}

/* ---- MPI calls ---- */

/* Serves a blocking call and returns from the calling function. If the previous
 * module should serve the call, execution continues in the calling function.
 * `args` must be filled in; large and fill_func are functions above. */
#define SERVE(module, func, large, fill_func)                                  \
    do {                                                                       \
        mca_coll_mrail_op_t *op;                                               \
        int ret = MCA_COLL_MRAIL_PASS;                                         \
                                                                               \
        if ((module)->agreed_away == NULL) {                                   \
            ret = enter(module, func, large(module, &args), &op);              \
        }                                                                      \
        if (ret == OMPI_SUCCESS) {                                             \
            fill_func(op, &args);                                              \
            ret = serve(op, args.sbuf);                                        \
        }                                                                      \
        if (ret != MCA_COLL_MRAIL_PASS) {                                      \
            return ret;                                                        \
        }                                                                      \
    } while (0)

/* Serves a nonblocking call. Always returns from the calling function. `name`
 * and the last arguments are those of the previous module's function. */
#define CALL_LATER(name, func, fill_func, ...)                                 \
    do {                                                                       \
        mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;     \
        mca_coll_mrail_op_t *op;                                               \
        int ret;                                                               \
                                                                               \
        if (module->agreed_away != NULL) {                                     \
            mca_coll_mrail_log_away(module);                                   \
            return module->name(__VA_ARGS__, comm, request,                    \
                                module->name##_module);                        \
        }                                                                      \
        ret = enter_later(module, func, &op);                                  \
        if (ret == OMPI_SUCCESS) {                                             \
            fill_func(op, &args);                                              \
            ret = serve_later(op, args.sbuf, request);                         \
        }                                                                      \
        return ret;                                                            \
    } while (0)

static int coll_alltoallv(const void *sbuf, const int *scounts,
                          const int *sdisps, struct ompi_datatype_t *sdtype,
                          void *rbuf, const int *rcounts, const int *rdisps,
                          struct ompi_datatype_t *rdtype,
                          struct ompi_communicator_t *comm,
                          mca_coll_base_module_t *base)
{
    args_v_t args = {sbuf, scounts, sdisps, sdtype,
                     rbuf, rcounts, rdisps, rdtype};
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;

    SERVE(module, MCA_COLL_MRAIL_ALLTOALLV, is_large_v, fill_v);
    /* Both are equal on all ranks, so all of them decide the same way. */
    if ((module->agreed_away != NULL || module->is_multi_rail) &&
        sbuf != MPI_IN_PLACE) {
        mca_coll_mrail_side_t out, in;
        int ret = mca_coll_mrail_pairwise_agree(module);

        if (ret != OMPI_SUCCESS) {
            return ret;
        }
        if (module->inflight_bytes > 0) {
            fill_side(&out, sbuf, scounts, sdisps, sdtype);
            fill_side(&in, rbuf, rcounts, rdisps, rdtype);
            return mca_coll_mrail_pairwise(module, &out, &in);
        }
    }
    mca_coll_mrail_log_away(module);
    return module->alltoallv(sbuf, scounts, sdisps, sdtype, rbuf, rcounts,
                             rdisps, rdtype, comm, module->alltoallv_module);
}

static int coll_ialltoallv(const void *sbuf, const int *scounts,
                           const int *sdisps, struct ompi_datatype_t *sdtype,
                           void *rbuf, const int *rcounts, const int *rdisps,
                           struct ompi_datatype_t *rdtype,
                           struct ompi_communicator_t *comm,
                           ompi_request_t **request,
                           mca_coll_base_module_t *base)
{
    args_v_t args = {sbuf, scounts, sdisps, sdtype,
                     rbuf, rcounts, rdisps, rdtype};

    CALL_LATER(ialltoallv, MCA_COLL_MRAIL_ALLTOALLV, fill_v, sbuf, scounts,
               sdisps, sdtype, rbuf, rcounts, rdisps, rdtype);
}

static int coll_alltoall(const void *sbuf, int scount,
                         struct ompi_datatype_t *sdtype, void *rbuf, int rcount,
                         struct ompi_datatype_t *rdtype,
                         struct ompi_communicator_t *comm,
                         mca_coll_base_module_t *base)
{
    args_t args = {sbuf, scount, sdtype, rbuf, rcount, rdtype};
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;

    SERVE(module, MCA_COLL_MRAIL_ALLTOALL, is_large, fill);
    mca_coll_mrail_log_away(module);
    return module->alltoall(sbuf, scount, sdtype, rbuf, rcount, rdtype, comm,
                            module->alltoall_module);
}

static int coll_ialltoall(const void *sbuf, int scount,
                          struct ompi_datatype_t *sdtype, void *rbuf,
                          int rcount, struct ompi_datatype_t *rdtype,
                          struct ompi_communicator_t *comm,
                          ompi_request_t **request,
                          mca_coll_base_module_t *base)
{
    args_t args = {sbuf, scount, sdtype, rbuf, rcount, rdtype};

    CALL_LATER(ialltoall, MCA_COLL_MRAIL_ALLTOALL, fill, sbuf, scount, sdtype,
               rbuf, rcount, rdtype);
}

static int coll_alltoallw(const void *sbuf, const int *scounts,
                          const int *sdisps,
                          struct ompi_datatype_t *const *sdtypes, void *rbuf,
                          const int *rcounts, const int *rdisps,
                          struct ompi_datatype_t *const *rdtypes,
                          struct ompi_communicator_t *comm,
                          mca_coll_base_module_t *base)
{
    args_w_t args = {sbuf, scounts, sdisps, sdtypes,
                     rbuf, rcounts, rdisps, rdtypes};
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;

    SERVE(module, MCA_COLL_MRAIL_ALLTOALLW, is_large_w, fill_w);
    mca_coll_mrail_log_away(module);
    return module->alltoallw(sbuf, scounts, sdisps, sdtypes, rbuf, rcounts,
                             rdisps, rdtypes, comm, module->alltoallw_module);
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
    args_w_t args = {sbuf, scounts, sdisps, sdtypes,
                     rbuf, rcounts, rdisps, rdtypes};

    CALL_LATER(ialltoallw, MCA_COLL_MRAIL_ALLTOALLW, fill_w, sbuf, scounts,
               sdisps, sdtypes, rbuf, rcounts, rdisps, rdtypes);
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

    if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 3) {
        return NULL; /* with two ranks, no third rank can relay */
    }
    module = OBJ_NEW(mca_coll_mrail_module_t);
    if (module == NULL || mca_coll_mrail_setup_topology(module, comm) < 0) {
        /* Otherwise Open MPI would use another component on this rank only, and
         * the other ranks would wait indefinitely. */
        fprintf(stderr,
                "mrail: coll: no memory for a communicator at rank %d; the job "
                "ends\n",
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
    mrail_relay_memory_init(&module->memory, &mrail_relay_host_memory_ops);
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
