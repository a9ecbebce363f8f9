/*
 * Tests the paths to a peer. Probes must use the same route as the lanes,
 * and a port may return with a different GID table. Paths exist before the
 * first lane, and also in addition to a single lane.
 */
#include "config.h"
#include "mock_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "orchestrator/ports.h"
#include "rail/conn/conn.h"
#include "rail/params.h"
#include "rail/state/engine.h"

#define SPORT (MRAIL_PORTS_FIRST + 77)

static const struct ibv_ah_attr *handle(unsigned slot)
{
    assert_non_null(peer_of(0)->paths[slot].handle.ah);
    return fake_ah_attr(peer_of(0)->paths[slot].handle.ah);
}

/* Returns the last probe of the path, or NULL if there is none. */
static const mrail_ctl_msg_t *last_probe(unsigned slot)
{
    for (unsigned i = sent.num_msgs; i-- != 0;) {
        if ((sent.msgs[i].type == MRAIL_CTL_PROBE) &&
            (sent.msgs[i].path.slot == slot)) {
            return &sent.msgs[i];
        }
    }
    return NULL;
}

static void probe(unsigned slot)
{
    mrail_path_event(peer_of(0), slot, MRAIL_HEALTH_STALLED, fake_now_ns);
    assert_non_null(last_probe(slot));
}

static void test_probe_uses_source_port(void **state)
{
    const mrail_lane_t *lane;

    start(64);
    connect_lanes(0, 2);
    lane = peer_of(0)->lanes[1];
    assert_true(lane->sport >= MRAIL_PORTS_FIRST);
    probe(1);
    assert_int_equal(handle(1)->grh.flow_label,
                     mrail_ports_flow_label(lane->sport));
}

static void ask(uint16_t slot, uint32_t seq)
{
    mrail_ctl_msg_t msg = {
        .type = MRAIL_CTL_PROBE, .seq = seq, .path = {.slot = slot}};

    deliver_on(0, slot % 2, &msg); /* delivered over that path */
    assert_int_equal(last(MRAIL_CTL_PROBE_REP)->seq, seq);
}

static void test_probe_reply_uses_source_port(void **state)
{
    start(64);
    connect_lanes(0, 2);
    ask(1, 900);
    assert_int_equal(handle(1)->grh.flow_label,
                     mrail_ports_flow_label(peer_of(0)->lanes[1]->sport));
    peer_of(0)->paths[1].sport = SPORT; /* the lane has moved */
    ask(1, 901);
    assert_int_equal(handle(1)->grh.flow_label, mrail_ports_flow_label(SPORT));
}

/* The path number in a probe comes from the peer, so it must be checked before
 * it is used as an index. */
static void test_any_path_is_answered(void **state)
{
    start(64);
    connect_lanes(0, 1);
    ask(1, 900);
    ask(MRAIL_MAX_SLOTS, 901);
    ask(UINT16_MAX, 902);
    ask(MRAIL_MAX_SLOTS - 1, 903);
    assert_null(peer_of(0)->paths[1].handle.ah);
}

static void test_gid_has_moved(void **state)
{
    struct ibv_ah *pair;

    start(64);
    connect_lanes(0, 2);
    probe(0);
    assert_int_equal(handle(0)->grh.sgid_index, 0);
    pair = peer_of(0)->pair_handles[peer_of(0)->base].ah;
    assert_non_null(pair);

    /* The rail keeps its GID index although the GID is missing. */
    fake_ports[0].num_gids = 0;
    mrail_paths_readdress(engine, &engine->rails[0]);
    assert_int_equal(engine->rails[0].attr.gid_index, 0);

    fake_ports[0].num_gids = 3;
    fake_ports[0].gids[2] = fake_ports[0].gids[0];
    memset(&fake_ports[0].gids[0], 0, sizeof(fake_ports[0].gids[0]));
    mrail_paths_readdress(engine, &engine->rails[0]);
    assert_int_equal(engine->rails[0].attr.gid_index, 2);
    for (unsigned i = 0; i < peer_of(0)->num_pairs; ++i) {
        if (peer_of(0)->pairs[i].local == 0) {
            assert_null(peer_of(0)->pair_handles[i].ah);
        }
    }
    run_control(25 * MRAIL_NS_PER_MS); /* the probe is resent */
    assert_int_equal(handle(0)->grh.sgid_index, 2);
    assert_int_equal(engine->rails[1].attr.gid_index, 0);
}

