/* Handles operations that end early because a device rejected them or the user
 * cancelled them. */
#include "config.h"
#include "rail/data/rma_cancel.h"

#include "rail/data/chunk.h"
#include "rail/data/done.h"
#include "rail/data/put.h"
#include "rail/state/signals.h"

#include <errno.h>

/* Fails the flushes that cover the operation, because a buffered PUT has no
 * completion of its own to report the failure. */
static void mrail_rma_reject_flushes(mrail_peer_t *peer,
                                     const mrail_iface_t *iface, uint64_t id)
{
    mrail_flush_t *flush;

    mrail_list_for_each(flush, &peer->flushes_pending, mrail_flush_t, list) {
        if ((flush->group != NULL) && (flush->op_id >= id) &&
            (flush->group->done.iface == iface)) {
            flush->group->done.status = -EIO;
        }
    }
}

static void mrail_rma_reject_eps(mrail_peer_t *peer, const mrail_iface_t *iface)
{
    mrail_ep_t *ep;

    mrail_list_for_each(ep, &peer->eps, mrail_ep_t, peer_list) {
        if ((ep->iface == iface) && (ep->failed == 0)) {
            ep->failed = -EIO;
            mrail_ep_report_failed(ep);
            mrail_wakeup_signal(ep->iface);
        }
    }
}

/* Logs a warning, and fails the flushes that cover the operation and the
 * endpoints of its iface. */
static void mrail_rma_report(mrail_peer_t *peer, const mrail_iface_t *iface,
                             uint64_t id, const char *name, size_t length,
                             const char *cause)
{
    mrail_warn("peer %016llx: a %s of %zu bytes failed (%s), so its endpoint "
               "fails as well",
               (unsigned long long)peer->id, name, length, cause);
    mrail_rma_reject_flushes(peer, iface, id);
    mrail_rma_reject_eps(peer, iface);
}

void mrail_rma_reject(mrail_op_t *op, const char *cause)
{
    mrail_peer_t *peer = op->peer;
    mrail_chunk_t *chunk, *tmp;

    if (op->status != 0) {
        return;
    }
    op->status = -EIO;
    if (!mrail_list_empty(&op->uncut)) {
        mrail_list_del(&op->uncut);
        peer->uncut_bytes -= op->left;
        op->left = 0;
    }
    /* Chunks that are still in flight complete when their lane has failed. */
    mrail_list_for_each_safe(chunk, tmp, &peer->replay_rma, mrail_chunk_t,
                             list) {
        if (chunk->op == op) {
            mrail_list_del(&chunk->list);
            mrail_list_add_tail(&peer->arrived, &chunk->list);
        }
    }
    mrail_rma_report(peer, op->done.iface, op->id,
                     (op->kind == MRAIL_OP_PUT) ? "PUT" : "GET", op->length,
                     cause);
}

void mrail_rma_reject_put(mrail_peer_t *peer, mrail_tx_t *tx, const char *cause)
{
    tx->put.ep_id = 0;
    mrail_rma_report(peer, mrail_iface_find(peer->engine, tx->put.iface),
                     tx->put.id, "PUT", tx->am.length, cause);
}

/* Drops chunks of the endpoint that no device holds. */
static void mrail_rma_drop_of(mrail_engine_t *engine, mrail_list_t *chunks,
                              uint64_t ep_id)
{
    mrail_chunk_t *chunk, *tmp;

    mrail_list_for_each_safe(chunk, tmp, chunks, mrail_chunk_t, list) {
        if (chunk->op->done.ep_id == ep_id) {
            --chunk->op->pending;
            mrail_list_del(&chunk->list);
            mrail_pool_put(&engine->chunks, chunk);
        }
    }
}

void mrail_op_cancel(mrail_op_t *op)
{
    mrail_peer_t *peer = op->peer;

    if (op->left != 0) {
        mrail_list_del(&op->uncut);
        peer->uncut_bytes -= op->left;
        op->left = 0;
    }
    op->cancelled = 1;
    op->peer->pump_ns = 0; /* other operations may be posted now */
    op->unpack = NULL;
    if (op->pending == 0) {
        mrail_op_close(op);
        mrail_done_defer(peer->engine, &op->done, -ECANCELED);
    } else if ((op->bounce != NULL) && (op->done.comp == NULL)) {
        op->done.ep_id = 0; /* the user does not wait for this operation */
    }
}

void mrail_rma_cancel(mrail_ep_t *ep)
{
    mrail_peer_t *peer = ep->peer;
    mrail_op_t *op, *tmp;

    mrail_for_each_lane(lane, peer) {
        mrail_rma_drop_of(peer->engine, &lane->lost, ep->id);
    }
    mrail_rma_drop_of(peer->engine, &peer->replay_rma, ep->id);
    mrail_rma_drop_of(peer->engine, &peer->arrived, ep->id);
    mrail_put_cancel(peer, ep->id);
    mrail_list_for_each_safe(op, tmp, &peer->ops, mrail_op_t, list) {
        if (op->done.ep_id == ep->id) {
            mrail_op_cancel(op);
        }
    }
}

int mrail_rma_has_ep(const mrail_peer_t *peer, uint64_t ep_id)
{
    const mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->done.ep_id == ep_id) {
            return 1;
        }
    }
    return 0;
}
