/*
 * Tests control messages on a rail without a free send buffer. The engine
 * sends them later or over another rail. Until then, they must not count as
 * attempts or lost probes.
 */
#include "config.h"
#include "orchestrator/ports.h"
#include "rail/conn/conn.h"
#include "rail/data/peer_lanes.h"
#include "rail/verbs/rail.h"
#include "mock_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PEERS 40
#define ROUND (20 * MRAIL_NS_PER_MS) /* interval between probes or retries */

/* Makes the device complete `count` datagrams on a rail. */
static void send_some(unsigned rail, unsigned count)
{
    while ((count-- != 0) &&
           fake_complete_send(engine->rails[rail].ud_cq, IBV_WC_SUCCESS)) {
    }
}

static void send_all(void)
{
    fake_ud_hold = 0;
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        send_some(i, MRAIL_UD_TX);
    }
}

/* Uses up all send buffers of the rail: the device keeps the datagrams. */
static void fill(unsigned index)
{
    mrail_rail_t *rail = &engine->rails[index];
    mrail_ctl_msg_t msg = {.type = MRAIL_CTL_BYE, .src_id = engine->id};
    struct ibv_ah *ah =
        mrail_rail_create_ah(rail, &engine->config, rail->attr.gid, 0xC000);
    uint8_t buf[MRAIL_CTL_MAX_SIZE];
    int length = mrail_ctl_encode(&msg, buf, sizeof(buf)), ret;

    assert_non_null(ah);
    assert_true(length > 0);
    fake_ud_hold = 1;
    do {
        ret = mrail_rail_ud_send(rail, ah, 0x99, buf, (size_t)length);
    } while (ret == 0);
    assert_int_equal(ret, -EAGAIN);
    mrail_rail_destroy_ah(rail, ah);
}

static void fill_all(void)
{
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        fill(i);
    }
    sent.num_msgs = 0;
}

static void stall(unsigned peer_index, unsigned slot)
{
    mrail_path_event(peer_of(peer_index), slot, MRAIL_HEALTH_STALLED,
                     fake_now_ns);
}

static mrail_health_state_t health(unsigned peer_index, unsigned slot)
{
    return peer_of(peer_index)->paths[slot].health.state;
}

/* ---- many peers ---- */

/* Makes each peer reply immediately to all messages since the last call. */
static unsigned answer(unsigned *seen)
{
    unsigned count = 0;

    for (; *seen < sent.num_msgs; ++*seen) {
        mrail_ctl_msg_t reply = {.type = MRAIL_CTL_PROBE_REP,
                                 .seq = sent.msgs[*seen].seq};

        if (sent.msgs[*seen].type == MRAIL_CTL_PROBE) {
            deliver_only((unsigned)(sent.msgs[*seen].dst_cookie - COOKIE), 0,
                         &reply);
            ++count;
        }
    }
    return count;
}

/* A pause of the process makes all lanes suspect at the same time, but the
 * device sends only two datagrams per rail and round. A probe that has not been
 * sent yet must not count against its path. */
static void test_slow_device_retires_no_path(void **state)
{
    unsigned seen, answered = 0;

    start(4 * PEERS * 2);
    for (unsigned peer_index = 0; peer_index < PEERS; ++peer_index) {
        connect_lanes(peer_index, LANES);
    }
    seen = sent.num_msgs;
    fake_ud_hold = 1;
    for (unsigned i = 0; i < PEERS * LANES; ++i) {
        stall(i % PEERS, i / PEERS);
    }
    assert_int_equal(sent.num_msgs - seen, 2 * MRAIL_UD_TX);
    for (unsigned i = 0; i < 100; ++i) {
        answered += answer(&seen);
        send_some(0, 2);
        send_some(1, 2);
        run_control(ROUND);
        progress();
    }
    assert_int_equal(engine->counters.lanes_failed, 0);
    for (unsigned i = 0; i < PEERS * LANES; ++i) {
        assert_int_equal(health(i / LANES, i % LANES), MRAIL_HEALTH_UP);
    }
    assert_int_equal(answered, PEERS * LANES); /* one probe per lane */
    send_all();
}

/* A fast device frees its send buffers immediately, so no probe has to wait.
 * When the first lane of a peer becomes suspect, the engine also probes the
 * peer's other lanes, for comparison. */
