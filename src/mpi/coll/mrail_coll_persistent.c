/*
 * Persistent forms of the exchanges. Each start of a persistent request is one
 * nonblocking call.
 *
 * The ranks plan calls in the order in which they start. MPI allows them to
 * start persistent collectives in different orders. Persistent calls therefore
 * go to the previous module, unless the info of the communicator has the key
 * mrail_ordered_starts. (mpi_assert_strict_persistent_collective_ordering of
 * MPI 4.1 would not be enough: it does not order starts and other collectives.
 * It is also longer than MPI_MAX_INFO_KEY of Open MPI.)
 */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "cuda/driver.h"

#include "ompi/constants.h"
#include "ompi/errhandler/errhandler.h"

#include <mpi.h>

#include <stdlib.h>
#include <string.h>

/* Copies of the arrays of one side, and its datatypes. The arrays of Fortran
 * programs end with the call that creates the request. */
typedef struct kept {
    int *counts, *disps;
    struct ompi_datatype_t **types, *type; /* retained */
    int num_types;
} kept_t;

typedef struct mca_coll_mrail_persistent {
    /* Open MPI 5.0 stores arrays of Fortran programs in each request of a
     * collective, and expects this type. */
    ompi_coll_base_nbc_request_t super;
    mca_coll_mrail_module_t *module;
    mca_coll_mrail_args_t args;
    kept_t send, recv;
} mca_coll_mrail_persistent_t;

/* ---- arguments ---- */

static int *copy_numbers(const int *from, int num)
{
    int *to = calloc((size_t)num + 1, sizeof(*to));

    if (to != NULL) {
        memcpy(to, from, (size_t)num * sizeof(*to));
    }
    return to;
}

static int keep_types(mca_coll_mrail_args_side_t *side, kept_t *kept)
{
    kept->types = calloc((size_t)side->num_peers + 1, sizeof(*kept->types));
    if (kept->types == NULL) {
        return MPI_ERR_NO_MEM;
    }
    for (int i = 0; i < side->num_peers; ++i) {
        /* an empty message may have an invalid datatype */
        kept->types[i] =
            (side->counts[i] > 0) ? side->types[i] : &ompi_mpi_byte.dt;
        OBJ_RETAIN(kept->types[i]);
        ++kept->num_types;
    }
    side->types = kept->types;
    return OMPI_SUCCESS;
}

/* Copies the arrays of one side, and retains its datatypes, which the program
 * may free. Returns OMPI_SUCCESS or MPI_ERR_NO_MEM. */
static int keep_side(mca_coll_mrail_args_side_t *side, kept_t *kept)
{
    if (side->buffer == MPI_IN_PLACE) {
        return OMPI_SUCCESS;
    }
    if (side->layout != MCA_COLL_MRAIL_LAYOUT_BLOCKS) {
        kept->counts = copy_numbers(side->counts, side->num_peers);
        kept->disps = copy_numbers(side->disps, side->num_peers);
        if (kept->counts == NULL || kept->disps == NULL) {
            return MPI_ERR_NO_MEM;
        }
        side->counts = kept->counts;
        side->disps = kept->disps;
    }
    if (side->layout == MCA_COLL_MRAIL_LAYOUT_W) {
        return keep_types(side, kept);
    }
    kept->type = side->type;
    OBJ_RETAIN(kept->type);
    return OMPI_SUCCESS;
}

static void kept_cleanup(kept_t *kept)
{
    if (kept->type != NULL) {
        OBJ_RELEASE(kept->type);
    }
    for (int i = 0; i < kept->num_types; ++i) {
        OBJ_RELEASE(kept->types[i]);
    }
    free(kept->counts);
    free(kept->disps);
    free(kept->types);
}

static void persistent_construct(mca_coll_mrail_persistent_t *persistent)
{
    size_t skip = sizeof(persistent->super);

    memset((char *)persistent + skip, 0, sizeof(*persistent) - skip);
}

OBJ_CLASS_DECLARATION(mca_coll_mrail_persistent_t);
OBJ_CLASS_INSTANCE(mca_coll_mrail_persistent_t, ompi_coll_base_nbc_request_t,
                   persistent_construct, NULL);

/* Returns 1 if a buffer of this rank is in device memory, or cannot be used at
 * all, which the start then reports. */
static int has_device_memory(const mca_coll_mrail_args_t *args)
{
    mca_coll_mrail_shadows_t shadows;
    int ret, is_device;

    if (mrail_cuda_find() == NULL) {
        return 0;
    }
    ret = mca_coll_mrail_shadows_init(&shadows, args);
    is_device = mca_coll_mrail_shadows_are_needed(&shadows);
    mca_coll_mrail_shadows_cleanup(&shadows);
    return is_device || ret != OMPI_SUCCESS;
}

