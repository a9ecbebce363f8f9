/*
 * Two complete engines over fake verbs, in virtual time. Control messages may
 * be lost, duplicated, late or reordered. Lanes may be evicted at any time, and
 * move to other source ports at the request of either end. A process may
 * compute, or die silently. For every seed:
 *
 * - A request finds the QP to which its own QP is connected, with a buffer for
 *   it, and never a destroyed QP. Requests are never posted to a released lane.
 * - QPs are never destroyed while a request is in flight or a completion is
 *   pending.
 * - Entries of the lane table are never used twice.
 * - Messages arrive once and in order. Operations complete once, with all their
 *   bytes, and access no memory afterwards. A flush completes small PUTs. While
 *   no lane fails, each PUT writes once. A message behind a fence follows
 *   everything before it, and a flush completes after everything before it.
 * - At the end, no credit or buffer is lost or duplicated, although either end
 *   recalls idle credits. While no lane fails, there is a buffer for each
 *   message.
 * - At the end, no request is pending and both ends have the same lanes, whose
 *   QPs send. Otherwise, the live end has given up the other end. A waiting
 *   user checks the endpoint, as UCX's keepalive does.
 */
#include "config.h"
#include "rail/conn/conn.h"
#include "rail/data/rx.h"
#include "rail/recovery/recovery.h"
#include "test/sim/engine_pair.h"
#include "test/sim/sanitized.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 1000
#ifdef TEST_SANITIZED
#define SEEDS_FULL SEEDS /* many times slower, with a single thread */
#else
#define SEEDS_FULL 30000
#endif
#define ACTIVE_STEPS 6000 /* steps of 0 to 4 ms each */
#define SMALL_PUTS 20     /* maximum number of consecutive small PUTs */
#define AGAIN_STEPS 300
/* After the failure of a lane, a sender repeats its requests even to a peer
 * that computes and does not poll. The peer has few buffers for them, so the
 * buffers may run out. However, if more than one message in this many finds no
 * buffer, that is an error. */
#define RNR_RARE 10000
#define DRAIN_NS (400 * MRAIL_NS_PER_SEC)

static uint64_t num_retired, num_kept, num_rma, num_failed, num_again;
static uint64_t num_flushes, num_sent, num_rnr, num_recalls, num_small;
static uint64_t num_moves;

/* ---- the program ---- */

typedef struct message {
    uint32_t seq;
    uint32_t fenced; /* the sender's operations before the last fence */
} message_t;

static void on_am(void *arg, uint8_t am_id, void *data, size_t length)
{
    side_t *side = arg;
    side_t *other = &w.side[side == &w.side[0]];
    message_t m;

    CHECK(length == sizeof(m), "%zu bytes", length);
    memcpy(&m, data, sizeof(m));
    CHECK(m.seq == side->received, "message %u instead of %u", m.seq,
          side->received);
    ++side->received;
    check_fenced(other, side, m.fenced);
    check_seen(other, m.fenced);
}

static void on_complete(void *arg, void *comp, int status)
{
    side_t *side = arg;
    uint8_t *done = comp;
    uint32_t op = (uint32_t)(done - side->done);

    CHECK(++*done == 1, "an operation completed twice");
    CHECK((status == 0) || has_failed(side), "an operation failed: %d", status);
    if (status != 0) {
        return;
    }
    check_carried(side, op);
    if (side->flush[op] != 0) {
        check_flushed(side, op, side->flush[op] - 1);
    }
}

static void make_ep(side_t *side, const side_t *other)
{
    uint8_t device[MRAIL_DEVICE_ADDR_SIZE], iface[MRAIL_IFACE_ADDR_SIZE];
    uint8_t packed[4 + 4 * MRAIL_MAX_RAILS];

    mrail_device_addr_pack(other->engine, device);
    mrail_iface_addr_pack(other->iface, iface);
    CHECK(mrail_ep_create(side->iface, device, iface, NULL, &side->ep) == 0,
          "endpoint");
    mrail_rkey_pack(other->mem, packed);
    CHECK(mrail_rkey_unpack(packed, &side->rkey) == 0, "key");
}