static void test_quick_device_sends_all(void **state)
{
    unsigned seen;

    start(4 * PEERS * 2);
    for (unsigned peer_index = 0; peer_index < PEERS; ++peer_index) {
        connect_lanes(peer_index, LANES);
    }
    seen = sent.num_msgs;
    for (unsigned i = 0; i < PEERS * LANES; ++i) {
        stall(i % PEERS, i / PEERS);
    }
    assert_int_equal(sent.num_msgs - seen, PEERS * (LANES + LANES - 1));
}

/* ---- probes ---- */

static unsigned probes(unsigned slot)
{
    unsigned count = 0;

    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        count += (sent.msgs[i].type == MRAIL_CTL_PROBE) &&
                 (sent.msgs[i].path.slot == slot);
    }
    return count;
}

/* The time limit of a probe starts when the device sends the probe. */
static void test_probe_waits_for_a_buffer(void **state)
{
    start(64);
    connect_lanes(0, 2);
    fill(peer_of(0)->lanes[1]->rail->index);
    sent.num_msgs = 0;
    stall(0, 1);
    for (unsigned i = 0; i < 9; ++i) {
        run_control(5 * ROUND);
        progress();
    }
    assert_int_equal(probes(1), 0);
    assert_int_equal(health(0, 1), MRAIL_HEALTH_SUSPECT);
    send_all();
    run_control(0);
    assert_int_equal(probes(1), 1);
    run_control(ROUND - MRAIL_NS_PER_MS);
    assert_int_equal(probes(1), 1);
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                  .seq = peer_of(0)->paths[1].probes[0]});
    assert_int_equal(health(0, 1), MRAIL_HEALTH_UP);
    assert_int_equal(engine->counters.lanes_failed, 0);
}

/* The rail that delivers a PROBE has a send buffer for the reply. The liveness
 * check names no path. Its repetitions rotate over the rails, because path 0
 * may have failed. */
static void test_reply_takes_the_rail_of_the_probe(void **state)
{
    start(64);
    connect_lanes(0, 2);
    for (unsigned rail = 0; rail < 2; ++rail) {
        mrail_rail_pair_t pair = peer_of(0)->pairs[peer_of(0)->base];
        mrail_ctl_msg_t probe = {.type = MRAIL_CTL_PROBE, .seq = 50 + rail};

        fill(1 - rail);
        sent.num_msgs = 0;
        deliver_on(0, rail, &probe);
        assert_int_equal(pair.local, 0); /* of slot 0 */
        assert_int_equal(count_sent(MRAIL_CTL_PROBE_REP), 1);
        assert_int_equal(last(MRAIL_CTL_PROBE_REP)->src_rail, rail);
        assert_int_equal(last(MRAIL_CTL_PROBE_REP)->seq, 50 + rail);
        send_all();
    }
}

/* The datagram of an address handle may still wait in the device when the
 * handle is no longer needed. */
static void test_handle_outlives_its_datagrams(void **state)
{
    mrail_path_t *path;
    int before;

    start(64);
    connect_lanes(0, 2);
    path = &peer_of(0)->paths[1];
    fake_ud_hold = 1;
    stall(0, 1);
    assert_non_null(path->handle.ah);
    before = fake_num_ahs;
    for (unsigned i = 1; i <= 3; ++i) { /* the lane moves */
        path->sport = (uint16_t)(path->sport + 1);
        run_control(ROUND);
        assert_int_equal(fake_num_ahs, before + (int)i);
    }
    send_all();
    path->sport = (uint16_t)(path->sport + 1);
    run_control(ROUND); /* polls the completions */
    fake_reap(engine);
    assert_int_equal(fake_num_ahs, before);
}

/* Datagrams are still at the device when the peer leaves, and when the engine
 * closes. */
static void test_end_with_datagrams(void **state)
{
    int before = fake_num_ahs;

    start(64);
    connect_lanes(0, 2);
    fake_ud_hold = 1;
    stall(0, 0);
    stall(0, 1);
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_ctl_drop_handles(peer_of(0), NULL);
    pthread_mutex_unlock(&engine->ctl_lock);
    assert_true(fake_num_ahs > before);
    teardown(NULL);
    assert_int_equal(fake_num_ahs, before);
    start(64);
}

/* The lane progresses while its probe waits, so the probe is no longer
 * needed. */
