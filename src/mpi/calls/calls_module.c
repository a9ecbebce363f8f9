#include "config.h"
#include "mpi/calls/mrail_calls.h"
#include "mpi/signatures.h"

#include "base/util.h"

#include "ompi/constants.h"

/* ---- functions of coll ---- */

/* Parts of argument lists that signatures.h does not have. */
#define REDUCE                                                                 \
    const void *sbuf, void *rbuf, int count, struct ompi_datatype_t *dtype,    \
        struct ompi_op_t *op
#define REDUCE_ARGS sbuf, rbuf, count, dtype, op
#define SCATTERED(_count)                                                      \
    const void *sbuf, void *rbuf, _count, struct ompi_datatype_t *dtype,       \
        struct ompi_op_t *op
#define ROOT int root

/* X(function, kind, root, parameters, arguments). The lists end with a comma,
 * because the lists of a barrier are empty. */
#define COLLECTIVES(X)                                                         \
    X(allgather, ALLGATHER, -1, (MRAIL_SEND, MRAIL_RECV, ),                    \
      (MRAIL_SEND_ARGS, MRAIL_RECV_ARGS, ))                                    \
    X(allgatherv, ALLGATHERV, -1, (MRAIL_SEND, MRAIL_RECVV, ),                 \
      (MRAIL_SEND_ARGS, MRAIL_RECVV_ARGS, ))                                   \
    X(allreduce, ALLREDUCE, -1, (REDUCE, ), (REDUCE_ARGS, ))                   \
    X(alltoall, ALLTOALL, -1, (MRAIL_SEND, MRAIL_RECV, ),                      \
      (MRAIL_SEND_ARGS, MRAIL_RECV_ARGS, ))                                    \
    X(alltoallv, ALLTOALLV, -1, (MRAIL_SENDV, MRAIL_RECVV, ),                  \
      (MRAIL_SENDV_ARGS, MRAIL_RECVV_ARGS, ))                                  \
    X(alltoallw, ALLTOALLW, -1, (MRAIL_SENDW(int), MRAIL_RECVW(int), ),        \
      (MRAIL_SENDW_ARGS, MRAIL_RECVW_ARGS, ))                                  \
    X(barrier, BARRIER, -1, (), ())                                            \
    X(bcast, BCAST, root,                                                      \
      (void *buf, int count, struct ompi_datatype_t *dtype, ROOT, ),           \
      (buf, count, dtype, root, ))                                             \
    X(exscan, EXSCAN, -1, (REDUCE, ), (REDUCE_ARGS, ))                         \
    X(gather, GATHER, root, (MRAIL_SEND, MRAIL_RECV, ROOT, ),                  \
      (MRAIL_SEND_ARGS, MRAIL_RECV_ARGS, root, ))                              \
    X(gatherv, GATHERV, root, (MRAIL_SEND, MRAIL_RECVV, ROOT, ),               \
      (MRAIL_SEND_ARGS, MRAIL_RECVV_ARGS, root, ))                             \
    X(reduce, REDUCE, root, (REDUCE, ROOT, ), (REDUCE_ARGS, root, ))           \
    X(reduce_scatter, REDUCE_SCATTER, -1, (SCATTERED(const int *rcounts), ),   \
      (sbuf, rbuf, rcounts, dtype, op, ))                                      \
    X(reduce_scatter_block, REDUCE_SCATTER_BLOCK, -1,                          \
      (SCATTERED(int rcount), ), (sbuf, rbuf, rcount, dtype, op, ))            \
    X(scan, SCAN, -1, (REDUCE, ), (REDUCE_ARGS, ))                             \
    X(scatter, SCATTER, root, (MRAIL_SEND, MRAIL_RECV, ROOT, ),                \
      (MRAIL_SEND_ARGS, MRAIL_RECV_ARGS, root, ))                              \
    X(scatterv, SCATTERV, root, (MRAIL_SENDV, MRAIL_RECV, ROOT, ),             \
      (MRAIL_SENDV_ARGS, MRAIL_RECV_ARGS, root, ))                             \
    X(neighbor_allgather, NEIGHBOR_ALLGATHER, -1, (MRAIL_SEND, MRAIL_RECV, ),  \
      (MRAIL_SEND_ARGS, MRAIL_RECV_ARGS, ))                                    \
    X(neighbor_allgatherv, NEIGHBOR_ALLGATHERV, -1,                            \
      (MRAIL_SEND, MRAIL_RECVV, ), (MRAIL_SEND_ARGS, MRAIL_RECVV_ARGS, ))      \
    X(neighbor_alltoall, NEIGHBOR_ALLTOALL, -1, (MRAIL_SEND, MRAIL_RECV, ),    \
      (MRAIL_SEND_ARGS, MRAIL_RECV_ARGS, ))                                    \
    X(neighbor_alltoallv, NEIGHBOR_ALLTOALLV, -1,                              \
      (MRAIL_SENDV, MRAIL_RECVV, ), (MRAIL_SENDV_ARGS, MRAIL_RECVV_ARGS, ))    \
    X(neighbor_alltoallw, NEIGHBOR_ALLTOALLW, -1,                              \
      (MRAIL_SENDW(MPI_Aint), MRAIL_RECVW(MPI_Aint), ),                        \
      (MRAIL_SENDW_ARGS, MRAIL_RECVW_ARGS, ))

