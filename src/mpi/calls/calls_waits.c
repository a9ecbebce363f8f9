/*
 * Waits for messages: MPI's blocking point-to-point calls. These calls end in
 * functions of the pml and of requests, which Open MPI calls through tables.
 * This file replaces functions in these tables.
 *
 * A replacement records the call in private memory. notice(), a low-priority
 * progress function of MPI, exports the call if it runs before the call
 * returns. A call that returns earlier costs only a few stores, and does not
 * read the clock.
 */
#include "config.h"
#include "mpi/calls/mrail_calls.h"

#include "ompi/mca/pml/pml.h"
#include "ompi/request/request.h"
#include "opal/runtime/opal_progress.h"

static mca_pml_base_module_t pml;   /* functions that were replaced */
static ompi_request_fns_t requests; /* functions that were replaced */
static int is_begun;

/* The call in progress. */
static struct {
    unsigned kind; /* 0 if none */
    int peer, tag;
    struct ompi_communicator_t *comm; /* NULL if unknown */
    int is_exported;
} now;

static void end_wait(void)
{
    now.is_exported = 0;
    if (mca_coll_mrailcalls_file != NULL) {
        mrail_calls_wait_end(mca_coll_mrailcalls_file);
    }
}

/* Makes a call. It counts as a wait unless it is part of a collective. */
#define AS_WAIT(_kind, _peer, _tag, _comm, _call)                              \
    do {                                                                       \
        int ret;                                                               \
                                                                               \
        if (mca_coll_mrailcalls_inside != 0) {                                 \
            return _call;                                                      \
        }                                                                      \
        now.kind = MRAIL_CALLS_##_kind;                                        \
        now.peer = _peer;                                                      \
        now.tag = _tag;                                                        \
        now.comm = _comm;                                                      \
        ret = _call;                                                           \
        now.kind = 0;                                                          \
        if (MRAIL_UNLIKELY(now.is_exported)) {                                 \
            end_wait();                                                        \
        }                                                                      \
        return ret;                                                            \
    } while (0)

static int wait_send(const void *buf, size_t count,
                     struct ompi_datatype_t *dtype, int peer, int tag,
                     mca_pml_base_send_mode_t mode,
                     struct ompi_communicator_t *comm)
{
    AS_WAIT(SEND, peer, tag, comm,
            pml.pml_send(buf, count, dtype, peer, tag, mode, comm));
}

static int wait_recv(void *buf, size_t count, struct ompi_datatype_t *dtype,
                     int peer, int tag, struct ompi_communicator_t *comm,
                     ompi_status_public_t *status)
{
    AS_WAIT(RECV, peer, tag, comm,
            pml.pml_recv(buf, count, dtype, peer, tag, comm, status));
}

static int wait_probe(int peer, int tag, struct ompi_communicator_t *comm,
                      ompi_status_public_t *status)
{
    AS_WAIT(PROBE, peer, tag, comm, pml.pml_probe(peer, tag, comm, status));
}

static int wait_mprobe(int peer, int tag, struct ompi_communicator_t *comm,
                       struct ompi_message_t **message,
                       ompi_status_public_t *status)
{
    AS_WAIT(PROBE, peer, tag, comm,
            pml.pml_mprobe(peer, tag, comm, message, status));
}

/* A request does not identify the peer, so the rank is -1. */
static int wait_one(ompi_request_t **request, ompi_status_public_t *status)
{
    AS_WAIT(WAIT, -1, -1, NULL, requests.req_wait(request, status));
}

static int wait_any(size_t count, ompi_request_t **list, int *index,
                    ompi_status_public_t *status)
{
    AS_WAIT(WAIT, -1, -1, NULL,
            requests.req_wait_any(count, list, index, status));
}

static int wait_all(size_t count, ompi_request_t **list,
                    ompi_status_public_t *statuses)
{
    AS_WAIT(WAIT, -1, -1, NULL, requests.req_wait_all(count, list, statuses));
}

static int wait_some(size_t count, ompi_request_t **list, int *outcount,
                     int *indices, ompi_status_public_t *statuses)
{
    AS_WAIT(WAIT, -1, -1, NULL,
            requests.req_wait_some(count, list, outcount, indices, statuses));
}

/* Exports the call in progress. MPI's progress calls this function while the
 * process waits. */
static int notice(void)
{
    mrail_calls_t *calls = mca_coll_mrailcalls_file;

    if (now.kind != 0 && !now.is_exported && calls != NULL) {
        mrail_calls_wait_begin(calls, now.kind, now.peer, now.tag,
                               (now.comm != NULL)
                                   ? mca_coll_mrailcalls_index(now.comm)
                                   : MRAIL_CALLS_COMMS);
        now.is_exported = 1;
    }
    return 0;
}

void mca_coll_mrailcalls_waits_begin(void)
{
    pml = mca_pml;
    mca_pml.pml_send = wait_send;
    mca_pml.pml_recv = wait_recv;
    mca_pml.pml_probe = wait_probe;
    mca_pml.pml_mprobe = wait_mprobe;
    requests = ompi_request_functions;
    ompi_request_functions.req_wait = wait_one;
    ompi_request_functions.req_wait_any = wait_any;
    ompi_request_functions.req_wait_all = wait_all;
    ompi_request_functions.req_wait_some = wait_some;
    (void)opal_progress_register_lp(notice);
    is_begun = 1;
}

void mca_coll_mrailcalls_waits_end(void)
{
    if (!is_begun) {
        return;
    }
    is_begun = 0;
    (void)opal_progress_unregister(notice);
    mca_pml.pml_send = pml.pml_send;
    mca_pml.pml_recv = pml.pml_recv;
    mca_pml.pml_probe = pml.pml_probe;
    mca_pml.pml_mprobe = pml.pml_mprobe;
    ompi_request_functions = requests;
}