static void count_op(side_t *side, int ret)
{
    side->num_ops += (ret == -EINPROGRESS);
}

/* Evicts a lane, as the engine does when another peer needs one. */
static void take_back(side_t *side)
{
    mrail_peer_t *peer = peer_of(side);
    unsigned slot = 1 + below(3);
    mrail_lane_t *lane = (peer == NULL) ? NULL : peer->lanes[slot];

    if ((lane != NULL) && (lane->state == MRAIL_LANE_UP)) {
        lane->evict_forced = (uint8_t)(below(8) == 0);
        mrail_lane_event(lane, MRAIL_LANE_EV_WANT, "test");
    }
}

/* Asks the peer for idle credits, as the engine does when another lane needs
 * the buffers. */
static void recall(side_t *side)
{
    mrail_peer_t *peer = peer_of(side);
    mrail_lane_t *lane = (peer == NULL) ? NULL : peer->lanes[below(2)];

    if ((lane != NULL) && mrail_lane_is(lane, MRAIL_LANE_IN_USE) &&
        mrail_am_lane_is_idle(&lane->am)) {
        mrail_am_lane_recall(&lane->am);
        mrail_am_add_pending_ack(side->engine, lane);
        ++num_recalls;
    }
}

static void break_lane(side_t *side)
{
    mrail_peer_t *peer = peer_of(side);
    mrail_lane_t *lane = (peer == NULL) ? NULL : peer->lanes[below(4)];

    if ((lane != NULL) && mrail_lane_is(lane, MRAIL_LANE_CONNECTED)) {
        pair_break(lane, side);
    }
}

/* Moves a lane, or requests a move from the peer. */
static void move_lane(side_t *side)
{
    mrail_peer_t *peer = peer_of(side);
    unsigned slot = below(4), like = below(2) ? MRAIL_MOVE_RANDOM : below(4);
    mrail_lane_t *lane = (peer == NULL) ? NULL : peer->lanes[slot];
    uint32_t seq = side->engine->ctl_seq - below(3);

    if ((lane == NULL) || !mrail_lane_is(lane, MRAIL_LANE_CONNECTED)) {
        return;
    }
    switch (below(4)) {
    case 0:
        mrail_move_to(lane, like, 0, fake_now_ns);
        break;
    case 1:
        mrail_move_back(lane, 0, fake_now_ns);
        break;
    case 2:
        seq = ++side->engine->ctl_seq;
        (void)mrail_ctl_send_move(peer, seq, slot, like);
        break;
    case 3:
        (void)mrail_ctl_send_path(peer, MRAIL_CTL_MOVE_BACK, seq, slot);
        break;
    }
}

static void send_message(side_t *side)
{
    const message_t m = {side->sent, side->fenced};

    side->sent += (mrail_ep_am_short(side->ep, 1, NULL, 0, &m, sizeof(m)) == 0);
}

static void use_rma(side_t *side)
{
    uint32_t op = side->num_ops, length = below(2) ? PUT_SIZE : 64;
    const mrail_iov_t iov = {pair_memory, length, side->mem};
    int put = (below(3) != 0);
    int ret;

    side->length[op] = length;
    side->behind[op] = side->fenced;
    ret = put ? mrail_ep_put_zcopy(side->ep, &iov, 1, PUT_ADDRESS(op),
                                   side->rkey, &side->done[op])
              : mrail_ep_get_zcopy(side->ep, &iov, 1, PUT_ADDRESS(op),
                                   side->rkey, &side->done[op]);
    if (ret != -EINPROGRESS) {
        side->length[op] = 0;
    }
    num_rma += (ret == -EINPROGRESS);
    count_op(side, ret);
}

/* Starts small PUTs, which complete by position. The lane requests completions
 * for only some of them. */