static void test_unneeded_probe(void **state)
{
    start(64);
    connect_lanes(0, 2);
    fill(peer_of(0)->lanes[1]->rail->index);
    sent.num_msgs = 0;
    stall(0, 1);
    mrail_path_event(peer_of(0), 1, MRAIL_HEALTH_PROGRESS, fake_now_ns);
    assert_int_equal(health(0, 1), MRAIL_HEALTH_UP);
    send_all();
    run_control(ROUND);
    assert_int_equal(probes(1), 0);
}

/* The engine must not wait for a device that completes nothing for some time.
 * The other device works. */
static void test_failed_device_retires_paths(void **state)
{
    unsigned seen;

    start(64);
    connect_lanes(0, 2);
    fill(peer_of(0)->lanes[1]->rail->index);
    seen = sent.num_msgs;
    stall(0, 1);
    for (unsigned i = 0; (i < 100) && (health(0, 1) == MRAIL_HEALTH_SUSPECT);
         ++i) {
        answer(&seen);
        run_control(ROUND);
    }
    assert_int_equal(health(0, 1), MRAIL_HEALTH_RETIRED);
    send_all();
}

static size_t pack(void *dest, void *arg)
{
    memset(dest, 0, 8);
    return 8;
}

/* ---- source ports ---- */

/* Returns a mask of the uplinks that messages of a type took on a rail. */
static unsigned uplinks_of(mrail_ctl_type_t type, unsigned rail)
{
    unsigned mask = 0;

    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        if ((sent.msgs[i].type == type) && (sent.msgs[i].src_rail == rail)) {
            mask |= 1u << mrail_ports_segment_of(8, sent.ports[i]);
        }
    }
    return mask;
}

/* Runs until `count` messages of this type have been sent. */
static void run_until(mrail_ctl_type_t type, unsigned count)
{
    for (unsigned i = 0; (count_sent(type) < count) && (i < 1000); ++i) {
        run_control(ROUND);
    }
    assert_true(count_sent(type) >= count);
}

/* A port rule may drop all packets of a failed uplink, so a repeated request
 * must try all uplinks. */
static void test_repeats_take_all_uplinks(void **state)
{
    start(64);
    deliver_hello(0);
    sent.num_msgs = 0;
    want(0, 1);
    run_until(MRAIL_CTL_LANE_REQ, 16);
    assert_int_equal(uplinks_of(MRAIL_CTL_LANE_REQ, 0), 0xff);
    assert_int_equal(uplinks_of(MRAIL_CTL_LANE_REQ, 1), 0xff);
}

/* Only the peer's address is known so far. */
static void test_first_messages_take_all_uplinks(void **state)
{
    start(64);
    assert_int_equal(mrail_ep_am_bcopy(ep_to(0), 1, pack, NULL), -EAGAIN);
    run_until(MRAIL_CTL_HELLO, 16);
    assert_int_equal(uplinks_of(MRAIL_CTL_HELLO, 0), 0xff);
}

static void ask(uint32_t seq, unsigned rail)
{
    mrail_ctl_msg_t probe = {
        .type = MRAIL_CTL_PROBE, .seq = seq, .path = {.slot = UINT16_MAX}};

    deliver_on(0, rail, &probe);
    assert_int_equal(last(MRAIL_CTL_PROBE_REP)->seq, seq);
}

/* The peer repeats a request whose reply the fabric has dropped. */
static void test_replies_to_repeats_take_all_uplinks(void **state)
{
    start(64);
    connect_lanes(0, 2);
    sent.num_msgs = 0;
    for (unsigned i = 0; i < 8; ++i) {
        ask(900 + i, 1);
    }
    assert_int_equal(__builtin_popcount(uplinks_of(MRAIL_CTL_PROBE_REP, 1)), 1);
    for (unsigned i = 0; i < 8; ++i) {
        ask(907, 1);
    }
    assert_int_equal(uplinks_of(MRAIL_CTL_PROBE_REP, 1), 0xff);
    assert_int_equal(uplinks_of(MRAIL_CTL_PROBE_REP, 0), 0);
}

/* Fails both lanes to the peer, and reaps them. */
static void lose_lanes(void)
{
    for (unsigned slot = 0; slot < 2; ++slot) {
        mrail_path_event(peer_of(0), slot, MRAIL_HEALTH_CQE_ERROR, fake_now_ns);
    }
    break_lanes(0, 2);
    confirm_broken(0, 0, 0);
    confirm_broken(0, 1, 0);
}

