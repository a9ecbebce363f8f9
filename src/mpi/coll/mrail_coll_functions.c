/* The MPI functions of the component, and those of the previous modules. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/signatures.h"

#include "ompi/constants.h"

#include <mpi.h>

typedef mca_coll_mrail_args_side_t side_t;

/* ---- sides ---- */

static side_t side(const void *buffer, int count, struct ompi_datatype_t *type)
{
    return (side_t){.layout = MCA_COLL_MRAIL_LAYOUT_BLOCKS,
                    .buffer = buffer,
                    .count = count,
                    .type = type};
}

static side_t side_shared(const void *buffer, int count,
                          struct ompi_datatype_t *type)
{
    return (side_t){.layout = MCA_COLL_MRAIL_LAYOUT_SHARED,
                    .buffer = buffer,
                    .count = count,
                    .type = type};
}

static side_t side_v(const void *buffer, const int *counts, const int *disps,
                     struct ompi_datatype_t *type)
{
    return (side_t){.layout = MCA_COLL_MRAIL_LAYOUT_V,
                    .buffer = buffer,
                    .counts = counts,
                    .disps = disps,
                    .type = type};
}

static side_t side_w(const void *buffer, const int *counts, const int *disps,
                     struct ompi_datatype_t *const *types)
{
    return (side_t){.layout = MCA_COLL_MRAIL_LAYOUT_W,
                    .buffer = buffer,
                    .counts = counts,
                    .disps = disps,
                    .types = types};
}

/* As side_w(), with displacements of type MPI_Aint. */
static side_t side_wide(const void *buffer, const int *counts,
                        const MPI_Aint *disps,
                        struct ompi_datatype_t *const *types)
{
    return (side_t){.layout = MCA_COLL_MRAIL_LAYOUT_W,
                    .buffer = buffer,
                    .counts = counts,
                    .wide_disps = disps,
                    .types = types};
}

/* ---- functions of the previous modules ---- */

/* Call _name, or i_name, of the previous module. _out and _in are the arguments
 * of both sides. */
