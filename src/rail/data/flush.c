/*
 * Implements flush and fence.
 *
 * Data that one NIC has acknowledged may become visible later than a message
 * that arrives through another NIC. Operations are therefore complete at the
 * target only when three conditions hold:
 * - Every earlier operation has completed. Unless its lane fails, a small PUT
 *   needs no completion of its own, because the next condition covers it.
 * - On every lane that has written since the previous flush or fence, a READ
 *   has completed. It follows the writes on the same QP and flushes them.
 * - The peer's software has acknowledged the active messages.
 *
 * A fence requires the first two conditions, and holds back all posts until
 * they are met. Messages on the only lane with work are an exception, because
 * the QP keeps the order.
 *
 * A flush of a cancelled endpoint waits only for those operations of the
 * endpoint that a device still executes. Its completion allows the user to free
 * their memory.
 */
#include "config.h"
#include "rail/data/flush.h"

#include "base/seq.h"
#include "rail/conn/conn.h"
#include "rail/data/am_ack.h"
#include "rail/data/done.h"
#include "rail/data/put.h"
#include "rail/data/rma_cancel.h"
#include "rail/data/visible.h"

#include <errno.h>

/* Delay before the first POLL. A peer that is calling the library acknowledges
 * within this time. */
#define MRAIL_FLUSH_POLL_FIRST (5 * MRAIL_NS_PER_MS)

/* Interval between repeats, because a POLL may be lost. */
#define MRAIL_FLUSH_POLL_AGAIN (25 * MRAIL_NS_PER_MS)

int mrail_rma_idle(const mrail_peer_t *peer)
{
    return mrail_list_empty(&peer->ops) && (peer->dirty_mask == 0) &&
           mrail_list_empty(&peer->lost_puts);
}

mrail_flush_t *mrail_flush_add(mrail_peer_t *peer, mrail_flush_kind_t kind,
                               mrail_flush_group_t *group)
{
    mrail_flush_t *flush = mrail_pool_get(&peer->engine->flush_pool);

    if (flush == NULL) {
        return NULL;
    }
    flush->kind = kind;
    flush->last_stage = 0;
    flush->unseen = 0;
    flush->reads = 0;
    flush->am_seq = peer->am.tx_next;
    flush->op_id = peer->op_next - 1;
    flush->poll_ns = 0;
    flush->num_polls = 0;
    flush->group = group;
    mrail_list_add_tail(&peer->flushes_pending, &flush->list);
    mrail_peer_activate(peer);
    return flush;
}

void mrail_flush_open(mrail_peer_t *peer)
{
    if (--peer->num_fences == 0) {
        peer->ordered_lane = NULL;
        peer->ordered_lane_closed = 0;
    }
}

static MRAIL_DATA void mrail_flush_finish(mrail_peer_t *peer,
                                          mrail_flush_t *flush, int status)
{
    mrail_flush_group_t *group = flush->group;

    mrail_list_del(&flush->list);
    if (flush->kind == MRAIL_FLUSH_KIND_FENCE) {
        mrail_flush_open(peer);
    } else {
        if ((status != 0) && (flush->kind != MRAIL_FLUSH_KIND_CANCEL)) {
            group->done.status = status;
        }
        if (--group->count == 0) {
            mrail_done_finish(peer->engine, &group->done, group->done.status);
        }
    }
    mrail_pool_put(&peer->engine->flush_pool, flush);
}

/* Returns 1 if all operations up to op_id are complete, except for small PUTs
 * in flight. The completion of the READs that follow covers these PUTs. */
static MRAIL_DATA int mrail_flush_ops_done(const mrail_peer_t *peer,
                                           uint64_t op_id)
{
    return (mrail_list_empty(&peer->ops) ||
            (mrail_list_head(&peer->ops, mrail_op_t, list)->id > op_id)) &&
           !mrail_put_is_lost(peer);
}

/* Sends POLL, which makes the peer's control thread poll and acknowledge.
 * Without it, a peer that is busy computing does not poll its lanes and does
 * not see the ACK_REQ. An unanswered POLL is not a failure, because a debugger
 * may have stopped the process. */
