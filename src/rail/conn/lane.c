#include "config.h"
#include "rail/conn/conn.h"

#include "orchestrator/ports.h"
#include "rail/state/record.h"
#include "rail/state/signals.h"

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
        return; /* the queue is full; retry after a completion */
    }
    lane->drained = 1;
    if (mrail_lane_post(lane, &wr) != 0) {
        --lane->sq_posted; /* this request will have no completion */
        lane->drained = 0;
        /* If the device accepts no requests in this state, it still completes
         * chunks, which are all signalled. Unsignalled requests access only
         * engine memory, so they can be treated as complete. */
        if (mrail_list_empty(&lane->flying)) {
            lane->sq_done = lane->sq_posted;
        }
    }
}

/* ---- Receive buffers in the rail's SRQ, and the credits for them ---- */

static int mrail_rx_start(mrail_engine_t *engine, mrail_rail_t *rail,
                          mrail_rx_t *rx, uint32_t lkey)
{
    mrail_list_init(&rx->am.list);
    rx->rail = rail;
    rx->orphan = 0;
    rx->lane = NULL;
    rx->hdr = (mrail_data_hdr_t *)((char *)rx + MRAIL_RX_HEADROOM);
    rx->sge.addr = (uintptr_t)rx->hdr;
    /* The buffer size is rounded up, so a buffer can hold more than a segment.
     * This limit makes the device reject longer messages. */
    rx->sge.length = (uint32_t)engine->config.seg_size;
    rx->sge.lkey = lkey;
    rx->wr.wr_id = (uintptr_t)rx | MRAIL_WR_RECV;
    rx->wr.next = NULL;
    rx->wr.sg_list = &rx->sge;
    rx->wr.num_sge = 1;
    return mrail_rail_post_recv(rail, &rx->wr);
}

/* Creates at most `count` receive buffers and posts them to the rail's SRQ.
 * Returns their number, or -errno. */
static int mrail_lane_make_some(mrail_engine_t *engine, mrail_rail_t *rail,
                                unsigned count)
{
    size_t stride = engine->rx_stride;
    uint32_t lkey;
    unsigned made;
    char *base = mrail_rail_rx_buffers(rail, stride, count, &made, &lkey);
    int ret;

    if (base == NULL) {
        return -errno;
    }
    for (unsigned i = 0; i < made; ++i) {
        ret = mrail_rx_start(engine, rail, (mrail_rx_t *)(base + i * stride),
                             lkey);
        if (ret != 0) {
            return ret;
        }
        ++rail->srq_used;
        ++rail->srq_spare;
    }
    return (int)made;
}

/* Creates `count` receive buffers and posts them to the rail's SRQ. */
static int mrail_lane_make_buffers(mrail_engine_t *engine, mrail_rail_t *rail,
                                   unsigned count)
{
    int made;

    if (count > rail->srq_depth - rail->srq_used) {
        return -ENOBUFS;
    }
    for (; count != 0; count -= (unsigned)made) {
        made = mrail_lane_make_some(engine, rail, count);
        if (made < 0) {
            return made;
        }
    }
    return 0;
}

int mrail_lane_add_buffers(mrail_lane_t *lane, unsigned count)
{
    mrail_engine_t *engine = lane->peer->engine;
    mrail_rail_t *rail = lane->rail;
    int ret;

    if (mrail_rail_spare(rail) < count) {
        ret = mrail_lane_make_buffers(engine, rail, count - rail->srq_spare);
        if (ret != 0) {
            return ret;
        }
    }
    rail->srq_spare -= count;
    lane->buffers += count;
    return 0;
}

mrail_am_pool_t mrail_lane_pool(const mrail_engine_t *engine,
                                mrail_rail_t *rail)
{
    return (mrail_am_pool_t){.depth = rail->srq_depth,
                             .leased = rail->srq_used - mrail_rail_spare(rail),
                             .num_lanes = rail->num_am_lanes,
                             .credits = engine->config.am_credits};
}

