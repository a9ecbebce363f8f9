/* Starts fences and flushes of endpoints and ifaces. flush.c continues and
 * completes them. */
#include "config.h"

#include "base/seq.h"
#include "rail/data/am_ack.h"
#include "rail/data/done.h"
#include "rail/data/flush.h"
#include "rail/data/rma_cancel.h"
#include "rail/data/visible.h"
#include "rail/state/engine.h"

#include <errno.h>

/* Returns the only lane with work. Returns NULL unless there is exactly one and
 * it is in use. */
static mrail_lane_t *mrail_peer_only_lane(mrail_peer_t *peer)
{
    mrail_lane_t *only = NULL;

    mrail_for_each_lane(lane, peer) {
        uint64_t bit = 1ull << lane->slot;

        if ((peer->dirty_mask & bit) || (lane->sched.inflight != 0)) {
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

static MRAIL_DATA int mrail_peer_fence(mrail_peer_t *peer)
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
            1; /* messages must wait, even on the ordered lane of an earlier
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

static int mrail_peer_is_flushed(mrail_peer_t *peer)
{
    return mrail_rma_idle(peer) && mrail_list_empty(&peer->am.unacked) &&
           mrail_list_empty(&peer->flushes_pending);
}

/* Adds the peer to the group. Returns 1 on success, 0 if the peer has no
 * pending work, or -EAGAIN. */
static MRAIL_DATA int mrail_peer_flush(mrail_peer_t *peer,
                                       mrail_flush_group_t *group)
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
    if (mrail_seq32_before(peer->am.tx_acked, flush->am_seq)) {
        mrail_am_request_ack(peer);
    }
    /* If all bytes are posted, the READs can follow them immediately, which
     * saves a round trip. After a failure, mrail_flush_again() requests new
     * READs. */
    if (mrail_list_empty(&peer->uncut) && !peer->recovering && !peer->dead &&
        (peer->dirty_mask != 0)) {
        (void)mrail_rma_post_visible(peer, flush, mrail_clock_now());
    }
    return 1;
}

/* Allocates a group. `ep_id` is the id of the endpoint that is flushed, or 0
 * for an iface. */
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
                           * complete too early */
    }
    return group;
}

/* Releases the caller's hold on the group. Frees a group without members.
 * Returns 0 or -EINPROGRESS. */
static MRAIL_DATA int mrail_group_close(mrail_iface_t *iface,
                                        mrail_flush_group_t *group, int members)
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

/* Returns 1 if a pending flush covers all earlier messages and operations. A
 * caller that only polls then needs no further flush. */
static int mrail_peer_is_flushing(const mrail_peer_t *peer)
{
    const mrail_flush_t *last;

    if (mrail_list_empty(&peer->flushes_pending)) {
        return 0;
    }
    last = mrail_list_entry(peer->flushes_pending.prev, mrail_flush_t, list);
    return (last->kind == MRAIL_FLUSH_KIND_FLUSH) &&
           (last->am_seq == peer->am.tx_next) &&
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

/* Flushes a cancelled endpoint. The flush completes after the endpoint's
 * operations and earlier flushes. */
static MRAIL_DATA int mrail_ep_flush_cancelled(mrail_ep_t *ep, void *comp)
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
    /* If memory has run out, the members that were already added finish without
     * a callback, and the caller retries. */
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
