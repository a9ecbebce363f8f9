/*
 * Tests the findings of mrail diagnose about ports that are down and paths, and
 * what it reads from telemetry pages.
 */
#include "config.h"
#include "diagnose_snapshot.h"

#include <string.h>

/* ---- findings ---- */

static void test_down(void **state)
{
    ranks[1].rails[3].is_down = 1;
    ranks[1].paths[0] = (diagnose_path_t){.peer = 502, .rail = 3};
    ranks[1].num_paths = 1;
    ranks[2].paths[0] = (diagnose_path_t){.peer = 501, .rail = 3};
    ranks[2].num_paths = 1;
    assert_one(DIAGNOSE_RAIL_DOWN, "rail nic3:1");
}

/* Rank 1 has one rail, which is the second rail of rank 2. */
static void test_down_at_peer(void **state)
{
    ranks[1].num_rails = 1;
    ranks[1].rails[0].is_down = 1;
    ranks[2].paths[0] = (diagnose_path_t){.peer = 501, .slot = 3, .rail = 1};
    ranks[2].num_paths = 1;
    assert_one(DIAGNOSE_RAIL_DOWN, "rail nic0:1"); /* the lane is closed */
    ranks[1].lanes[0] = (diagnose_lane_t){.peer = 502, .slot = 3, .rail = 0};
    ranks[1].num_lanes = 1;
    assert_one(DIAGNOSE_RAIL_DOWN, "rail nic0:1");
    ranks[2].paths[0].rail = -1;
    assert_one(DIAGNOSE_RAIL_DOWN, "rail nic0:1");
}

/* The port of another rail is down. */
static void test_path_and_down(void **state)
{
    ranks[1].rails[1].is_down = 1;
    ranks[2].paths[0] = (diagnose_path_t){.peer = 501, .slot = 3, .rail = 1};
    ranks[2].num_paths = 1;
    ranks[1].lanes[0] = (diagnose_lane_t){.peer = 502, .slot = 3, .rail = 2};
    ranks[1].num_lanes = 1;
    check();
    assert_int_equal(report.num_findings, 2);
    assert_int_equal(report.findings[0].cause, DIAGNOSE_RAIL_DOWN);
    assert_int_equal(report.findings[1].cause, DIAGNOSE_PATH);
    assert_string_equal(report.findings[1].subject, "rail nic1:1");
    ranks[1].num_lanes = 0; /* the lane is closed at both ends */
    ranks[1].paths[0] = (diagnose_path_t){.peer = 502, .slot = 3, .rail = 2};
    ranks[1].num_paths = 1;
    check();
    assert_int_equal(report.num_findings, 3);
    assert_int_equal(report.findings[1].cause, DIAGNOSE_PATH);
    assert_int_equal(report.findings[2].cause, DIAGNOSE_PATH);
}

static void test_path(void **state)
{
    ranks[1].paths[0] =
        (diagnose_path_t){.peer = 502, .rail = 0, .ago_ns = 3000 * MS};
    ranks[1].num_paths = 1;
    assert_one(DIAGNOSE_PATH, "rail nic0:1");
    assert_non_null(
        strstr(report.findings[0].evidence, "from rank 1 to rank 2"));
    ranks[1].paths[0].rail = -1;
    assert_one(DIAGNOSE_PATH, "path 0");
}

/* ---- pages ---- */

