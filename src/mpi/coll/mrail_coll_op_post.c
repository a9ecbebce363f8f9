/* Creates the ops: memory, MPI request, tags, and segments of the buffers. */
#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/staged.h"

#include "ompi/constants.h"

#include <stdlib.h>
#include <string.h>

#define NUM_TAG_SETS 64

/* ---- life cycle ---- */

static void op_construct(mca_coll_mrail_op_t *op)
{
    size_t skip = sizeof(op->request);

    memset((char *)op + skip, 0, sizeof(*op) - skip);
}

static void op_destruct(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_dt_cursors_cleanup(&op->cursors);
    free(op->sends);
    free(op->recvs);
    free(op->copy);
    free(op->requests);
    mca_coll_mrail_staged_destroy(op->staged);
    if (!op->is_blocking) {
        mca_coll_mrail_shadows_free(op->shadows);
    }
}

OBJ_CLASS_INSTANCE(mca_coll_mrail_op_t, ompi_coll_base_nbc_request_t,
                   op_construct, op_destruct);

static int request_free(ompi_request_t **request)
{
    mca_coll_mrail_op_t *op = (mca_coll_mrail_op_t *)*request;
    struct ompi_communicator_t *comm = op->module->comm;

    if (!REQUEST_COMPLETE(*request)) {
        return MPI_ERR_REQUEST;
    }
    OMPI_REQUEST_FINI(*request);
    *request = MPI_REQUEST_NULL;
    OBJ_RELEASE(op);
    OBJ_RELEASE(comm); /* this may also free the module */
    return OMPI_SUCCESS;
}

static int request_cancel(ompi_request_t *request, int complete)
{
    return MPI_ERR_REQUEST; /* as the MPI standard requires for collectives */
}

static void request_init(mca_coll_mrail_op_t *op)
{
    ompi_request_t *request = &op->request.super;

    OMPI_REQUEST_INIT(request, false);
    request->req_type = OMPI_REQUEST_COLL;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_free = request_free;
    request->req_cancel = request_cancel;
    request->req_mpi_object.comm = op->module->comm;
    request->req_status.MPI_SOURCE = MPI_ANY_SOURCE;
    request->req_status.MPI_TAG = MPI_ANY_TAG;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    request->req_status._ucount = 0;
    request->req_status._cancelled = 0;
    OBJ_RETAIN(op->module->comm);
}

static mca_coll_mrail_op_t *op_create(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_op_t *op = OBJ_NEW(mca_coll_mrail_op_t);
    size_t ranks = (size_t)ompi_comm_size(module->comm);

    if (op == NULL) {
        return NULL;
    }
    op->module = module;
    op->sends = calloc(ranks, sizeof(*op->sends));
    op->recvs = calloc(ranks, sizeof(*op->recvs));
    op->requests = calloc(2 * ranks, sizeof(*op->requests));
    if (op->sends == NULL || op->recvs == NULL || op->requests == NULL) {
        OBJ_RELEASE(op);
        return NULL;
    }
    return op;
}

mca_coll_mrail_op_t *mca_coll_mrail_op_get(mca_coll_mrail_module_t *module,
                                           mca_coll_mrail_func_t func,
                                           int is_blocking)
{
    mca_coll_mrail_op_t *op = NULL;

    if (is_blocking) {
        op = module->spare;
        module->spare = NULL;
    }
    if (op == NULL) {
        op = op_create(module);
    }
    if (op == NULL) {
        return NULL;
    }
    if (mca_coll_mrail_setup_init(module) < 0) {
        OBJ_RELEASE(op);
        return NULL;
    }
    op->func = func;
    op->is_blocking = is_blocking;
    op->is_started = op->is_finished = 0;
    op->is_planned = op->is_relaying = op->is_mismatched = 0;
    op->flags = 0;
    op->shadows = NULL;
    op->persistent = NULL;
    op->ret = OMPI_SUCCESS;
    op->step = MCA_COLL_MRAIL_DONE; /* until the op starts */
    return op;
}

/* Copies the receive buffer. With MPI_IN_PLACE, its contents are sent, so they
 * must be saved before they are overwritten. */
static int copy_in_place(mca_coll_mrail_op_t *op)
{
    unsigned ranks = (unsigned)ompi_comm_size(op->module->comm);
    unsigned self = (unsigned)ompi_comm_rank(op->module->comm);
    uint64_t total = 0, at = 0;
    int ret = 0;

    for (unsigned i = 0; i < ranks; ++i) {
        total += op->recvs[i].bytes;
    }
    op->copy = malloc(total + 1);
    for (unsigned i = 0; i < ranks && op->copy != NULL && ret == 0; ++i) {
        uint64_t bytes = (i != self) ? op->recvs[i].bytes : 0;

        ret = mca_coll_mrail_dt_segment_pack(&op->recvs[i], NULL, 0,
                                             op->copy + at, bytes);
        mca_coll_mrail_dt_segment_init(&op->sends[i], op->copy + at, bytes,
                                       &ompi_mpi_byte.dt);
        at += bytes;
    }
    return (op->copy != NULL && ret == 0) ? OMPI_SUCCESS : MPI_ERR_NO_MEM;
}