/* Runs until a probe of the path takes this uplink, and returns the index of
 * the probe. */
static unsigned await_probe(unsigned slot, unsigned uplink)
{
    for (unsigned i = 0; i < 1000; ++i) {
        unsigned first = sent.num_msgs;

        run_control(ROUND);
        for (unsigned k = first; k < sent.num_msgs; ++k) {
            if ((sent.msgs[k].type == MRAIL_CTL_PROBE) &&
                (sent.msgs[k].path.slot == slot) &&
                (mrail_ports_segment_of(8, sent.ports[k]) == uplink)) {
                return k;
            }
        }
    }
    fail_msg("no probe of path %u takes uplink %u", slot, uplink);
    return 0;
}

/* The uplink of the only lanes drops everything. The next lane must take an
 * uplink from which a probe was answered. */
static void test_lane_moves_to_a_working_uplink(void **state)
{
    for (unsigned n = 1; n < 8; ++n) {
        unsigned failed, probe;

        start(64);
        connect_lanes(0, 2);
        failed = mrail_ports_segment_of(8, peer_of(0)->paths[0].sport);
        lose_lanes();
        sent.num_msgs = 0;
        probe = await_probe(0, (failed + n) % 8);
        assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 0);
        deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                      .seq = sent.msgs[probe].seq});
        run_control(0);
        assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.slot, 0);
        assert_int_equal(peer_of(0)->lanes[0]->sport, sent.ports[probe]);
        teardown(NULL);
    }
}

/* Connects lanes whose slot 0 uses an uplink other than its own, as in the
 * previous test. Returns its own port. */
static uint16_t leave_own_port(size_t uplinks)
{
    uint16_t own;
    unsigned probe;

    start(64);
    engine->config.uplinks = uplinks;
    connect_lanes(0, 2);
    own = peer_of(0)->paths[0].sport;
    lose_lanes();
    probe = await_probe(0, (mrail_ports_segment_of(8, own) + 3) % 8);
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                  .seq = sent.msgs[probe].seq});
    run_control(0);
    deliver_lane(0, MRAIL_CTL_LANE_REP, 0, last(MRAIL_CTL_LANE_REQ)->seq,
                 last(MRAIL_CTL_LANE_REQ)->lane.epoch);
    progress();
    assert_int_not_equal(peer_of(0)->lanes[0]->sport, own);
    return own;
}

/* Runs for this time, and answers each probe from the port. Returns the number
 * of such probes. */
static unsigned answer_port(uint16_t port, mrail_ns_t time_ns, int is_answered)
{
    unsigned count = 0;

    for (mrail_ns_t t = 0; t < time_ns; t += ROUND) {
        unsigned first = sent.num_msgs = 0;

        run_control(ROUND);
        progress();
        for (unsigned k = first; k < sent.num_msgs; ++k) {
            if ((sent.msgs[k].type == MRAIL_CTL_PROBE) &&
                (sent.ports[k] == port)) {
                ++count;
                if (is_answered) {
                    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                                  .seq = sent.msgs[k].seq});
                }
            }
        }
    }
    return count;
}

/* Once its own uplink recovers, the lane returns to it. */
static void test_lane_returns_to_its_uplink(void **state)
{
    uint16_t own = leave_own_port(8);
    mrail_lane_t *lane = peer_of(0)->lanes[0];

    assert_int_equal(lane->state, MRAIL_LANE_UP);
    assert_in_range(answer_port(own, 5 * MRAIL_NS_PER_SEC, 0), 2, 3);
    assert_int_not_equal(lane->sport, own); /* it is still down */
    assert_int_equal(answer_port(own, 20 * MRAIL_NS_PER_SEC, 1), 3);
    assert_int_equal(lane->sport, own);
    assert_int_equal(peer_of(0)->paths[0].sport, own);
    assert_int_equal(fake_qp_label(lane->qp), mrail_ports_flow_label(own));
    assert_int_equal(engine->counters.lanes_failed, 2);
}

/* The send queue does not drain while the port changes. The lane keeps its port
 * for now, and tries again. */