/* Sets the window of a new lane, which carries active messages if its slot is
 * below num_pairs, and reserves a buffer for each message that the peer may
 * send. If the SRQ is too small for all lanes, the last lanes share the buffers
 * of the other lanes. The NIC retries a message that finds no buffer (RNR).
 * Returns 0 or -errno. */
static MRAIL_CTL int mrail_lane_reserve_buffers(mrail_lane_t *lane)
{
    mrail_rail_t *rail = lane->rail;
    mrail_am_pool_t pool = mrail_lane_pool(lane->peer->engine, rail);
    unsigned wanted;
    int ret;

    if (lane->slot >= lane->peer->num_pairs) {
        mrail_am_lane_start(&lane->am, 0);
        return 0;
    }
    mrail_am_lane_start(&lane->am,
                        mrail_am_lane_window(&pool, lane->slot == 0));
    wanted = lane->am.window + MRAIL_AM_LANE_RESERVE;
    ret = mrail_lane_add_buffers(lane,
                                 MRAIL_MIN(wanted, pool.depth - pool.leased));
    if (ret != 0) {
        return ret;
    }
    lane->unbacked = wanted - lane->buffers;
    __atomic_store_n(&rail->srq_short, rail->srq_short + lane->unbacked,
                     __ATOMIC_RELAXED);
    ++rail->num_am_lanes;
    return 0;
}

void mrail_lane_return_buffers(mrail_lane_t *lane, unsigned count)
{
    mrail_rail_t *rail = lane->rail;
    unsigned unbacked = MRAIL_MIN(count, lane->unbacked);

    lane->unbacked -= unbacked;
    __atomic_store_n(&rail->srq_short, rail->srq_short - unbacked,
                     __ATOMIC_RELAXED);
    count = MRAIL_MIN(count - unbacked, lane->buffers);
    lane->buffers -= count;
    rail->srq_spare += count;
}

/* ---- QPs ---- */

/* Returns the number of send queue entries for a lane. Small messages use the
 * primary lane. Other lanes carry few large chunks, so they need fewer
 * entries. */
static unsigned mrail_lane_tx_depth(const mrail_engine_t *engine,
                                    const mrail_lane_t *lane)
{
    unsigned depth = engine->config.tx_queue_len;

    return (lane->slot == 0) ? depth : MRAIL_MAX(depth / 4, 16u);
}

int mrail_lane_create_qp(mrail_lane_t *lane, mrail_rail_t *rail)
{
    mrail_engine_t *engine = lane->peer->engine;
    unsigned depth = mrail_lane_tx_depth(engine, lane);
    uint64_t serial = (engine->qp_serial + 1) << 16 | lane->index;
    int ret;

    lane->rail = rail;
    mrail_record_lane(lane);
    mrail_rail_grow_cq(rail, depth);
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
    ret = mrail_lane_reserve_buffers(lane);
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
    rail->sq_entries += depth;
    return 0;
}

void mrail_lane_destroy_qp(mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    if (lane->qp != NULL) {
        __atomic_store_n(&lane->qpn, 0, __ATOMIC_RELAXED);
        mrail_qp_destroy(lane->qp);
        lane->qp = NULL;
        mrail_list_del(&lane->rail_list);
        --lane->rail->num_lanes;
        --engine->num_qps;
        engine->num_further -= (lane->slot != 0);
        lane->rail->sq_entries -= lane->sq_depth;
        lane->rail->carried += lane->am_carried + lane->rma_carried;
        lane->am_carried = lane->rma_carried = 0;
        lane->rail->stalled_ns += lane->stalled_ns;
        lane->rail->idle_ns += lane->idle_ns;
        lane->stalled_ns = lane->idle_ns = 0;
        memset(&lane->batch, 0, sizeof(lane->batch));
        lane->batch.am_begin = lane->am.sent;
        lane->rail->num_am_lanes -= (lane->am.window != 0);
        mrail_lane_return_buffers(lane, lane->unbacked + lane->buffers);
    }
}