static void use_small_puts(side_t *side)
{
    for (unsigned count = 1 + below(SMALL_PUTS); count != 0; --count) {
        uint32_t op = side->num_ops, length = 1 + below(64);

        side->length[op] = length;
        side->behind[op] = side->fenced;
        side->buffered[op] = 1;
        if (mrail_ep_put_short(side->ep, pair_memory, length, PUT_ADDRESS(op),
                               side->rkey) != 0) {
            side->length[op] = side->buffered[op] = 0;
            return;
        }
        ++side->num_ops;
        ++num_small;
    }
}

static void use_flush(side_t *side)
{
    uint32_t op = side->num_ops;
    int ret = mrail_ep_flush(side->ep, &side->done[op]);

    if (ret == 0) { /* complete immediately */
        check_flushed(side, op, side->sent);
    }
    side->flush[op] = (ret == -EINPROGRESS) ? side->sent + 1 : 0;
    num_flushes += (ret == -EINPROGRESS);
    count_op(side, ret);
}

/* Operations after the fence become visible after those before it. */
static void use_fence(side_t *side)
{
    if (mrail_ep_fence(side->ep) == 0) {
        side->fenced = side->num_ops;
        if (below(2)) {
            use_rma(side);
        }
        send_message(side);
    }
}

static void act(side_t *side, side_t *other)
{
    uint32_t what = below(200);

    if (side->ep == NULL) {
        if (what == 0) {
            make_ep(side, other);
        }
        return;
    }
    if (side->num_ops + 4 + 2 * SMALL_PUTS > MAX_OPS) {
        return;
    }
    if (what < 60) {
        send_message(side);
    } else if (what < 64) {
        use_rma(side);
    } else if (what < 68) {
        use_flush(side);
    } else if (what < 72) {
        take_back(side);
    } else if ((what < 76) && w.breaks) {
        break_lane(side);
    } else if ((what >= 80) && (what < 84)) {
        if (below(2)) {
            use_rma(side);
        } else {
            use_small_puts(side);
        }
        use_fence(side);
    } else if (what == 84) {
        use_small_puts(side);
    } else if (what == 85) {
        use_small_puts(side);
        use_flush(side);
    } else if (what == 77) {
        recall(side);
    } else if ((what == 78) || (what == 79)) {
        move_lane(side);
    } else if (what == 76) {
        side->busy_ns = fake_now_ns + (mrail_ns_t)below(2000) * MRAIL_NS_PER_MS;
    }
}

/* ---- invariants ---- */

static void check_table(const mrail_engine_t *engine)
{
    for (unsigned i = 0; i < engine->num_lanes; ++i) {
        const mrail_lane_t *lane = engine->lanes[i];

        CHECK((lane == NULL) || (lane->index == i),
              "a lane is not at its own index");
        for (unsigned k = 0; (lane != NULL) && (k < engine->num_lane_free);
             ++k) {
            CHECK(engine->lane_free[k] != i,
                  "an index is both free and in use");
        }
    }
}

static void check_indices(const side_t *side)
{
    const mrail_peer_t *peer = peer_of(side);
    uint64_t seen = 0;

    if ((peer == NULL) || (peer->dead != 0)) {
        return;
    }
    for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
        const mrail_lane_t *lane = peer->lanes[slot];

        if (lane != NULL) {
            CHECK(!(seen & (1ull << lane->index)), "an index is in use twice");
            seen |= 1ull << lane->index;
            CHECK(!(peer->up_mask & (1ull << slot)) ||
                      mrail_lane_is(lane, MRAIL_LANE_IN_USE) ||
                      has_failed(side),
                  "lane %u is up in state %s", slot,
                  mrail_lane_state_name(lane->state));
        }
    }
}

/* A path without replies is probed forever, so its probes do not mean that work
 * is pending. */
static int has_path_to_try(const mrail_peer_t *peer)
{
    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        if (peer->paths[slot].health.state != MRAIL_HEALTH_UP) {
            return 1;
        }
    }
    return 0;
}