static void test_return_is_repeated(void **state)
{
    uint16_t own = leave_own_port(8);
    mrail_lane_t *lane = peer_of(0)->lanes[0];

    fake_sq_draining = 1;
    assert_in_range(answer_port(own, 5 * MRAIL_NS_PER_SEC, 1), 4, 9);
    assert_int_not_equal(lane->sport, own);
    fake_sq_draining = 0;
    assert_int_equal(answer_port(own, 20 * MRAIL_NS_PER_SEC, 1), 3);
    assert_int_equal(lane->sport, own);
    assert_int_equal(lane->state, MRAIL_LANE_UP);
}

/* Without port rules, the switches avoid a failed uplink. */
static void test_no_return_without_rules(void **state)
{
    uint16_t own = leave_own_port(MRAIL_SIZE_AUTO);

    assert_int_equal(answer_port(own, 20 * MRAIL_NS_PER_SEC, 1), 0);
    assert_int_not_equal(peer_of(0)->lanes[0]->sport, own);
}

/* Leaves only the lane of slot 0, and makes its path suspect. */
static void doubt_sole_path(void)
{
    start(64);
    connect_lanes(0, 2);
    mrail_path_event(peer_of(0), 1, MRAIL_HEALTH_CQE_ERROR, fake_now_ns);
    mrail_failover_request(peer_of(0)->lanes[1], "test");
    progress();
    run_control(ROUND);
    progress();
    confirm_broken(0, 1, 0);
    run_control(2 * MRAIL_NS_PER_SEC); /* earlier answers no longer count */
    sent.num_msgs = 0;
    stall(0, 0);
}

/* The peer is reachable over another uplink, so the path is at fault. */
static void test_sole_path_is_compared(void **state)
{
    unsigned seen = 0;

    doubt_sole_path();
    for (unsigned i = 0; (i < 50) && (health(0, 0) == MRAIL_HEALTH_SUSPECT);
         ++i) {
        for (; seen < sent.num_msgs; ++seen) {
            if ((sent.msgs[seen].type == MRAIL_CTL_PROBE) &&
                (sent.msgs[seen].path.slot == UINT16_MAX)) {
                deliver_only(0, 0,
                             &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                                .seq = sent.msgs[seen].seq});
            }
        }
        run_control(ROUND);
    }
    assert_int_equal(health(0, 0), MRAIL_HEALTH_RETIRED);
}

/* Silence on all uplinks is not evidence against the path. */
static void test_silent_peer_keeps_its_path(void **state)
{
    unsigned uplinks = 0;
    uint32_t seq = 0;

    doubt_sole_path();
    for (unsigned i = 0; i < 50; ++i) {
        run_control(ROUND);
    }
    assert_int_equal(health(0, 0), MRAIL_HEALTH_SUSPECT);
    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        if ((sent.msgs[i].type == MRAIL_CTL_PROBE) &&
            (sent.msgs[i].path.slot == UINT16_MAX)) {
            uplinks |= 1u << mrail_ports_segment_of(8, sent.ports[i]);
            /* The peer recognises repetitions by this number. It then replies
             * over another uplink. */
            seq = (seq == 0) ? sent.msgs[i].seq : seq;
            assert_int_equal(sent.msgs[i].seq, seq);
        }
    }
    assert_int_equal(uplinks, 0xff);
}

/* As long as another lane leads to the peer, the uplinks of lanes do not
 * change. */
static void test_lane_keeps_its_uplink(void **state)
{
    unsigned uplink;

    start(64);
    connect_lanes(0, 2);
    uplink = mrail_ports_segment_of(8, peer_of(0)->paths[0].sport);
    mrail_path_event(peer_of(0), 0, MRAIL_HEALTH_CQE_ERROR, fake_now_ns);
    break_lanes(0, 1);
    confirm_broken(0, 0, 0);
    sent.num_msgs = 0;
    for (unsigned i = 0; i < 100; ++i) {
        run_control(ROUND);
    }
    for (unsigned k = 0; k < sent.num_msgs; ++k) {
        assert_int_equal(sent.msgs[k].path.slot, 0);
        assert_int_equal(mrail_ports_segment_of(8, sent.ports[k]), uplink);
    }
    assert_true(probes(0) > 3);
}

/* ---- requests without a send buffer ---- */

/* Lets `count` rounds pass without a send buffer. */
static void run_polls(unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        run_control(ROUND);
    }
}

