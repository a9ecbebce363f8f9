#include "config.h"
#include "mpi/coll/relay_net.h"

#include "mpi/coll/direct.h"
#include "mpi/coll/mrail_coll.h"
#include "mpi/coll/request.h"

#include "base/list.h"
#include "base/util.h"

#include "ompi/mca/pml/pml.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct offer {
    uint64_t address, bytes;
} offer_t;

enum { ANSWER_FAILED, ANSWER_DONE };

typedef enum net_state {
    NET_MESSAGE,  /* a header: one message */
    NET_OFFERED,  /* sender: waiting for the answer */
    NET_EXPECTED, /* receiver: waiting for the offer */
    NET_READY,    /* the READ is not posted yet */
    NET_READING,
    NET_ANSWERED, /* the answer is on its way */
    NET_DONE,
    NET_FAILED,
} net_state_t;

typedef struct net_request {
    mrail_list_t node; /* in `idle` or `active` */
    mca_coll_mrail_net_t *net;
    net_state_t state;
    uint32_t peer;
    ompi_request_t *request, *answer_request; /* NULL: none */
    offer_t offer;
    uint64_t answer;
    char *buffer;
    size_t length;
    uct_mrail_direct_get_t get;
} net_request_t;

struct mca_coll_mrail_net {
    mca_coll_mrail_module_t *module;
    uct_mrail_direct_mem_t *mem; /* NULL: no slots are registered */
    char *area;
    size_t size; /* of the area; 0: all messages are in host memory */
    mca_coll_mrail_net_key_t *keys; /* by rank */
    net_request_t *requests;
    mrail_list_t idle, active;
};

int mca_coll_mrail_net_create(mca_coll_mrail_module_t *module,
                              const mrail_relay_shape_t *shape,
                              mca_coll_mrail_net_t **net_p)
{
    size_t ranks = module->topology->num_ranks;
    /* A header and a payload for each slot that this rank sends or fills. */
    size_t num =
        2 * ((size_t)shape->num_local * shape->out_slots + shape->in_slots);
    mca_coll_mrail_net_t *net = calloc(1, sizeof(*net));

    if (net == NULL) {
        return -ENOMEM;
    }
    net->module = module;
    net->keys = calloc(ranks, sizeof(*net->keys));
    net->requests = calloc(num, sizeof(*net->requests));
    if (net->keys == NULL || net->requests == NULL) {
        mca_coll_mrail_net_destroy(net);
        return -ENOMEM;
    }
    mrail_list_init(&net->idle);
    mrail_list_init(&net->active);
    for (size_t i = 0; i < num; ++i) {
        net->requests[i].net = net;
        mrail_list_add_tail(&net->idle, &net->requests[i].node);
    }
    *net_p = net;
    return 0;
}

void mca_coll_mrail_net_destroy(mca_coll_mrail_net_t *net)
{
    if (net != NULL) {
        if (net->mem != NULL) {
            mca_coll_mrail_direct_ops()->mem_put(net->mem);
        }
        free(net->requests);
        free(net->keys);
        free(net);
    }
}

int mca_coll_mrail_net_register(mca_coll_mrail_net_t *net, void *area,
                                size_t size, mca_coll_mrail_net_key_t *key_p)
{
    const uct_mrail_direct_ops_t *ops = mca_coll_mrail_direct_ops();
    int ret = (ops != NULL) ? ops->mem_get(area, size, &net->mem) : -EOPNOTSUPP;

    if (ret < 0) {
        net->mem = NULL;
        return ret;
    }
    net->area = area;
    net->size = size;
    key_p->length = ops->key_pack(net->mem, key_p->bytes);
    return 0;
}

int mca_coll_mrail_net_set_key(mca_coll_mrail_net_t *net, uint32_t rank,
                               const mca_coll_mrail_net_key_t *key)
{
    if (key->length == 0 || key->length > sizeof(key->bytes)) {
        return -EINVAL;
    }
    net->keys[rank] = *key;
    return 0;
}

/* ---- messages ---- */

