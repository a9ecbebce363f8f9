#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "base/clock.h"
#include "base/util.h"

#include "ompi/constants.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/pml/pml.h"
#include "opal/runtime/opal_progress.h"

#include <errno.h>

/* Messages of one pair and tag arrive in order, and every call ends with as many
 * received as were sent: so the tags of the collectives that this serves will do. */
#define TAG_STRAIGHT MCA_COLL_BASE_TAG_ALLTOALLV
#define TAG_CHUNK MCA_COLL_BASE_TAG_ALLTOALLW

int mca_coll_mrail_error(int ret)
{
    switch (-ret) {
    case 0:
        return OMPI_SUCCESS;
    case ENOMEM:
        return OMPI_ERR_OUT_OF_RESOURCE;
    case EMSGSIZE:
        return MPI_ERR_TRUNCATE;
    default:
        return OMPI_ERROR;
    }
}

/* ---- what relays do -------------------------------------------------------- */

static int relay_fill(void *arg, uint32_t to, uint64_t offset, void *slot,
                      size_t length)
{
    const mca_coll_mrail_port_t *port = arg;

    return mca_coll_mrail_part_pack(&port->module->sends[to], offset, slot,
                                    length);
}

static int relay_drain(void *arg, uint32_t from, uint64_t offset,
                       const void *slot, size_t length)
{
    const mca_coll_mrail_port_t *port = arg;

    return mca_coll_mrail_part_unpack(&port->module->recvs[from], offset, slot,
                                      length);
}