static mrail_health_state_t health(unsigned slot)
{
    return peer_of(0)->paths[slot].health.state;
}

static void port_down(unsigned rail)
{
    pthread_mutex_lock(&engine->ctl_lock);
    mrail_paths_port(engine, &engine->rails[rail], MRAIL_HEALTH_PORT_DOWN,
                     fake_now_ns);
    pthread_mutex_unlock(&engine->ctl_lock);
}

/* ---- the first lane ---- */

/* Health belongs to a pair of rails, not to a slot. If the peer's choice of the
 * base pair prevails, the same rails move to another slot. */
static void test_health_goes_with_the_rails(void **state)
{
    struct ibv_ah *ah;
    mrail_ctl_msg_t msg;

    start(64);
    engine->next_base = 0;
    deliver_hello(0);
    port_down(1); /* affects slots 1 and 3 */
    mrail_path_event(peer_of(0), 2, MRAIL_HEALTH_STALLED, fake_now_ns);
    ah = peer_of(0)->paths[2].handle.ah; /* address handle of its probe */
    assert_non_null(ah);
    fake_lane_msg(&msg, MRAIL_CTL_LANE_REQ, 0, 10, 5);
    msg.lane.src_rail = msg.lane.dst_rail = 1;
    engine->rails[1].port_down = 0; /* otherwise the request is refused */
    deliver_only(0, 0, &msg);
    assert_int_equal(peer_of(0)->base, 1);
    assert_int_equal(health(0), MRAIL_HEALTH_DOWN);
    assert_int_equal(health(1), MRAIL_HEALTH_UP);
    assert_int_equal(health(2), MRAIL_HEALTH_DOWN);
    assert_int_equal(health(3), MRAIL_HEALTH_SUSPECT);
    assert_ptr_equal(peer_of(0)->paths[3].handle.ah, ah);
    assert_null(peer_of(0)->paths[2].handle.ah);
    /* Slots 2 and 3 had different causes of failure. */
    assert_string_equal(peer_of(0)->paths[2].cause, "port down");
    assert_string_equal(peer_of(0)->paths[3].cause, "no completions");
}

/* A reply in flight when the port went down proves nothing about the path. */
static void test_stale_probe_reply(void **state)
{
    uint32_t seq;

    start(64);
    connect_lanes(0, 2);
    probe(0);
    seq = last_probe(0)->seq;
    port_down(peer_of(0)->lanes[0]->rail->index);
    assert_int_equal(health(0), MRAIL_HEALTH_DOWN);
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP, .seq = seq});
    assert_int_equal(health(0), MRAIL_HEALTH_DOWN);
    run_control(2 * MRAIL_NS_PER_MS);
    assert_int_equal(health(0), MRAIL_HEALTH_RETIRED);
}

/* The description of a lost peer's rails must show their current state. */
static void test_describes_rails(void **state)
{
    char text[512];
    mrail_ep_t *ep;

    start(64);
    connect_lanes(0, 1);
    ep = ep_to(0);
    mrail_ep_describe(ep, text, sizeof(text));
    assert_non_null(strstr(text, "(never used)"));
    mrail_path_event(peer_of(0), 0, MRAIL_HEALTH_STALLED, fake_now_ns);
    deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                  .seq = peer_of(0)->paths[0].probes[0]});
    assert_int_equal(health(0), MRAIL_HEALTH_UP);
    mrail_ep_describe(ep, text, sizeof(text));
    assert_non_null(strstr(text, "(no fault known)"));
    /* the other rail was also probed */
    assert_non_null(strstr(text, "(no answer)"));
    mrail_path_event(peer_of(0), 0, MRAIL_HEALTH_STALLED, fake_now_ns);
    port_down(1 - peer_of(0)->lanes[0]->rail->index);
    mrail_ep_describe(ep, text, sizeof(text));
    assert_non_null(strstr(text, "(no completions)"));
    assert_non_null(strstr(text, "(port down)"));
}

/* A first lane must not wait for this path to recover, because it can use any
 * other path. */
static void test_first_lane_takes_an_open_path(void **state)
{
    start(64);
    engine->next_base = 0;
    deliver_hello(0);
    port_down(0);
    want(0, 1);
    assert_non_null(last(MRAIL_CTL_LANE_REQ));
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.slot, 0);
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->lane.src_rail, 1);
    assert_int_equal(last(MRAIL_CTL_LANE_REQ)->src_rail, 1);
    assert_int_equal(health(0), MRAIL_HEALTH_UP);
    assert_int_not_equal(health(1), MRAIL_HEALTH_UP);
}

