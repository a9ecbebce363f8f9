#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/direct.h"
#include "mpi/coll/request.h"
#include "mpi/coll/staged.h"

#include "base/util.h"

#include "ompi/mca/pml/pml.h"

#include <mpi.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- network operations of relays ---- */

/* Returns the op in progress. */
static mca_coll_mrail_op_t *op_of(void *arg)
{
    return ((mca_coll_mrail_module_t *)arg)->relaying;
}

/* Returns 1 if the segment can be copied directly to or from the relay buffers.
 * It must have no gaps, and if it is in device memory, the relay buffers must
 * be on GPUs. Any other segment is packed or unpacked, which for device memory
 * waits for the copy engine. */
static int is_direct(const mca_coll_mrail_dt_segment_t *segment,
                     const mrail_relay_memory_t *memory)
{
    return segment->first != NULL &&
           (!segment->is_device || memory->ops != &mrail_relay_host_memory_ops);
}

static int relay_fill(void *arg, uint32_t to, uint64_t offset, void *slot,
                      size_t length, void **copy_p)
{
    mca_coll_mrail_op_t *op = op_of(arg);
    const mca_coll_mrail_dt_segment_t *segment = &op->sends[to];
    mrail_relay_memory_t *memory = mca_coll_mrail_pool(op->module)->memory;

    return is_direct(segment, memory)
               ? memory->ops->copy_start(memory, slot, segment->first + offset,
                                         length, copy_p)
               : mca_coll_mrail_dt_segment_pack(segment, &op->cursors, offset,
                                                slot, length);
}

static int relay_drain(void *arg, uint32_t from, uint64_t offset,
                       const void *slot, size_t length, void **copy_p)
{
    mca_coll_mrail_op_t *op = op_of(arg);
    const mca_coll_mrail_dt_segment_t *segment = &op->recvs[from];
    mrail_relay_memory_t *memory = mca_coll_mrail_pool(op->module)->memory;

    /* Bytes beyond the segment are dropped, as when unpacking. */
    return (is_direct(segment, memory) && offset < segment->bytes)
               ? memory->ops->copy_start(
                     memory, segment->first + offset, slot,
                     MRAIL_MIN(length, segment->bytes - offset), copy_p)
               : mca_coll_mrail_dt_segment_unpack(segment, &op->cursors, offset,
                                                  slot, length);
}

