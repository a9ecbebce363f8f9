/*
 * Flush and fence.
 *
 * Data that one NIC has acknowledged may become visible later than a message
 * that arrives through another NIC. Operations are therefore complete at the
 * target only when three conditions hold:
 * - Every earlier operation has its completion.
 * - On every lane that has written since the previous flush or fence, a READ
 *   has
 * completed. It follows the writes on the same QP and pushes them out.
 * - The software of the peer has acknowledged the active messages.
 *
 * A fence needs the first two conditions, and holds back all posts until they
 * are met. The exception is messages on the only lane with work, where the QP
 * keeps the order.
 *
 * A flush of a cancelled endpoint waits only for operations of the endpoint
 * that a device works on. Its completion allows the user to free their memory.
 */
#include "config.h"
#include "rail/ctl.h"
#include "rail/engine.h"

#include <errno.h>

/* Delay of the first POLL: a peer that polls by itself acknowledges within this
 * time. Interval of repeats, because a POLL may be lost. */
#define MRAIL_FLUSH_POLL_FIRST (5 * MRAIL_NS_PER_MS)
#define MRAIL_FLUSH_POLL_AGAIN (25 * MRAIL_NS_PER_MS)

/* Returns 1 if no operation is in flight and no write lacks a READ. READs in
 * flight are operations as well. */
static int mrail_rma_idle(const mrail_peer_t *peer)
{
    return mrail_list_empty(&peer->ops) && (peer->dirty_mask == 0);
}

static mrail_flush_t *mrail_flush_add(mrail_peer_t *peer,
                                      mrail_flush_kind_t kind,
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
    flush->am_seq = peer->tx_next;
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

static void mrail_flush_finish(mrail_peer_t *peer, mrail_flush_t *flush,
                               int status)
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

/* Returns 1 if all operations up to op_id are complete. */
static int mrail_flush_ops_done(const mrail_peer_t *peer, uint64_t op_id)
{
    return mrail_list_empty(&peer->ops) ||
           (mrail_list_head(&peer->ops, mrail_op_t, list)->id > op_id);
}

/* Sends POLL, which makes the peer's control thread poll and acknowledge. This
 * is needed because a peer that computes does not poll its lanes, so it does
 * not see the ACK_REQ. An unanswered POLL is not a failure, because a debugger
 * may have stopped the process. */
static void mrail_flush_poll_peer(mrail_peer_t *peer, mrail_flush_t *flush,
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

static int mrail_flush_step(mrail_peer_t *peer, mrail_flush_t *flush,
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
        mrail_seq32_before(peer->tx_acked, flush->am_seq)) {
        mrail_am_request_ack(peer);
        mrail_flush_poll_peer(peer, flush, now_ns);
        return 0;
    }
    return 1;
}

/* Returns the first complete flush; NULL: there is none. */
static mrail_flush_t *mrail_flush_next_done(mrail_peer_t *peer,
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

/* Starts from the beginning after each completion. The completion may fence or
 * flush the peer, call this function again, and finish any other flush. */
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

static void mrail_flush_forget_reads(mrail_peer_t *peer,
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
            mrail_flush_forget_reads(peer, flush);
            flush->kind = MRAIL_FLUSH_KIND_CANCEL;
            flush->group->done.status = -ECANCELED;
        }
    }
}

/* ---- fence ---- */

/* Returns the only lane with work. Returns NULL unless there is exactly one and
 * it is in use. */
static mrail_lane_t *mrail_peer_only_lane(mrail_peer_t *peer)
{
    mrail_lane_t *only = NULL;

    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        mrail_lane_t *lane = peer->lanes[slot];
        uint64_t bit = 1ull << slot;

        if ((lane != NULL) &&
            ((peer->dirty_mask & bit) || (lane->sched.inflight != 0))) {
            if ((only != NULL) || !(peer->seen_mask & bit)) {
                return NULL;
            }
            only = lane;
        }
    }
    return only;
}

static int mrail_peer_has_gets(const mrail_peer_t *peer)
{
    const mrail_op_t *op;

    /* A later PUT may overtake a GET in flight, so a fence with GETs has no
     * ordered lane. */
    mrail_list_for_each(op, &peer->ops, mrail_op_t, list) {
        if (op->kind == MRAIL_OP_GET) {
            return 1;
        }
    }
    return 0;
}

