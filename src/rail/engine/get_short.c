/* Implements a blocking GET into a small buffer. */
#include "config.h"

#include "rail/data/done.h"
#include "rail/data/rma.h"
#include "rail/data/rma_cancel.h"
#include "rail/engine/engine.h"

#include <errno.h>
#include <string.h>

typedef struct mrail_get_short {
    void *buffer;
    int done;
} mrail_get_short_t;

/* After this time, a get_short gives up if another thread waits for the
 * lock. */
#define MRAIL_GET_SHORT_LIMIT (25 * MRAIL_NS_PER_MS)

static void mrail_get_short_unpack(void *arg, const void *data, size_t length)
{
    mrail_get_short_t *get = arg;

    memcpy(get->buffer, data, length);
    get->done = 1;
}

/* Returns 1 if this thread alone may be unable to complete the READ. Failover
 * needs the control thread and, if this is a callback, the end of the callback.
 * Only the control thread detects a stalled lane. */
static int mrail_get_short_must_end(const mrail_peer_t *peer,
                                    mrail_ns_t start_ns)
{
    const mrail_data_lock_t *lock = &peer->engine->data_lock;

    if (peer->recovering) {
        return 1;
    }
    return (mrail_data_lock_is_borrowed(lock) ||
            mrail_data_lock_is_wanted(lock)) &&
           (mrail_clock_now() >= start_ns + MRAIL_GET_SHORT_LIMIT);
}

/* Returns 0, -EAGAIN or -ECONNRESET. */
static MRAIL_DATA int mrail_get_short_wait(mrail_peer_t *peer, uint64_t id,
                                           const mrail_get_short_t *get)
{
    mrail_ns_t start_ns = mrail_clock_now();
    mrail_op_t *op;

    while (!get->done) {
        op = mrail_rma_find(peer, id);
        if (op == NULL) {
            return -ECONNRESET;
        }
        if (MRAIL_UNLIKELY(mrail_get_short_must_end(peer, start_ns))) {
            mrail_op_cancel(op);
            return -EAGAIN;
        }
        mrail_engine_poll(peer->engine, NULL);
    }
    return 0;
}

/* The UCT interface requires this function to wait for the data. Messages that
 * arrive during the wait are put in the inbox, because callbacks are not
 * allowed here. */
int mrail_ep_get_short(mrail_ep_t *ep, void *buffer, unsigned length,
                       uint64_t remote_address, const mrail_rkey_t *rkey)
{
    mrail_get_short_t get = {.buffer = buffer};
    mrail_iface_t *iface = ep->iface;
    mrail_engine_t *engine = iface->engine;
    mrail_op_t *op;
    uint64_t id;
    int ret;

    mrail_iface_enter(iface);
    op = mrail_rma_bounce(ep, MRAIL_OP_GET,
                          (length <= MRAIL_TX_SMALL_AREA) ? &engine->tx_small
                                                          : &engine->tx_big,
                          NULL, &ret);
    if ((op == NULL) || (length == 0)) {
        if (op != NULL) {
            mrail_op_release(engine, op);
        }
        goto out;
    }
    op->done.iface = NULL; /* completes without a progress call of its iface */
    op->unpack = mrail_get_short_unpack;
    op->unpack_arg = &get;
    id = ep->peer->op_next;
    mrail_rma_submit_bounce(op, length, remote_address, rkey);
    ret = mrail_get_short_wait(ep->peer, id, &get);
out:
    mrail_iface_leave(iface);
    return ret;
}
