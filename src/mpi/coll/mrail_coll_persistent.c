/*
 * Persistent forms of the exchanges. Each start of a persistent request is one
 * nonblocking call.
 *
 * The ranks plan calls in the order in which they start. MPI allows them to
 * start persistent collectives in different orders, unless the communicator
 * asserts otherwise (MPI 4.1, 7.4.4). Without this assertion, persistent calls
 * therefore go to the previous module.
 */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "ompi/constants.h"

#include <mpi.h>

typedef struct mca_coll_mrail_persistent {
    ompi_request_t super;
    mca_coll_mrail_module_t *module;
    mca_coll_mrail_args_t args; /* MPI keeps its arrays until the free */
} mca_coll_mrail_persistent_t;

OBJ_CLASS_DECLARATION(mca_coll_mrail_persistent_t);
OBJ_CLASS_INSTANCE(mca_coll_mrail_persistent_t, ompi_request_t, NULL, NULL);

int mca_coll_mrail_plans_persistent(const mca_coll_mrail_module_t *module)
{
    return module->agreed_away == NULL &&
           mca_coll_mrail_comm_info(
               module->comm, "mpi_assert_strict_persistent_collective_ordering",
               0);
}

/* ---- requests ---- */

static int start_one(mca_coll_mrail_persistent_t *persistent)
{
    mca_coll_mrail_args_t args = persistent->args;
    ompi_request_t *request = &persistent->super;
    int ret;

    request->req_complete = REQUEST_PENDING;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    ret = mca_coll_mrail_call_started(persistent->module, &args, request);
    if (ret != OMPI_SUCCESS) {
        request->req_complete = REQUEST_COMPLETED;
        request->req_state = OMPI_REQUEST_INACTIVE;
    }
    return ret;
}

static int persistent_start(size_t count, ompi_request_t **requests)
{
    int ret = OMPI_SUCCESS;

    for (size_t i = 0; i < count && ret == OMPI_SUCCESS; ++i) {
        ret = start_one((mca_coll_mrail_persistent_t *)requests[i]);
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
    OBJ_RELEASE(persistent);
    OBJ_RELEASE(comm); /* this may also free the module */
    return OMPI_SUCCESS;
}

static int persistent_cancel(ompi_request_t *request, int complete)
{
    return MPI_ERR_REQUEST; /* as the MPI standard requires for collectives */
}

int mca_coll_mrail_persistent_create(mca_coll_mrail_module_t *module,
                                     const mca_coll_mrail_args_t *args,
                                     ompi_request_t **request_p)
{
    mca_coll_mrail_persistent_t *persistent =
        OBJ_NEW(mca_coll_mrail_persistent_t);
    ompi_request_t *request;

    if (persistent == NULL) {
        return MPI_ERR_NO_MEM;
    }
    persistent->module = module;
    persistent->args = *args;
    request = &persistent->super;
    OMPI_REQUEST_INIT(request, true);
    request->req_type = OMPI_REQUEST_COLL;
    request->req_start = persistent_start;
    request->req_free = persistent_free;
    request->req_cancel = persistent_cancel;
    request->req_mpi_object.comm = module->comm;
    request->req_status.MPI_SOURCE = MPI_ANY_SOURCE;
    request->req_status.MPI_TAG = MPI_ANY_TAG;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    request->req_status._ucount = 0;
    request->req_status._cancelled = 0;
    OBJ_RETAIN(module->comm);
    *request_p = request;
    return OMPI_SUCCESS;
}