/* Destroys the QP, and frees the lane's index. */
static MRAIL_CTL void mrail_lane_free_index(mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    mrail_lane_destroy_qp(lane);
    __atomic_store_n(&engine->lanes[lane->index], NULL, __ATOMIC_RELEASE);
    engine->lane_free[engine->num_lane_free++] = lane->index;
}

void mrail_lane_end(mrail_lane_t *lane)
{
    mrail_lane_free_index(lane);
    mrail_list_del(&lane->ack_list);
}

void mrail_lane_release(mrail_lane_t *lane)
{
    mrail_lane_end(lane);
    lane->peer->lanes[lane->slot] = NULL;
    free(lane);
}

void mrail_lane_drop(mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    mrail_lane_free_index(lane);
    __atomic_store_n(&lane->peer->lanes[lane->slot], NULL, __ATOMIC_RELEASE);
    mrail_list_add_tail(&engine->dropped, &lane->rail_list);
}

void mrail_lane_free_dropped(mrail_engine_t *engine)
{
    mrail_lane_t *lane, *tmp;

    mrail_list_for_each_safe(lane, tmp, &engine->dropped, mrail_lane_t,
                             rail_list) {
        mrail_list_del(&lane->rail_list);
        free(lane);
    }
}

void mrail_lane_retire(mrail_lane_t *lane, mrail_lane_event_t event,
                       const char *cause)
{
    lane->peer->prev_epochs[lane->slot] = (mrail_prev_epoch_t){
        .known = 1, .epoch = lane->epoch, .received = lane->am.received};
    mrail_lane_event(lane, event, cause);
    mrail_lane_release(lane);
}

int mrail_lane_connect(mrail_lane_t *lane, const mrail_wire_lane_t *remote)
{
    const mrail_config_t *config = &lane->peer->engine->config;
    const mrail_wire_rail_t *remote_rail = &lane->peer->rails[remote->src_rail];
    struct ibv_ah_attr path;
    int ret;

    lane->tx_tag = mrail_data_tag(remote->index, lane->epoch);
    lane->rx_tag = mrail_data_tag(lane->index, lane->epoch);
    lane->remote_rail = remote->src_rail;
    lane->am.limit = remote->credits;
    lane->nominal = lane->sched.nominal =
        MRAIL_MAX(MRAIL_MIN(lane->rail->attr.rate_bps / 1000000,
                            (uint64_t)remote_rail->rate_mbps),
                  1ull) *
        125000;
    mrail_rail_fill_ah(lane->rail, config, remote_rail->gid,
                       mrail_ports_flow_label(lane->sport), &path);
    ret =
        mrail_qp_to_rtr(lane->qp, lane->rail, &path, remote, remote_rail->mtu);
    if (ret == 0) {
        ret = mrail_qp_to_rts(lane->qp, lane->rail, config, lane->psn,
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

/* ---- Statistics, which outlive the peer ---- */

mrail_stats_lane_t mrail_stats_of_lane(const mrail_lane_t *lane)
{
    return (mrail_stats_lane_t){
        .peer = lane->peer->id,
        .rail = lane->rail,
        .state = mrail_lane_state_name(lane->state),
        .qpn = lane->last_qpn,
        .slot = lane->slot,
        .sport = lane->sport,
    };
}

void mrail_stats_keep_lane(const mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;

    if ((engine->config.stats_file[0] == '\0') || (lane->last_qpn == 0)) {
        return;
    }
    if (engine->ended_lanes == NULL) {
        engine->ended_lanes =
            calloc(MRAIL_STATS_LANES, sizeof(*engine->ended_lanes));
    }
    if (engine->ended_lanes != NULL) {
        engine->ended_lanes[engine->num_ended_lanes++ % MRAIL_STATS_LANES] =
            mrail_stats_of_lane(lane);
    }
}