/* ---- module ---- */

/* Functions of the communicator's previous modules. */
#define PREVIOUS(_name, _kind, _root, _params, _args)                          \
    mca_coll_base_module_t *_name##_module, *i##_name##_module;                \
    int (*_name)(UNWRAP _params struct ompi_communicator_t * comm,             \
                 mca_coll_base_module_t * base);                               \
    int (*i##_name)(UNWRAP _params struct ompi_communicator_t * comm,          \
                    ompi_request_t * *request, mca_coll_base_module_t * base);
#define UNWRAP(...) __VA_ARGS__

typedef struct calls_module {
    mca_coll_base_module_t super;
    mrail_calls_comm_t *record; /* record in the file; NULL if not enabled */
    uint32_t index;             /* index of that record */
    /* 1 if a collective is in progress. Collectives that it calls internally do
     * not count. */
    int is_inside;
    COLLECTIVES(PREVIOUS)
} calls_module_t;

int mca_coll_mrailcalls_inside;

static unsigned long long comm_cid(struct ompi_communicator_t *comm)
{
#ifdef MCA_COLL_BASE_VERSION_2_4_0
    return ompi_comm_get_local_cid(comm);
#else
    return ompi_comm_get_cid(comm);
#endif
}

/* Stores the name of a communicator at its first call, because the application
 * may set the name after creation. */
static void calls_name(calls_module_t *module, struct ompi_communicator_t *comm)
{
    char name[sizeof(module->record->name)];

    if (comm->c_name[0] != '\0') {
        mrail_calls_comm_name(module->record, comm->c_name);
    } else {
        snprintf(name, sizeof(name), "communicator %llu", comm_cid(comm));
        mrail_calls_comm_name(module->record, name);
    }
}

/* Records the start of a call. Returns 0 if the call is part of another
 * collective and therefore does not count. */
static inline int calls_enter(calls_module_t *module,
                              struct ompi_communicator_t *comm, unsigned kind,
                              int root)
{
    if (MRAIL_UNLIKELY(module->is_inside)) {
        return 0;
    }
    module->is_inside = 1;
    ++mca_coll_mrailcalls_inside;
    if (MRAIL_UNLIKELY(module->record->entered == 0)) {
        calls_name(module, comm);
    }
    mrail_calls_enter(module->record, kind, root);
    return 1;
}

static inline void calls_leave(calls_module_t *module, int counts)
{
    if (MRAIL_LIKELY(counts)) {
        mrail_calls_leave(module->record);
        --mca_coll_mrailcalls_inside;
        module->is_inside = 0;
    }
}