static int is_quiet(const side_t *side, const side_t *other)
{
    mrail_peer_t *peer = peer_of(side);

    if ((peer == NULL) || (peer->dead == 2)) {
        return 1;
    }
    return ((mrail_list_empty(&side->engine->work) &&
             mrail_list_empty(&side->engine->blocked) &&
             (mrail_heap_first(&side->engine->timers) == NULL)) ||
            (other->dead && has_path_to_try(peer))) &&
           mrail_evict_is_idle(peer) && mrail_list_empty(&peer->ops) &&
           mrail_list_empty(&peer->flushes_pending) && !peer->recovering &&
           (peer->failed == 0);
}

static int waits_for_peer(const side_t *side)
{
    const mrail_peer_t *peer = (side->ep == NULL) ? NULL : peer_of(side);

    return (peer != NULL) && (!mrail_list_empty(&peer->ops) ||
                              !mrail_list_empty(&peer->flushes_pending));
}

/* Checks that the limit, the sent credits and the advertised credits agree for
 * messages from the peer. */
static void check_credits(const mrail_lane_t *lane, const mrail_lane_t *other)
{
    const mrail_engine_t *engine = lane->peer->engine;
    unsigned rail = lane->rail->index;
    uint16_t granted = lane->am.granted;
    unsigned unadvertised = (uint16_t)(granted - lane->am.advertised);

    for (unsigned i = 0; i < engine->num_repost[rail]; ++i) {
        granted += (engine->repost[rail][i]->lane == lane);
    }
    CHECK((uint16_t)(granted - lane->am.received) == lane->am.window,
          "lane %u: the peer has %u credits of %u", lane->slot,
          (uint16_t)(granted - lane->am.received), lane->am.window);
    CHECK((lane->am.received == other->am.sent) &&
              (lane->am.advertised == other->am.limit),
          "lane %u: %u messages of %u, may send %u of %u", lane->slot,
          lane->am.received, other->am.sent, other->am.limit,
          lane->am.advertised);
    CHECK((unadvertised == 0) || ((unadvertised < (lane->am.window + 1) / 2) &&
                                  (lane->am.received != lane->am.advertised)),
          "lane %u: %u credits are not advertised", lane->slot, unadvertised);
}

/* Checks that each buffer is posted or about to be posted, and belongs to a
 * lane or is spare. */
static void check_buffers(const mrail_engine_t *engine, mrail_rail_t *rail)
{
    unsigned batch = engine->num_repost[rail->index];
    unsigned counted = mrail_rail_spare(rail);

    for (unsigned i = 0; i < engine->num_lanes; ++i) {
        const mrail_lane_t *lane = engine->lanes[i];

        if ((lane != NULL) && (lane->rail == rail)) {
            CHECK(lane->buffers ==
                      ((lane->am.window != 0)
                           ? lane->am.window + MRAIL_AM_LANE_RESERVE
                           : 0),
                  "lane %u has %u buffers for %u credits", lane->slot,
                  lane->buffers, lane->am.window);
            counted += lane->buffers;
        }
    }
    for (unsigned i = 0; i < batch; ++i) {
        counted += engine->repost[rail->index][i]->orphan;
    }
    CHECK(counted == rail->srq_used,
          "%u buffers are accounted for, and %u are in use", counted,
          rail->srq_used);
    CHECK(fake_num_receives(rail->srq) + batch == rail->srq_used,
          "%u buffers of %u are posted", fake_num_receives(rail->srq) + batch,
          rail->srq_used);
}