/* Paths and ports from the events of a page. */
static void test_events(void **state)
{
    static const char *const texts[] = {
        "path 2 to peer 00000000000001f5: up -> suspect (stalled)",
        "path 2 to peer 00000000000001f5: suspect -> retired (probes lost)",
        "nic1:1: lane 2 to peer 00000000000001f5 closing (failed)",
        "path 3 to peer 00000000000001f5: up -> retired (CQE error)",
        "path 3 to peer 00000000000001f5: probing -> up (probe answered)",
        "path 4 to peer 0000000000000999: up -> retired (CQE error)",
        "peer 0000000000000999 is gone: it has left",
        "nic0: port error",
        "nic0: port active",
        "nic1: port error"};
    static mrail_page_t page;
    diagnose_rank_t rank = {0};

    page = (mrail_page_t){.num_rails = 2, .update_ns = 9000};
    for (unsigned i = 0; i < 2; ++i) {
        snprintf(page.rails[i].device, sizeof(page.rails[i].device), "nic%u",
                 i);
        page.rails[i].port = 1;
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(texts); ++i) {
        page.events[i].time_ns = 1000 * (i + 1);
        snprintf(page.events[i].text, sizeof(page.events[i].text), "%s",
                 texts[i]);
        ++page.num_events;
    }
    page.num_lanes = 2;
    page.lanes[0] =
        (mrail_page_lane_t){.peer = 501, .slot = 4, .sport = 50000, .rail = 1};
    page.lanes[1] = (mrail_page_lane_t){.peer = 501, .slot = 5, .moves = 1};
    diagnose_fill_rails("test", "/none/mrail-telemetry.0.1.00000000000001f4",
                        &page, &rank);
    assert_int_equal(rank.id, 500);
    assert_int_equal(rank.num_paths, 1);
    assert_int_equal(rank.paths[0].peer, 501);
    assert_int_equal(rank.paths[0].slot, 2);
    assert_int_equal(rank.paths[0].rail, 1);
    assert_int_equal(rank.paths[0].ago_ns, 7000);
    assert_string_equal(rank.paths[0].event, "probes lost");
    assert_int_equal(rank.num_lanes, 1);
    assert_int_equal(rank.lanes[0].slot, 4);
    assert_int_equal(rank.lanes[0].rail, 1);
    assert_int_equal(rank.lanes[0].uplink, -1);
    assert_false(rank.rails[0].is_down);
    assert_true(rank.rails[1].is_down);
}

/* A page contains an event immediately, but the update follows later. */
static void test_event_after_update(void **state)
{
    static mrail_page_t page;
    diagnose_rank_t rank = {0};

    page = (mrail_page_t){.update_ns = 9000, .num_events = 1};
    page.events[0].time_ns = page.update_ns + 1;
    snprintf(page.events[0].text, sizeof(page.events[0].text),
             "path 2 to peer 00000000000001f5: up -> retired (CQE error)");
    diagnose_fill_rails("test", "/none/x.1f4", &page, &rank);
    assert_int_equal(rank.num_paths, 1);
    assert_int_equal(rank.paths[0].ago_ns, 0);
}

/* The uplinks of lanes, by the port rules. A page may have any number there. */
static void test_lanes(void **state)
{
    static const struct {
        uint32_t uplinks;
        uint16_t sport;
        int uplink;
    } cases[] = {{0, 0xC000, -1},   {4, 0xC000, 0},          {4, 0xFFFF, 3},
                 {4, 0xBFFF, -1},   {8, 0xD000, 2},          {256, 0xFFFF, 255},
                 {257, 0xC000, -1}, {UINT32_MAX, 0xC000, -1}};
    static mrail_page_t page;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(cases); ++i) {
        diagnose_rank_t rank = {0};

        page = (mrail_page_t){.num_rails = 1, .num_lanes = 1};
        page.uplinks = cases[i].uplinks;
        page.lanes[0].sport = cases[i].sport;
        diagnose_fill_rails("test", "/none/x.1f4", &page, &rank);
        assert_int_equal(rank.num_lanes, 1);
        assert_int_equal(rank.lanes[0].uplink, cases[i].uplink);
    }
}

#define TEST(_func) cmocka_unit_test_setup(_func, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_down),          TEST(test_down_at_peer),
        TEST(test_path_and_down), TEST(test_path),
        TEST(test_events),        TEST(test_event_after_update),
        TEST(test_lanes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