static void test_hello_waits_for_a_buffer(void **state)
{
    start(64);
    fill_all();
    assert_int_equal(mrail_ep_am_bcopy(ep_to(0), 1, pack, NULL), -EAGAIN);
    run_polls(45);
    assert_int_equal(peer_of(0)->state, MRAIL_PEER_HELLO);
    assert_int_equal(peer_of(0)->tries, 0);
    assert_int_equal(engine->counters.ctl_resent, 0);
    send_all();
    run_control(0);
    assert_int_equal(peer_of(0)->tries, 1);
    assert_int_equal(count_sent(MRAIL_CTL_HELLO), 1);
}

static void test_hello_goes_over_the_other_rail(void **state)
{
    for (unsigned i = 0; i < 2; ++i) {
        start(64);
        fill(i);
        sent.num_msgs = 0;
        assert_int_equal(mrail_ep_am_bcopy(ep_to_rails(0, 2), 1, pack, NULL),
                         -EAGAIN);
        run_control(0);
        assert_int_equal(count_sent(MRAIL_CTL_HELLO), 1);
        assert_int_equal(last(MRAIL_CTL_HELLO)->src_rail, 1 - i);
        send_all();
        teardown(NULL);
    }
}

static void test_lane_request_waits_for_a_buffer(void **state)
{
    start(64);
    deliver_hello(0);
    fill_all();
    want(0, 1);
    run_polls(45);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_CONNECTING);
    assert_int_equal(peer_of(0)->lanes[0]->tries, 0);
    send_all();
    run_control(0);
    assert_int_equal(peer_of(0)->lanes[0]->tries, 1);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 1);
}

/* A repeated request follows one HELLO, not one HELLO per completed buffer. */
static void test_one_buffer_at_a_time(void **state)
{
    start(64);
    deliver_hello(0);
    want(0, 1);
    fill_all();
    run_control(ROUND);
    for (unsigned i = 0; i < 60; ++i) {
        send_some(0, 1);
        run_control(MRAIL_NS_PER_MS);
    }
    assert_true(count_sent(MRAIL_CTL_LANE_REQ) >= 1);
    assert_true(count_sent(MRAIL_CTL_HELLO) <= 4);
    send_all();
}

static void test_other_rail_has_a_buffer(void **state)
{
    start(64);
    engine->next_base = 0;
    deliver_hello(0);
    fill(0);
    sent.num_msgs = 0;
    want(0, 1);
    assert_int_equal(count_sent(MRAIL_CTL_LANE_REQ), 1);
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->src_rail, 1);
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.src_rail, 0);
    send_all();
}

static void test_fail_waits_for_a_buffer(void **state)
{
    start(64);
    connect_lanes(0, 1);
    fill_all();
    mrail_failover_request(peer_of(0)->lanes[0], "test");
    progress();
    run_polls(45);
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_CLOSING);
    assert_int_equal(peer_of(0)->lanes[0]->tries, 0);
    send_all();
    run_control(0);
    assert_int_equal(peer_of(0)->lanes[0]->tries, 1);
    assert_int_equal(count_sent(MRAIL_CTL_FAIL), 1);
}

/* The reply to the peer is delayed, but must be neither lost nor repeated. */
static void test_confirm_waits_for_a_buffer(void **state)
{
    mrail_ctl_msg_t msg;
    mrail_lane_t *lane;

    start(64);
    connect_lanes(0, 1);
    fill_all();
    lane = peer_of(0)->lanes[0];
    fake_lane_msg(&msg, MRAIL_CTL_FAIL, 0, 77, lane->epoch);
    deliver(0, &msg);
    progress();
    run_control(ROUND);
    progress();
    assert_int_equal(lane->state, MRAIL_LANE_CLOSING);
    assert_int_equal(count_sent(MRAIL_CTL_CONFIRM), 0);
    send_all();
    progress();
    assert_int_equal(count_sent(MRAIL_CTL_CONFIRM), 1);
    assert_int_equal(last(MRAIL_CTL_CONFIRM)->seq, 77);
    assert_true((lane->state == MRAIL_LANE_CLOSED) ||
                (lane->state == MRAIL_LANE_BOTH_CLOSED));
}