static int post_isend(const net_request_t *request, const void *data,
                      size_t size, int tag, ompi_request_t **request_p)
{
    int ret = MCA_PML_CALL(isend(data, size, MPI_BYTE, (int)request->peer, tag,
                                 MCA_PML_BASE_SEND_STANDARD,
                                 request->net->module->comm, request_p));

    if (ret != OMPI_SUCCESS) {
        *request_p = NULL;
    }
    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

static int post_irecv(const net_request_t *request, void *data, size_t size,
                      int tag, ompi_request_t **request_p)
{
    int ret = MCA_PML_CALL(irecv(data, size, MPI_BYTE, (int)request->peer, tag,
                                 request->net->module->comm, request_p));

    if (ret != OMPI_SUCCESS) {
        *request_p = NULL;
    }
    return (ret == OMPI_SUCCESS) ? 0 : -EIO;
}

/* Returns 1 if the message has ended. An error fails the request. */
static int take(net_request_t *request, ompi_request_t **request_p,
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

static net_request_t *net_take(mca_coll_mrail_net_t *net, uint32_t peer,
                               void *buffer, size_t length)
{
    net_request_t *request;

    if (mrail_list_empty(&net->idle)) {
        return NULL; /* more messages than slots; not possible */
    }
    request = mrail_list_head(&net->idle, net_request_t, node);
    mrail_list_del(&request->node);
    mrail_list_add_tail(&net->active, &request->node);
    request->state = NET_MESSAGE;
    request->peer = peer;
    request->request = request->answer_request = NULL;
    request->buffer = buffer;
    request->length = length;
    return request;
}

static int is_payload(const mca_coll_mrail_net_t *net, const void *buffer)
{
    return (uintptr_t)buffer - (uintptr_t)net->area < net->size;
}

static int chunk_tag(const mca_coll_mrail_net_t *net)
{
    return mca_coll_mrail_op_tag_chunk(net->module->relaying);
}

static int answer_tag(const mca_coll_mrail_net_t *net)
{
    return mca_coll_mrail_op_tag_chunk_answer(net->module->relaying);
}

int mca_coll_mrail_net_send(mca_coll_mrail_net_t *net, uint32_t to,
                            const void *buffer, size_t length, void **request_p)
{
    net_request_t *request = net_take(net, to, (void *)buffer, length);
    int ret;

    if (request == NULL) {
        return -EIO;
    }
    *request_p = request;
    if (!is_payload(net, buffer)) {
        return post_isend(request, buffer, length, chunk_tag(net),
                          &request->request);
    }
    request->state = NET_OFFERED;
    request->offer = (offer_t){.address = (uintptr_t)buffer, .bytes = length};
    ret = post_irecv(request, &request->answer, sizeof(request->answer),
                     answer_tag(net), &request->answer_request);
    return (ret == 0)
               ? post_isend(request, &request->offer, sizeof(request->offer),
                            chunk_tag(net), &request->request)
               : ret;
}

int mca_coll_mrail_net_recv(mca_coll_mrail_net_t *net, uint32_t from,
                            void *buffer, size_t length, void **request_p)
{
    net_request_t *request = net_take(net, from, buffer, length);

    if (request == NULL) {
        return -EIO;
    }
    *request_p = request;
    if (!is_payload(net, buffer)) {
        return post_irecv(request, buffer, length, chunk_tag(net),
                          &request->request);
    }
    request->state = NET_EXPECTED;
    return post_irecv(request, &request->offer, sizeof(request->offer),
                      chunk_tag(net), &request->request);
}

/* ---- states ---- */

static void advance_message(net_request_t *request)
{
    if (take(request, &request->request, &request->length) &&
        request->state == NET_MESSAGE) {
        request->state = NET_DONE;
    }
}

static void advance_offered(net_request_t *request)
{
    size_t length;

    if (take(request, &request->request, &length) &&
        take(request, &request->answer_request, &length) &&
        request->state == NET_OFFERED) {
        request->state =
            (request->answer == ANSWER_DONE) ? NET_DONE : NET_FAILED;
    }
}

static void advance_expected(net_request_t *request)
{
    mca_coll_mrail_net_t *net = request->net;
    size_t length = 0;

    if (!take(request, &request->request, &length) ||
        request->state != NET_EXPECTED) {
        return;
    }
    if (length != sizeof(request->offer) || request->offer.bytes == 0 ||
        request->offer.bytes > request->length) {
        request->state = NET_FAILED;
        return;
    }
    request->length = (size_t)request->offer.bytes;
    request->get = (uct_mrail_direct_get_t){
        .buffer = request->buffer,
        .length = request->length,
        .mem = net->mem,
        .remote_address = request->offer.address,
        .key = net->keys[request->peer].bytes,
    };
    request->state = NET_READY;
}

static void answer(net_request_t *request, int status)
{
    request->answer = (status == 0) ? ANSWER_DONE : ANSWER_FAILED;
    request->state =
        (post_isend(request, &request->answer, sizeof(request->answer),
                    answer_tag(request->net), &request->request) == 0)
            ? NET_ANSWERED
            : NET_FAILED;
}

static void advance_ready(net_request_t *request)
{
    uct_mrail_direct_ep_t *ep =
        mca_coll_mrail_direct_ep(request->net->module, (uint32_t)request->peer);
    int ret = (ep != NULL) ? mca_coll_mrail_direct_ops()->get(ep, &request->get)
                           : -ENOMEM;

    if (ret == 0) {
        request->state = NET_READING;
    } else if (ret != -EAGAIN) {
        answer(request, ret);
    }
}

static void advance_reading(net_request_t *request)
{
    int status = __atomic_load_n(&request->get.status, __ATOMIC_ACQUIRE);

    if (status != -EINPROGRESS) {
        answer(request, status);
    }
}

static void advance_answered(net_request_t *request)
{
    size_t length;

    if (take(request, &request->request, &length) &&
        request->state == NET_ANSWERED) {
        request->state =
            (request->answer == ANSWER_DONE) ? NET_DONE : NET_FAILED;
    }
}

static void advance(net_request_t *request)
{
    static void (*const steps[])(net_request_t *) = {
        [NET_MESSAGE] = advance_message,   [NET_OFFERED] = advance_offered,
        [NET_EXPECTED] = advance_expected, [NET_READY] = advance_ready,
        [NET_READING] = advance_reading,   [NET_ANSWERED] = advance_answered,
    };
    net_state_t from;

    do { /* until nothing changes */
        from = request->state;
        if (from < NET_DONE) {
            steps[from](request);
        }
    } while (request->state != from);
}

void mca_coll_mrail_net_progress(mca_coll_mrail_net_t *net)
{
    net_request_t *request;
    int is_reading = 0;

    mrail_list_for_each(request, &net->active, net_request_t, node) {
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
    net_request_t *request = arg;

    advance(request);
    if (request->state < NET_DONE) {
        return 0;
    }
    mrail_list_del(&request->node);
    mrail_list_add_tail(&request->net->idle, &request->node);
    *length_p = request->length;
    return (request->state == NET_DONE) ? 1 : -EIO;
}
