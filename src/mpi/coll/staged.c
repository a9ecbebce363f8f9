#include "config.h"
#include "mpi/coll/staged.h"

#include "mpi/coll/request.h"

#include "base/util.h"

#include "ompi/mca/pml/pml.h"

#include <mpi.h>

#include <errno.h>
#include <stdlib.h>

/* Maximum number of chunks in progress for each message. */
#define NUM_CHUNKS 4u

typedef enum chunk_state {
    CHUNK_COPYING, /* the copy engine copies it */
    CHUNK_POSTED,  /* its pml message is in progress */
} chunk_state_t;

typedef struct chunk {
    uint64_t offset, bytes; /* within the segment */
    chunk_state_t state;
    mca_coll_mrail_copy_t copy;
    ompi_request_t *request;
} chunk_t;

/* A message. Chunks `first` to `next` - 1 are in progress, in a ring buffer. */
typedef struct message {
    const mca_coll_mrail_dt_segment_t *segment;
    char *host; /* address of the segment's first byte in the shadow */
    int peer, is_send;
    uint64_t offset, bytes, chunk; /* chunk: bytes of each chunk but the last */
    unsigned first, next, num;     /* num: number of chunks */
    chunk_t chunks[NUM_CHUNKS];
} message_t;

struct mca_coll_mrail_staged {
    message_t *messages; /* messages to each rank, then from each rank */
    message_t **active;
    unsigned num_active;
};

int mca_coll_mrail_staged_reserve(mca_coll_mrail_op_t *op)
{
    size_t num = 2 * (size_t)ompi_comm_size(op->module->comm);
    mca_coll_mrail_staged_t *staged;

    if (op->staged != NULL) {
        return 0;
    }
    staged = op->staged = calloc(1, sizeof(*staged));
    if (staged == NULL) {
        return -ENOMEM;
    }
    staged->messages = calloc(num, sizeof(*staged->messages));
    staged->active = calloc(num, sizeof(*staged->active));
    if (staged->messages == NULL || staged->active == NULL) {
        mca_coll_mrail_staged_destroy(staged);
        op->staged = NULL;
        return -ENOMEM;
    }
    return 0;
}

void mca_coll_mrail_staged_destroy(mca_coll_mrail_staged_t *staged)
{
    if (staged != NULL) {
        free(staged->messages);
        free(staged->active);
        free(staged);
    }
}

static void keep_error(mca_coll_mrail_op_t *op, int ret)
{
    op->ret = (op->ret == OMPI_SUCCESS) ? ret : op->ret;
}

/* ---- chunks ---- */

static chunk_t *chunk_of(message_t *message, unsigned i)
{
    return &message->chunks[i % NUM_CHUNKS];
}

/* After a failed copy, the message is still sent, because its receiver waits
 * for it. The call then fails. */
static void start_copy(mca_coll_mrail_op_t *op, const message_t *message,
                       chunk_t *chunk)
{
    char *host = message->host + chunk->offset;
    char *device = message->segment->first + chunk->offset;

    chunk->state = CHUNK_COPYING;
    chunk->copy = (mca_coll_mrail_copy_t){0};
    if (message->segment->is_device && chunk->bytes > 0 &&
        mca_coll_mrail_copy_start(message->is_send ? host : device,
                                  message->is_send ? device : host,
                                  chunk->bytes, &chunk->copy) < 0) {
        keep_error(op, MPI_ERR_BUFFER);
    }
}

static void post(mca_coll_mrail_op_t *op, const message_t *message,
                 chunk_t *chunk)
{
    char *host = message->host + chunk->offset;
    int tag = mca_coll_mrail_op_tag_direct(op), ret;

    chunk->state = CHUNK_POSTED;
    ret = message->is_send
              ? MCA_PML_CALL(isend(host, chunk->bytes, MPI_BYTE, message->peer,
                                   tag, MCA_PML_BASE_SEND_STANDARD,
                                   op->module->comm, &chunk->request))
              : MCA_PML_CALL(irecv(host, chunk->bytes, MPI_BYTE, message->peer,
                                   tag, op->module->comm, &chunk->request));
    if (ret != OMPI_SUCCESS) {
        chunk->request = NULL;
        keep_error(op, ret);
    }
}

/* Starts chunks until the ring buffer is full. */
static void begin_chunks(mca_coll_mrail_op_t *op, message_t *message)
{
    while (message->next < message->num &&
           message->next - message->first < NUM_CHUNKS) {
        chunk_t *chunk = chunk_of(message, message->next);
        /* A receiver may expect fewer bytes than it receives. */
        uint64_t at = MRAIL_MIN(message->next * message->chunk, message->bytes);

        ++message->next;
        chunk->offset = message->offset + at;
        chunk->bytes = MRAIL_MIN(message->chunk, message->bytes - at);
        (message->is_send ? start_copy : post)(op, message, chunk);
    }
}