static void test_retire_waits_for_a_buffer(void **state)
{
    start(64);
    connect_lanes(0, 2);
    fill_all();
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_lane_event(peer_of(0)->lanes[1], MRAIL_LANE_EV_WANT, "test");
    pthread_mutex_unlock(&engine->ctl_lock);
    progress();
    run_polls(45);
    assert_int_equal(peer_of(0)->lanes[1]->state, MRAIL_LANE_EVICTING);
    assert_int_equal(peer_of(0)->lanes[1]->tries, 0);
    send_all();
    run_control(0);
    assert_int_equal(peer_of(0)->lanes[1]->tries, 1);
    assert_int_equal(count_sent(MRAIL_CTL_EVICT), 1);
}

static void test_keepalive_waits_for_a_buffer(void **state)
{
    start(64);
    connect_lanes(0, 1);
    fill_all();
    mrail_ctl_probe(peer_of(0));
    run_polls(45);
    assert_int_equal(peer_of(0)->probe_tries, 1);
    send_all();
    run_control(0);
    assert_int_equal(peer_of(0)->probe_tries, 2);
    assert_int_equal(count_sent(MRAIL_CTL_PROBE), 1);
}

/* A flush waits for a peer that computes. POLL is sent with the next free
 * buffer, and its timer starts only then. */
static void test_poll_waits_for_a_buffer(void **state)
{
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 1);
    ep = ep_to(0);
    assert_int_equal(mrail_ep_am_bcopy(ep, 1, pack, NULL), 8);
    assert_int_equal(mrail_ep_flush(ep, &completions), -EINPROGRESS);
    fill_all();
    progress();
    fake_now_ns += 5 * MRAIL_NS_PER_MS;
    progress();
    assert_int_equal(count_sent(MRAIL_CTL_POLL), 0);
    send_all();
    fake_now_ns += MRAIL_NS_PER_MS;
    progress();
    assert_int_equal(count_sent(MRAIL_CTL_POLL), 1);
    fake_now_ns += 24 * MRAIL_NS_PER_MS;
    progress();
    assert_int_equal(count_sent(MRAIL_CTL_POLL), 1);
}

/* ---- requests to move a lane ---- */

#define WINDOW (250 * MRAIL_NS_PER_MS)

static void start_without_rules(void)
{
    start(64);
    engine->config.uplinks = MRAIL_SIZE_AUTO;
    connect_lanes(0, LANES);
    assert_int_equal(mrail_peer_num_up(peer_of(0)), LANES);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        engine->rails[i].speed_bps = 100000000000;
    }
}

static void move_tick(void)
{
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_move_tick(peer_of(0), fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* READs are equally slow on both lanes of one pair of rails. */
static void slow_window(void)
{
    for (unsigned slot = 0; slot < 4; slot += 2) {
        mrail_lane_t *lane = peer_of(0)->lanes[slot];

        lane->work[MRAIL_OP_GET].bytes += 1 << 20;
        lane->work[MRAIL_OP_GET].busy_ns += WINDOW;
        lane->rail->work[MRAIL_OP_GET] += 1 << 20;
    }
    fake_now_ns += WINDOW;
    move_tick();
}

/* Returns 1 if a lane is held for a request to the peer. */
static int is_request_due(void)
{
    for (unsigned slot = 0; slot < LANES; ++slot) {
        if (peer_of(0)->lanes[slot]->held) {
            return 1;
        }
    }
    return 0;
}

/* Runs until a request to the peer is due: a lane tries another path. */
static void slow_reads(void)
{
    unsigned windows = 0;

    run_control(0);
    while (!is_request_due()) {
        assert_true(++windows < 20);
        slow_window();
    }
    run_control(ROUND);
}

/* If MOVE_BACK is lost, the lane stays on the worse path, and the next evidence
 * may take minutes. */
static void test_move_waits_for_a_buffer(void **state)
{
    const mrail_ctl_msg_t *move;

    start_without_rules();
    slow_window();
    fill_all();
    slow_reads();
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 0);
    send_all();
    move_tick();
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 1);
    move = last(MRAIL_CTL_MOVE);
    assert_int_equal(move->move.like, MRAIL_MOVE_RANDOM);
    run_control(ROUND);
    assert_int_equal(count_sent(MRAIL_CTL_MOVE), 1);

    /* The move gains nothing. */
    for (unsigned i = 0; i < 4; ++i) {
        slow_window();
    }
    fill(0);
    fill(1);
    slow_reads();
    assert_int_equal(count_sent(MRAIL_CTL_MOVE_BACK), 0);
    send_all();
    move_tick();
    assert_int_equal(count_sent(MRAIL_CTL_MOVE_BACK), 1);
    assert_int_equal(last(MRAIL_CTL_MOVE_BACK)->path.slot, move->move.slot);
    assert_int_equal(last(MRAIL_CTL_MOVE_BACK)->seq, move->seq);
}