/* ---- a single lane ---- */

/* Lets time pass. Only probes of the slots in the mask are answered. */
static void answer_probes(mrail_ns_t how_long, unsigned slots)
{
    mrail_ns_t end_ns = fake_now_ns + how_long;
    unsigned seen = 0;

    for (;;) {
        for (; seen < sent.num_msgs; ++seen) {
            mrail_ctl_msg_t msg = sent.msgs[seen];

            if ((msg.type == MRAIL_CTL_PROBE) &&
                (slots & (1u << msg.path.slot))) {
                deliver(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE_REP,
                                              .seq = msg.seq});
            }
        }
        if (fake_now_ns >= end_ns) {
            break;
        }
        run_control(10 * MRAIL_NS_PER_MS);
    }
}

static unsigned probes(unsigned slot)
{
    unsigned count = 0;

    for (unsigned i = 0; i < sent.num_msgs; ++i) {
        count += (sent.msgs[i].type == MRAIL_CTL_PROBE) &&
                 (sent.msgs[i].path.slot == slot);
    }
    return count;
}

static void alone_and_stalled(void)
{
    start(64);
    connect_lanes(0, 1);
    sent.num_msgs = 0;
    mrail_path_event(peer_of(0), 0, MRAIL_HEALTH_STALLED, fake_now_ns);
    assert_int_equal(health(0), MRAIL_HEALTH_SUSPECT);
    assert_int_equal(probes(0), 1);
    assert_int_equal(probes(1), 1);
}

/* The reply over the other rail shows that the peer is alive, so the path must
 * be the cause. */
static void test_single_lane_other_rail_replies(void **state)
{
    alone_and_stalled();
    answer_probes(30 * MRAIL_NS_PER_MS, 1u << 1);
    assert_int_equal(health(0), MRAIL_HEALTH_SUSPECT); /* still suspect */
    answer_probes(60 * MRAIL_NS_PER_MS, 1u << 1);
    assert_int_equal(health(0), MRAIL_HEALTH_RETIRED);
    progress();
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_CLOSING);
}

/* The peer itself may not reply. No path counts as the cause in that case. */
static void test_single_lane_without_reply(void **state)
{
    alone_and_stalled();
    answer_probes(2 * MRAIL_NS_PER_SEC, 0);
    assert_int_equal(health(0), MRAIL_HEALTH_SUSPECT);
    assert_in_range(probes(1), 50, 110); /* the path is probed every time */
    answer_probes(30 * MRAIL_NS_PER_MS, 1u << 0);
    assert_int_equal(health(0), MRAIL_HEALTH_UP);
    progress();
    assert_int_equal(peer_of(0)->lanes[0]->state, MRAIL_LANE_UP);
    assert_int_equal(peer_of(0)->up_mask, 1);
}

static void two_and_one_stalled(void)
{
    start(64);
    connect_lanes(0, 2);
    sent.num_msgs = 0;
    mrail_path_event(peer_of(0), 0, MRAIL_HEALTH_STALLED, fake_now_ns);
    assert_int_equal(probes(1), 1);
}

/* The other lane is up, but that is no evidence: an idle lane stays up even if
 * its path is broken. */
static void test_other_lane_without_reply(void **state)
{
    two_and_one_stalled();
    answer_probes(500 * MRAIL_NS_PER_MS, 0);
    assert_int_equal(health(0), MRAIL_HEALTH_SUSPECT);
    assert_int_equal(health(1), MRAIL_HEALTH_UP);
}

static void test_other_lane_replies(void **state)
{
    two_and_one_stalled();
    answer_probes(100 * MRAIL_NS_PER_MS, 1u << 1);
    assert_int_equal(health(0), MRAIL_HEALTH_RETIRED);
}

int main(int argc, char **argv)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_probe_uses_source_port),
        TEST(test_probe_reply_uses_source_port),
        TEST(test_any_path_is_answered),
        TEST(test_gid_has_moved),
        TEST(test_health_goes_with_the_rails),
        TEST(test_stale_probe_reply),
        TEST(test_describes_rails),
        TEST(test_first_lane_takes_an_open_path),
        TEST(test_single_lane_other_rail_replies),
        TEST(test_single_lane_without_reply),
        TEST(test_other_lane_without_reply),
        TEST(test_other_lane_replies),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
