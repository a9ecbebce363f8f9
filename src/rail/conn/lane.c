#include "config.h"
#include "rail/conn/lane.h"

#include "orchestrator/ports.h"
#include "rail/conn/ctl_work.h"
#include "rail/conn/lane_buffers.h"
#include "rail/params.h"
#include "rail/state/record.h"
#include "rail/state/signals.h"
#include "rail/verbs/ah.h"
#include "rail/verbs/qp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

unsigned mrail_lane_event(mrail_lane_t *lane, mrail_lane_event_t event,
                          const char *cause)
{
    mrail_peer_t *peer = lane->peer;
    unsigned actions;
    mrail_lane_state_t before = lane->state;

    lane->state = mrail_lane_next(before, event, &actions);
    __atomic_store_n(&lane->properties, mrail_lane_properties[lane->state],
                     __ATOMIC_RELAXED);
    if (lane->state != before) {
        mrail_debug("peer %016llx lane %u qp 0x%x rail %u sport %u: %s -> %s "
                    "(%s)",
                    (unsigned long long)peer->id, lane->slot, lane->qpn,
                    (lane->rail != NULL) ? lane->rail->index : 0, lane->sport,
                    mrail_lane_state_name(before),
                    mrail_lane_state_name(lane->state), cause);
    }
    if (actions & MRAIL_LANE_DO_CHECK) {
        __atomic_fetch_or(&peer->evict_mask, 1ull << lane->slot,
                          __ATOMIC_RELEASE);
        mrail_peer_check(peer);
        mrail_wakeup_all(peer->engine, MRAIL_ARMED_OWN);
    }
    if (actions & MRAIL_LANE_DO_EXCHANGE) {
        lane->request = ++peer->engine->ctl_seq;
        lane->tries = 0;
        lane->deadline_ns = 0;
        mrail_ctl_work(peer);
    }
    if ((actions & MRAIL_LANE_INVALID) && (event < MRAIL_LANE_EV_MESSAGES)) {
        ++peer->engine->counters.ctl_unexpected;
    } else if (actions & MRAIL_LANE_INVALID) {
        mrail_error("peer %016llx lane %u is %s: unexpected event %u (%s)",
                    (unsigned long long)peer->id, lane->slot,
                    mrail_lane_state_name(before), event, cause);
        assert(0);
    }
    return actions;
}

int mrail_lane_post(mrail_lane_t *lane, struct ibv_send_wr *wr)
{
    lane->rail->idle = 0;
    if (lane->slot != 0) {
        __atomic_store_n(&lane->used, lane->peer->engine->total_events,
                         __ATOMIC_RELAXED);
    }
    if (!(wr->send_flags & IBV_SEND_SIGNALED) &&
        (++lane->unsignalled >= lane->sq_depth / 4)) {
        wr->wr_id = mrail_lane_marker(lane);
        wr->send_flags |= IBV_SEND_SIGNALED;
        mrail_record_batch_end(lane);
    }
    if (wr->send_flags & IBV_SEND_SIGNALED) {
        lane->unsignalled = 0;
    }
    ++lane->sq_posted; /* the marker contains the position before this
                        * request */
    return mrail_qp_post(lane->qp, wr);
}

void mrail_lane_drain(mrail_lane_t *lane)
{
    struct ibv_send_wr wr = {
        .wr_id = mrail_lane_marker(lane),
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };

    if (lane->drained || (lane->qp == NULL) || lane->rail->fatal ||
        (mrail_lane_sq_free(lane) == 0)) {
        return; /* no room; retry after a completion */
    }
    lane->drained = 1;
    if (mrail_lane_post(lane, &wr) != 0) {
        --lane->sq_posted; /* this request will have no completion */
        lane->drained = 0;
        /* If the device accepts no requests in this state, it still completes
         * chunks, which are all signalled. Unsignalled requests access only
         * engine memory, so they can be written off. */
        if (mrail_list_empty(&lane->flying)) {
            lane->sq_done = lane->sq_posted;
        }
    }
}

/* Returns the number of send queue entries for a lane. Chunks are few and
 * large, so lanes without active messages need fewer entries. */
static unsigned mrail_lane_tx_depth(const mrail_engine_t *engine,
                                    const mrail_lane_t *lane)
{
    unsigned depth = engine->config.tx_queue_len;

    return (lane->slot == 0) ? depth : MRAIL_MAX(depth / 4, 16u);
}