static int mrail_peer_fence(mrail_peer_t *peer)
{
    mrail_ns_t now_ns;
    mrail_flush_t *flush;

    if (mrail_rma_idle(peer) || peer->dead) {
        return 0;
    }
    now_ns = mrail_clock_now();
    flush = mrail_flush_add(peer, MRAIL_FLUSH_KIND_FENCE, NULL);
    if (flush == NULL) {
        return -EAGAIN;
    }
    ++peer->engine->counters.fences;
    if (mrail_peer_has_gets(peer) || !mrail_list_empty(&peer->uncut)) {
        peer->ordered_lane_closed =
            1; /* nothing may pass, not even on the ordered lane of an earlier
                * fence */
    } else if (peer->num_fences == 0) {
        peer->ordered_lane = mrail_peer_only_lane(peer);
        if (peer->ordered_lane != NULL) {
            (void)mrail_rma_post_visible(peer, flush, now_ns);
        }
    }
    ++peer->num_fences;
    mrail_flush_check(peer, now_ns);
    return 0;
}

int mrail_ep_fence(mrail_ep_t *ep)
{
    int ret;

    mrail_iface_enter(ep->iface);
    ret = mrail_peer_fence(ep->peer);
    mrail_iface_leave(ep->iface);
    return ret;
}

int mrail_iface_fence(mrail_iface_t *iface)
{
    mrail_ep_t *ep;
    int ret = 0;

    mrail_iface_enter(iface);
    mrail_list_for_each(ep, &iface->eps, mrail_ep_t, list) {
        ret = mrail_peer_fence(ep->peer);
        if (ret != 0) {
            break;
        }
    }
    mrail_iface_leave(iface);
    return ret;
}

/* ---- flush ---- */

static int mrail_peer_is_flushed(mrail_peer_t *peer)
{
    return mrail_rma_idle(peer) && mrail_list_empty(&peer->unacked) &&
           mrail_list_empty(&peer->flushes_pending);
}

/* Adds the peer to the group. Returns 0 if there is nothing to wait for, 1, or
 * -EAGAIN. */
static int mrail_peer_flush(mrail_peer_t *peer, mrail_flush_group_t *group)
{
    mrail_flush_t *flush;

    if (mrail_peer_is_flushed(peer)) {
        return 0;
    }
    flush = mrail_flush_add(peer, MRAIL_FLUSH_KIND_FLUSH, group);
    if (flush == NULL) {
        return -EAGAIN;
    }
    ++group->count;
    ++peer->engine->counters.flushes;
    if (mrail_seq32_before(peer->tx_acked, flush->am_seq)) {
        mrail_am_request_ack(peer);
    }
    return 1;
}

/* Allocates a group. `ep_id`: endpoint of the only member, or 0. */
static mrail_flush_group_t *mrail_group_get(mrail_iface_t *iface,
                                            uint64_t ep_id, void *comp)
{
    mrail_flush_group_t *group = mrail_pool_get(&iface->engine->groups);

    if (group != NULL) {
        group->done.iface = iface;
        group->done.comp = comp;
        group->done.ep_id = ep_id;
        group->done.kind = MRAIL_DONE_FLUSH;
        group->done.status = 0;
        mrail_list_init(&group->done.list);
        group->count = 1; /* held by the caller, so that the group does not
                           * end too soon */
    }
    return group;
}

/* Releases the caller's hold on the group. Frees a group without members. */
static int mrail_group_close(mrail_iface_t *iface, mrail_flush_group_t *group,
                             int members)
{
    if (--group->count == 0) {
        if (members) {
            mrail_done_finish(iface->engine, &group->done, group->done.status);
            return -EINPROGRESS;
        }
        mrail_pool_put(&iface->engine->groups, group);
        return 0;
    }
    return -EINPROGRESS;
}

/* Returns 1 if a pending flush covers everything sent so far. A caller that
 * only polls then needs no other flush. */
static int mrail_peer_is_flushing(const mrail_peer_t *peer)
{
    const mrail_flush_t *last;

    if (mrail_list_empty(&peer->flushes_pending)) {
        return 0;
    }
    last = mrail_list_entry(peer->flushes_pending.prev, mrail_flush_t, list);
    return (last->kind == MRAIL_FLUSH_KIND_FLUSH) &&
           (last->am_seq == peer->tx_next) &&
           (last->op_id + 1 == peer->op_next);
}