static void clear_segments(const mca_coll_mrail_op_t *op,
                           mca_coll_mrail_dt_segment_t *segments)
{
    for (int i = 0; i < ompi_comm_size(op->module->comm); ++i) {
        mca_coll_mrail_dt_segment_init(&segments[i], NULL, 0,
                                       &ompi_mpi_byte.dt);
    }
}

/* Reserves the range of tags at once. Some calls of Open MPI 4.1 reserve a tag on
 * some ranks only, so the ranges of a later reservation could differ. */
void mca_coll_mrail_tags_reserve(mca_coll_mrail_module_t *module)
{
    module->first_tag = ompi_coll_base_nbc_reserve_tags(
        module->comm, MCA_COLL_MRAIL_TAGS * NUM_TAG_SETS);
}

/* Tags are assigned in call order, which is the same on all ranks, from a range
 * that is reserved once per communicator. pml/ucx has 24 bits for tags, and the
 * user's tags are outside the range. Tags may be reused, even during a long
 * exchange, because messages between two ranks match in call order. The range
 * is large, because a call with mismatched counts may leave an unmatched
 * message behind. */
static int next_tag(mca_coll_mrail_module_t *module)
{
    return module->first_tag -
           (int)(MCA_COLL_MRAIL_TAGS * (module->num_ops++ % NUM_TAG_SETS));
}

/* Fills in the segments of one side. `shadow` may be NULL. */
static void fill_side(const mca_coll_mrail_op_t *op,
                      const mca_coll_mrail_args_side_t *side,
                      const mca_coll_mrail_shadow_t *shadow,
                      mca_coll_mrail_dt_segment_t *segments)
{
    int ranks = ompi_comm_size(op->module->comm);
    int is_device = shadow != NULL && shadow->is_device && !shadow->is_filled;

    mca_coll_mrail_args_segments(side, ranks, segments);
    for (int i = 0; i < ranks && is_device; ++i) {
        segments[i].is_device = segments[i].bytes > 0;
    }
}

/* Makes all ranks use the previous module for this call. */
static void pass_on(mca_coll_mrail_op_t *op)
{
    op->flags = MCA_COLL_MRAIL_CANNOT;
    clear_segments(op, op->sends);
    clear_segments(op, op->recvs);
}

/* Fills in the segments of both sides. Returns OMPI_SUCCESS or
 * MPI_ERR_NO_MEM. */
static int fill(mca_coll_mrail_op_t *op, const mca_coll_mrail_args_t *args)
{
    const mca_coll_mrail_shadows_t *shadows = op->shadows;
    int ret;

    if (args->is_refused) {
        pass_on(op);
        return OMPI_SUCCESS;
    }
    fill_side(op, &args->recv, (shadows != NULL) ? &shadows->recv : NULL,
              op->recvs);
    if (args->send.buffer != MPI_IN_PLACE) {
        fill_side(op, &args->send, (shadows != NULL) ? &shadows->send : NULL,
                  op->sends);
        return OMPI_SUCCESS;
    }
    ret = copy_in_place(op);
    if (ret != OMPI_SUCCESS && op->is_blocking) {
        pass_on(op); /* the previous module may need less memory */
        ret = OMPI_SUCCESS;
    }
    return ret;
}

static void append(mca_coll_mrail_op_t *op)
{
    if (!op->is_blocking) {
        request_init(op);
    }
    mca_coll_mrail_op_append(op);
}

int mca_coll_mrail_op_post(mca_coll_mrail_op_t *op,
                           const mca_coll_mrail_args_t *args, int error)
{
    int ret = OMPI_SUCCESS;

    op->tag = next_tag(op->module);
    if (error == OMPI_SUCCESS && op->shadows != NULL &&
        mca_coll_mrail_staged_reserve(op) < 0) {
        error = MPI_ERR_NO_MEM;
    }
    if (error == OMPI_SUCCESS) {
        ret = fill(op, args);
    } else {
        op->flags = MCA_COLL_MRAIL_BROKEN;
        op->error = error;
        clear_segments(op, op->sends);
        clear_segments(op, op->recvs);
    }
    if (ret != OMPI_SUCCESS) {
        OBJ_RELEASE(op);
        return ret;
    }
    append(op);
    return OMPI_SUCCESS;
}

void mca_coll_mrail_op_follow(mca_coll_mrail_op_t *op)
{
    op->is_started = 1;
    op->step = MCA_COLL_MRAIL_FOLLOW;
    append(op);
}