static int relay_send(void *arg, uint32_t to, const void *buffer, size_t length,
                      void **request_p)
{
    mca_coll_mrail_op_t *op = op_of(arg);
    ompi_request_t *request;
    int ret = MCA_PML_CALL(isend(
        buffer, length, MPI_BYTE, (int)to, mca_coll_mrail_op_tag_chunk(op),
        MCA_PML_BASE_SEND_STANDARD, op->module->comm, &request));

    *request_p = request;
    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

static int relay_recv(void *arg, uint32_t from, void *buffer, size_t length,
                      void **request_p)
{
    mca_coll_mrail_op_t *op = op_of(arg);
    ompi_request_t *request;
    int ret = MCA_PML_CALL(irecv(buffer, length, MPI_BYTE, (int)from,
                                 mca_coll_mrail_op_tag_chunk(op),
                                 op->module->comm, &request));

    *request_p = request;
    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

static int relay_test(void *arg, void *request, size_t *length_p)
{
    int error = MPI_SUCCESS;

    if (!mca_coll_mrail_request_take(request, length_p, &error)) {
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

/* ---- the same with READs ---- */

static mca_coll_mrail_net_t *net_of(void *arg)
{
    return mca_coll_mrail_pool(arg)->net;
}

static int read_send(void *arg, uint32_t to, const void *buffer, size_t length,
                     void **request_p)
{
    return mca_coll_mrail_net_send(net_of(arg), to, buffer, length, request_p);
}

static int read_recv(void *arg, uint32_t from, void *buffer, size_t length,
                     void **request_p)
{
    return mca_coll_mrail_net_recv(net_of(arg), from, buffer, length,
                                   request_p);
}

static int read_test(void *arg, void *request, size_t *length_p)
{
    return mca_coll_mrail_net_test(request, length_p);
}

const mrail_relay_ops_t mca_coll_mrail_read_relay_ops = {
    .fill = relay_fill,
    .drain = relay_drain,
    .send = read_send,
    .recv = read_recv,
    .test = read_test,
};

/* ---- direct path ---- */

void mca_coll_mrail_post_recv(mca_coll_mrail_op_t *op,
                              const mca_coll_mrail_schedule_entry_t *entry)
{
    const mca_coll_mrail_dt_segment_t *segment = &op->recvs[entry->peer];
    ompi_request_t **request_p = &op->requests[op->num_requests];
    uint64_t offset = MRAIL_MIN(entry->offset, segment->bytes);
    uint64_t bytes = MRAIL_MIN(entry->bytes, segment->bytes - offset);
    int tag = mca_coll_mrail_op_tag_direct(op), ret;

    if (mca_coll_mrail_is_staged(segment, entry)) {
        mca_coll_mrail_staged_recv(op, entry);
        return;
    }
    ret = entry->is_whole
              ? MCA_PML_CALL(irecv(segment->buffer, segment->count,
                                   segment->type, (int)entry->peer, tag,
                                   op->module->comm, request_p))
              : MCA_PML_CALL(irecv(segment->first + offset, bytes, MPI_BYTE,
                                   (int)entry->peer, tag, op->module->comm,
                                   request_p));
    op->num_requests += ret == OMPI_SUCCESS;
    op->ret = (op->ret == OMPI_SUCCESS) ? ret : op->ret;
}

void mca_coll_mrail_post_send(mca_coll_mrail_op_t *op,
                              const mca_coll_mrail_schedule_entry_t *entry)
{
    const mca_coll_mrail_dt_segment_t *segment = &op->sends[entry->peer];
    ompi_request_t **request_p = &op->requests[op->num_requests];
    int tag = mca_coll_mrail_op_tag_direct(op), ret;

    if (mca_coll_mrail_is_staged(segment, entry)) {
        mca_coll_mrail_staged_send(op, entry);
        return;
    }
    ret = entry->is_whole
              ? MCA_PML_CALL(isend(segment->buffer, segment->count,
                                   segment->type, (int)entry->peer, tag,
                                   MCA_PML_BASE_SEND_STANDARD, op->module->comm,
                                   request_p))
              : MCA_PML_CALL(isend(segment->first + entry->offset, entry->bytes,
                                   MPI_BYTE, (int)entry->peer, tag,
                                   MCA_PML_BASE_SEND_STANDARD, op->module->comm,
                                   request_p));
    op->num_requests += ret == OMPI_SUCCESS;
    op->ret = (op->ret == OMPI_SUCCESS) ? ret : op->ret;
}

/* Returns 1 if the records list the demand that this rank sends to a peer, or
 * receives from it, so that the schedule covers the demand. */
static int is_announced(const mca_coll_mrail_op_t *op, unsigned peer,
                        unsigned bit)
{
    return op->is_planned && (op->module->schedule->announced[peer] & bit) != 0;
}

/* Posts whole messages for all demands that are not in the schedule. If all
 * counts match, both ends omit empty messages. */
static void post_rest(mca_coll_mrail_op_t *op, unsigned peer, unsigned bit)
{
    const mca_coll_mrail_dt_segment_t *segments =
        (bit == MCA_COLL_MRAIL_ANNOUNCED_IN) ? op->recvs : op->sends;
    mca_coll_mrail_schedule_entry_t entry = {
        .peer = peer, .is_whole = 1, .bytes = segments[peer].bytes};

    if (!is_announced(op, peer, bit) &&
        (entry.bytes > 0 || op->is_mismatched)) {
        (bit == MCA_COLL_MRAIL_ANNOUNCED_IN
             ? mca_coll_mrail_post_recv
             : mca_coll_mrail_post_send)(op, &entry);
    }
}

static void post_recvs(mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_schedule_t *schedule = op->module->schedule;
    unsigned ranks = (unsigned)ompi_comm_size(op->module->comm);
    unsigned self = (unsigned)ompi_comm_rank(op->module->comm);

    for (size_t i = 0; op->is_planned && i < schedule->num_recvs; ++i) {
        const mca_coll_mrail_schedule_entry_t *entry = &schedule->recvs[i];

        (entry->is_read ? mca_coll_mrail_direct_recv
                        : mca_coll_mrail_post_recv)(op, entry);
    }
    for (unsigned i = 1; i < ranks; ++i) {
        post_rest(op, (self + ranks - i) % ranks, MCA_COLL_MRAIL_ANNOUNCED_IN);
    }
}

/* Each rank starts with the next higher rank, so the first receivers of all
 * ranks differ. */
static void post_sends(mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_schedule_t *schedule = op->module->schedule;
    unsigned ranks = (unsigned)ompi_comm_size(op->module->comm);
    unsigned self = (unsigned)ompi_comm_rank(op->module->comm);
    size_t count = op->is_planned ? schedule->num_sends : 0, next = 0;

    while (next < count && schedule->sends[next].peer < self) {
        ++next;
    }
    for (unsigned i = 1; i < ranks; ++i) {
        unsigned peer = (self + i) % ranks;

        next = (next < count) ? next : 0;
        if (count > 0 && schedule->sends[next].peer == peer) {
            const mca_coll_mrail_schedule_entry_t *entry =
                &schedule->sends[next++];

            (entry->is_read ? mca_coll_mrail_direct_send
                            : mca_coll_mrail_post_send)(op, entry);
        } else {
            post_rest(op, peer, MCA_COLL_MRAIL_ANNOUNCED_OUT);
        }
    }
}

/* ---- the whole exchange ---- */

static int copy_self(mca_coll_mrail_op_t *op)
{
    unsigned self = (unsigned)ompi_comm_rank(op->module->comm);

    return mca_coll_mrail_copy_code(
        mca_coll_mrail_dt_segment_copy(&op->sends[self], &op->recvs[self]));
}

/* Checks that no rank sends more than this rank expects to receive. Small
 * demands are whole messages, whose length the pml checks. */
static int check_counts(const mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_schedule_t *schedule = op->module->schedule;
    uint32_t self = schedule->topology->self;

    for (uint32_t i = 0; i < schedule->topology->num_ranks; ++i) {
        if (is_announced(op, i, MCA_COLL_MRAIL_ANNOUNCED_IN) &&
            mca_coll_mrail_schedule_bytes(schedule, i, self) >
                op->recvs[i].bytes) {
            return MPI_ERR_TRUNCATE;
        }
    }
    return OMPI_SUCCESS;
}

/* Aborts the job, because other ranks would wait indefinitely for bytes that
 * this rank should relay. */
static void end_job(const mca_coll_mrail_op_t *op, int ret)
{
    struct ompi_communicator_t *comm = op->module->comm;

    fprintf(stderr,
            "mrail: coll: %s: a planned exchange has failed on rank %d (%s); "
            "aborting the job\n",
            comm->c_name, ompi_comm_rank(comm), strerror(-ret));
    PMPI_Abort(comm, 1);
}

static void begin_relays(mca_coll_mrail_op_t *op)
{
    const mca_coll_mrail_schedule_t *schedule = op->module->schedule;
    mca_coll_mrail_pool_t *pool = mca_coll_mrail_pool(op->module);
    /* Not expected to fail: attach() or an earlier step reserved the
     * buffers. */
    int ret = mrail_relay_begin(pool->relay, schedule->hash, schedule->flows,
                                schedule->num_flows);

    if (ret < 0) {
        end_job(op, ret);
    }
    if (pool->net != NULL) {
        mca_coll_mrail_net_begin(pool->net, schedule);
    }
    op->is_relaying = 1;
}

void mca_coll_mrail_exchange_start(mca_coll_mrail_op_t *op)
{
    int ret;

    op->num_requests = 0;
    /* The plan may have been made in an earlier call. */
    if (op->is_planned &&
        mca_coll_mrail_schedule_has_chunks(op->module->schedule) &&
        mca_coll_mrail_staged_reserve(op) < 0) {
        end_job(op, -ENOMEM);
    }
    if (op->is_planned && op->module->schedule->num_flows > 0) {
        begin_relays(op);
    }
    mca_coll_mrail_agreed(op);
    post_recvs(op);
    post_sends(op);
    ret = copy_self(op);
    op->ret = (op->ret == OMPI_SUCCESS) ? ret : op->ret;
}

static void count_planned(const mca_coll_mrail_op_t *op)
{
    MCA_COLL_MRAIL_COUNT(planned_calls, 1);
    MCA_COLL_MRAIL_COUNT(planned_bytes, mca_coll_mrail_bytes_for_others(op));
    MCA_COLL_MRAIL_COUNT(relayed_bytes, op->module->schedule->relayed);
    MCA_COLL_MRAIL_COUNT(exchange_ns, mrail_clock_now() - op->from_ns);
}

static void progress_relays(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_pool_t *pool = mca_coll_mrail_pool(op->module);
    int ret;

    if (pool->net != NULL) {
        mca_coll_mrail_net_progress(pool->net);
    }
    ret = mrail_relay_progress(pool->relay);
    if (ret < 0) {
        end_job(op, ret);
    }
    op->is_relaying = !mrail_relay_done(pool->relay);
    if (pool->net != NULL && !op->is_relaying) {
        mca_coll_mrail_net_end(pool->net);
    }
}

/* After an error the exchange continues, because other ranks wait for the
 * messages of this rank. The first error is the result. */
int mca_coll_mrail_exchange_progress(mca_coll_mrail_op_t *op)
{
    int is_reading = op->is_planned && mca_coll_mrail_direct_progress(op);
    int is_staging = mca_coll_mrail_staged_progress(op);
    int ret;

    if (op->is_relaying) {
        progress_relays(op);
    }
    ret = mca_coll_mrail_requests_take(op->requests, &op->num_requests);
    op->ret = (op->ret == OMPI_SUCCESS) ? ret : op->ret;
    if (is_reading || is_staging || op->is_relaying || op->num_requests > 0) {
        return 0;
    }
    if (op->is_planned) {
        op->ret = (op->ret == OMPI_SUCCESS) ? check_counts(op) : op->ret;
        count_planned(op);
    }
    return 1;
}