static int relay_send(void *arg, uint32_t to, const void *buffer,
                      size_t length, void **request_p)
{
    const mca_coll_mrail_port_t *port = arg;
    int ret = MCA_PML_CALL(isend(buffer, length, MPI_BYTE, (int)to, TAG_CHUNK,
                                 MCA_PML_BASE_SEND_STANDARD, port->comm,
                                 (ompi_request_t **)request_p));

    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

static int relay_recv(void *arg, uint32_t from, void *buffer, size_t length,
                      void **request_p)
{
    const mca_coll_mrail_port_t *port = arg;
    int ret = MCA_PML_CALL(irecv(buffer, length, MPI_BYTE, (int)from, TAG_CHUNK,
                                 port->comm, (ompi_request_t **)request_p));

    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

/* 1: the request has ended and is gone; *error_p: MPI's error code of it. */
static int take_request(ompi_request_t *request, size_t *length_p,
                        int *error_p)
{
    if (!REQUEST_COMPLETE(request)) {
        return 0;
    }
    *error_p = request->req_status.MPI_ERROR;
    *length_p = request->req_status._ucount;
    ompi_request_free(&request);
    return 1;
}

static int relay_test(void *arg, void *request, size_t *length_p)
{
    int error = MPI_SUCCESS;

    if (!take_request(request, length_p, &error)) {
        return 0;
    }
    return (error == MPI_SUCCESS) ? 1 : -EIO;
}

const mrail_relay_ops_t mca_coll_mrail_relay_ops = {
    .fill = relay_fill,
    .drain = relay_drain,
    .send = relay_send,
    .recv = relay_recv,
    .test = relay_test,
};

/* ---- straight slices -------------------------------------------------------- */

static int post_recv(const mca_coll_mrail_port_t *port,
                     const mca_coll_mrail_slice_t *slice,
                     ompi_request_t **request_p)
{
    const mca_coll_mrail_part_t *part = &port->module->recvs[slice->peer];
    uint64_t offset = MRAIL_MIN(slice->offset, part->bytes);
    uint64_t bytes = MRAIL_MIN(slice->bytes, part->bytes - offset);

    if (slice->is_whole) {
        return MCA_PML_CALL(irecv(part->buffer, part->count, part->type,
                                  (int)slice->peer, TAG_STRAIGHT, port->comm,
                                  request_p));
    }
    return MCA_PML_CALL(irecv(part->first + offset, bytes, MPI_BYTE,
                              (int)slice->peer, TAG_STRAIGHT, port->comm,
                              request_p));
}

static int post_send(const mca_coll_mrail_port_t *port,
                     const mca_coll_mrail_slice_t *slice,
                     ompi_request_t **request_p)
{
    const mca_coll_mrail_part_t *part = &port->module->sends[slice->peer];

    if (slice->is_whole) {
        return MCA_PML_CALL(isend(part->buffer, part->count, part->type,
                                  (int)slice->peer, TAG_STRAIGHT,
                                  MCA_PML_BASE_SEND_STANDARD, port->comm,
                                  request_p));
    }
    return MCA_PML_CALL(isend(part->first + slice->offset, slice->bytes,
                              MPI_BYTE, (int)slice->peer, TAG_STRAIGHT,
                              MCA_PML_BASE_SEND_STANDARD, port->comm,
                              request_p));
}

/* Sends begin with the rank after this one, so that not all begin with rank 0. */
static int post(const mca_coll_mrail_port_t *port, unsigned *count_p)
{
    const mca_coll_mrail_slices_t *slices = port->module->slices;
    ompi_request_t **requests = port->module->requests;
    size_t first = 0;
    int ret = OMPI_SUCCESS;

    *count_p = 0;
    for (size_t i = 0; i < slices->num_recvs && ret == OMPI_SUCCESS; ++i) {
        ret = post_recv(port, &slices->recvs[i], &requests[*count_p]);
        *count_p += ret == OMPI_SUCCESS;
    }
    while (first < slices->num_sends &&
           slices->sends[first].peer < slices->world->self) {
        ++first;
    }
    for (size_t i = 0; i < slices->num_sends && ret == OMPI_SUCCESS; ++i) {
        ret = post_send(port,
                        &slices->sends[(first + i) % slices->num_sends],
                        &requests[*count_p]);
        *count_p += ret == OMPI_SUCCESS;
    }
    return ret;
}

/* ---- all of it --------------------------------------------------------------- */

/* Requests that have ended leave the list. */
static int take_requests(ompi_request_t **requests, unsigned *count_p)
{
    int ret = OMPI_SUCCESS;

    for (unsigned i = 0; i < *count_p;) {
        size_t length;
        int error = MPI_SUCCESS;

        if (take_request(requests[i], &length, &error)) {
            requests[i] = requests[--*count_p];
            ret = (error != MPI_SUCCESS) ? error : ret;
        } else {
            ++i;
        }
    }
    return ret;
}

static int copy_self(const mca_coll_mrail_module_t *module)
{
    const mca_coll_mrail_part_t *from = &module->sends[module->world->self];
    const mca_coll_mrail_part_t *to = &module->recvs[module->world->self];

    if (from->bytes == 0 || from->buffer == to->buffer) {
        return OMPI_SUCCESS;
    }
    return ompi_datatype_sndrcv(from->buffer, (int32_t)from->count, from->type,
                                to->buffer, (int32_t)to->count, to->type);
}

/* Somebody sends more than this rank has said that it takes. */
static int check_counts(const mca_coll_mrail_module_t *module)
{
    for (uint32_t i = 0; i < module->world->num_ranks; ++i) {
        if (mca_coll_mrail_slices_bytes(module->slices, i,
                                        module->world->self) >
            module->recvs[i].bytes) {
            return MPI_ERR_TRUNCATE;
        }
    }
    return OMPI_SUCCESS;
}

/* The first error is told; what goes on without it does, for other ranks wait for
 * this one's part. */
static int finish(mca_coll_mrail_module_t *module, unsigned count)
{
    int relaying = 0, ret = OMPI_SUCCESS, error;

    while (relaying >= 0 || count > 0) {
        if (relaying >= 0) {
            relaying = mrail_relay_progress(module->relay);
            if (relaying < 0) {
                ret = mca_coll_mrail_error(relaying);
            } else if (mrail_relay_done(module->relay)) {
                relaying = -1;
            }
        }
        error = take_requests(module->requests, &count);
        ret = (ret == OMPI_SUCCESS) ? error : ret;
        if (relaying >= 0 || count > 0) {
            opal_progress();
        }
    }
    return ret;
}

int mca_coll_mrail_exchange(mca_coll_mrail_module_t *module,
                            struct ompi_communicator_t *comm)
{
    const mca_coll_mrail_slices_t *slices = module->slices;
    mrail_ns_t from_ns = mrail_clock_now();
    uint64_t bytes = 0;
    unsigned count;
    int ret, error;

    for (uint32_t i = 0; i < module->world->num_ranks; ++i) {
        bytes += (i != module->world->self) ? module->sends[i].bytes : 0;
    }
    ret = post(module->port, &count);
    error = copy_self(module);
    ret = (ret == OMPI_SUCCESS) ? error : ret;
    error = finish(module, count);
    ret = (ret == OMPI_SUCCESS) ? error : ret;
    if (ret == OMPI_SUCCESS) {
        ret = check_counts(module);
    }
    MCA_COLL_MRAIL_COUNT(planned_calls, 1);
    MCA_COLL_MRAIL_COUNT(planned_bytes, bytes);
    MCA_COLL_MRAIL_COUNT(relayed_bytes, slices->relayed);
    MCA_COLL_MRAIL_COUNT(exchange_ns, mrail_clock_now() - from_ns);
    return ret;
}