int mrail_lane_create_qp(mrail_engine_t *engine, mrail_lane_t *lane,
                         mrail_rail_t *rail)
{
    unsigned depth = mrail_lane_tx_depth(engine, lane);
    uint64_t serial = (engine->qp_serial + 1) << 16 | lane->index;
    int ret;

    lane->rail = rail;
    mrail_record_lane(lane);
    lane->qp = mrail_qp_create(rail, depth, serial);
    if (lane->qp == NULL) {
        return -errno;
    }
    ++engine->qp_serial;
    lane->qp_serial = serial;
    lane->move = (mrail_port_move_t){0};
    lane->max_inline = rail->attr.max_inline;
    lane->psn = (uint32_t)mrail_rng_next(&engine->rng) & 0xffffff;
    lane->sq_depth = depth;
    ret = mrail_lane_reserve_buffers(engine, lane, lane->peer->num_pairs);
    if (ret != 0) {
        mrail_qp_destroy(lane->qp);
        lane->qp = NULL;
        return ret;
    }
    __atomic_store_n(&lane->qpn, lane->qp->qp_num, __ATOMIC_RELAXED);
    lane->last_qpn = lane->qpn;
    mrail_list_add_tail(&rail->lanes, &lane->rail_list);
    ++rail->num_lanes;
    ++engine->num_qps;
    engine->num_further += (lane->slot != 0);
    engine->sq_entries += depth;
    return 0;
}

void mrail_lane_destroy_qp(mrail_engine_t *engine, mrail_lane_t *lane)
{
    if (lane->qp != NULL) {
        __atomic_store_n(&lane->qpn, 0, __ATOMIC_RELAXED);
        mrail_qp_destroy(lane->qp);
        lane->qp = NULL;
        mrail_list_del(&lane->rail_list);
        --lane->rail->num_lanes;
        --engine->num_qps;
        engine->num_further -= (lane->slot != 0);
        engine->sq_entries -= lane->sq_depth;
        lane->rail->carried += lane->am_carried + lane->rma_carried;
        lane->am_carried = lane->rma_carried = 0;
        memset(&lane->batch, 0, sizeof(lane->batch));
        lane->batch.am_begin = lane->am.sent;
        lane->rail->num_am_lanes -= (lane->am.window != 0);
        mrail_lane_return_buffers(lane, lane->unbacked + lane->buffers);
    }
}

void mrail_lane_end(mrail_engine_t *engine, mrail_lane_t *lane)
{
    mrail_lane_destroy_qp(engine, lane);
    mrail_list_del(&lane->ack_list);
    __atomic_store_n(&engine->lanes[lane->index], NULL, __ATOMIC_RELEASE);
    engine->lane_free[engine->num_lane_free++] = lane->index;
}

void mrail_lane_release(mrail_engine_t *engine, mrail_lane_t *lane)
{
    mrail_lane_end(engine, lane);
    lane->peer->lanes[lane->slot] = NULL;
    free(lane);
}

void mrail_lane_retire(mrail_lane_t *lane, mrail_lane_event_t event,
                       const char *cause)
{
    lane->peer->prev_epochs[lane->slot] = (mrail_prev_epoch_t){
        .known = 1, .epoch = lane->epoch, .received = lane->am.received};
    mrail_lane_event(lane, event, cause);
    mrail_lane_release(lane->peer->engine, lane);
}

int mrail_lane_connect(mrail_engine_t *engine, mrail_lane_t *lane,
                       const mrail_wire_lane_t *remote,
                       const mrail_wire_rail_t *remote_rail)
{
    struct ibv_ah_attr path;
    int ret;

    lane->remote_index = remote->index;
    lane->tx_tag = mrail_data_tag(remote->index, lane->epoch);
    lane->rx_tag = mrail_data_tag(lane->index, lane->epoch);
    lane->remote_rail = remote->src_rail;
    lane->am.limit = remote->credits;
    lane->nominal = lane->sched.nominal =
        MRAIL_MAX(MRAIL_MIN(lane->rail->attr.rate_bps / 1000000,
                            (uint64_t)remote_rail->rate_mbps),
                  1ull) *
        125000;
    mrail_rail_fill_ah(lane->rail, &engine->config, remote_rail->gid,
                       mrail_ports_flow_label(lane->sport), &path);
    ret =
        mrail_qp_to_rtr(lane->qp, lane->rail, &path, remote, remote_rail->mtu);
    if (ret == 0) {
        ret = mrail_qp_to_rts(lane->qp, lane->rail, &engine->config, lane->psn,
                              remote->max_dest_rd_atomic);
    }
    if (ret != 0) {
        mrail_log(__atomic_exchange_n(&lane->rail->failing, 1, __ATOMIC_RELAXED)
                      ? MRAIL_LOG_DEBUG
                      : MRAIL_LOG_WARN,
                  "%s:%u: cannot connect qp 0x%x to qp 0x%x: %s",
                  lane->rail->attr.device, lane->rail->attr.port,
                  lane->qp->qp_num, remote->qpn, strerror(-ret));
    }
    return ret;
}