static void check_slot(unsigned slot)
{
    const mrail_lane_t *lane[2] = {peer_of(&w.side[0])->lanes[slot],
                                   peer_of(&w.side[1])->lanes[slot]};

    for (unsigned i = 0; i < 2; ++i) {
        CHECK((lane[i] == NULL) || (lane[i]->state == MRAIL_LANE_UP) ||
                  (lane[i]->state == MRAIL_LANE_IDLE),
              "lane %u stays %s", slot, mrail_lane_state_name(lane[i]->state));
        CHECK((lane[i] == NULL) || (lane[i]->state != MRAIL_LANE_UP) ||
                  ((lane[i]->move.end_ns == 0) &&
                   (lane[i]->qp->state == IBV_QPS_RTS)),
              "the QP of lane %u does not send", slot);
        lane[i] = ((lane[i] != NULL) && (lane[i]->state == MRAIL_LANE_UP))
                      ? lane[i]
                      : NULL;
    }
    CHECK((lane[0] == NULL) == (lane[1] == NULL), "lane %u at one end only",
          slot);
    if (lane[0] != NULL) {
        CHECK((lane[0]->epoch == lane[1]->epoch) &&
                  (lane[0]->tx_tag == lane[1]->rx_tag) &&
                  (lane[1]->tx_tag == lane[0]->rx_tag) &&
                  (fake_qp_dest(lane[0]->qp) == lane[1]->qp->qp_num) &&
                  (fake_qp_dest(lane[1]->qp) == lane[0]->qp->qp_num),
              "lane %u differs between the ends", slot);
        check_credits(lane[0], lane[1]);
        check_credits(lane[1], lane[0]);
    }
}

static void check_small_put(const side_t *side, uint32_t op, int alive)
{
    if (alive) {
        check_carried(side, op);
    }
    CHECK((w.seed & 1) || (side->carried[op] <= side->length[op]),
          "PUT %u of %u bytes wrote %u bytes, although no lane failed", op,
          side->length[op], side->carried[op]);
}

static void check_end(void)
{
    int alive = !w.side[0].dead && !w.side[1].dead;

    for (unsigned i = 0; i < 2; ++i) {
        const side_t *side = &w.side[i], *other = &w.side[!i];

        for (unsigned k = 0; !side->dead && (k < side->num_ops); ++k) {
            if (side->buffered[k]) {
                check_small_put(side, k, alive);
            } else {
                CHECK(side->done[k] == 1, "operation %u completed %u times", k,
                      side->done[k]);
            }
        }
        CHECK(!alive || !has_failed(side), "a live peer has failed");
        CHECK(!alive || (other->received == side->sent),
              "%u of %u messages arrived", other->received, side->sent);
        num_retired += side->engine->counters.lanes_evicted;
        num_kept += side->engine->counters.lanes_kept;
        num_sent += side->sent;
        num_moves += side->engine->counters.lanes_moved;
        num_failed += side->engine->counters.lanes_failed;
        num_again += side->engine->counters.am_replayed +
                     side->engine->counters.rma_replayed;
    }
    for (unsigned i = 0; alive && (i < 2); ++i) {
        for (unsigned k = 0; k < w.side[i].engine->num_rails; ++k) {
            check_buffers(w.side[i].engine, &w.side[i].engine->rails[k]);
        }
    }
    for (unsigned slot = 0; alive && (slot < MRAIL_MAX_SLOTS); ++slot) {
        if ((peer_of(&w.side[0]) != NULL) && (peer_of(&w.side[1]) != NULL)) {
            check_slot(slot);
        }
    }
}

/* ---- one seed ---- */

static void run_side(side_t *side)
{
    if (side->dead) {
        return;
    }
    mrail_ctl_run(side->engine, fake_now_ns);
    fake_reap(side->engine);
    if (fake_now_ns >= side->busy_ns) {
        mrail_iface_progress(side->iface);
    }
    check_table(side->engine);
    check_indices(side);
}

static void run_step(mrail_ns_t step_ns)
{
    pair_advance(step_ns);
    run_side(&w.side[0]);
    run_side(&w.side[1]);
}

/* Delivers all late messages. From now on, no message is lost. */
static void run_until_idle(void)
{
    side_t *left = &w.side[0]; /* the other side may be dead */
    mrail_ns_t end_ns = fake_now_ns + DRAIN_NS;
    unsigned quiet = 0;

    w.loss_ppm = w.dup_ppm = w.late_ppm = 0;
    w.side[0].busy_ns = w.side[1].busy_ns = 0;
    while (quiet < 20) {
        int is =
            (w.num_requests == 0) && ((w.num_datagrams == 0) || w.side[1].dead);

        run_step(10 * MRAIL_NS_PER_MS);
        if (w.side[1].dead && waits_for_peer(left)) {
            (void)mrail_ep_check(left->ep); /* as UCX's keepalive does */
        }
        for (unsigned i = 0; i < 2; ++i) {
            is &= w.side[i].dead || is_quiet(&w.side[i], &w.side[!i]);
        }
        quiet = is ? quiet + 1 : 0;
        CHECK(fake_now_ns < end_ns, "some work never completes");
    }
}