#define PREVIOUS(_name, _out, _in)                                             \
    module->_name(UNWRAP _out, UNWRAP _in, module->comm, module->_name##_module)
#define PREVIOUS_LATER(_name, _out, _in)                                       \
    module->i##_name(UNWRAP _out, UNWRAP _in, module->comm, request_p,         \
                     module->i##_name##_module)
#define UNWRAP(...) __VA_ARGS__
#define OUT (out->buffer, out->count, out->type)
#define IN ((void *)in->buffer, in->count, in->type)
#define OUT_V (out->buffer, out->counts, out->disps, out->type)
#define IN_V ((void *)in->buffer, in->counts, in->disps, in->type)
#define OUT_W (out->buffer, out->counts, out->disps, out->types)
#define IN_W ((void *)in->buffer, in->counts, in->disps, in->types)
#define OUT_WIDE (out->buffer, out->counts, out->wide_disps, out->types)
#define IN_WIDE ((void *)in->buffer, in->counts, in->wide_disps, in->types)

int mca_coll_mrail_previous(const mca_coll_mrail_module_t *module,
                            const mca_coll_mrail_args_t *args)
{
    const side_t *out = &args->send, *in = &args->recv;

    switch (args->func) {
    case MCA_COLL_MRAIL_ALLTOALL:
        return PREVIOUS(alltoall, OUT, IN);
    case MCA_COLL_MRAIL_ALLTOALLV:
        return PREVIOUS(alltoallv, OUT_V, IN_V);
    case MCA_COLL_MRAIL_ALLTOALLW:
        return PREVIOUS(alltoallw, OUT_W, IN_W);
    case MCA_COLL_MRAIL_ALLGATHERV:
        return PREVIOUS(allgatherv, OUT, IN_V);
    case MCA_COLL_MRAIL_NEIGHBOR_ALLGATHER:
        return PREVIOUS(neighbor_allgather, OUT, IN);
    case MCA_COLL_MRAIL_NEIGHBOR_ALLGATHERV:
        return PREVIOUS(neighbor_allgatherv, OUT, IN_V);
    case MCA_COLL_MRAIL_NEIGHBOR_ALLTOALL:
        return PREVIOUS(neighbor_alltoall, OUT, IN);
    case MCA_COLL_MRAIL_NEIGHBOR_ALLTOALLV:
        return PREVIOUS(neighbor_alltoallv, OUT_V, IN_V);
    case MCA_COLL_MRAIL_NEIGHBOR_ALLTOALLW:
        return PREVIOUS(neighbor_alltoallw, OUT_WIDE, IN_WIDE);
    default:
        return OMPI_ERR_NOT_SUPPORTED;
    }
}

int mca_coll_mrail_previous_later(const mca_coll_mrail_module_t *module,
                                  const mca_coll_mrail_args_t *args,
                                  ompi_request_t **request_p)
{
    const side_t *out = &args->send, *in = &args->recv;

    switch (args->func) {
    case MCA_COLL_MRAIL_ALLTOALL:
        return PREVIOUS_LATER(alltoall, OUT, IN);
    case MCA_COLL_MRAIL_ALLTOALLV:
        return PREVIOUS_LATER(alltoallv, OUT_V, IN_V);
    case MCA_COLL_MRAIL_ALLTOALLW:
        return PREVIOUS_LATER(alltoallw, OUT_W, IN_W);
    default:
        return OMPI_ERR_NOT_SUPPORTED;
    }
}

/* ---- blocking and nonblocking functions ---- */

/* Defines a blocking function. _params are its parameters before the
 * communicator. _send and _recv make the sides. _call performs the call. */
#define BLOCKING_BY(_call, _name, _func, _params, _send, _recv)                \
    static int coll_##_name(UNWRAP _params, struct ompi_communicator_t *comm,  \
                            mca_coll_base_module_t *base)                      \
    {                                                                          \
        mca_coll_mrail_args_t args = {                                         \
            .func = MCA_COLL_MRAIL_##_func, .send = _send, .recv = _recv};     \
                                                                               \
        return _call((mca_coll_mrail_module_t *)base, &args);                  \
    }
#define BLOCKING(...) BLOCKING_BY(mca_coll_mrail_call, __VA_ARGS__)

/* Defines a function with its nonblocking and persistent forms. The persistent
 * call belongs to the previous module if the component does not plan it. */
#define ALL_FORMS(_name, _func, _params, _args, _send, _recv)                  \
    BLOCKING(_name, _func, _params, _send, _recv)                              \
    static int coll_i##_name(UNWRAP _params, struct ompi_communicator_t *comm, \
                             ompi_request_t **request,                         \
                             mca_coll_base_module_t *base)                     \
    {                                                                          \
        mca_coll_mrail_args_t args = {                                         \
            .func = MCA_COLL_MRAIL_##_func, .send = _send, .recv = _recv};     \
                                                                               \
        return mca_coll_mrail_call_later((mca_coll_mrail_module_t *)base,      \
                                         &args, request);                      \
    }                                                                          \
    static int coll_##_name##_init(                                            \
        UNWRAP _params, struct ompi_communicator_t *comm,                      \
        struct ompi_info_t *info, ompi_request_t **request,                    \
        mca_coll_base_module_t *base)                                          \
    {                                                                          \
        mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;     \
        mca_coll_mrail_args_t args = {                                         \
            .func = MCA_COLL_MRAIL_##_func, .send = _send, .recv = _recv};     \
        int ret = mca_coll_mrail_persistent_create(module, &args, request);    \
                                                                               \
        return (ret != MCA_COLL_MRAIL_PASS)                                    \
                   ? ret                                                       \
                   : module->_name##_init(UNWRAP _args, comm, info, request,   \
                                          module->_name##_init_module);        \
    }

ALL_FORMS(alltoall, ALLTOALL, (MRAIL_SEND, MRAIL_RECV),
          (MRAIL_SEND_ARGS, MRAIL_RECV_ARGS), side(MRAIL_SEND_ARGS),
          side(MRAIL_RECV_ARGS))
ALL_FORMS(alltoallv, ALLTOALLV, (MRAIL_SENDV, MRAIL_RECVV),
          (MRAIL_SENDV_ARGS, MRAIL_RECVV_ARGS), side_v(MRAIL_SENDV_ARGS),
          side_v(MRAIL_RECVV_ARGS))
ALL_FORMS(alltoallw, ALLTOALLW, (MRAIL_SENDW(int), MRAIL_RECVW(int)),
          (MRAIL_SENDW_ARGS, MRAIL_RECVW_ARGS), side_w(MRAIL_SENDW_ARGS),
          side_w(MRAIL_RECVW_ARGS))
BLOCKING_BY(mca_coll_mrail_allgatherv, allgatherv, ALLGATHERV,
            (MRAIL_SEND, MRAIL_RECVV), side_shared(MRAIL_SEND_ARGS),
            side_v(MRAIL_RECVV_ARGS))
BLOCKING(neighbor_allgather, NEIGHBOR_ALLGATHER, (MRAIL_SEND, MRAIL_RECV),
         side_shared(MRAIL_SEND_ARGS), side(MRAIL_RECV_ARGS))
BLOCKING(neighbor_allgatherv, NEIGHBOR_ALLGATHERV, (MRAIL_SEND, MRAIL_RECVV),
         side_shared(MRAIL_SEND_ARGS), side_v(MRAIL_RECVV_ARGS))
BLOCKING(neighbor_alltoall, NEIGHBOR_ALLTOALL, (MRAIL_SEND, MRAIL_RECV),
         side(MRAIL_SEND_ARGS), side(MRAIL_RECV_ARGS))
BLOCKING(neighbor_alltoallv, NEIGHBOR_ALLTOALLV, (MRAIL_SENDV, MRAIL_RECVV),
         side_v(MRAIL_SENDV_ARGS), side_v(MRAIL_RECVV_ARGS))
BLOCKING(neighbor_alltoallw, NEIGHBOR_ALLTOALLW,
         (MRAIL_SENDW(MPI_Aint), MRAIL_RECVW(MPI_Aint)),
         side_wide(MRAIL_SENDW_ARGS), side_wide(MRAIL_RECVW_ARGS))

/* ---- module ---- */

#define ENABLE(_name, _type)                                                   \
    if (comm->c_coll->coll_##_name != NULL) {                                  \
        module->_name = comm->c_coll->coll_##_name;                            \
        module->_name##_module = comm->c_coll->coll_##_name##_module;          \
        OBJ_RETAIN(module->_name##_module);                                    \
        module->super.coll_##_name = coll_##_name;                             \
    }

void mca_coll_mrail_functions_enable(mca_coll_mrail_module_t *module,
                                     const struct ompi_communicator_t *comm)
{
    MCA_COLL_MRAIL_FUNCTIONS(ENABLE)
}

#define CLEANUP(_name, _type)                                                  \
    if (module->_name##_module != NULL) {                                      \
        OBJ_RELEASE(module->_name##_module);                                   \
    }

void mca_coll_mrail_functions_cleanup(mca_coll_mrail_module_t *module)
{
    MCA_COLL_MRAIL_FUNCTIONS(CLEANUP)
}