#define COUNT(_name, _kind, _root, _params, _args)                             \
    static int calls_##_name(UNWRAP _params struct ompi_communicator_t *comm,  \
                             mca_coll_base_module_t *base)                     \
    {                                                                          \
        calls_module_t *module = (calls_module_t *)base;                       \
        int counts = calls_enter(module, comm, MRAIL_CALLS_##_kind, _root);    \
        int ret = module->_name(UNWRAP _args comm, module->_name##_module);    \
                                                                               \
        calls_leave(module, counts);                                           \
        return ret;                                                            \
    }                                                                          \
    static int calls_i##_name(UNWRAP _params struct ompi_communicator_t *comm, \
                              ompi_request_t **request,                        \
                              mca_coll_base_module_t *base)                    \
    {                                                                          \
        calls_module_t *module = (calls_module_t *)base;                       \
        int counts =                                                           \
            calls_enter(module, comm,                                          \
                        MRAIL_CALLS_##_kind | MRAIL_CALLS_NONBLOCKING, _root); \
        int ret = module->i##_name(UNWRAP _args comm, request,                 \
                                   module->i##_name##_module);                 \
                                                                               \
        calls_leave(module, counts);                                           \
        return ret;                                                            \
    }
COLLECTIVES(COUNT)

/* Until Open MPI installs this module, the communicator holds the functions of
 * the previous modules. If they have no function for a call, neither has this
 * module. */
#define REPLACE_ONE(_name)                                                     \
    if (comm->c_coll->coll_##_name != NULL) {                                  \
        module->_name = comm->c_coll->coll_##_name;                            \
        module->_name##_module = comm->c_coll->coll_##_name##_module;          \
        OBJ_RETAIN(module->_name##_module);                                    \
        module->super.coll_##_name = calls_##_name;                            \
    }
#define REPLACE(_name, _kind, _root, _params, _args)                           \
    REPLACE_ONE(_name)                                                         \
    REPLACE_ONE(i##_name)

/* Returns an id of a communicator, equal on all its ranks. The context id alone
 * is not enough, because all communicators from one MPI_Comm_split share it. */
static uint64_t comm_id(struct ompi_communicator_t *comm)
{
    uint64_t id = comm_cid(comm) + 1;

    for (int i = 0; i < ompi_comm_size(comm); ++i) {
        id = mrail_mix64(id +
                         ompi_group_get_proc_name(comm->c_local_group, i).vpid);
    }
    return (id != 0) ? id : 1;
}

static int calls_enable(mca_coll_base_module_t *base,
                        struct ompi_communicator_t *comm)
{
    calls_module_t *module = (calls_module_t *)base;

    module->record = mrail_calls_comm_add(
        mca_coll_mrailcalls_file, comm_id(comm), (uint32_t)ompi_comm_size(comm),
        (uint32_t)ompi_comm_rank(comm));
    if (module->record != NULL) {
        module->index =
            (uint32_t)(module->record - mca_coll_mrailcalls_file->comms);
        COLLECTIVES(REPLACE)
    }
    return OMPI_SUCCESS;
}

static void calls_construct(calls_module_t *module)
{
    size_t skip = sizeof(module->super);

    memset((char *)module + skip, 0, sizeof(*module) - skip);
}

static void release(mca_coll_base_module_t *module)
{
    if (module != NULL) {
        OBJ_RELEASE(module);
    }
}

#define RELEASE(_name, _kind, _root, _params, _args)                           \
    release(module->_name##_module);                                           \
    release(module->i##_name##_module);

static void calls_destruct(calls_module_t *module)
{
    if (module->record != NULL && mca_coll_mrailcalls_file != NULL) {
        mrail_calls_comm_remove(module->record);
    }
    COLLECTIVES(RELEASE)
}

OBJ_CLASS_DECLARATION(calls_module_t);
OBJ_CLASS_INSTANCE(calls_module_t, mca_coll_base_module_t, calls_construct,
                   calls_destruct);

mca_coll_base_module_t *
mca_coll_mrailcalls_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    calls_module_t *module;

    /* The two groups of an intercommunicator may make different calls. */
    if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2) {
        return NULL;
    }
    module = OBJ_NEW(calls_module_t);
    if (module == NULL) {
        return NULL; /* the calls still work, but are not counted */
    }
    *priority = 100; /* the highest that Open MPI allows */
    module->super.coll_module_enable = calls_enable;
    return &module->super;
}

uint32_t mca_coll_mrailcalls_index(struct ompi_communicator_t *comm)
{
    return (comm->c_coll != NULL && comm->c_coll->coll_barrier == calls_barrier)
               ? ((calls_module_t *)comm->c_coll->coll_barrier_module)->index
               : MRAIL_CALLS_COMMS;
}
