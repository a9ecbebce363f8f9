#include "config.h"
#include "mock_pml.h"

#include "ompi/constants.h"
#include "ompi/group/group.h"
#include "ompi/mca/pml/pml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/list.h"
#include "base/util.h"

/* An unmatched send or receive. */
typedef struct half {
    mrail_list_t node;
    ompi_request_t *request;
    char *buffer;
    size_t bytes;
    int peer, tag;
} half_t;

static ompi_communicator_t comms[MOCK_PML_MAX_RANKS];
static ompi_group_t group;
/* by receiver */
static mrail_list_t sends[MOCK_PML_MAX_RANKS], recvs[MOCK_PML_MAX_RANKS];
static unsigned num_messages;

static int free_request(ompi_request_t **request)
{
    free(*request);
    *request = NULL;
    return OMPI_SUCCESS;
}

static ompi_request_t *new_request(void)
{
    ompi_request_t *request = calloc(1, sizeof(*request));

    assert_non_null(request);
    request->req_complete = REQUEST_PENDING;
    request->req_free = free_request;
    return request;
}

static void meet(half_t *send, half_t *recv)
{
    assert_true(send->bytes <= recv->bytes);
    mrail_copy(recv->buffer, send->buffer, send->bytes);
    send->request->req_complete = recv->request->req_complete =
        REQUEST_COMPLETED;
    free(send);
    free(recv);
    ++num_messages;
}

/* Removes and returns the first entry for this peer from a list. Returns NULL
 * if there is none. */
static half_t *take(mrail_list_t *list, int peer, int tag)
{
    for (mrail_list_t *node = list->next; node != list; node = node->next) {
        half_t *half = MRAIL_CONTAINER_OF(node, half_t, node);

        if (half->peer == peer && half->tag == tag) {
            mrail_list_del(node);
            return half;
        }
    }
    return NULL;
}

static half_t *new_half(void *buffer, size_t bytes, int peer, int tag)
{
    half_t *half = calloc(1, sizeof(*half));

    assert_non_null(half);
    *half = (half_t){.request = new_request(),
                     .buffer = buffer,
                     .bytes = bytes,
                     .peer = peer,
                     .tag = tag};
    return half;
}

static int mock_irecv(void *buffer, size_t count, struct ompi_datatype_t *type,
                      int from, int tag, ompi_communicator_t *comm,
                      ompi_request_t **request)
{
    half_t *recv = new_half(buffer, count, from, tag);
    half_t *send = take(&sends[comm->c_my_rank], from, tag);

    *request = recv->request;
    if (send != NULL) {
        meet(send, recv);
    } else {
        mrail_list_add_tail(&recvs[comm->c_my_rank], &recv->node);
    }
    return OMPI_SUCCESS;
}

static int mock_isend(const void *buffer, size_t count,
                      struct ompi_datatype_t *type, int to, int tag,
                      mca_pml_base_send_mode_t mode, ompi_communicator_t *comm,
                      ompi_request_t **request)
{
    half_t *send = new_half((void *)buffer, count, comm->c_my_rank, tag);
    half_t *recv = take(&recvs[to], comm->c_my_rank, tag);

    *request = send->request;
    if (recv != NULL) {
        meet(send, recv);
    } else {
        mrail_list_add_tail(&sends[to], &send->node);
    }
    return OMPI_SUCCESS;
}

void mock_pml_init(void)
{
    mca_pml.pml_irecv = mock_irecv;
    mca_pml.pml_isend = mock_isend;
    for (unsigned i = 0; i < MOCK_PML_MAX_RANKS; ++i) {
        comms[i].c_my_rank = (int)i;
        comms[i].c_local_group = &group;
        mrail_list_init(&sends[i]);
        mrail_list_init(&recvs[i]);
    }
}

void mock_pml_resize(unsigned num_ranks)
{
    group.grp_proc_count = (int)num_ranks;
}

ompi_communicator_t *mock_pml_comm(unsigned rank)
{
    return &comms[rank];
}

int mock_pml_is_idle(void)
{
    for (unsigned i = 0; i < MOCK_PML_MAX_RANKS; ++i) {
        if (!mrail_list_empty(&sends[i]) || !mrail_list_empty(&recvs[i])) {
            return 0;
        }
    }
    return 1;
}

unsigned mock_pml_count(void)
{
    unsigned count = num_messages;

    num_messages = 0;
    return count;
}