/* A MOVE that was never sent leaves nothing to undo. */
static void test_move_back_replaces_move(void **state)
{
    unsigned seen;

    start_without_rules();
    slow_window();
    fill_all();
    slow_reads();
    /* Wait until MOVE_BACK is due. */
    mrail_list_del(&peer_of(0)->work);
    mrail_heap_del(&engine->timers, &peer_of(0)->timer);
    for (unsigned i = 0; i < 5; ++i) {
        slow_window();
    }
    seen = sent.num_msgs;
    send_all();
    mrail_ctl_work(peer_of(0));
    run_control(ROUND);
    assert_int_equal(sent.num_msgs, seen);
}

/* ---- the end ---- */

static int
    yields_complete; /* 1: each sched_yield() completes one send of rail 1 */

/* The engine calls sched_yield() only where it waits, so time passes only
 * during this call. */
int sched_yield(void)
{
    fake_now_ns += MRAIL_NS_PER_MS / 10;
    if (yields_complete) {
        send_some(1, 1);
    }
    return 0;
}

/* One rail has failed and the other is slow. Each peer must receive BYE over
 * the slow rail. */
static void test_bye_waits_for_a_buffer(void **state)
{
    unsigned heard = 0;

    start(4 * PEERS * 2);
    for (unsigned peer_index = 0; peer_index < 3 * PEERS; ++peer_index) {
        deliver_hello(peer_index);
    }
    fill(0);
    sent.num_msgs = 0;
    yields_complete = 1;
    mrail_ctl_bye(engine);
    yields_complete = 0;
    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        heard += (sent.msgs[i].type == MRAIL_CTL_BYE) &&
                 (sent.msgs[i].src_rail == 1);
    }
    assert_int_equal(heard, 3 * PEERS);
    send_all();
}

/* If a device never completes a send buffer, the engine finally fails the
 * peer. */
static void test_dead_device_fails_the_peer(void **state)
{
    start(64);
    fill_all();
    assert_int_equal(mrail_ep_am_bcopy(ep_to(0), 1, pack, NULL), -EAGAIN);
    for (unsigned i = 0; (i < 600) && (peer_of(0)->failed == 0); ++i) {
        run_control(100 * MRAIL_NS_PER_MS);
    }
    assert_int_equal(peer_of(0)->failed, -ETIMEDOUT);
    assert_int_equal(count_sent(MRAIL_CTL_HELLO), 0);
    send_all();
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_slow_device_retires_no_path),
        TEST(test_quick_device_sends_all),
        TEST(test_probe_waits_for_a_buffer),
        TEST(test_reply_takes_the_rail_of_the_probe),
        TEST(test_handle_outlives_its_datagrams),
        TEST(test_end_with_datagrams),
        TEST(test_unneeded_probe),
        TEST(test_failed_device_retires_paths),
        TEST(test_repeats_take_all_uplinks),
        TEST(test_first_messages_take_all_uplinks),
        TEST(test_replies_to_repeats_take_all_uplinks),
        TEST(test_lane_moves_to_a_working_uplink),
        TEST(test_sole_path_is_compared),
        TEST(test_silent_peer_keeps_its_path),
        TEST(test_lane_keeps_its_uplink),
        TEST(test_lane_returns_to_its_uplink),
        TEST(test_return_is_repeated),
        TEST(test_no_return_without_rules),
        TEST(test_hello_waits_for_a_buffer),
        TEST(test_hello_goes_over_the_other_rail),
        TEST(test_lane_request_waits_for_a_buffer),
        TEST(test_one_buffer_at_a_time),
        TEST(test_other_rail_has_a_buffer),
        TEST(test_fail_waits_for_a_buffer),
        TEST(test_confirm_waits_for_a_buffer),
        TEST(test_retire_waits_for_a_buffer),
        TEST(test_keepalive_waits_for_a_buffer),
        TEST(test_poll_waits_for_a_buffer),
        TEST(test_move_waits_for_a_buffer),
        TEST(test_move_back_replaces_move),
        TEST(test_bye_waits_for_a_buffer),
        TEST(test_dead_device_fails_the_peer),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