static MRAIL_DATA void mrail_flush_poll_peer(mrail_peer_t *peer,
                                             mrail_flush_t *flush,
                                             mrail_ns_t now_ns)
{
    mrail_engine_t *engine = peer->engine;

    if (flush->poll_ns == 0) {
        flush->poll_ns = now_ns + MRAIL_FLUSH_POLL_FIRST;
    }
    if ((now_ns < flush->poll_ns) || engine->ctl_held) {
        return;
    }
    flush->poll_ns = now_ns + MRAIL_FLUSH_POLL_AGAIN;
    mrail_data_ctl_lock(engine);
    if (peer->state != MRAIL_PEER_KNOWN) {
        /* The peer no longer has a control channel. */
    } else if (mrail_ctl_send_plain(peer, MRAIL_CTL_POLL, ++engine->ctl_seq,
                                    flush->num_polls) == -EAGAIN) {
        flush->poll_ns = now_ns + MRAIL_CTL_NO_BUFFER;
    } else {
        ++flush->num_polls;
    }
    mrail_data_ctl_unlock(engine);
}

static MRAIL_DATA int mrail_flush_step(mrail_peer_t *peer, mrail_flush_t *flush,
                                       mrail_ns_t now_ns)
{
    if (MRAIL_UNLIKELY(flush->kind == MRAIL_FLUSH_KIND_CANCEL)) {
        return !mrail_rma_has_ep(peer, flush->group->done.ep_id);
    }
    if (!mrail_flush_ops_done(peer, flush->op_id)) {
        return 0;
    }
    if ((!flush->last_stage || (flush->unseen != 0)) &&
        !mrail_rma_post_visible(peer, flush, now_ns)) {
        return 0;
    }
    if (flush->reads != 0) {
        return 0;
    }
    if ((flush->kind == MRAIL_FLUSH_KIND_FLUSH) &&
        mrail_seq32_before(peer->am.tx_acked, flush->am_seq)) {
        mrail_am_request_ack(peer);
        mrail_flush_poll_peer(peer, flush, now_ns);
        return 0;
    }
    return 1;
}

/* Returns the first complete flush, or NULL. */
static MRAIL_DATA mrail_flush_t *mrail_flush_next_done(mrail_peer_t *peer,
                                                       mrail_ns_t now_ns)
{
    mrail_flush_t *flush;

    mrail_list_for_each(flush, &peer->flushes_pending, mrail_flush_t, list) {
        if (mrail_flush_step(peer, flush, now_ns)) {
            return flush;
        }
    }
    return NULL;
}

/* Restarts from the beginning after each completion, because its callback may
 * fence or flush the peer, call this function again, and finish any other
 * flush. */
void mrail_flush_check(mrail_peer_t *peer, mrail_ns_t now_ns)
{
    mrail_flush_t *flush;

    while ((flush = mrail_flush_next_done(peer, now_ns)) != NULL) {
        mrail_flush_finish(peer, flush, 0);
    }
}

void mrail_flush_again(mrail_peer_t *peer)
{
    mrail_flush_t *flush;

    mrail_list_for_each(flush, &peer->flushes_pending, mrail_flush_t, list) {
        flush->last_stage = 0;
    }
}

const mrail_flush_t *mrail_flush_barrier(const mrail_peer_t *peer)
{
    const mrail_flush_t *flush;

    if (peer->ordered_lane != NULL) {
        return NULL;
    }
    mrail_list_for_each(flush, &peer->flushes_pending, mrail_flush_t, list) {
        if (flush->kind == MRAIL_FLUSH_KIND_FENCE) {
            return flush;
        }
    }
    return NULL;
}

void mrail_flush_fail(mrail_peer_t *peer, int status)
{
    while (!mrail_list_empty(&peer->flushes_pending)) {
        mrail_flush_finish(
            peer, mrail_list_head(&peer->flushes_pending, mrail_flush_t, list),
            status);
    }
}

static void mrail_flush_detach_reads(mrail_peer_t *peer,
                                     const mrail_flush_t *flush)
{
    mrail_op_t *op;

    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->flush == flush) {
            op->flush = NULL;
        }
    }
}

void mrail_flush_cancel(mrail_ep_t *ep)
{
    mrail_peer_t *peer = ep->peer;
    mrail_flush_t *flush;

    mrail_list_for_each(flush, &peer->flushes_pending, mrail_flush_t, list) {
        if ((flush->kind == MRAIL_FLUSH_KIND_FLUSH) &&
            (flush->group->done.ep_id == ep->id)) {
            mrail_flush_detach_reads(peer, flush);
            flush->kind = MRAIL_FLUSH_KIND_CANCEL;
            flush->group->done.status = -ECANCELED;
        }
    }
}