/* Sends as many messages as the lanes have buffers, to a side that does not
 * poll. Lanes no longer fail, so no message may lack a buffer. */
static void send_again(void)
{
    w.breaks = 0;
    for (unsigned i = 0; i < AGAIN_STEPS; ++i) {
        side_t *side = &w.side[below(2)];
        uint32_t sent = side->sent - 1;

        run_step((mrail_ns_t)below(4000) * 1000);
        if (below(20) == 0) {
            side->busy_ns = fake_now_ns + below(200) * MRAIL_NS_PER_MS;
        }
        while ((side->ep != NULL) && (fake_now_ns >= side->busy_ns) &&
               (sent != side->sent)) {
            sent = side->sent;
            send_message(side);
        }
    }
}

static void run_seed(uint64_t seed)
{
    static const mrail_iface_params_t callbacks = {.am = on_am,
                                                   .complete = on_complete};
    unsigned dies;

    pair_open(seed, &callbacks);
    w.breaks = (int)(seed & 1);
    dies = (below(4) == 0) ? below(ACTIVE_STEPS) : ACTIVE_STEPS;
    for (w.step = 0; w.step < ACTIVE_STEPS; ++w.step) {
        run_step((mrail_ns_t)below(4000) * 1000);
        for (unsigned i = 0; i < 2; ++i) {
            if (!w.side[i].dead && (fake_now_ns >= w.side[i].busy_ns)) {
                act(&w.side[i], &w.side[!i]);
            }
        }
        w.side[1].dead |= (w.step == dies);
    }
    run_until_idle();
    num_rnr += w.num_rnr;
    if (!w.side[0].dead && !w.side[1].dead) {
        send_again();
        run_until_idle();
    }
    check_end();
    pair_close();
}

int main(void)
{
    const char *one = getenv("MRAIL_TEST_SEED");
    const char *many = getenv("MRAIL_TEST_SEEDS");
    uint64_t first = (one != NULL) ? strtoull(one, NULL, 0) : 1;
    uint64_t count = (one != NULL)    ? 1
                     : (many != NULL) ? strtoull(many, NULL, 0)
                     : (getenv("MRAIL_TEST_FULL") != NULL) ? SEEDS_FULL
                                                           : SEEDS;

    printf("1..1\n");
    for (uint64_t i = 0; i < count; ++i) {
        run_seed(first + i);
    }
    CHECK(
        (one != NULL) ||
            ((num_retired > count) && (num_kept > count) && (num_rma > count) &&
             (num_flushes > count) && (num_failed > count) &&
             (num_again > count) && (num_recalls > count) &&
             (num_small > count) && (num_moves > count)),
        "%llu lanes evicted, %llu kept, %llu PUTs and GETs, %llu small PUTs, "
        "%llu flushes, %llu lanes failed, %llu requests replayed, %llu moves: "
        "nothing was tried",
        (unsigned long long)num_retired, (unsigned long long)num_kept,
        (unsigned long long)num_rma, (unsigned long long)num_small,
        (unsigned long long)num_flushes, (unsigned long long)num_failed,
        (unsigned long long)num_again, (unsigned long long)num_moves);
    CHECK((one != NULL) || (num_rnr * RNR_RARE <= num_sent),
          "%llu of %llu messages found no buffer", (unsigned long long)num_rnr,
          (unsigned long long)num_sent);
    printf(
        "ok - lanes: %llu seeds, %llu lanes evicted, %llu kept, %llu failed, "
        "%llu requests replayed\n",
        (unsigned long long)count, (unsigned long long)num_retired,
        (unsigned long long)num_kept, (unsigned long long)num_failed,
        (unsigned long long)num_again);
    return 0;
}
