/* Probes take the path of the lanes; a port comes back with another table. */
#include "config.h"
#include "played_peer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "orchestrator/ports.h"
#include "rail/ctl.h"

#define SPORT (MRAIL_PORTS_FIRST + 77)

static const struct ibv_ah_attr *handle(unsigned slot)
{
    assert_non_null(peer_of(0)->paths[slot].ah);
    return fake_ah_attr(peer_of(0)->paths[slot].ah);
}

static void probe(unsigned slot)
{
    mrail_path_event(peer_of(0), slot, MRAIL_HEALTH_STALLED, fake_now_ns);
    assert_int_equal(last(MRAIL_CTL_PROBE)->path.slot, slot);
}

static void test_probe_takes_the_port(void **state)
{
    const mrail_lane_t *lane;

    start(64);
    connect_lanes(0, 2);
    lane = peer_of(0)->lanes[1];
    assert_true(lane->sport >= MRAIL_PORTS_FIRST);
    probe(1);
    assert_int_equal(last(MRAIL_CTL_PROBE)->path.sport, lane->sport);
    assert_int_equal(handle(1)->grh.flow_label,
                     mrail_ports_flow_label(lane->sport));
}

static void ask(uint16_t slot, uint16_t sport, uint32_t seq)
{
    say(0, &(mrail_ctl_msg_t){.type = MRAIL_CTL_PROBE,
                              .seq = seq,
                              .path = {.slot = slot, .sport = sport}});
    assert_int_equal(last(MRAIL_CTL_PROBE_REP)->seq, seq);
}

static void test_answer_takes_the_port(void **state)
{
    start(64);
    connect_lanes(0, 2);
    ask(1, SPORT, 900);
    assert_int_equal(last(MRAIL_CTL_PROBE_REP)->path.sport, SPORT);
    assert_int_equal(handle(1)->grh.flow_label, mrail_ports_flow_label(SPORT));
    ask(1, SPORT + 1, 901);
    assert_int_equal(handle(1)->grh.flow_label,
                     mrail_ports_flow_label(SPORT + 1));
}

/* What a peer says is no index. */
static void test_any_path_is_answered(void **state)
{
    start(64);
    connect_lanes(0, 1);
    ask(0, 0, 900);
    ask(MRAIL_MAX_SLOTS, SPORT, 901);
    ask(UINT16_MAX, UINT16_MAX, 902);
    ask(0, MRAIL_PORTS_FIRST - 1, 903);
    ask(MRAIL_MAX_SLOTS - 1, UINT16_MAX, 904);
    assert_null(peer_of(0)->paths[0].ah);
}

static void test_gid_has_moved(void **state)
{
    struct ibv_ah *pair;

    start(64);
    connect_lanes(0, 2);
    probe(0);
    assert_int_equal(handle(0)->grh.sgid_index, 0);
    pair = peer_of(0)->pair_ah[peer_of(0)->base];
    assert_non_null(pair);

    /* Not there yet: nothing changes. */
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
            assert_null(peer_of(0)->pair_ah[i]);
        }
    }
    run_control(25 * MRAIL_NS_PER_MS); /* the probe again */
    assert_int_equal(handle(0)->grh.sgid_index, 2);
    assert_int_equal(engine->rails[1].attr.gid_index, 0);
}

int main(void)
{
#define TEST(_name) cmocka_unit_test_teardown(_name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_probe_takes_the_port),
        TEST(test_answer_takes_the_port),
        TEST(test_any_path_is_answered),
        TEST(test_gid_has_moved),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