/* Sets *is_planned_p to 1 if this component performs the calls. For this, starts
 * must be in order, and a rank must have a block that is worth a plan, or device
 * memory. The previous module may not move device memory. Returns OMPI_SUCCESS
 * or an error. The result is equal on all ranks. */
static int decide(mca_coll_mrail_module_t *module,
                  const mca_coll_mrail_args_t *args, int *is_planned_p)
{
    int is_left, all_left = 1, ret;

    *is_planned_p = 0;
    if (module->agreed_away != NULL ||
        !mca_coll_mrail_comm_info(module->comm, "mrail_ordered_starts", 0)) {
        return OMPI_SUCCESS;
    }
    is_left = !has_device_memory(args) &&
              !mca_coll_mrail_args_is_large(args, ompi_comm_rank(module->comm),
                                            module->relay_threshold);
    ret = mca_coll_mrail_check_all(module, is_left, &all_left);
    *is_planned_p = ret == OMPI_SUCCESS && !all_left;
    return ret;
}

/* ---- requests ---- */

/* After an error, the other ranks wait for this rank. MPI_Start of Open MPI 4.1
 * and MPI_Startall do not call the error handler of the communicator, so this
 * function does. If the handler returns, the request is complete, and its status
 * has the error. */
static int start_one(mca_coll_mrail_persistent_t *persistent)
{
    struct ompi_communicator_t *comm = persistent->module->comm;
    mca_coll_mrail_args_t args = persistent->args;
    ompi_request_t *request = &persistent->super.super;
    int ret;

    request->req_complete = REQUEST_PENDING;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    ret = mca_coll_mrail_call_started(persistent->module, &args, request);
    if (ret != OMPI_SUCCESS) {
        request->req_status.MPI_ERROR = ret;
        request->req_complete = REQUEST_COMPLETED;
        (void)ompi_errhandler_invoke(comm->error_handler, comm,
                                     comm->errhandler_type, ret, "MPI_Start");
    }
    return ret;
}

static int persistent_start(size_t count, ompi_request_t **requests)
{
    int ret = OMPI_SUCCESS;

    for (size_t i = 0; i < count; ++i) {
        int error = start_one((mca_coll_mrail_persistent_t *)requests[i]);

        ret = (ret == OMPI_SUCCESS) ? error : ret;
    }
    return ret;
}

static int persistent_free(ompi_request_t **request)
{
    mca_coll_mrail_persistent_t *persistent =
        (mca_coll_mrail_persistent_t *)*request;
    struct ompi_communicator_t *comm = persistent->module->comm;

    if (!REQUEST_COMPLETE(*request)) {
        return MPI_ERR_REQUEST;
    }
    OMPI_REQUEST_FINI(*request);
    *request = MPI_REQUEST_NULL;
    kept_cleanup(&persistent->send);
    kept_cleanup(&persistent->recv);
    OBJ_RELEASE(persistent);
    OBJ_RELEASE(comm); /* this may also free the module */
    return OMPI_SUCCESS;
}

static int persistent_cancel(ompi_request_t *request, int complete)
{
    return MPI_ERR_REQUEST; /* as the MPI standard requires for collectives */
}

static void request_init(ompi_request_t *request,
                         struct ompi_communicator_t *comm)
{
    OMPI_REQUEST_INIT(request, true);
    request->req_type = OMPI_REQUEST_COLL;
    request->req_start = persistent_start;
    request->req_free = persistent_free;
    request->req_cancel = persistent_cancel;
    request->req_mpi_object.comm = comm;
    request->req_status.MPI_SOURCE = MPI_ANY_SOURCE;
    request->req_status.MPI_TAG = MPI_ANY_TAG;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    request->req_status._ucount = 0;
    request->req_status._cancelled = 0;
    OBJ_RETAIN(comm);
}

int mca_coll_mrail_persistent_create(mca_coll_mrail_module_t *module,
                                     mca_coll_mrail_args_t *args,
                                     ompi_request_t **request_p)
{
    mca_coll_mrail_persistent_t *persistent;
    int ret, is_planned;

    args->send.num_peers = args->recv.num_peers = ompi_comm_size(module->comm);
    ret = decide(module, args, &is_planned);
    if (ret != OMPI_SUCCESS || !is_planned) {
        return (ret == OMPI_SUCCESS) ? MCA_COLL_MRAIL_PASS : ret;
    }
    persistent = OBJ_NEW(mca_coll_mrail_persistent_t);
    if (persistent == NULL) {
        return MPI_ERR_NO_MEM;
    }
    persistent->module = module;
    persistent->args = *args;
    ret = keep_side(&persistent->args.send, &persistent->send);
    if (ret == OMPI_SUCCESS) {
        ret = keep_side(&persistent->args.recv, &persistent->recv);
    }
    request_init(&persistent->super.super, module->comm);
    *request_p = &persistent->super.super;
    if (ret != OMPI_SUCCESS) {
        (void)persistent_free(request_p);
    }
    return ret;
}
