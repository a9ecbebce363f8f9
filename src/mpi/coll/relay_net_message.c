/* Offers, READs and answers of relay chunks, as a state machine per request. */
#include "config.h"
#include "mpi/coll/relay_net.h"

#include "mpi/coll/direct.h"
#include "mpi/coll/relay_net_internal.h"
#include "mpi/coll/request.h"

#include "ompi/mca/pml/pml.h"

#include <errno.h>

typedef mca_coll_mrail_net_request_t request_t;
typedef mca_coll_mrail_net_offer_t offer_t;

/* ---- messages ---- */

static int post_isend(const request_t *request, const void *data, size_t size,
                      int tag, ompi_request_t **request_p)
{
    int ret = MCA_PML_CALL(isend(data, size, MPI_BYTE, (int)request->peer, tag,
                                 MCA_PML_BASE_SEND_STANDARD,
                                 request->net->module->comm, request_p));

    if (ret != OMPI_SUCCESS) {
        *request_p = NULL;
    }
    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

static int post_irecv(const request_t *request, void *data, size_t size,
                      int tag, ompi_request_t **request_p)
{
    int ret = MCA_PML_CALL(irecv(data, size, MPI_BYTE, (int)request->peer, tag,
                                 request->net->module->comm, request_p));

    if (ret != OMPI_SUCCESS) {
        *request_p = NULL;
    }
    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

/* Returns 1 if the pml request is complete or absent. If the pml reports an
 * error, sets the state to NET_FAILED. */
static int take(request_t *request, ompi_request_t **request_p,
                size_t *length_p)
{
    int error = MPI_SUCCESS;

    if (*request_p == NULL) {
        return 1;
    }
    if (!mca_coll_mrail_request_take(*request_p, length_p, &error)) {
        return 0;
    }
    *request_p = NULL;
    if (error != MPI_SUCCESS) {
        request->state = NET_FAILED;
    }
    return 1;
}

static request_t *net_take(mca_coll_mrail_net_t *net, uint32_t peer,
                           void *buffer, size_t length)
{
    request_t *request;

    if (mrail_list_empty(&net->idle)) {
        return NULL; /* impossible: there is a request for each slot */
    }
    request = mrail_list_head(&net->idle, request_t, node);
    mrail_list_del(&request->node);
    mrail_list_add_tail(&net->active, &request->node);
    request->state = NET_MESSAGE;
    request->peer = peer;
    request->message = request->reply = NULL;
    request->buffer = buffer;
    request->capacity = request->length = length;
    return request;
}

static const mca_coll_mrail_op_t *op_of(const request_t *request)
{
    return request->net->module->relaying;
}

static int send_message(request_t *request, int tag)
{
    return post_isend(request, request->buffer, request->capacity, tag,
                      &request->message);
}

static int recv_message(request_t *request, int tag)
{
    return post_irecv(request, request->buffer, request->capacity, tag,
                      &request->message);
}

static int offer_slot(request_t *request)
{
    uct_mrail_direct_mem_t *mem =
        mca_coll_mrail_net_mem(request->net, request->buffer);
    offer_t *offer = &request->offer;
    int ret;

    request->state = NET_OFFERED;
    request->turn = request->net->peers[request->peer].sends++;
    offer->address = (uintptr_t)request->buffer;
    offer->bytes = request->capacity;
    offer->key_length =
        (mem != NULL) ? mca_coll_mrail_direct_ops()->key_pack(mem, offer->key)
                      : 0;
    ret = post_irecv(request, &request->answer, sizeof(request->answer),
                     mca_coll_mrail_op_tag_chunk_answer(op_of(request)),
                     &request->reply);
    return (ret == 0) ? post_isend(request, offer,
                                   offsetof(offer_t, key) + offer->key_length,
                                   mca_coll_mrail_op_tag_chunk(op_of(request)),
                                   &request->message)
                      : ret;
}

int mca_coll_mrail_net_send(mca_coll_mrail_net_t *net, uint32_t to,
                            const void *buffer, size_t length, void **request_p)
{
    request_t *request = net_take(net, to, (void *)buffer, length);

    if (request == NULL) {
        return -EIO;
    }
    *request_p = request;
    return mca_coll_mrail_net_has(net, buffer)
               ? offer_slot(request)
               : send_message(request,
                              mca_coll_mrail_op_tag_chunk(op_of(request)));
}

int mca_coll_mrail_net_recv(mca_coll_mrail_net_t *net, uint32_t from,
                            void *buffer, size_t length, void **request_p)
{
    request_t *request = net_take(net, from, buffer, length);
    int tag;

    if (request == NULL) {
        return -EIO;
    }
    *request_p = request;
    tag = mca_coll_mrail_op_tag_chunk(op_of(request));
    if (!mca_coll_mrail_net_has(net, buffer)) {
        return recv_message(request, tag);
    }
    request->state = NET_EXPECTED;
    request->turn = net->peers[from].recvs++;
    return post_irecv(request, &request->offer, sizeof(request->offer), tag,
                      &request->message);
}

/* ---- states ---- */

static void advance_message(request_t *request)
{
    if (take(request, &request->message, &request->length) &&
        request->state == NET_MESSAGE) {
        request->state = NET_DONE;
    }
}

/* Handles the answer to an offer. If the function sets NET_FAILED, the exchange
 * aborts the job. */
static void advance_offered(request_t *request)
{
    mca_coll_mrail_net_peer_t *peer = &request->net->peers[request->peer];
    int tag = mca_coll_mrail_op_tag_chunk_message(op_of(request));
    size_t length;

    if (!take(request, &request->message, &length) ||
        !take(request, &request->reply, &length) ||
        request->state != NET_OFFERED || request->turn != peer->sends_ended) {
        return;
    }
    ++peer->sends_ended;
    switch (request->answer) {
    case ANSWER_DONE:
        request->state = NET_DONE;
        break;
    case ANSWER_BY_MESSAGE:
        request->state =
            (send_message(request, tag) == 0) ? NET_MESSAGE : NET_FAILED;
        break;
    default:
        request->state = NET_FAILED;
    }
}

/* Completes the READ. After any failure except the loss of the peer, requests
 * the chunk as a message if it is in host memory. */
static void end_read(request_t *request, int status)
{
    switch (status) {
    case 0:
        request->answer = ANSWER_DONE;
        break;
    case -EIO:
    case -EINVAL:
    case -ENOMEM:
        request->answer =
            request->net->is_device ? ANSWER_FAILED : ANSWER_BY_MESSAGE;
        break;
    default:
        request->state = NET_FAILED;
        return;
    }
    request->state = NET_READ;
}

static int offer_is_valid(const request_t *request, size_t length)
{
    const offer_t *offer = &request->offer;

    return length >= offsetof(offer_t, key) &&
           offer->key_length == length - offsetof(offer_t, key) &&
           offer->bytes > 0 && offer->bytes <= request->capacity;
}

static void advance_expected(request_t *request)
{
    uct_mrail_direct_mem_t *mem;
    size_t length = 0;

    if (!take(request, &request->message, &length) ||
        request->state != NET_EXPECTED) {
        return;
    }
    if (!offer_is_valid(request, length)) {
        request->state = NET_FAILED;
        return;
    }
    mem = mca_coll_mrail_net_mem(request->net, request->buffer);
    if (mem == NULL || request->offer.key_length == 0) {
        end_read(request, -ENOMEM);
        return;
    }
    request->length = (size_t)request->offer.bytes;
    request->get = (uct_mrail_direct_get_t){
        .buffer = request->buffer,
        .length = request->length,
        .mem = mem,
        .remote_address = request->offer.address,
        .key = request->offer.key,
    };
    request->state = NET_READY;
}

static void advance_ready(request_t *request)
{
    mca_coll_mrail_net_t *net = request->net;
    uct_mrail_direct_ep_t *ep =
        mca_coll_mrail_direct_ep(net->module, request->peer);
    int ret = -ENOMEM;

    if (ep != NULL) {
        request->get.shared = mca_coll_mrail_net_quota(net, request->peer);
        ret = mca_coll_mrail_direct_ops()->get(ep, &request->get);
    }
    if (ret == 0) {
        request->state = NET_READING;
    } else if (ret != -EAGAIN) {
        end_read(request, ret);
    }
}

static void advance_reading(request_t *request)
{
    int status = __atomic_load_n(&request->get.status, __ATOMIC_ACQUIRE);

    if (status != -EINPROGRESS) {
        end_read(request, status);
    }
}

static void advance_read(request_t *request)
{
    mca_coll_mrail_net_peer_t *peer = &request->net->peers[request->peer];
    int ret = 0;

    if (request->turn != peer->recvs_ended) {
        return;
    }
    ++peer->recvs_ended;
    if (request->answer == ANSWER_BY_MESSAGE) {
        ret = recv_message(request,
                           mca_coll_mrail_op_tag_chunk_message(op_of(request)));
    }
    if (ret == 0) {
        ret = post_isend(request, &request->answer, sizeof(request->answer),
                         mca_coll_mrail_op_tag_chunk_answer(op_of(request)),
                         &request->reply);
    }
    request->state = (ret == 0) ? NET_ANSWERED : NET_FAILED;
}

static void advance_answered(request_t *request)
{
    size_t length;

    if (take(request, &request->reply, &length) &&
        take(request, &request->message, &request->length) &&
        request->state == NET_ANSWERED) {
        request->state =
            (request->answer == ANSWER_FAILED) ? NET_FAILED : NET_DONE;
    }
}

static void advance(request_t *request)
{
    static void (*const steps[])(request_t *) = {
        [NET_MESSAGE] = advance_message,   [NET_OFFERED] = advance_offered,
        [NET_EXPECTED] = advance_expected, [NET_READY] = advance_ready,
        [NET_READING] = advance_reading,   [NET_READ] = advance_read,
        [NET_ANSWERED] = advance_answered,
    };
    mca_coll_mrail_net_state_t from;

    do { /* until the state no longer changes */
        from = request->state;
        if (from < NET_DONE) {
            steps[from](request);
        }
    } while (request->state != from);
}

void mca_coll_mrail_net_progress(mca_coll_mrail_net_t *net)
{
    request_t *request;
    int is_reading = 0;

    mrail_list_for_each(request, &net->active, request_t, node) {
        advance(request);
        is_reading |=
            request->state == NET_READY || request->state == NET_READING;
    }
    if (is_reading) {
        mca_coll_mrail_direct_ops()->progress();
    }
}

int mca_coll_mrail_net_test(void *arg, size_t *length_p)
{
    request_t *request = arg;

    advance(request);
    if (request->state < NET_DONE) {
        return 0;
    }
    mrail_list_del(&request->node);
    mrail_list_add_tail(&request->net->idle, &request->node);
    *length_p = request->length;
    return (request->state == NET_DONE) ? 1 : -EIO;
}