/* Returns 1 if the copy of a chunk is complete. */
static int take_copy(mca_coll_mrail_op_t *op, chunk_t *chunk)
{
    int ret = mca_coll_mrail_copy_test(&chunk->copy);

    if (ret < 0) {
        keep_error(op, MPI_ERR_BUFFER);
    }
    return ret != 0;
}

/* Returns 1 if the message of a chunk is complete. */
static int take_request(mca_coll_mrail_op_t *op, const message_t *message,
                        chunk_t *chunk)
{
    int error = MPI_SUCCESS;
    size_t length = 0;

    if (chunk->request != NULL) {
        if (!mca_coll_mrail_request_take(chunk->request, &length, &error)) {
            return 0;
        }
        chunk->request = NULL;
        keep_error(op, error);
    }
    if (!message->is_send) {
        chunk->bytes = MRAIL_MIN(chunk->bytes, length);
    }
    return 1;
}

/* Advances a chunk, and returns 1 if it is complete. Sends are posted in the
 * order of the chunks, because receives match in this order. `is_next` is 1 if
 * all chunks before this one are posted. */
static int advance_chunk(mca_coll_mrail_op_t *op, const message_t *message,
                         chunk_t *chunk, int is_next)
{
    if (message->is_send) {
        if (chunk->state == CHUNK_COPYING && is_next && take_copy(op, chunk)) {
            post(op, message, chunk);
        }
        return chunk->state == CHUNK_POSTED && take_request(op, message, chunk);
    }
    if (chunk->state == CHUNK_POSTED && take_request(op, message, chunk)) {
        start_copy(op, message, chunk);
    }
    return chunk->state == CHUNK_COPYING && take_copy(op, chunk);
}

/* Returns 1 if the message is complete. */
static int advance(mca_coll_mrail_op_t *op, message_t *message)
{
    int is_next = 1, is_first_ended = 1;

    for (unsigned i = message->first; i < message->next; ++i) {
        chunk_t *chunk = chunk_of(message, i);
        int is_ended = advance_chunk(op, message, chunk, is_next);

        is_next &= chunk->state == CHUNK_POSTED;
        is_first_ended &= is_ended;
        message->first += (unsigned)is_first_ended;
    }
    begin_chunks(op, message);
    return message->first == message->num;
}

/* ---- messages ---- */

static void start(mca_coll_mrail_op_t *op,
                  const mca_coll_mrail_schedule_entry_t *entry, int is_send)
{
    mca_coll_mrail_staged_t *staged = op->staged;
    unsigned ranks = (unsigned)ompi_comm_size(op->module->comm);
    const mca_coll_mrail_dt_segment_t *segment =
        is_send ? &op->sends[entry->peer] : &op->recvs[entry->peer];
    message_t *message = &staged->messages[entry->peer + (is_send ? 0 : ranks)];
    uint64_t offset = MRAIL_MIN(entry->offset, segment->bytes);

    *message =
        (message_t){.segment = segment,
                    .host = segment->first,
                    .peer = (int)entry->peer,
                    .is_send = is_send,
                    .offset = offset,
                    .bytes = MRAIL_MIN(entry->bytes, segment->bytes - offset)};
    if (segment->is_device) {
        mca_coll_mrail_shadow_t *shadow =
            is_send ? &op->shadows->send : &op->shadows->recv;

        message->host += shadow->shift;
        mca_coll_mrail_block_lock(&shadow->block, shadow->gpu);
    }
    message->chunk = entry->is_chunked ? MCA_COLL_MRAIL_CHUNK : message->bytes;
    message->num =
        entry->is_chunked
            ? (unsigned)MRAIL_DIV_ROUND_UP(entry->bytes, MCA_COLL_MRAIL_CHUNK)
            : 1;
    staged->active[staged->num_active++] = message;
    MCA_COLL_MRAIL_COUNT(staged_bytes, segment->is_device ? message->bytes : 0);
    begin_chunks(op, message);
}

void mca_coll_mrail_staged_send(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry)
{
    start(op, entry, 1);
}

void mca_coll_mrail_staged_recv(mca_coll_mrail_op_t *op,
                                const mca_coll_mrail_schedule_entry_t *entry)
{
    start(op, entry, 0);
}

int mca_coll_mrail_staged_progress(mca_coll_mrail_op_t *op)
{
    mca_coll_mrail_staged_t *staged = op->staged;

    if (staged == NULL) {
        return 0;
    }
    for (unsigned i = 0; i < staged->num_active;) {
        if (advance(op, staged->active[i])) {
            staged->active[i] = staged->active[--staged->num_active];
        } else {
            ++i;
        }
    }
    return staged->num_active > 0;
}