/* Returns 1 if a flush of the endpoint is pending. */
static int mrail_ep_has_flush(const mrail_ep_t *ep)
{
    const mrail_flush_t *flush;

    mrail_list_for_each(flush, &ep->peer->flushes_pending, mrail_flush_t,
                        list) {
        if ((flush->group != NULL) && (flush->group->done.ep_id == ep->id)) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if a completion of the endpoint waits for its iface's progress
 * call. */
static int mrail_ep_has_done(const mrail_ep_t *ep)
{
    const mrail_done_t *done;

    mrail_list_for_each(done, &ep->iface->done, mrail_done_t, list) {
        if (done->ep_id == ep->id) {
            return 1;
        }
    }
    return 0;
}

/* Flushes a cancelled endpoint. The flush ends after the endpoint's operations
 * and earlier flushes. */
static int mrail_ep_flush_cancelled(mrail_ep_t *ep, void *comp)
{
    mrail_engine_t *engine = ep->iface->engine;
    int has_ops = mrail_rma_has_ep(ep->peer, ep->id);
    mrail_flush_group_t *group;

    if (!has_ops && !mrail_ep_has_flush(ep) && !mrail_ep_has_done(ep)) {
        return 0;
    }
    if (comp == NULL) {
        return -EINPROGRESS;
    }
    group = mrail_group_get(ep->iface, ep->id, comp);
    if (group == NULL) {
        return -EAGAIN;
    }
    if (!has_ops && !mrail_ep_has_flush(ep)) {
        mrail_done_defer(engine, &group->done, 0);
    } else if (mrail_flush_add(ep->peer, MRAIL_FLUSH_KIND_CANCEL, group) ==
               NULL) {
        mrail_pool_put(&engine->groups, group);
        return -EAGAIN;
    }
    return -EINPROGRESS;
}

int mrail_ep_flush(mrail_ep_t *ep, void *comp)
{
    mrail_iface_t *iface = ep->iface;
    mrail_flush_group_t *group;
    int ret;

    mrail_iface_enter(iface);
    if (MRAIL_UNLIKELY(ep->cancelled)) {
        ret = mrail_ep_flush_cancelled(ep, comp);
    } else if (mrail_peer_is_flushed(ep->peer)) {
        ret = 0;
    } else if ((comp == NULL) && mrail_peer_is_flushing(ep->peer)) {
        ret = -EINPROGRESS;
    } else if ((group = mrail_group_get(iface, ep->id, comp)) == NULL) {
        ret = -EAGAIN;
    } else {
        ret = mrail_peer_flush(ep->peer, group);
        if (ret >= 0) {
            ret = mrail_group_close(iface, group, ret);
        } else {
            mrail_pool_put(&iface->engine->groups, group);
        }
    }
    mrail_iface_leave(iface);
    return ret;
}

int mrail_iface_flush(mrail_iface_t *iface, void *comp)
{
    mrail_flush_group_t *group;
    int members = 0, pending = 0, ret = 0;
    mrail_ep_t *ep;

    mrail_iface_enter(iface);
    group = mrail_group_get(iface, 0, comp);
    if (group == NULL) {
        ret = -EAGAIN;
        goto out;
    }
    mrail_list_for_each(ep, &iface->eps, mrail_ep_t, list) {
        if ((comp == NULL) && mrail_peer_is_flushing(ep->peer)) {
            pending = 1;
            continue;
        }
        ret = mrail_peer_flush(ep->peer, group);
        if (ret < 0) {
            break;
        }
        members |= ret;
    }
    if ((ret < 0) && !members) {
        mrail_pool_put(&iface->engine->groups, group);
        goto out;
    }
    /* Out of memory: the members that were already added finish without a
     * callback, and the caller tries again. */
    if (ret < 0) {
        group->done.comp = NULL;
        mrail_group_close(iface, group, members);
        goto out;
    }
    ret = mrail_group_close(iface, group, members);
    if ((ret == 0) && pending) {
        ret = -EINPROGRESS;
    }
out:
    mrail_iface_leave(iface);
    return ret;
}
